package crash

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is the broker as its users start it: rondo serve on a directory.
type process struct {
	t    *testing.T
	exe  string
	dir  string
	addr string

	cmd     *exec.Cmd
	stderr  *tail
	serving chan string // the address, once printed; closed without one when the process ends first
}

// build compiles the command, as it would be installed.
func build(t *testing.T) string {
	t.Helper()
	if *built != "" {
		return *built
	}
	exe := filepath.Join(t.TempDir(), "rondo")
	out, err := exec.Command("go", "build", "-o", exe, "github.com/rondo-streams/rondo/cmd/rondo").CombinedOutput()
	if err != nil {
		t.Fatalf("go build ./cmd/rondo: %v\n%s", err, out)
	}
	return exe
}

func newProcess(t *testing.T) *process {
	t.Helper()
	// The port has to be the same after each start, so it is chosen here.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, exe: build(t), dir: filepath.Join(t.TempDir(), "data"), addr: addr}
	t.Cleanup(func() {
		if p.cmd != nil {
			p.kill()
		}
	})
	return p
}

// start runs the command and returns at once; wait tells when it serves.
func (p *process) start() {
	p.t.Helper()
	p.stderr = &tail{}
	p.cmd = exec.Command(p.exe, "serve", "--data", p.dir, "--listen", p.addr,
		"-X", "group.initial.rebalance.delay.ms=0", "-X", "group.streams.initial.rebalance.delay.ms=0", "-X", "group.max.session.timeout.ms=600000")
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.serving = make(chan string, 1)
	go func(serving chan<- string) {
		defer close(serving)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
				serving <- addr
			}
		}
	}(p.serving)
}

// wait returns when the broker has recovered and serves.
func (p *process) wait() {
	p.t.Helper()
	select {
	case addr, ok := <-p.serving:
		if !ok {
			p.t.Fatalf("rondo serve ended while starting: %v\n%s", p.cmd.Wait(), p.stderr)
		}
		if addr != p.addr {
			p.t.Fatalf("rondo serve listens on %s, not on %s", addr, p.addr)
		}
	case <-time.After(time.Minute):
		p.t.Fatalf("rondo serve does not serve after a minute\n%s", p.stderr)
	}
}

// kill ends the process the hard way. It must still have been there: a broker
// that ends by itself has failed.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		p.t.Errorf("the broker was gone before it was killed: %v\n%s", err, p.stderr)
	}
	err := p.cmd.Wait()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		p.t.Errorf("the broker ended by itself: %v\n%s", err, p.stderr)
	}
	p.cmd = nil
}

// stop ends the process as an operator would.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("rondo serve, interrupted: %v\n%s", err, p.stderr)
	}
	p.cmd = nil
}

// A tail keeps the end of what the broker said.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const tailBytes = 16 << 10

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(b)
	if over := w.b.Len() - tailBytes; over > 0 {
		w.b.Next(over)
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("the end of its log:\n%s", w.b.String())
}
