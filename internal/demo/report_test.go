package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rondo-streams/rondo/cause"
)

// TestReport prints reports that were made up: the closing table, and what
// Check says about the rondo side.
func TestReport(t *testing.T) {
	schedule, err := NewSchedule(full, 1000, 6*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	rondo := SideReport{
		Name: "rondo", Policy: "percall", Committed: 1000, Done: 68300 * time.Millisecond, MostCalls: 78, Generation: 4,
		Verdict: Verdict{In: 1000, Scored: 1000, Calls: 1023, Repeated: 23, Twice: 9, Pause: 1600 * time.Millisecond},
		Causes:  map[cause.Cause]int{cause.SessionClock: 1, cause.MemberChange: 3},
	}
	streams := SideReport{
		Name: "streams", Policy: "streams42", Committed: 801, MostCalls: 2, Generation: 8, PollClock: 3, MaxN: 49,
		Verdict: Verdict{In: 1000, Scored: 801, Lost: []string{"CVE-1"}, Calls: 944, Repeated: 143, Unexplained: []string{"CVE-2"}, Pause: 38800 * time.Millisecond},
	}
	bad := rondo
	bad.Lost = []string{"CVE-1", "CVE-2", "CVE-3", "CVE-4", "CVE-5", "CVE-6"}
	bad.ScoredAgain, bad.Unexplained = []string{"CVE-7"}, []string{"CVE-8"}
	bad.Committed, bad.PollClock = 994, 2
	reports := map[string]*Report{
		"good": {Where: "the embedded broker at 127.0.0.1:1 (on disk)", Schedule: schedule, Took: 80 * time.Second, Exact: true, Sides: []SideReport{rondo, streams}},
		"bad":  {Where: "Kafka at kafka:9092", Schedule: schedule, Took: 80 * time.Second, Sides: []SideReport{bad}},
	}
	datadriven.RunTest(t, "testdata/report.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		r := reports[d.CmdArgs[0].Key]
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		if err := r.Check(); err != nil {
			out.WriteString("check: " + err.Error() + "\n")
		}
		return out.String()
	})
}
