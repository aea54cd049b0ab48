package broker

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-streams/rondo/internal/spell"
)

// kind is the type of a setting, numbered as DescribeConfigs numbers it.
type kind int8

const (
	kindBoolean kind = iota + 1
	kindString
	kindInt
	kindShort
	kindLong
	kindDouble
	kindList
	kindClass
	kindPassword
)

func kindOf(word string) kind {
	words := []string{"boolean", "string", "int", "short", "long", "double", "list", "class", "password"}
	return kind(slices.Index(words, word) + 1)
}

// property is one row of the table of broker properties.
type property struct {
	name    string
	kind    kind
	dynamic bool
	value   string // the default
	null    bool   // the default is null
	ignored string // why it has no effect; "" when it has
}

// properties reads the table of broker properties.
func properties() map[string]property {
	table := make(map[string]property, 340)
	why := ""
	for line := range strings.Lines(propertyTable) {
		line = strings.TrimSuffix(line, "\n")
		if section, ok := strings.CutPrefix(line, "= "); ok {
			why = section
			continue
		}
		f := append(strings.SplitN(line, " ", 4), "")
		if len(f) < 4 {
			continue
		}
		p := property{name: f[0], kind: kindOf(f[1]), dynamic: f[2] == "dynamic", value: f[3], null: f[3] == "null"}
		if p.null {
			p.value = ""
		}
		if why != "used" {
			p.ignored = why
		}
		table[p.name] = p
	}
	return table
}

// settings are the broker's properties under Kafka's names: what was given
// over what Kafka has by default.
type settings struct {
	table map[string]property
	given map[string]string
}

// parseSettings checks names and values. Its errors name the property, what is
// wrong with it and, for an unknown one, the nearest name that exists.
func parseSettings(given map[string]string) (*settings, error) {
	s := &settings{table: properties(), given: maps.Clone(given)}
	if s.given == nil {
		s.given = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		p, ok := s.table[name]
		if !ok {
			return nil, fmt.Errorf("property %s: Apache Kafka 4.2 has no such broker property%s", name, meant(name, maps.Keys(s.table)))
		}
		if msg := checkValue(p.kind, given[name]); msg != "" {
			return nil, fmt.Errorf("property %s=%s: %s", name, given[name], msg)
		}
	}
	return s, s.check()
}

// check refuses values that Kafka or a single node cannot run with.
func (s *settings) check() error {
	atLeast := map[string]int64{
		"num.partitions": 1, "offsets.topic.num.partitions": 1, "message.max.bytes": 0, "socket.request.max.bytes": 1,
		"fetch.max.bytes": 1024, "max.incremental.fetch.session.cache.slots": 0, "group.max.size": 1,
		"group.initial.rebalance.delay.ms": 0, "offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1,
		"offset.metadata.max.bytes": 0, "min.insync.replicas": 1, "max.connections": 0,
		"log.segment.bytes": 1 << 20, "transaction.max.timeout.ms": 1, "max.request.partition.size.limit": 1,
		"log.retention.check.interval.ms": 1, "log.cleaner.backoff.ms": 1, "producer.id.expiration.ms": 1,
	}
	for _, name := range slices.Sorted(maps.Keys(atLeast)) {
		if s.int(name) < atLeast[name] {
			return fmt.Errorf("property %s=%s: the value must be at least %d", name, s.string(name), atLeast[name])
		}
	}
	if n := s.int("default.replication.factor"); n != 1 {
		return fmt.Errorf("property default.replication.factor=%d: a single node has one replica of everything: set it to 1", n)
	}
	if low, high := s.int("group.min.session.timeout.ms"), s.int("group.max.session.timeout.ms"); low > high {
		return fmt.Errorf("property group.min.session.timeout.ms=%d: above group.max.session.timeout.ms=%d", low, high)
	}
	view := configView{static: s}
	for _, d := range topicConfigs() {
		value, from := view.topicDefault(d)
		if msg := d.check(value); msg != "" {
			return fmt.Errorf("property %s=%s: as the default of topic config %s: %s", from, value, d.name, msg)
		}
	}
	return nil
}

// ignored lists the given properties that have no effect, with the reason.
func (s *settings) ignored() map[string]string {
	out := map[string]string{}
	for name := range s.given {
		if why := s.table[name].ignored; why != "" {
			out[name] = why
		}
	}
	return out
}

// lookup returns a setting and whether it is null.
func (s *settings) lookup(name string) (value string, null bool) {
	if v, ok := s.given[name]; ok {
		return v, false
	}
	p, ok := s.table[name]
	if !ok {
		panic("no broker property " + name)
	}
	return p.value, p.null
}

// string returns a setting as text, "" for null. The name must be Kafka's.
func (s *settings) string(name string) string {
	v, _ := s.lookup(name)
	return strings.TrimSpace(v)
}

// int returns a setting that has been checked to be a number.
func (s *settings) int(name string) int64 {
	n, err := strconv.ParseInt(s.string(name), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("broker property %s: %v", name, err))
	}
	return n
}

// duration returns a setting whose name ends in .ms.
func (s *settings) duration(name string) time.Duration {
	ms := s.int(name)
	if ms > int64(1<<63-1)/int64(time.Millisecond) {
		return 1<<63 - 1
	}
	return time.Duration(ms) * time.Millisecond
}

// givenDuration is a duration that somebody has set, else 0: the default is
// what configs show, and not what holds.
func (s *settings) givenDuration(name string) time.Duration {
	if _, given := s.given[name]; !given {
		return 0
	}
	return s.duration(name)
}

// bool returns a switch.
func (s *settings) bool(name string) bool { return strings.EqualFold(s.string(name), "true") }

// checkValue says what is wrong with a value, in Kafka's words, or "".
func checkValue(k kind, value string) string {
	v := strings.TrimSpace(value)
	var err error
	what := ""
	switch k {
	case kindBoolean:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return "Expected value to be either true or false"
		}
	case kindInt:
		what = "Not a number of type INT"
		_, err = strconv.ParseInt(v, 10, 32)
	case kindShort:
		what = "Not a number of type SHORT"
		_, err = strconv.ParseInt(v, 10, 16)
	case kindLong:
		what = "Not a number of type LONG"
		_, err = strconv.ParseInt(v, 10, 64)
	case kindDouble:
		what = "Not a number of type DOUBLE"
		_, err = strconv.ParseFloat(v, 64)
	}
	if err != nil {
		return what
	}
	return ""
}

// meant is the end of a refusal: the name that was probably meant.
func meant(name string, known iter.Seq[string]) string {
	if best, meant := spell.Nearest(name, known); meant {
		return ", did you mean " + best + "?"
	}
	return ""
}
