package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rondo-streams/rondo/broker"
)

// The scripts of testdata/script run the command itself, as users do: one
// script a verb, and one that goes through everything the command refuses.
// $BROKER is a broker of this project that has topic "facts" with three
// partitions.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rondo": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup:               startKafka,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"start":  start,
			"finish": finish,
			"http":   request,
			"scrape": scrape,
			"until":  until,
		},
	})
}

func startKafka(env *testscript.Env) error {
	b, err := broker.Start(context.Background(), broker.Config{
		Dir: filepath.Join(env.WorkDir, ".broker"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Properties: map[string]string{"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "10"},
	})
	if err != nil {
		return err
	}
	env.Defer(func() {
		if err := b.Close(); err != nil {
			env.T().Fatal(err)
		}
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		return err
	}
	defer client.Close()
	created, err := kadm.NewClient(client).CreateTopics(context.Background(), 3, 1, nil, "facts")
	if err != nil || created.Error() != nil {
		return errors.Join(err, created.Error())
	}
	env.Values[commandsKey{}] = map[string]*exec.Cmd{}
	env.Setenv("BROKER", b.Addr())
	return nil
}

// start is "start NAME rondo ...": it runs a command beside the script until
// "finish NAME", with its output in NAME.out and NAME.err, and waits for its
// first line of output, "listening on ADDRESS". $NAME is that address then.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME COMMAND ...")
	}
	name := args[0]
	executable, err := exec.LookPath(args[1])
	ts.Check(err)
	stdout, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	stderr, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	command := exec.Command(executable, args[2:]...)
	command.Dir, command.Stdout, command.Stderr = ts.MkAbs("."), stdout, stderr
	ts.Check(command.Start())
	running(ts)[name] = command
	ts.Defer(func() {
		command.Process.Kill()
		command.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(stdout.Name())
		ts.Check(err)
		line, whole := strings.CutSuffix(string(data), "\n")
		if address, ok := strings.CutPrefix(line, "listening on "); ok && whole {
			ts.Setenv(name, address)
			return
		}
	}
	complaints, err := os.ReadFile(stderr.Name())
	ts.Check(err)
	ts.Fatalf("%s does not listen after 30 s: %s", name, complaints)
}

// finish is "finish NAME": SIGTERM, and the command must end with 0.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || running(ts)[args[0]] == nil {
		ts.Fatalf("usage: finish NAME, of a command that was started")
	}
	command := running(ts)[args[0]]
	ts.Check(command.Process.Signal(syscall.SIGTERM))
	if err := command.Wait(); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

// until is "until REGEXP COMMAND ...": it runs a command again and again until
// its standard output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND ...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && want.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %s in 30 s: %v\n%s%s", args[0], err, out, ts.ReadFile("stderr"))
		}
	}
}

// running are the started commands of a script.
func running(ts *testscript.TestScript) map[string]*exec.Cmd {
	return ts.Value(commandsKey{}).(map[string]*exec.Cmd)
}

type commandsKey struct{}

// request is "http METHOD URL [BODY]": the status and the body become stdout.
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: http METHOD URL [BODY]")
	}
	rq, err := http.NewRequest(args[0], args[1], strings.NewReader(strings.Join(args[2:], " ")))
	ts.Check(err)
	response, err := http.DefaultClient.Do(rq)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d\n%s", response.StatusCode, body)
}

// exits is "exits CODE COMMAND ...": it runs a command and wants that exit
// code; stdout and stderr can then be looked at.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits %s: not an exit code", args[0])
	}
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// scrape is "scrape FILE": it reads /metrics, /livez and /readyz of the broker
// whose standard error FILE is, and prints them.
func scrape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: scrape FILE")
	}
	_, rest, found := strings.Cut(ts.ReadFile(args[0]), "metrics on ")
	if !found {
		ts.Fatalf("%s does not say where the metrics are", args[0])
	}
	base := strings.TrimSuffix(strings.Fields(rest)[0], "/metrics")
	for _, page := range []string{"metrics", "livez", "readyz"} {
		response, err := http.Get(base + "/" + page)
		ts.Check(err)
		body, err := io.ReadAll(response.Body)
		ts.Check(err)
		response.Body.Close()
		if page == "metrics" {
			fmt.Fprintf(ts.Stdout(), "%s", body)
			continue
		}
		fmt.Fprintf(ts.Stdout(), "%s %d %s", page, response.StatusCode, body)
	}
}
