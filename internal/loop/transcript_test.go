package loop_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rondo-streams/rondo/internal/loop"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestStreams42Transcript and TestPerCallTranscript play inputs by hand. Each
// line is a time, what happened, and its details; the answer is the act or acts.
func TestStreams42Transcript(t *testing.T) {
	datadriven.Walk(t, "testdata/streams42", func(t *testing.T, path string) {
		var l *loop.Streams42
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			if td.Cmd == "thread" {
				l = loop.NewStreams42(settings(t, td))
				return ""
			}
			return play(td.Input, func(now time.Time, in loop.In) string {
				act := l.Step(now, in)
				r := l.Reading()
				out := fmt.Sprintf("%s (N %d", act, r.N)
				if r.State != loop.Running {
					out += ", " + r.State.String()
				}
				return out + ")"
			})
		})
	})
}

func TestPerCallTranscript(t *testing.T) {
	datadriven.Walk(t, "testdata/percall", func(t *testing.T, path string) {
		var l *loop.PerCall
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			if td.Cmd == "lanes" {
				l = loop.NewPerCall(settings(t, td))
				return ""
			}
			return play(td.Input, func(now time.Time, in loop.In) string {
				var acts []string
				for _, act := range l.Step(now, in) {
					acts = append(acts, act.String())
				}
				if len(acts) == 0 {
					acts = append(acts, "nothing")
				}
				out := strings.Join(acts, ", ")
				if at, ok := l.Next(); ok {
					out += fmt.Sprintf(" (tick at %s)", at.Sub(start))
				}
				return out
			})
		})
	})
}

func settings(t *testing.T, td *datadriven.TestData) loop.Settings {
	var set loop.Settings
	for _, arg := range td.CmdArgs {
		d, _ := time.ParseDuration(arg.Vals[0])
		n, _ := strconv.Atoi(arg.Vals[0])
		switch arg.Key {
		case "max.poll.interval":
			set.MaxPollInterval = d
		case "commit.interval":
			set.CommitInterval = d
		case "burst":
			set.Burst = d
		case "buffered":
			set.BufferedRecords = n
		case "punctuates":
			set.Punctuates = true
		default:
			td.Fatalf(t, "no setting %q", arg.Key)
		}
	}
	return set
}

// play steps through the lines; a fault of the shell is shown, not thrown.
func play(input string, step func(time.Time, loop.In) string) string {
	var b strings.Builder
	for _, line := range strings.Split(input, "\n") {
		func() {
			defer func() {
				if fault := recover(); fault != nil {
					fmt.Fprintf(&b, "%-50s %v\n", line, fault)
				}
			}()
			now, in := parse(line)
			fmt.Fprintf(&b, "%-50s %s\n", line, step(now, in))
		}()
	}
	return b.String()
}

func parse(line string) (time.Time, loop.In) {
	words := strings.Fields(line)
	at, err := time.ParseDuration(words[0])
	if err != nil {
		panic(err)
	}
	args := words[2:]
	num := func(i int) int {
		n, _ := strconv.Atoi(args[i])
		return n
	}
	has := func(word string) bool { return strings.Contains(line, " "+word) }
	var in loop.In
	switch words[1] {
	case "started":
		in = loop.Started{}
	case "polled":
		in = polled(args)
	case "ran": // ran TASK n left
		in = loop.Processed{Task: task(args[0]), Records: num(1), Left: num(2), CommitRequested: has("wants-commit")}
	case "punctuated":
		in = loop.Punctuated{Fired: num(0)}
	case "committed":
		in = loop.Committed{Tasks: num(0)}
	case "refused":
		in = loop.Committed{Failed: true}
	case "migrated":
		in = loop.Migrated{}
	case "fenced":
		in = loop.Fenced{}
	case "assigned":
		in = loop.Assigned{Tasks: tasks(args)}
	case "fetched":
		in = loop.Fetched{Task: task(args[0]), N: num(1)}
	case "ended": // ended TASK ran finished
		in = loop.BurstEnded{Task: task(args[0]), Ran: num(1), Finished: num(2), Blocked: has("blocked")}
	case "finished":
		in = loop.Finished{Task: task(args[0]), N: num(1)}
	case "revoking": // revoking BUDGET TASK...
		budget, _ := time.ParseDuration(args[0])
		in = loop.Revoking{Budget: budget, Tasks: tasks(args[1:])}
	case "stopping":
		budget, _ := time.ParseDuration(args[0])
		in = loop.Stopping{Budget: budget}
	case "lost":
		in = loop.Lost{Tasks: tasks(args)}
	case "commit-done":
		in = loop.CommitDone{Err: has("error")}
	case "tick":
		in = loop.Tick{}
	default:
		panic("no input " + words[1])
	}
	return start.Add(at), in
}

// polled reads "assigned 0_0 0_1 | ready 0_0 | records 0_0:5 | rebalancing".
func polled(args []string) loop.Polled {
	var in loop.Polled
	section := ""
	for _, a := range args {
		switch a {
		case "|":
		case "assigned", "ready", "records", "revoked":
			section = a
		case "complete":
			in.Complete = true
		case "rebalancing":
			in.Rebalancing = true
		case "lost":
			in.Lost = true
		default:
			switch section {
			case "assigned":
				in.Assigned = append(in.Assigned, task(a))
			case "ready":
				in.HandedOver = append(in.HandedOver, task(a))
			case "revoked":
				in.Revoked = append(in.Revoked, task(a))
			case "records":
				name, n, _ := strings.Cut(a, ":")
				records, _ := strconv.Atoi(n)
				in.Records = append(in.Records, loop.Delivery{Task: task(name), Records: records})
			}
		}
	}
	return in
}

func task(s string) loop.TaskID {
	sub, part, _ := strings.Cut(s, "_")
	a, _ := strconv.Atoi(sub)
	b, _ := strconv.Atoi(part)
	return loop.TaskID{Sub: int32(a), Part: int32(b)}
}

func tasks(args []string) []loop.TaskID {
	var out []loop.TaskID
	for _, a := range args {
		out = append(out, task(a))
	}
	return out
}
