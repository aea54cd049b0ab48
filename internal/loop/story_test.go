package loop_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

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
	v := values(vals)
	switch key {
	case "tasks":
		sc.Partitions = v.number(0)
	case "records": // records=60: all at once
		sc.Feeds = append(sc.Feeds, sim.Feed{Total: v.number(0)})
	case "then": // then=(20s,40) or then=(20s,40,1): so many at once, later, to one partition
		f := sim.Feed{At: v.duration(0), Total: v.number(1)}
		if len(vals) > 2 {
			f.Partitions = []int{v.number(2)}
		}
		sc.Feeds = append(sc.Feeds, f)
	case "feed": // feed=(2s,80ms,220): from, one every, total
		sc.Feeds = append(sc.Feeds, sim.Feed{At: v.duration(0), Every: v.duration(1), Total: v.number(2)})
	case "call":
		sc.Latency = sim.Fixed(v.duration(0))
	case "jump": // jump=(40s,0s,10s): when, before, after
		sc.Latency = sim.Jump(v.duration(0), v.duration(1), v.duration(2))
	case "hang": // hang=(0,3,5s): partition, offset, the other calls
		sc.Latency = sim.Hang(v.number(0), v.number(1), sim.Fixed(v.duration(2)))
	case "tail": // tail=(1s,20s,10): usual, slow, one in
		sc.Latency = sim.Tail(1, v.duration(0), v.duration(1), v.number(2))
	case "joins": // joins=(0s,30s): the start of each member
		for i := range vals {
			sc.Members = append(sc.Members, sim.Member{Start: v.duration(i)})
		}
	case "handover": // handover=(all,1,0+2): the tasks ready first, in each window
		for _, ready := range vals {
			sc.HandOvers = append(sc.HandOvers, handOver(ready))
		}
	default:
		return setKnob(sc, key, v)
	}
	return nil
}

func setKnob(sc *sim.Scenario, key string, v values) error {
	switch key {
	case "timeout":
		sc.CallTimeout = v.duration(0)
	case "drain":
		sc.Drain = v.duration(0)
	case "parallel":
		sc.Parallel = v.number(0)
	case "for":
		sc.For = v.duration(0)
	case "movable":
		sc.Movable = true
	case "max.poll.interval":
		sc.Settings.MaxPollInterval = v.duration(0)
	case "commit.interval":
		sc.Settings.CommitInterval = v.duration(0)
	case "max.poll.records":
		sc.Settings.MaxPollRecords = v.number(0)
	default:
		return fmt.Errorf("a story has no %q", key)
	}
	return nil
}

func handOver(ready string) sim.HandOver {
	if ready == "all" {
		return sim.HandOver{}
	}
	var first []int
	for p := range strings.SplitSeq(ready, "+") {
		first = append(first, values{p}.number(0))
	}
	return sim.HandOver{Ready: [][]int{first}}
}

// values are the values of one argument.
type values []string

func (v values) number(i int) int {
	n, err := strconv.Atoi(v[i])
	if err != nil {
		panic(err)
	}
	return n
}

func (v values) duration(i int) time.Duration {
	d, err := time.ParseDuration(v[i])
	if err != nil {
		panic(err)
	}
	return d
}
