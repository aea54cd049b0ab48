package predict

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// FromTopology reads the JSON of a Rondo topology (json.Marshal of a
// rondo.Topology) into the settings: the kind is Rondo, and the call is the one
// with the longest worst case. Partitions are not in a topology: set Tasks.
func (s *Settings) FromTopology(data []byte) error {
	var t struct {
		Application string `json:"application"`
		Operators   []struct {
			Kind     string        `json:"kind"`
			Name     string        `json:"name"`
			Worst    time.Duration `json:"worst_ns"`
			Timeout  time.Duration `json:"timeout_ns"`
			Attempts int           `json:"attempts"`
		} `json:"operators"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = fmt.Errorf("%s has a JSON %s", cmp.Or(wrong.Field, "it"), wrong.Value)
		}
		return fmt.Errorf("read topology: %w: want the JSON of a rondo.Topology", err)
	}
	if len(t.Operators) == 0 {
		return fmt.Errorf("read topology: no operators in it: want the JSON of a rondo.Topology")
	}
	s.Kind = Rondo
	worst := time.Duration(0)
	for _, o := range t.Operators {
		if o.Kind != "call" && o.Timeout == 0 || o.Worst <= worst {
			continue
		}
		worst = o.Worst
		s.Call = Call{Timeout: o.Timeout, Attempts: o.Attempts, Budget: o.Worst}
	}
	if worst == 0 {
		return fmt.Errorf("read topology %s: no call in it: nothing is slow", t.Application)
	}
	// The worst case of a topology has its back-off in it already.
	s.Call.Backoff = 0
	if n := time.Duration(max(s.Call.Attempts, 1)); n > 1 && worst > n*s.Call.Timeout {
		s.Call.Backoff = (worst - n*s.Call.Timeout) / (n - 1)
	}
	return nil
}
