package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A broker is a server under measurement: how to start it, and once it runs,
// where it is.
type broker struct {
	name  string
	topic map[string]*string // topic settings that make every append durable
	begin func(dir string) (addr string, pid int, err error)
	end   func(dir string, pid int) error

	compiles bool // while it runs, so that it must be warm before it is measured

	dir  string
	addr string
	pid  int
}

// rondo is the command at exe, with flags of serve.
func rondo(exe, dir string, flags ...string) *broker {
	return &broker{
		name: "rondo",
		dir:  dir,
		begin: func(dir string) (string, int, error) {
			cmd := exec.Command(exe, append([]string{"serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}, flags...)...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				return "", 0, err
			}
			if err := cmd.Start(); err != nil {
				return "", 0, err
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
			if err != nil || !ok {
				return "", 0, errors.Join(fmt.Errorf("rondo serve did not start: %q", line), err, cmd.Process.Kill())
			}
			return addr, cmd.Process.Pid, nil
		},
		end: func(_ string, pid int) error { return reap(pid) },
	}
}

func reap(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// kafka is Apache Kafka through peers/kafka.sh.
func kafka(script, dir string) *broker {
	every := "1"
	return &broker{
		name:     "kafka",
		dir:      dir,
		compiles: true,
		topic:    map[string]*string{"flush.messages": &every},
		begin: func(dir string) (string, int, error) {
			port, err := freePort()
			if err != nil {
				return "", 0, err
			}
			cmd := exec.Command(script, "start", dir, strconv.Itoa(port),
				"group.initial.rebalance.delay.ms=3000", "broker.session.timeout.ms=9000") // Kafka's defaults, not those of kafka.sh
			cmd.Env = append(os.Environ(), "JVM=-Xms1g -Xmx1g -XX:+UseG1GC")
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", 0, fmt.Errorf("kafka.sh start: %w\n%s", err, out)
			}
			raw, err := os.ReadFile(filepath.Join(dir, "pid"))
			if err != nil {
				return "", 0, err
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			return fmt.Sprintf("127.0.0.1:%d", port), pid, err
		},
		end: func(dir string, _ int) error { return exec.Command(script, "stop", dir).Run() },
	}
}

// freePort is a port that is free together with the next one.
func freePort() (int, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err := l.Close(); err != nil {
			return 0, err
		}
		if err == nil {
			return port, next.Close()
		}
	}
	return 0, errors.New("no two free ports in a row")
}

func (b *broker) start() (err error) {
	b.addr, b.pid, err = b.begin(b.dir)
	return err
}

func (b *broker) stop() error { return b.end(b.dir, b.pid) }

// firstAnswer starts the broker and says how many milliseconds it took to answer
// on a connection, which stays open.
func (b *broker) firstAnswer() (*conn, float64, error) {
	began := time.Now()
	if err := b.start(); err != nil {
		return nil, 0, err
	}
	c, err := dial(b.addr)
	if err != nil {
		return nil, 0, err
	}
	if _, err := c.metadata(); err != nil {
		return nil, 0, errors.Join(err, c.Close())
	}
	return c, time.Since(began).Seconds() * 1000, nil
}

// measureStart starts the broker and times it to its first answer; then it
// lets it idle. The broker goes on.
func (b *broker) measureStart(ctx context.Context) (reading, error) {
	c, took, err := b.firstAnswer()
	if err != nil {
		return nil, err
	}
	r := reading{"first answer, ms": took}
	if err := c.Close(); err != nil {
		return nil, err
	}
	cpu, err := cpuSeconds(b.pid)
	if err != nil {
		return nil, err
	}
	r["CPU to the first answer, s"] = cpu
	sleep(ctx, 2*time.Second)
	if cpu, err = cpuSeconds(b.pid); err != nil {
		return nil, err
	}
	sleep(ctx, 3*time.Second)
	later, err := cpuSeconds(b.pid)
	if err != nil {
		return nil, err
	}
	r["idle CPU, % of a core"] = (later - cpu) / 3 * 100
	if r["idle memory, MB"], err = residentMB(b.pid); err != nil {
		return nil, err
	}
	return r, nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// cpuSeconds is what a process has used so far, in user and kernel mode.
func cpuSeconds(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; the numbers follow it.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	const ticks = 100 // USER_HZ, the same on every Linux that Go runs on
	return (user + system) / ticks, err
}

// residentMB is the memory a process holds now.
func residentMB(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
}
