package lab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/internal/sim"
)

// A scenario may be about plain consumers, which read and commit and have no
// loop: of the range assignor (eager), the cooperative sticky one, or the
// consumer protocol (KIP-848). They have directives of their own.
//
//	consumers range|cooperative|consumer   what the members are
//	member ... protocol=P                  one that is another
//	set metadata.max.age.ms=N group.remote.assignor=uniform|range
//	set group.consumer.heartbeat.interval.ms=N     the broker's; default 5000, as Kafka's;
//	                  0: what Rondo's broker chooses when it is not set (scale 1: it does not scale)
//	grow N at=D       the topic has N partitions from then on
//	topic N at=D      another topic that everybody's expression matches
//	move at=D         the coordinator moves to another broker
//	lose N%           heartbeats, from zero on, that never arrive though they are answered
//	commits none      nobody commits
//	draws N [jitter=D]    predict N times, with other ids and starts up to D later
//
// Plain is what they say.
type Plain struct {
	Protocols   []sim.Protocol // of each member
	Assignor    string
	BrokerBeat  time.Duration
	MetadataAge time.Duration
	Growths     []sim.Growth
	Moves       []time.Duration
	Loss        float64
	NoCommits   bool
	Draws       int
	Jitter      time.Duration

	said bool // the directive consumers was there
}

// ownBeat is the interval that Rondo's broker chooses itself.
const ownBeat = time.Duration(-1)

func (p *parser) plain() *Plain {
	if p.s.Plain == nil {
		p.s.Plain = &Plain{}
	}
	return p.s.Plain
}

func protocolOf(word string, to *sim.Protocol) error {
	for _, p := range []sim.Protocol{sim.Range, sim.Cooperative, sim.NextGen} {
		if p.String() == word {
			*to = p
			return nil
		}
	}
	return fmt.Errorf("%q: want range, cooperative or consumer", word)
}

func (p *parser) consumers(t string) error {
	pl := p.plain()
	pl.said = true
	pl.Protocols = make([]sim.Protocol, 1)
	return protocolOf(t, &pl.Protocols[0])
}

// timed reads NUMBER at=D.
func timed(t string, n *int, at *time.Duration) error {
	first, rest, _ := strings.Cut(t, " ")
	if n != nil {
		if err := number(first, 1, 1000, n); err != nil {
			return err
		}
		t = rest
	}
	err := fields(t, func(name, value string) error {
		if name != "at" {
			return fmt.Errorf("unknown argument %q", name)
		}
		return duration(value, at)
	})
	if err == nil && *at == 0 {
		err = errors.New("no at=D")
	}
	return err
}

func (p *parser) grow(t string) error {
	g := sim.Growth{}
	err := timed(t, &g.To, &g.At)
	p.plain().Growths = append(p.plain().Growths, g)
	return err
}

func (p *parser) topic(t string) error {
	g := sim.Growth{Other: true}
	err := timed(t, &g.To, &g.At)
	p.plain().Growths = append(p.plain().Growths, g)
	return err
}

func (p *parser) move(t string) error {
	at := time.Duration(0)
	err := timed(t, nil, &at)
	p.plain().Moves = append(p.plain().Moves, at)
	return err
}

func (p *parser) lose(t string) error {
	percent := 0
	word, ok := strings.CutSuffix(t, "%")
	if !ok {
		return fmt.Errorf("%q: want a percentage, as in 20%%", t)
	}
	err := number(word, 1, 100, &percent)
	p.plain().Loss = float64(percent) / 100
	return err
}

func (p *parser) commits(t string) error {
	p.plain().NoCommits = true
	if t != "none" {
		return fmt.Errorf("%q: want none", t)
	}
	return nil
}

func (p *parser) draws(t string) error {
	first, rest, _ := strings.Cut(t, " ")
	pl := p.plain()
	if err := number(first, 2, 1000, &pl.Draws); err != nil {
		return err
	}
	return fields(rest, func(name, value string) error {
		if name != "jitter" {
			return fmt.Errorf("unknown argument %q", name)
		}
		return duration(value, &pl.Jitter)
	})
}

// checkPlain holds the directives of consumers against the others.
func (p *parser) checkPlain() error {
	s := p.s
	named := slices.ContainsFunc(p.protocols, func(w string) bool { return w != "" })
	if s.Plain == nil || !s.Plain.said {
		if s.Plain != nil || named {
			return errors.New("grow, topic, move, lose, commits, draws, protocol= and metadata settings belong to plain consumers: consumers range")
		}
		if s.Measures(ColumnConsumers) {
			return errors.New("measure consumers: the members are no plain consumers: consumers range")
		}
		return nil
	}
	for _, other := range []string{"hang", "warm", "handover", "movable", "service", "parallel", "call-timeout", "drain", "cost"} {
		if p.seen[other] > 0 {
			return fmt.Errorf("%s is one of loops; plain consumers have none", other)
		}
	}
	if s.Measures(ColumnStreams42) || s.Measures(ColumnPerCall) {
		return errors.New("plain consumers are measured as consumers")
	}
	usual := s.Plain.Protocols[0]
	s.Plain.Protocols = s.Plain.Protocols[:0]
	for _, word := range p.protocols {
		own := usual
		if word != "" {
			if err := protocolOf(word, &own); err != nil {
				return err
			}
		}
		s.Plain.Protocols = append(s.Plain.Protocols, own)
	}
	s.Plain.BrokerBeat = cmp.Or(s.Plain.BrokerBeat, 5*time.Second)
	s.Plain.MetadataAge = cmp.Or(s.Plain.MetadataAge, 5*time.Minute)
	if s.Plain.BrokerBeat == ownBeat {
		s.Scale = 1
	} else if s.Plain.BrokerBeat < 50*time.Millisecond {
		return errors.New("plain consumers have intervals of 50 ms and more")
	}
	if min(s.Plain.MetadataAge, cmp.Or(s.Heartbeat, time.Second)) < 50*time.Millisecond {
		return errors.New("plain consumers have intervals of 50 ms and more")
	}
	if s.For+s.Zero > 2*time.Hour || max(s.Plain.Draws, 1)*len(s.Members) > 5000 {
		return errors.New("plain consumers run for 2 hours at most, and members times draws are 5000 at most")
	}
	return nil
}

// pattern says whether the members subscribe by an expression.
func (pl *Plain) pattern() bool {
	return slices.ContainsFunc(pl.Growths, func(g sim.Growth) bool { return g.Other })
}

// scaled is Plain with shorter times.
func (pl *Plain) scaled(by func(time.Duration) time.Duration) *Plain {
	if pl == nil {
		return nil
	}
	c := *pl
	c.MetadataAge, c.Jitter = by(c.MetadataAge), by(c.Jitter)
	if c.BrokerBeat != ownBeat {
		c.BrokerBeat = by(c.BrokerBeat)
	}
	c.Growths = slices.Clone(c.Growths)
	for i := range c.Growths {
		c.Growths[i].At = by(c.Growths[i].At)
	}
	c.Moves = slices.Clone(c.Moves)
	for i := range c.Moves {
		c.Moves[i] = by(c.Moves[i])
	}
	return &c
}
