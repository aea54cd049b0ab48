package stub

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestPlan runs the transcripts of testdata. The commands: settings sets them
// from JSON; plan prints what calls get; share prints what many keys get.
func TestPlan(t *testing.T) {
	var settings Settings
	datadriven.RunTest(t, "testdata/plan.txt", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "settings":
			s, err := ParseSettings(Settings{}, []byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			settings = s
			return "ok\n"
		case "plan":
			return plan(t, d, settings)
		case "share":
			return share(t, d, settings)
		case "score":
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				fmt.Fprintf(&out, "%+v\n", ScoreOf("k", []byte(strings.TrimSpace(line))))
			}
			return out.String()
		}
		t.Fatalf("unknown command %s", d.Cmd)
		return ""
	})
}

func plan(t *testing.T, d *datadriven.TestData, settings Settings) string {
	var ages []string
	key := "CVE-1"
	calls := 1
	if arg, ok := d.Arg("at"); ok {
		ages = arg.Vals
	} else {
		ages = []string{"0s"}
	}
	d.MaybeScanArgs(t, "key", &key)
	d.MaybeScanArgs(t, "calls", &calls)
	var out strings.Builder
	for _, text := range ages {
		age, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		for nth := range calls {
			p := Plan(settings, key, nth, age)
			fmt.Fprintf(&out, "%s call %d after %s: %s status %d wait %s\n", key, nth, age, p.Kind, p.Status, p.Wait.Round(time.Microsecond))
		}
	}
	return out.String()
}

// share calls many keys once and prints how often each kind came, in percent,
// and the quantiles of the waits.
func share(t *testing.T, d *datadriven.TestData, settings Settings) string {
	keys := 10_000
	d.MaybeScanArgs(t, "keys", &keys)
	kinds := map[string]int{}
	var waits []time.Duration
	for i := range keys {
		p := Plan(settings, fmt.Sprintf("CVE-%d", i), 0, 0)
		kinds[p.Kind.String()]++
		waits = append(waits, p.Wait)
	}
	slices.Sort(waits)
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&out, "%s %.0f%%\n", kind, 100*float64(kinds[kind])/float64(keys))
	}
	fmt.Fprintf(&out, "median %s, 99%% %s, longest %s\n",
		waits[keys/2].Round(10*time.Millisecond), waits[keys*99/100].Round(100*time.Millisecond), waits[keys-1].Round(time.Second))
	return out.String()
}

func FuzzParseSettings(f *testing.F) {
	f.Add([]byte(`{"latency":"20ms","tail":[{"q":0.5,"at":"20ms"},{"q":1,"at":"3s"}]}`), "CVE-1", 3)
	f.Add([]byte(`{"latency":"20ms","ramp":{"to":"3s","over":"0s"},"hang":0.3,"fail":0.7}`), "", 0)
	f.Add([]byte(`{"tail":[],"seed":18446744073709551615}`), "k", -1)
	f.Fuzz(func(t *testing.T, data []byte, key string, nth int) {
		s, err := ParseSettings(Settings{Latency: 7}, data)
		if err != nil {
			return
		}
		p := Plan(s, key, nth, time.Second)
		if p.Wait < 0 {
			t.Fatalf("%s plans a wait of %s", data, p.Wait)
		}
		if again := Plan(s, key, nth, time.Second); again != p {
			t.Fatalf("%s plans %+v, then %+v", data, p, again)
		}
	})
}
