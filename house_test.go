package rondo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The house rules of docs/model.md as a test: who may import whom, which rooms
// are pure, how long a file and a function may be, and what the project
// depends on. A failure names the rule and what to do instead.

const module = "github.com/rondo-streams/rondo"

// floor is how high a room stands. A room imports only rooms on lower floors,
// or those that sideways lists for it.
var floor = map[string]int{
	"cmd/rondo":         90,
	"internal/demo":     85,
	"internal/crash":    85,
	"internal/lab":      80,
	"internal/web":      75,
	"internal/pipeline": 75,
	"explain":           75,
	"":                  70, // the root package: the runtime
	"broker":            70,
	"rondotest":         70,
	"predict":           60,
	"internal/sim":      50,
	"internal/loop":     40,
	"internal/member":   40,
	"internal/group":    40,
	"internal/txn":      40,
	"internal/call":     40,
	"internal/journal":  40,
	"store":             40,
	"store/pebble":      45,
	"serde":             40,
	"serde/registry":    45,
	"internal/stub":     40,
	"internal/memnet":   30,
	"internal/wire":     20,
	"internal/secure":   20,
	"internal/spell":    20,
	"cause":             10,
}

// bans are imports that a room must never have, whatever its floor.
var bans = map[string][]string{
	"":       {module + "/broker"},
	"broker": {module, "github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/kadm"},
}

// pure lists the files of the cores: values that read no clock, start no
// goroutine, hold no lock and do no I/O. A trailing slash takes a whole room.
var pure = []string{
	"cause/", "internal/wire/", "internal/loop/", "internal/group/", "internal/sim/", "predict/", "internal/txn/",
	"internal/member/core", "internal/call/core",
}

var pureBannedImports = []string{"net", "net/http", "os", "sync", "sync/atomic", "log/slog", "context", "math/rand"}

var pureBannedCalls = map[string]string{
	"time.Now": "take now as an argument", "time.Sleep": "return a deadline from Next",
	"time.After": "return a deadline from Next", "time.NewTimer": "return a deadline from Next",
	"time.NewTicker": "return a deadline from Next", "time.AfterFunc": "return a deadline from Next",
	"time.Since": "subtract from the now argument", "time.Until": "subtract from the now argument",
}

// direct is every direct dependency, with the reason in docs/decisions.
var direct = []string{
	"github.com/alecthomas/kong",
	"github.com/cockroachdb/datadriven",
	"github.com/failsafe-go/failsafe-go",
	"github.com/klauspost/compress",
	"github.com/pierrec/lz4/v4",
	"github.com/prometheus/client_golang",
	"github.com/twmb/franz-go",
	"github.com/twmb/franz-go/pkg/kadm",
	"github.com/twmb/franz-go/pkg/kfake",
	"github.com/twmb/franz-go/pkg/kmsg",
	"github.com/rogpeppe/go-internal",
	"go.uber.org/goleak",
	"go.yaml.in/yaml/v3",
	"pgregory.net/rapid",
	"software.sslmate.com/src/go-pkcs12",
}

const (
	maxFileLines     = 700
	maxFunctionLines = 70
)

// goFiles lists the project's Go files, without nested modules.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			if path != "." {
				if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
					return filepath.SkipDir
				}
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func room(file string) string {
	dir := filepath.ToSlash(filepath.Dir(file))
	if dir == "." {
		return ""
	}
	return dir
}

func isPure(file string) bool {
	if strings.HasSuffix(file, "_test.go") {
		return false
	}
	for _, p := range pure {
		if strings.HasPrefix(file, p) {
			return true
		}
	}
	return false
}

