package demo

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

// Attribution is the line that the licence of the records asks for.
const Attribution = "advisories: Go vulnerability database (golang/vulndb), CC-BY-4.0"

//go:embed advisories.jsonl
var advisories []byte

// Advisory is the facts of one security advisory.
type Advisory struct {
	CVE        string   `json:"cve"`
	ID         string   `json:"id"`
	Aliases    []string `json:"aliases"`
	Modules    []string `json:"modules"`
	References int      `json:"references"`
	Words      int      `json:"words"`
}

// Advisories are n records. There are 1,000 advisories; further records are
// the same ones again, with a number after the CVE id so that every key is
// unique.
func Advisories(n int) ([]Advisory, error) {
	var all []Advisory
	for line := range bytes.Lines(advisories) {
		var a Advisory
		if err := json.Unmarshal(line, &a); err != nil {
			return nil, fmt.Errorf("read embedded advisory %d: %w", len(all)+1, err)
		}
		all = append(all, a)
	}
	records := make([]Advisory, 0, n)
	for i := range n {
		a := all[i%len(all)]
		if turn := i / len(all); turn > 0 {
			a.CVE = fmt.Sprintf("%s#%d", a.CVE, turn+1)
		}
		records = append(records, a)
	}
	return records, nil
}
