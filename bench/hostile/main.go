package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	exe := flag.String("rondo", "bin/rondo", "the command to test")
	idle := flag.Int("idle", 5000, "connections that say nothing")
	crowd := flag.Int("crowd", 200, "clients of each other crowd")
	limit := flag.Int("limit", 1000, "memory that the broker may take, MiB")
	hold := flag.Duration("hold", 8*time.Second, "how long each crowd stays")
	flag.Parse()
	if err := run(*exe, *idle, *crowd, *limit, *hold); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// server is the broker under test.
type server struct {
	cmd  *exec.Cmd
	addr string
}

func start(exe, dir string) (*server, error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the broker has it open
	cmd := exec.Command(exe, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("rondo serve did not start: %q", line), err, cmd.Process.Kill())
	}
	return &server{cmd: cmd, addr: addr}, nil
}

func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// memory is what the process takes now, and the most that it took, in MiB.
func (s *server) memory() (now, peak int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.Atoi(f[1]) //nolint:errcheck // other lines have no number
		switch f[0] {
		case "VmRSS:":
			now = kb >> 10
		case "VmHWM:":
			peak = kb >> 10
		}
	}
	return now, peak, nil
}

func run(exe string, idle, size, limit int, hold time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "rondo-hostile.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory of the system's temporary ones
	s, err := start(exe, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h, err := newHonest(ctx, s.addr)
	if err != nil {
		return err
	}
	defer h.close()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "crowd\tclients\tleft\tMiB\tpeak MiB\thonest records\tmedian\tlongest\t")
	var failed []string
	for _, c := range crowds(idle, size) {
		began := time.Now()
		conns, err := c.come(s.addr)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		time.Sleep(hold - min(hold, time.Since(began)))
		left := conns.left()
		now, peak, err := s.memory()
		if err != nil {
			return fmt.Errorf("%s: the broker is gone: %w", c.name, err)
		}
		waits, bad := h.take()
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t\n", c.name, c.n, left, now, peak, waits.n, waits.median, waits.longest)
		if bad != nil || waits.n == 0 {
			failed = append(failed, fmt.Sprintf("%s: the honest client was not served: %v", c.name, bad))
		}
		if peak > limit {
			failed = append(failed, fmt.Sprintf("%s: the broker took %d MiB, more than %d", c.name, peak, limit))
		}
		if c.stays {
			defer conns.close()
		} else {
			conns.close()
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}
