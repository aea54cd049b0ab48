package cause

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// The schema of the history topic is read by programs that are older and newer
// than the broker: its names do not change by accident.
func TestRecordKeepsItsNames(t *testing.T) {
	e := Event{
		Group: "scores", Protocol: "classic", At: time.UnixMilli(1764500000123).UTC(), From: 4, To: 5, Cause: PollClock, Confidence: Inferred,
		Trigger: Member{ID: "m-1", ClientID: "worker", Host: "/10.0.0.7", Instance: "i"}, Reason: "same member id back after a leave",
		Casualties: []Member{{ID: "m-2"}}, HeldOpen: []Member{{ID: "m-3"}},
		Clocks: Clocks{SessionAge: time.Second, SessionLimit: 45 * time.Second, PollAge: 5 * time.Minute, PollLimit: 5 * time.Minute},
		Took:   3 * time.Second, Members: 2,
	}
	const want = `{"version":1,"group":"scores","protocol":"classic","at":"2025-11-30T10:53:20.123Z","from":4,"to":5,"cause":"poll_clock","confidence":"inferred",` +
		`"trigger":{"member_id":"m-1","client_id":"worker","host":"/10.0.0.7","instance_id":"i"},"reason":"same member id back after a leave",` +
		`"casualties":[{"member_id":"m-2"}],"held_open":[{"member_id":"m-3"}],` +
		`"clocks":{"session_age_ns":1000000000,"session_limit_ns":45000000000,"poll_age_ns":300000000000,"poll_limit_ns":300000000000},"took_ns":3000000000,"members":2}`
	if got, err := e.Record(); err != nil || string(got) != want {
		t.Errorf("wrote\n%s, %v\nwant\n%s", got, err, want)
	}
	back, err := ParseRecord([]byte(want))
	if err != nil || !reflect.DeepEqual(back, e) {
		t.Errorf("read %+v, %v", back, err)
	}
}

func TestParseRecordRefuses(t *testing.T) {
	for value, want := range map[string]string{
		``:              "unexpected end",
		`{"version":2}`: "version 2 of its schema: this program knows 1 to 1",
		`{"group":"g"}`: "version 0",
		`{"version":1,"group":"g","cause":"moon"}`: `read cause "moon"`,
		`{"version":1,"cause":"poll_clock"}`:       "no group",
	} {
		if _, err := ParseRecord([]byte(value)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"group":"g","protocol":"classic","at":"2026-11-30T10:13:20Z","from":-1,"to":0,"cause":"session_clock","took_ns":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := ParseRecord(value)
		if err != nil {
			return
		}
		record, err := e.Record()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRecord(record)
		if err != nil || again.Group != e.Group || again.Cause != e.Cause || !again.At.Equal(e.At) {
			t.Fatalf("%s does not come back: %+v, %v", value, again, err)
		}
	})
}
