package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

func TestSchedule(t *testing.T) {
	datadriven.RunTest(t, "testdata/schedule.txt", func(t *testing.T, d *datadriven.TestData) string {
		duration := func(name string) time.Duration {
			text := "0s"
			d.MaybeScanArgs(t, name, &text)
			parsed, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			return parsed
		}
		records := 1000
		d.MaybeScanArgs(t, "records", &records)
		s, err := NewSchedule(duration("length"), records, duration("session-min"))
		if err != nil {
			return err.Error() + "\n"
		}
		if d.Cmd == "services" {
			return services(t, d, s)
		}
		return fmt.Sprintf("%d records in %s\nthe service: %s, from %s to %s on its way to %s, back at %s\nkill at %s, replace at %s\nclocks: poll %s, session %s, commit %s; a call may take %s\nlength %s, over at %s\n",
			s.Records, s.Feed, s.Fast, s.SlowDown, s.SlowAt, s.Slow, s.Recover, s.Kill, s.Replace, s.Poll, s.Session, s.Commit, s.CallTimeout, s.Length, s.GiveUp)
	})
}

func services(t *testing.T, d *datadriven.TestData, s Schedule) string {
	var out strings.Builder
	arg, _ := d.Arg("at")
	for _, text := range arg.Vals {
		at, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		settings, err := json.Marshal(s.Service(at))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%4s %-12s %s\n", at, s.Phase(at), settings)
	}
	return out.String()
}
