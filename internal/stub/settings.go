package stub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that JSON spells as people do: "20ms".
type Duration time.Duration

// MarshalText writes "1.5s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// durationMax bounds every duration of the settings.
const durationMax = 24 * time.Hour

// UnmarshalText reads "1.5s", from 0 to 24 hours.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 || parsed > durationMax {
		return fmt.Errorf("%q: want a duration from 0 to 24h, such as 20ms or 1.5s", text)
	}
	*d = Duration(parsed)
	return nil
}

// Settings say how the service behaves. The zero value answers every call at
// once. Shares are between 0 and 1, and those that exclude each other (Hang,
// Limit, Fail, Trickle) add up to 1 at most.
type Settings struct {
	// Latency is how long an answer takes.
	Latency Duration `json:"latency"`
	// Ramp moves the latency from Latency to Ramp.To in a straight line
	// over Ramp.Over, beginning when the settings are made.
	Ramp *Ramp `json:"ramp,omitempty"`
	// Tail replaces Latency by a distribution: a call's latency is looked up
	// at its own quantile, which the seed, the key and the call's number
	// choose. Between two points it grows by a constant factor.
	Tail []Quantile `json:"tail,omitempty"`

	Fail       float64 `json:"fail,omitempty"`        // share answered with FailStatus
	FailStatus int     `json:"fail_status,omitempty"` // default 500

	Limit       float64  `json:"limit,omitempty"`         // share answered with 429 at once
	MaxInFlight int      `json:"max_in_flight,omitempty"` // more calls than this get 429 at once; 0 is no limit
	RetryAfter  Duration `json:"retry_after,omitempty"`   // Retry-After of a 429, in whole seconds, rounded up

	Hang float64 `json:"hang,omitempty"` // share never answered

	Trickle      float64  `json:"trickle,omitempty"`       // share whose body comes a byte at a time
	TrickleEvery Duration `json:"trickle_every,omitempty"` // time between two bytes, default 1s

	Seed uint64 `json:"seed,omitempty"` // chooses which calls the shares and quantiles hit
}

// Ramp is a latency that moves.
type Ramp struct {
	To   Duration `json:"to"`
	Over Duration `json:"over"`
}

// Quantile is one point of a latency distribution: a share Q of the calls
// takes At or less.
type Quantile struct {
	Q  float64  `json:"q"`
	At Duration `json:"at"`
}

// ParseSettings reads JSON over the given settings: what the JSON does not
// name stays. Unknown fields are refused.
func ParseSettings(base Settings, data []byte) (Settings, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	s := base
	s.Tail = nil // a slice would be written into, not replaced
	var named map[string]json.RawMessage
	if err := json.Unmarshal(data, &named); err != nil {
		return base, fmt.Errorf("read settings: %w", err)
	}
	if _, ok := named["tail"]; !ok {
		s.Tail = base.Tail
	}
	if err := decoder.Decode(&s); err != nil {
		return base, fmt.Errorf("read settings: %w", err)
	}
	return s, s.Check()
}

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	shares := map[string]float64{"fail": s.Fail, "limit": s.Limit, "hang": s.Hang, "trickle": s.Trickle}
	for _, name := range []string{"fail", "limit", "hang", "trickle"} {
		if share := shares[name]; !(share >= 0 && share <= 1) {
			return fmt.Errorf("%s: %v is not a share between 0 and 1", name, share)
		}
	}
	if sum := s.Fail + s.Limit + s.Hang + s.Trickle; sum > 1+1e-9 {
		return fmt.Errorf("fail, limit, hang and trickle add up to %v: more than every call", sum)
	}
	if s.FailStatus != 0 && (s.FailStatus < 400 || s.FailStatus > 599) {
		return fmt.Errorf("fail_status: %d is not between 400 and 599", s.FailStatus)
	}
	if s.MaxInFlight < 0 {
		return fmt.Errorf("max_in_flight: %d is less than 0", s.MaxInFlight)
	}
	if s.Ramp != nil && len(s.Tail) > 0 {
		return fmt.Errorf("ramp and tail exclude each other: each says what the latency is")
	}
	for i, point := range s.Tail {
		if !(point.Q >= 0 && point.Q <= 1) {
			return fmt.Errorf("tail: q %v is not between 0 and 1", point.Q)
		}
		if i > 0 && (point.Q <= s.Tail[i-1].Q || point.At < s.Tail[i-1].At) {
			return fmt.Errorf("tail: point %d does not come after the one before it", i+1)
		}
	}
	return nil
}
