package member

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rondo-streams/rondo/internal/group"
)

// The stories in testdata are told by member cores and a coordinator core in
// virtual time. Each command is one line; what follows is the timeline up to
// then.
//
//	join NAME [instance=I] [drain=D] [eager] [inpoll] [poll=D] [age=D] [assignor=N]
//	thread NAME D      run the stream thread with calls of D; 0 idles (inpoll)
//	begin NAME T-P@O CALL | end NAME T-P@O
//	commit NAME T-P@O
//	topic T N          the topic has N partitions from now on
//	cut NAME | heal NAME | leave NAME | crash NAME | rejoin NAME
//	coordinator down | up | move
//	latency D | advance D
//	show               where everybody stands
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(1, group.Config{InitialRebalanceDelay: -1})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "reset" {
				w = newWorld(1, group.Config{InitialRebalanceDelay: -1})
				return ""
			}
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				if err := w.command(strings.Fields(line)); err != nil {
					d.Fatalf(t, "%s: %v", line, err)
				}
			}
			out := w.paper.String()
			w.paper.Reset()
			for _, f := range w.faults {
				out += "BROKEN PROMISE: " + f + "\n"
			}
			w.faults = nil
			return out
		})
	})
}

func (w *world) command(f []string) error {
	if len(f) == 0 {
		return nil
	}
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	a := w.apps[arg(1)]
	switch f[0] {
	case "join":
		return w.commandJoin(f[1:])
	case "thread":
		d, err := time.ParseDuration(arg(2))
		if err != nil {
			return err
		}
		if a.thread == nil {
			a.thread = &thread{n: 1}
			a.thread.poll(w, a)
		}
		a.thread.call = d
	case "begin", "end", "commit":
		return w.commandWork(f)
	case "topic":
		n, err := strconv.Atoi(arg(2))
		if err != nil {
			return err
		}
		w.topics[arg(1)] = int32(n)
	case "cut":
		a.cut = true
	case "heal":
		a.cut = false
	case "leave":
		w.release(a, a.owned)
		w.step(a, Closing{})
	case "crash":
		w.crash(a)
	case "rejoin":
		w.step(a, Asked{Reason: "asked to"})
	case "coordinator":
		w.commandCoordinator(arg(1))
	case "latency", "advance":
		d, err := time.ParseDuration(arg(1))
		if err != nil {
			return err
		}
		if f[0] == "latency" {
			w.latency = d
		} else {
			w.advance(d)
		}
	case "show":
		w.show()
	default:
		return fmt.Errorf("unknown command %q", f[0])
	}
	return nil
}

func (w *world) commandCoordinator(what string) {
	switch what {
	case "down":
		w.kill()
	case "up":
		w.open()
	case "move":
		w.move()
	}
	w.draw("**", "coordinator %s", what)
}

func (w *world) show() {
	for _, name := range w.names {
		a := w.apps[name]
		ms := a.core.Membership()
		left := ms.Since.Add(a.cfg.Session).Sub(w.now).Round(time.Second)
		w.draw(name, "is %s as %q in generation %d, owns %s, session left %s", ms.State, ms.MemberID, ms.Generation, list(a.owned), left)
	}
}

func (w *world) commandJoin(f []string) error {
	cfg := w.defaults()
	drain := 200 * time.Millisecond
	for _, opt := range f[1:] {
		key, value, _ := strings.Cut(opt, "=")
		var err error
		switch key {
		case "instance":
			cfg.InstanceID = value
		case "eager":
			cfg.Eager = true
		case "inpoll":
			cfg.InPoll = true
		case "drain":
			drain, err = time.ParseDuration(value)
		case "poll":
			cfg.MaxPoll, err = time.ParseDuration(value)
		case "age":
			cfg.MetadataMaxAge, err = time.ParseDuration(value)
		case "session":
			cfg.Session, err = time.ParseDuration(value)
		case "topics":
			cfg.Topics = strings.Split(value, ",")
		case "assignor":
			cfg.Assignor = renamed{Sticky{}, value}
		default:
			err = fmt.Errorf("unknown option %q", opt)
		}
		if err != nil {
			return err
		}
	}
	w.join(f[0], cfg).drain = drain
	return nil
}

// renamed is an assignor under another name.
type renamed struct {
	Assignor
	name string
}

func (r renamed) Name() string { return r.name }

func (w *world) commandWork(f []string) error {
	a := w.apps[f[1]]
	place, offset, _ := strings.Cut(f[2], "@")
	i := strings.LastIndex(place, "-")
	if i < 0 {
		return fmt.Errorf("want topic-partition@offset, got %q", f[2])
	}
	p, err := strconv.Atoi(place[i+1:])
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		return err
	}
	work := Work{Topic: place[:i], Partition: int32(p), Offset: at}
	switch f[0] {
	case "begin":
		work.Name = strings.Join(f[3:], " ")
		a.works = append(a.works, openWork{work, w.now})
	case "end":
		for i, o := range a.works {
			if o.Topic == work.Topic && o.Partition == work.Partition && o.Offset == work.Offset {
				a.works = append(a.works[:i], a.works[i+1:]...)
				break
			}
		}
	case "commit":
		w.commit(a, TopicPartition{work.Topic, work.Partition}, work.Offset, func(error) {})
	}
	return nil
}
