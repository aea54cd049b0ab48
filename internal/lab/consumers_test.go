package lab

import (
	"context"
	"strings"
	"testing"
)

const plain = `title Partitions are added
set group.initial.rebalance.delay.ms=1000 metadata.max.age.ms=10000
consumers cooperative
partitions 2
member 2
grow 4 at=10s
feed total=60 at=5s every=500ms burst=2
zero 10s
for 20s
draws 20 jitter=2s
measure consumers
`

// TestConsumersMeasured: what franz-go's members do on the embedded broker is
// what was predicted of the Java ones.
func TestConsumersMeasured(t *testing.T) {
	t.Parallel()
	s, err := Parse("plain", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := Run(context.Background(), Options{Scenarios: []*Scenario{s}, Scale: 10, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	f := tables[0].facts(ColumnConsumers, "")
	if f == nil || f.Generations != 1 || f.Distinct != 60 || f.Given["stopped"][0] != 0 {
		t.Fatalf("got %+v", f)
	}
	if text := tables[0].Text(); strings.Contains(text, "(!)") {
		t.Errorf("a difference:\n%s", text)
	}
	if last := changing(f.stays(), 12); len(last) != 4 {
		t.Errorf("partitions that had an owner: %v", last)
	}
	for _, want := range []string{`class="o0"`, `class="o1"`, "measured, consumers", "session clock"} {
		if svg := Timeline(tables[0]); !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}

// TestScopes: a rule explains the differences that it names and no others.
func TestScopes(t *testing.T) {
	for _, c := range []struct {
		scope     string
		got, want []float64
		covers    bool
	}{
		{"records", []float64{7}, []float64{900}, true},
		{"records+", []float64{7}, []float64{5}, true},
		{"records+", []float64{5}, []float64{7}, false},
		{"records+1", []float64{7}, []float64{5}, false},
		{"records-5%", []float64{96}, []float64{100}, true},
		{"records-5%", []float64{94}, []float64{100}, false},
		{"records~3", []float64{97}, []float64{100}, true},
		{"fenced-at~2", []float64{10, 21}, []float64{11, 20}, true},
		{"fenced-at~2", []float64{10, 21, 30}, []float64{11, 20}, false},
		{"fenced-at~2#1", []float64{10, 21, 30}, []float64{11, 20}, true},
		{"fenced-at#0", []float64{10, 99}, []float64{11, 20}, true},
		{"n-end-2", []float64{3}, []float64{5}, true},
	} {
		sc, err := parseScope(c.scope)
		if err != nil {
			t.Fatal(err)
		}
		if got := sc.covers(c.got, c.want, 0); got != c.covers {
			t.Errorf("%s: %v instead of %v: %v", c.scope, c.got, c.want, got)
		}
	}
	for _, bad := range []string{"", "record", "records~0", "records+-3", "records#x", "~5", "records~5%%"} {
		if sc, err := parseScope(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, sc)
		}
	}
}
