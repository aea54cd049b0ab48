package predict

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setter puts one property into settings.
type setter func(s *Settings, value string) error

func duration(field func(*Settings) *time.Duration) setter {
	return func(s *Settings, value string) error {
		d, err := ParseDuration(value)
		*field(s) = d
		return err
	}
}

func number(field func(*Settings) *int) setter {
	return func(s *Settings, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("want a whole number from 1")
		}
		*field(s) = n
		return nil
	}
}

// above is duration for settings that Kafka's clients do not take zero for,
// where a zero field would be the default.
func above(field func(*Settings) *time.Duration) setter {
	set := duration(field)
	return func(s *Settings, value string) error {
		err := set(s, value)
		if err == nil && *field(s) == 0 {
			err = errors.New("want a time above zero; leave it out for the default")
		}
		return err
	}
}

// setCommit takes zero as Kafka does: a commit after every pass.
func setCommit(s *Settings, value string) error {
	d, err := ParseDuration(value)
	s.CommitInterval = max(d, 1)
	return err
}

// setDrain takes zero as Rondo does: calls are cut at once.
func setDrain(s *Settings, value string) error {
	d, err := ParseDuration(value)
	s.Drain = max(d, 1)
	return err
}

// ParseDuration reads Kafka's milliseconds, or a Go duration.
func ParseDuration(value string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
		if ms < 0 || ms > maxDuration.Milliseconds() {
			return 0, fmt.Errorf("want milliseconds from 0 to %d", maxDuration.Milliseconds())
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > maxDuration {
		return 0, fmt.Errorf("want milliseconds such as 300000, or a duration such as 5m")
	}
	return d, nil
}

// setters are the properties that a prediction uses, under the names of
// Kafka's clients, with those of other clients beside them.
func setters() map[string]setter {
	interval := above(func(s *Settings) *time.Duration { return &s.MaxPollInterval })
	session := above(func(s *Settings) *time.Duration { return &s.SessionTimeout })
	heartbeat := above(func(s *Settings) *time.Duration { return &s.HeartbeatInterval })
	return map[string]setter{
		"max.poll.interval.ms": interval, "rebalance.timeout.ms": interval, "rebalanceTimeout": interval,
		"session.timeout.ms": session, "sessionTimeout": session,
		"heartbeat.interval.ms": heartbeat, "heartbeatInterval": heartbeat,
		"commit.interval.ms": setCommit, "auto.commit.interval.ms": setCommit,
		"max.poll.records":               number(func(s *Settings) *int { return &s.MaxPollRecords }),
		"buffered.records.per.partition": number(func(s *Settings) *int { return &s.BufferedRecords }),
		"num.stream.threads":             number(func(s *Settings) *int { return &s.Threads }),
		"transaction.timeout.ms":         above(func(s *Settings) *time.Duration { return &s.TransactionTimeout }),
		"drain.timeout.ms":               setDrain,
		"tasks":                          number(func(s *Settings) *int { return &s.Tasks }),
		"queued":                         number(func(s *Settings) *int { return &s.Queued }),
		"n":                              number(func(s *Settings) *int { return &s.N }),
		"call":                           setCall,
		"call.timeout":                   setTimeout,
		"call.attempts":                  number(func(s *Settings) *int { return &s.Call.Attempts }),
		"call.backoff":                   duration(func(s *Settings) *time.Duration { return &s.Call.Backoff }),
		"hand-over":                      number(func(s *Settings) *int { return &s.HandOver }),
		"overhead":                       above(func(s *Settings) *time.Duration { return &s.Overhead }),
		"arrival":                        setArrival,
		"group.instance.id":              func(s *Settings, v string) error { s.Static = v != ""; return nil },
		"processing.guarantee":           setGuarantee,
		"group.protocol": func(s *Settings, v string) (err error) {
			s.Protocol, err = ParseProtocol(v)
			return err
		},
	}
}

func setCall(s *Settings, value string) error {
	d, err := ParseDuration(value)
	switch {
	case err != nil:
		return err
	case s.Latency.Shape == Fixed:
		s.Latency.From = d
	default:
		s.Latency.To = d
	}
	return nil
}

func setArrival(s *Settings, value string) (err error) {
	if s.Arrival, err = strconv.ParseFloat(value, 64); err != nil {
		return fmt.Errorf("want records a second, such as 25 or 0.5")
	}
	return nil
}

func setTimeout(s *Settings, value string) error {
	if value == "none" {
		s.Call.Timeout = NoTimeout
		return nil
	}
	d, err := ParseDuration(value)
	if err == nil && d == 0 {
		err = fmt.Errorf("want a duration above zero, or none")
	}
	s.Call.Timeout = d
	return err
}

func setGuarantee(s *Settings, value string) error {
	switch value {
	case "at_least_once":
		s.ExactlyOnce = false
	case "exactly_once_v2", "exactly_once_beta", "exactly_once":
		s.ExactlyOnce = true
	default:
		return fmt.Errorf("want at_least_once or exactly_once_v2")
	}
	return nil
}

// Set puts one property into the settings, under Kafka's name, with or without
// one of the prefixes of Kafka Streams (main.consumer., consumer., producer.,
// admin.).
func (s *Settings) Set(name, value string) error {
	set, ok := setters()[bare(name)]
	if !ok {
		return fmt.Errorf("setting %s is not one that a prediction uses; it uses %s", name, strings.Join(Names(), ", "))
	}
	if err := set(s, strings.TrimSpace(value)); err != nil {
		return fmt.Errorf("%s=%s: %w", name, value, err)
	}
	return nil
}

// Names lists the properties that Set takes.
func Names() []string {
	var names []string
	for name := range setters() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func bare(name string) string {
	for _, prefix := range []string{"main.consumer.", "consumer.", "producer.", "admin."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return name
}

// SetAll puts the properties of a client's configuration into the settings. It
// returns the names that have no part in a prediction (serializers,
// addresses, ...). Of main.consumer.x, consumer.x and x the most special wins,
// as in Kafka Streams.
func (s *Settings) SetAll(properties map[string]string) (unused []string, err error) {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	rank := func(name string) int {
		switch {
		case strings.HasPrefix(name, "main.consumer."):
			return 2
		case bare(name) != name:
			return 1
		}
		return 0
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	known := setters()
	for _, name := range names {
		if _, ok := known[bare(name)]; !ok || strings.HasPrefix(name, "admin.") {
			unused = append(unused, name)
			continue
		}
		if err := s.Set(name, properties[name]); err != nil {
			return nil, err
		}
	}
	slices.Sort(unused)
	return unused, nil
}
