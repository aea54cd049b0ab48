package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// command is the whole command line: one field a verb.
type command struct {
	Demo    demoCmd    `cmd:"" help:"Show the main job: records through a service that slows down, on the embedded broker or any Kafka."`
	Serve   serveCmd   `cmd:"" help:"Serve the durable single-node broker to any Kafka client."`
	Produce produceCmd `cmd:"" help:"Write records from files or standard input to a topic."`
	Consume consumeCmd `cmd:"" help:"Read records from a topic to standard output."`
	Groups  groupsCmd  `cmd:"" help:"List, describe, reset and delete consumer groups, and show why each rebalance happened."`
	Lab     labCmd     `cmd:"" help:"Repeat experiments on stream threads and groups: predicted, measured, beside Kafka Streams 4.2.0."`
	Predict predictCmd `cmd:"" help:"Say before a deploy whether settings keep the lease: every margin, the smallest change, a counter-example."`
	Topics  topicsCmd  `cmd:"" help:"List, create, describe, alter and delete topics."`
	Stub    stubCmd    `cmd:"" help:"Serve an HTTP scoring service whose latency and failures can be set while it runs."`
	Version versionCmd `cmd:"" help:"Print the version."`
	Help    helpCmd    `cmd:"" help:"Print a page of help: exit-codes, environment."`

	Instance instanceCmd `cmd:"" hidden:"" help:"One instance of the demonstration; rondo demo starts it."`

	LogLevel  string `default:"auto" enum:"auto,debug,info,warn,error" env:"RONDO_LOG_LEVEL" help:"Least severity of log lines on standard error (${enum}); auto is info for serve and warn for the rest."`
	LogFormat string `default:"text" enum:"text,json" env:"RONDO_LOG_FORMAT" help:"Form of log lines (${enum})."`
}

// terminal is the outside world of a verb.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	log      *slog.Logger
}

func main() {
	t := &terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}
	os.Exit(run(t, os.Args[1:]))
}

// run parses args, runs the verb and returns the exit code. A first SIGINT or
// SIGTERM cancels the verb's context; a second one ends the process at once.
func run(t *terminal, args []string) int {
	var c command
	parser, err := kong.New(&c,
		kong.Name("rondo"),
		kong.Description("A stream runtime that keeps its lease while it waits, a durable Kafka-protocol broker, and the tools around them."),
		kong.Writers(t.out, t.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(os.Exit),
		kong.Bind(t),
		kong.NamedMapper("milliseconds", kong.MapperFunc(decodeMilliseconds)),
	)
	if err != nil {
		return report(t.err, "", err)
	}
	parsed, err := parser.Parse(joinValues(args))
	if err != nil {
		return refuse(t, err)
	}
	verb := strings.Fields(parsed.Command())[0]
	t.log = newLogger(t.err, verb, c.LogLevel, c.LogFormat)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	return report(t.err, verb, parsed.Run())
}

// refuse reports a command line that does not parse.
func refuse(t *terminal, err error) int {
	verb := verbOf(err)
	words := strings.TrimPrefix(err.Error(), verb+": ")
	return report(t.err, verb, fail(exitUsage, errors.New(words), "rondo %s", strings.TrimSpace(verb+" --help")))
}

// verbOf is the verb, with those above it, that a command line which does not
// parse was about.
func verbOf(err error) string {
	var words []string
	if p, ok := errors.AsType[*kong.ParseError](err); ok && p.Context != nil {
		for node := p.Context.Selected(); node != nil && node.Type == kong.CommandNode; node = node.Parent {
			words = append(words, node.Name)
		}
	}
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// joinValues joins flags with values that a flag parser takes for flags of
// their own, and those whose value may be left out: "-o -10" as in kcat,
// "--shift-by -2" and "--state stable" as in kafka-consumer-groups.
func joinValues(args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		negative := len(next) > 1 && next[0] == '-' && next[1] >= '0' && next[1] <= '9'
		long := map[string]string{"-o": "--offset", "--offset": "--offset", "--shift-by": "--shift-by", "--to-offset": "--to-offset"}[args[i]]
		switch {
		case negative && long != "":
			joined = append(joined, long+"="+next)
			i++
		case (args[i] == "--state" || args[i] == "--type") && next != "" && next[0] != '-':
			joined = append(joined, args[i]+"="+next)
			i++
		default:
			joined = append(joined, args[i])
		}
	}
	return joined
}

func newLogger(w io.Writer, verb, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil { // auto
		l = slog.LevelWarn
		if verb == "serve" {
			l = slog.LevelInfo
		}
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// say prints one line of talk.
func (t *terminal) say(format string, args ...any) {
	fmt.Fprintf(t.err, format+"\n", args...)
}
