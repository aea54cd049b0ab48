package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress draws what goes on: events as lines that stay, and under them a
// picture that is redrawn in place on a terminal, or printed now and then.
type progress struct {
	redraw bool

	mu    sync.Mutex
	out   io.Writer
	drawn int // lines of the picture on the screen
	next  time.Duration
}

const (
	redrawEvery = 250 * time.Millisecond
	printEvery  = 3 * time.Second
)

func newProgress(out io.Writer, redraw bool) *progress { return &progress{out: out, redraw: redraw} }

// event prints a line that stays.
func (p *progress) event(at time.Duration, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprintf(p.out, "%6.1fs  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

// draw shows the picture when it is time to.
func (p *progress) draw(at time.Duration, picture func() []string) {
	p.mu.Lock()
	due := at >= p.next
	if due {
		p.next = at + printEvery
		if p.redraw {
			p.next = at + redrawEvery
		}
	}
	p.mu.Unlock()
	if !due {
		return
	}
	lines := picture()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	if !p.redraw {
		fmt.Fprintf(p.out, "%s\n", strings.Join(lines, "\n"))
		return
	}
	// Without wrapping, a narrow terminal cuts lines instead of making two of
	// one, which erase would not know of.
	fmt.Fprintf(p.out, "\x1b[?7l%s\x1b[?7h\n", strings.Join(lines, "\n"))
	p.drawn = len(lines)
}

// erase takes the picture off the screen.
func (p *progress) erase() {
	if p.drawn > 0 {
		fmt.Fprintf(p.out, "\x1b[%dA\x1b[J", p.drawn)
	}
	p.drawn = 0
}

// end leaves the last picture where it is.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drawn = 0
}

// picture is the state of the run: one line a side, one line a member.
func (r *run) picture(at time.Duration) []string {
	lines := []string{fmt.Sprintf("%6.1fs  %d of %d records in, the service is %s", at.Seconds(), r.sent.Load(), r.options.Records, r.schedule.Phase(at))}
	for _, s := range r.sides {
		lost := leasesLost(s)
		scored, committed := s.counts()
		service := s.service.Stats()
		lines = append(lines, fmt.Sprintf(" %-8s scored %4d  committed %4d  calls %4d  in flight %3d  leases lost %d",
			s.name, scored, committed, service.Calls, service.InFlight, lost))
		for _, p := range s.instances {
			lines = append(lines, "  "+memberLine(p))
		}
	}
	return lines
}

// memberLine shows both clocks of an instance.
func memberLine(p *process) string {
	stats := p.snapshot()
	if p.wasKilled() {
		return fmt.Sprintf("%-9s killed", p.instance.Name)
	}
	if len(stats.Threads) == 0 {
		return fmt.Sprintf("%-9s starting", p.instance.Name)
	}
	t := stats.Threads[0]
	line := fmt.Sprintf("%-9s gen %2d  session %s  poll %s  %2d tasks %2d calls", p.instance.Name, t.Generation,
		clockBar(t.SessionLeft, t.SessionLimit), clockBar(t.PollLeft, t.PollLimit), len(t.Tasks), t.InFlight)
	if stats.Policy == "streams42" {
		line += fmt.Sprintf(" N %d", t.N)
	}
	return line
}

// clockBar draws the time left on a clock: [####..] 5.9s.
func clockBar(left, limit time.Duration) string {
	const width = 6
	full := 0
	if limit > 0 {
		full = int(width * max(0, min(left, limit)) / limit)
	}
	return fmt.Sprintf("[%s%s] %4.1fs", strings.Repeat("#", full), strings.Repeat(".", width-full), max(left, 0).Seconds())
}

// leasesLost sums what the instances of a side say of themselves.
func leasesLost(s *side) (pollClock int64) {
	for _, p := range s.instances {
		pollClock += p.snapshot().Counts.PollClock
	}
	return pollClock
}
