package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// said are the directives that say something about a run and change nothing in
// it: they may be written better after it was measured. A prediction by rule is
// not among them, it has to be there before the run.
func said() []string {
	return []string{"title", "of", "place", "claim", "rule", "because", "article", "recorded", "show", "ci", "measure", "scale"}
}

// Experiment is the part of a scenario's file that decides what happens: its
// other lines, without remarks and with single spaces, in order.
func Experiment(source []byte) string {
	var b strings.Builder
	for raw := range bytes.Lines(source) {
		words := strings.Fields(string(raw))
		if len(words) == 0 || words[0][0] == '#' || slices.Contains(said(), words[0]) {
			continue
		}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	return b.String()
}

// sourceFile is where a run keeps the scenario as it was.
const sourceFile = "scenario.txt"

// isOf says whether a file of a directory belongs to a scenario as it is now:
// it was made from the same file, or from one that is kept there and makes the
// same experiment.
func (s *sealed) isOf(now *Scenario, dir string) bool {
	if s.Scenario == hash(now.Source) {
		return true
	}
	kept, err := os.ReadFile(filepath.Join(dir, now.Name, sourceFile))
	return err == nil && hash(kept) == s.Scenario && Experiment(kept) == Experiment(now.Source)
}