func TestHouse(t *testing.T) {
	fset := token.NewFileSet()
	rooms := map[string]bool{}
	for _, file := range goFiles(t) {
		parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !strings.HasSuffix(file, "_test.go") {
			rooms[room(file)] = true
			checkImports(t, file, parsed)
		}
		checkLength(t, fset, file, parsed)
		checkWords(t, file)
		if isPure(file) {
			checkPure(t, fset, file, parsed)
		}
	}
	for r := range rooms {
		if strings.HasPrefix(r, "examples/") {
			continue
		}
		if _, err := os.Stat(filepath.Join(r, "doc.go")); err != nil {
			t.Errorf("room %q has no doc.go: write its model there, before any code", r)
		}
	}
}

func checkImports(t *testing.T, file string, f *ast.File) {
	t.Helper()
	r := room(file)
	if strings.HasPrefix(r, "examples/") || strings.HasPrefix(r, "bench") {
		return
	}
	mine, known := floor[r]
	if !known {
		t.Errorf("%s: room %q is not in the house: add it to the floor table with a decision record", file, r)
		return
	}
	for _, imp := range f.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		if slices.Contains(bans[r], path) {
			t.Errorf("%s imports %s: banned for room %q, they meet over the wire", file, path, r)
		}
		if path != module && !strings.HasPrefix(path, module+"/") {
			continue
		}
		other := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		theirs, ok := floor[other]
		if !ok {
			t.Errorf("%s imports unknown room %q", file, other)
		} else if theirs >= mine {
			t.Errorf("%s imports %q: imports go down only, move what both need to a lower room", file, other)
		}
	}
}

func checkPure(t *testing.T, fset *token.FileSet, file string, f *ast.File) {
	t.Helper()
	for _, imp := range f.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		if slices.Contains(pureBannedImports, path) {
			t.Errorf("%s imports %q: a core is a value; move this to the shell", file, path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s: go statement in a core: the shell owns goroutines", fset.Position(n.Pos()))
		case *ast.ChanType:
			t.Errorf("%s: channel in a core: the shell owns channels", fset.Position(n.Pos()))
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if instead, banned := pureBannedCalls[x.Name+"."+n.Sel.Name]; banned {
					t.Errorf("%s: %s.%s in a core: %s", fset.Position(n.Pos()), x.Name, n.Sel.Name, instead)
				}
			}
		}
		return true
	})
}

func checkLength(t *testing.T, fset *token.FileSet, file string, f *ast.File) {
	t.Helper()
	if lines := fset.Position(f.End()).Line; lines > maxFileLines {
		t.Errorf("%s has %d lines, the limit is %d: split it by noun", file, lines, maxFileLines)
	}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > maxFunctionLines {
			t.Errorf("%s: %s has %d lines, the limit is %d: push ifs up and fors down", fset.Position(fn.Pos()), fn.Name.Name, n, maxFunctionLines)
		}
	}
}

var bannedWord = regexp.MustCompile(`\b(FIX` + `ME|XX` + `X|HA` + `CK|TO` + `DO)\b`)
var bannedName = regexp.MustCompile(`(^|/|_)(util|utils|common|helper|helpers|manager|misc)(_test)?\.go$|/(util|utils|common|helper|helpers|misc)/`)

func checkWords(t *testing.T, file string) {
	t.Helper()
	if bannedName.MatchString(file) {
		t.Errorf("%s: name a file after the noun it holds", file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		if bannedWord.MatchString(line) {
			t.Errorf("%s:%d: open work belongs in an issue, not in the code", file, i+1)
		}
		for _, c := range line {
			if c > 126 {
				t.Errorf("%s:%d: %q is not ASCII", file, i+1, c)
				break
			}
		}
	}
}

func TestDirectDependencies(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || strings.Contains(line, "// indirect") {
			continue
		}
		seen[fields[0]] = true
		if !slices.Contains(direct, fields[0]) {
			t.Errorf("go.mod requires %s: a new direct dependency needs a decision record and a line in house_test.go", fields[0])
		}
	}
	for _, d := range direct {
		if !seen[d] {
			t.Errorf("%s is in the list of direct dependencies, but go.mod does not require it", d)
		}
	}
}
