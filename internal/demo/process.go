package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rondo-streams/rondo"
)

// process is an instance as its parent sees it: a process, and the statistics
// that it writes to its standard output.
type process struct {
	instance Instance
	command  *exec.Cmd
	stdin    io.Closer // closing it ends the instance, as the parent's death does
	exited   chan struct{}
	err      error // of Wait, once exited is closed

	mu     sync.Mutex
	stats  rondo.Stats
	words  []string // last lines of standard error
	asked  bool     // to end
	killed bool
	maxN   int   // streams42: the highest N seen
	maxGen int32 // the highest generation seen
}

// keptLines bounds what is kept of an instance's standard error.
const keptLines = 20

// startProcess runs command with the instance as its last argument.
func startProcess(command []string, i Instance) (*process, error) {
	argument, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	p := &process{instance: i, exited: make(chan struct{})}
	p.command = exec.Command(command[0], append(command[1:len(command):len(command)], string(argument))...)
	p.command.Env = os.Environ()
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start instance %s: %w", i.Name, err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { p.readStats(stdout) })
	readers.Go(func() { p.readWords(stderr) })
	go func() {
		readers.Wait() // Wait closes the pipes, so they must be read first
		p.err = p.command.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) readStats(r io.Reader) {
	decoder := json.NewDecoder(r)
	for {
		var s rondo.Stats
		if decoder.Decode(&s) != nil {
			// The end, or a line that SIGKILL cut in two.
			_, _ = io.Copy(io.Discard, r)
			return
		}
		p.mu.Lock()
		p.stats = s
		for _, t := range s.Threads {
			p.maxN, p.maxGen = max(p.maxN, t.N), max(p.maxGen, t.Generation)
		}
		p.mu.Unlock()
	}
}

func (p *process) readWords(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.words = append(p.words, scanner.Text())
		p.words = p.words[max(0, len(p.words)-keptLines):]
		p.mu.Unlock()
	}
}

// snapshot is the last statistics.
func (p *process) snapshot() rondo.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// highest are the highest N and generation seen.
func (p *process) highest() (n int, generation int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.maxN, p.maxGen
}

// kill is SIGKILL, and waits until the process is gone.
func (p *process) kill() error {
	p.mu.Lock()
	p.asked, p.killed = true, true
	p.mu.Unlock()
	if err := p.command.Process.Kill(); err != nil {
		return fmt.Errorf("kill instance %s: %w", p.instance.Name, err)
	}
	<-p.exited
	return nil
}

// interrupt asks the process to end in good order.
func (p *process) interrupt() {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	// An error here is a process that ended already: wait tells.
	_ = p.command.Process.Signal(syscall.SIGTERM)
}

// wait waits for the end of a process that was asked to end.
func (p *process) wait(within time.Duration) error {
	select {
	case <-p.exited:
	case <-time.After(within):
		err := p.kill()
		return fmt.Errorf("instance %s did not stop in %s and was killed%s: %w", p.instance.Name, within, p.lastWords(), errOr(err, os.ErrDeadlineExceeded))
	}
	if p.err != nil && !p.wasKilled() {
		return fmt.Errorf("instance %s: %w%s", p.instance.Name, p.err, p.lastWords())
	}
	return nil
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// ended is the error of a process that ended without being asked.
func (p *process) ended() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	if asked {
		return nil
	}
	return fmt.Errorf("instance %s ended by itself: %v%s", p.instance.Name, errOr(p.err, io.EOF), p.lastWords())
}

func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

func (p *process) lastWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.words) == 0 {
		return ""
	}
	return "\n  " + strings.Join(p.words, "\n  ")
}
