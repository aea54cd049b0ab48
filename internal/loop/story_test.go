package loop_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rondo-streams/rondo/internal/loop"
	"github.com/rondo-streams/rondo/internal/sim"
)

// TestStories plays scenarios in virtual time and draws them. Each file under
// testdata/stories tells one story; -rewrite draws the pictures anew.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			sc := sim.Scenario{Trace: true}
			for _, arg := range td.CmdArgs {
				if err := set(&sc, td.Cmd, arg.Key, arg.Vals); err != nil {
					td.Fatalf(t, "%v", err)
				}
			}
			sum, trace := sim.Run(sc)
			return sim.Timeline(sc, sum, trace)
		})
	})
}

// set reads one argument of a story.
func set(sc *sim.Scenario, cmd, key string, vals []string) error {
	if cmd == "streams42" {
		sc.Policy = sim.Streams42
	}
	duration := func(i int) time.Duration {
		d, err := time.ParseDuration(vals[i])
		if err != nil {
			panic(err)
		}
		return d
	}
	number := func(i int) int {
		n, err := strconv.Atoi(vals[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	switch key {
	case "tasks":
		sc.Partitions = number(0)
	case "records": // records=60: all at once
		sc.Feeds = append(sc.Feeds, sim.Feed{Total: number(0)})
	case "then": // then=(20s,40) or then=(20s,40,1): so many at once, later, to one partition
		f := sim.Feed{At: duration(0), Total: number(1)}
		if len(vals) > 2 {
			f.Partitions = []int{number(2)}
		}
		sc.Feeds = append(sc.Feeds, f)
	case "feed": // feed=(2s,80ms,220): from, one every, total
		sc.Feeds = append(sc.Feeds, sim.Feed{At: duration(0), Every: duration(1), Total: number(2)})
	case "call":
		sc.Latency = sim.Fixed(duration(0))
	case "jump": // jump=(40s,0s,10s): when, before, after
		sc.Latency = sim.Jump(duration(0), duration(1), duration(2))
	case "hang": // hang=(0,3,5s): partition, offset, the other calls
		sc.Latency = sim.Hang(number(0), number(1), sim.Fixed(duration(2)))
	case "tail": // tail=(1s,20s,10): usual, slow, one in
		sc.Latency = sim.Tail(1, duration(0), duration(1), number(2))
	case "timeout":
		sc.CallTimeout = duration(0)
	case "drain":
		sc.Drain = duration(0)
	case "parallel":
		sc.Parallel = number(0)
	case "for":
		sc.For = duration(0)
	case "max.poll.interval":
		sc.Settings.MaxPollInterval = duration(0)
	case "commit.interval":
		sc.Settings.CommitInterval = duration(0)
	case "max.poll.records":
		sc.Settings.MaxPollRecords = number(0)
	case "joins": // joins=(0s,30s): the start of each member
		for i := range vals {
			sc.Members = append(sc.Members, sim.Member{Start: duration(i)})
		}
	case "movable":
		sc.Movable = true
	case "handover": // handover=(all,1,0+2): the tasks ready first, in each window
		for _, v := range vals {
			var h sim.HandOver
			if v != "all" {
				var ready []int
				for _, p := range strings.Split(v, "+") {
					n, err := strconv.Atoi(p)
					if err != nil {
						return err
					}
					ready = append(ready, n)
				}
				h.Ready = [][]int{ready}
			}
			sc.HandOvers = append(sc.HandOvers, h)
		}
	default:
		return fmt.Errorf("a story has no %q", key)
	}
	return nil
}

var _ loop.In = loop.Tick{}
