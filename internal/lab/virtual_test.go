package lab

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestVirtual runs every scenario in virtual time under both loops and holds
// the predictions against the articles' numbers and the recordings. What
// differs has to have a rule in the scenario's file.
func TestVirtual(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Errorf("%d scenarios, want 40 at least", len(all))
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			facts, err := Recordings(s)
			if err != nil {
				t.Fatal(err)
			}
			facts = append(facts, Predictions(s, 1)...)
			table := Compare(s, facts...)
			for _, d := range table.Differences() {
				t.Error(d)
			}
			t.Logf("%s\n%s", s.Title, table.Text())
		})
	}
}

// TestRulesAreNarrow: what a rule explains of a measurement is one metric, up to
// a size or in one direction. Whatever else differs is shown as such.
func TestRulesAreNarrow(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, b := range s.Because {
			for _, sc := range b.Metrics {
				wide := math.IsInf(sc.Up, 1) && math.IsInf(sc.Down, 1) && sc.Length < 0
				if b.Column == "any" || sc.Metric == "any" || wide && b.Column != ColumnRecorded {
					t.Errorf("%s:%d: because %s %s explains everything", s.Name, b.Line, b.Column, sc.Metric)
				}
			}
		}
	}
}

// TestLabelsApart: the values of N neither overlap nor leave the picture, also
// where N changes with every commit.
func TestLabelsApart(t *testing.T) {
	found, err := Find("backlog")
	if err != nil {
		t.Fatal(err)
	}
	drawn := regexp.MustCompile(`<text x="([0-9.]+)" y="([0-9.]+)" style="fill:var\(--n\)">(N=\d+)<`).
		FindAllStringSubmatch(Timeline(Compare(found[0], Predictions(found[0], 1)...)), -1)
	end, row := 0.0, ""
	for _, m := range drawn {
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if m[2] != row {
			end, row = 0, m[2]
		}
		if x < end {
			t.Errorf("%s at %.1f begins on the one before, which ends at %.1f", m[3], x, end)
		}
		if end = x + 9*float64(len(m[3])); end > pictureWidth {
			t.Errorf("%s ends at %.1f", m[3], end)
		}
	}
	if len(drawn) < 5 {
		t.Errorf("%d values of N", len(drawn))
	}
}

// TestFindings holds the numbers of a drawn prediction that docs/findings.md
// gives against those that are drawn.
func TestFindings(t *testing.T) {
	text, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`removed by the session clock +\S+ +(\d+ \(\d+ to \d+\))`)
	var drawn []string
	for _, name := range []string{"heartbeat-2000", "heartbeat-3000", "heartbeat-5999"} {
		found, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if m := row.FindStringSubmatch(Compare(found[0], Predictions(found[0], 1)...).Text()); m != nil {
			drawn = append(drawn, m[1])
		}
	}
	if want := "predicted " + strings.Join(drawn, ", "); len(drawn) != 3 || !strings.Contains(string(text), want) {
		t.Errorf("docs/findings.md does not say %q", want)
	}
}
