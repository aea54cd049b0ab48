package rondo_test

import (
	"strings"
	"testing"

	"github.com/rondo-streams/rondo"
	"github.com/rondo-streams/rondo/serde"
)

// FuzzSettings: no name and value make NewApp panic, an unknown name is always
// an error that names a known one, and an error is bounded.
func FuzzSettings(f *testing.F) {
	b := rondo.New("fuzz")
	b.From(rondo.TopicOf("in", serde.String(), serde.String())).Foreach(func(rondo.Record[string, string]) {})
	topology, err := b.Build()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range rondo.Settings() {
		f.Add(s.Name, s.Default)
		f.Add("consumer."+s.Name, "-1")
	}
	f.Add("max.poll.interval.ms", "9223372036854775807")
	f.Add("", "")
	known := map[string]bool{}
	for _, s := range rondo.Settings() {
		known[s.Name] = true
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		app, err := rondo.NewApp(topology, rondo.Bootstrap("127.0.0.1:9092"), rondo.Set(name, value))
		if (app == nil) == (err == nil) {
			t.Fatalf("app %v, error %v", app, err)
		}
		bare := name
		for _, p := range []string{"main.consumer.", "consumer.", "producer.", "admin."} {
			if rest, ok := strings.CutPrefix(name, p); ok {
				bare = rest
				break
			}
		}
		if !known[bare] && (err == nil || !strings.Contains(err.Error(), "did you mean")) {
			t.Fatalf("unknown setting %q: %v", name, err)
		}
	})
}

func TestDefaultsPassTheirOwnChecks(t *testing.T) {
	b := rondo.New("defaults")
	b.From(rondo.TopicOf("in", serde.String(), serde.String())).Foreach(func(rondo.Record[string, string]) {})
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range rondo.Settings() {
		if s.Ignored != "" || s.Default == "" {
			continue
		}
		if _, err := rondo.NewApp(topology, rondo.Bootstrap("127.0.0.1:9092"), rondo.Set(s.Name, s.Default)); err != nil {
			t.Errorf("%s: its default is refused: %v", s.Name, err)
		}
	}
}
