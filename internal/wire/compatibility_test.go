package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table in the documentation is the table in the program.
func TestDocumentedVersions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Kafka42() {
		versions := fmt.Sprintf("%d-%d", a.Min, a.Max)
		if a.Min == a.Max {
			versions = fmt.Sprint(a.Min)
		}
		if row := fmt.Sprintf("| %d | %s | %s | ", a.Key, a.Name, versions); !strings.Contains(string(doc), row) {
			t.Errorf("docs/compatibility.md has no row that begins with %q", row)
		}
	}
}
