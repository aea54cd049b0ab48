// Command transcript talks to a Kafka broker request by request, as scripts of text lines say, and compares each
// answer, field by field, with the recorded one. See README.md.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"
)

const usage = `usage:
  transcript run -bootstrap HOST:PORT -schemas FILE [-rewrite] [-p 8] [-run REGEXP] [-skip FILE] [-ignore-messages] FILE|DIR...
  transcript index DIR > index.md
  transcript schemas JAR... > schemas.json

run plays each case (*.txt) and prints ok, skip or FAIL with a diff; the last line is "N passed, N failed, N skipped".
schemas prints the message definitions of Kafka's jars, for -schemas.
`

func main() {
	if len(os.Args) < 2 || os.Args[1] == "index" && len(os.Args) < 3 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch os.Args[1] {
	case "schemas":
		if err := extractSchemas(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "transcript:", err)
			os.Exit(1)
		}
	case "index":
		if err := index(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "transcript:", err)
			os.Exit(1)
		}
	case "run":
		os.Exit(run(os.Args[2:]))
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
}

type result struct {
	path, status, detail string // status: ok, FAIL, skip, rewritten
	took                 time.Duration
}

func run(args []string) int {
	fl := flag.NewFlagSet("run", flag.ExitOnError)
	bootstrap := fl.String("bootstrap", "127.0.0.1:9092", "broker to talk to")
	rewrite := fl.Bool("rewrite", false, "record: write the answers into the case files")
	par := fl.Int("p", 8, "cases at a time")
	only := fl.String("run", "", "only cases whose path matches this regular expression")
	lax := fl.Bool("ignore-messages", false, "compare only whether an error message is there, not its text")
	definitions := fl.String("schemas", "schemas.json", "message definitions, as `transcript schemas` prints them")
	skipFile := fl.String("skip", "", "a file of lines \"CASE REASON\": cases that are not played")
	fl.Parse(args)
	if err := loadSchemas(*definitions); err != nil {
		fmt.Fprintln(os.Stderr, "transcript: schemas:", err)
		return 2
	}
	skips, err := readSkips(*skipFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "transcript:", err)
		return 2
	}
	paths, err := findCases(fl.Args(), *only)
	if err != nil || len(paths) == 0 {
		fmt.Fprintln(os.Stderr, "transcript: no cases:", err)
		return 2
	}
	if err := warmUp(*bootstrap); err != nil {
		fmt.Fprintln(os.Stderr, "transcript: broker not ready:", err)
		return 2
	}
	results := make([]result, len(paths))
	sem := make(chan struct{}, *par)
	var wg sync.WaitGroup
	var out sync.Mutex
	for i, p := range paths {
		sem <- struct{}{}
		wg.Add(1)
		go func() {
			defer func() { <-sem; wg.Done() }()
			start := time.Now()
			r := skips.result(p)
			if r.status == "" {
				r = playFile(p, *bootstrap, *rewrite, *lax)
			}
			r.path, r.took = p, time.Since(start)
			results[i] = r
			out.Lock()
			fmt.Printf("%-4s %s (%.1fs)\n%s", r.status, p, r.took.Seconds(), r.detail)
			out.Unlock()
		}()
	}
	wg.Wait()
	passed, failed, skipped := 0, 0, 0
	for _, r := range results {
		switch r.status {
		case "FAIL":
			failed++
		case "skip":
			skipped++
		default:
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}

// skips maps the end of a case's path to the reason why it is not played.
type skips map[string]string

func readSkips(file string) (skips, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sk := skips{}
	for i, l := range strings.Split(string(raw), "\n") {
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		name, reason, _ := strings.Cut(l, " ")
		if reason = strings.TrimSpace(reason); reason == "" {
			return nil, fmt.Errorf("%s:%d: %s is skipped without a reason", file, i+1, name)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), name)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		sk[name] = reason
	}
	return sk, nil
}

func (sk skips) result(path string) result {
	for name, reason := range sk {
		if strings.HasSuffix(filepath.ToSlash(path), "/"+name) {
			return result{status: "skip", detail: "  " + reason + "\n"}
		}
	}
	return result{}
}

func findCases(args []string, only string) ([]string, error) {
	re, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range args {
		err := filepath.WalkDir(a, func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(p, ".txt") && re.MatchString(p) {
				out = append(out, p)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	sort.Strings(out)
	return out, nil
}

func playFile(path, bootstrap string, rewrite, lax bool) result {
	cf, err := readCase(path)
	if err != nil {
		return result{status: "FAIL", detail: "  " + err.Error() + "\n"}
	}
	s := newSession(cf, bootstrap)
	defer s.close()
	outputs, err := s.play()
	if err == errSkip {
		return result{status: "skip", detail: "  it restarts the broker, and BROKER_RESTART is not set\n"}
	}
	if err != nil {
		return result{status: "FAIL", detail: fmt.Sprintf("  %s:%v\n", path, err)}
	}
	got := cf.print(outputs)
	if rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			return result{status: "FAIL", detail: "  " + err.Error() + "\n"}
		}
		return result{status: "ok"}
	}
	want := cf.print(cf.expectedOutputs())
	if lax {
		want, got = maskMessages(want), maskMessages(got)
	}
	if want != got {
		return result{status: "FAIL", detail: diff(want, got)}
	}
	return result{status: "ok"}
}

// index prints a table of the cases below a directory: file, acceptance cases, what the header says.
func index(dir string) error {
	paths, err := findCases([]string{dir}, "")
	if err != nil {
		return err
	}
	fmt.Print("| case | acceptance | what it pins |\n|---|---|---|\n")
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		var text, acc []string
		for _, l := range strings.Split(string(raw), "\n") {
			c, ok := strings.CutPrefix(l, "#")
			if !ok {
				break
			}
			c = strings.TrimSpace(c)
			if a, ok := strings.CutPrefix(c, "acceptance:"); ok {
				acc = append(acc, strings.TrimSpace(a))
				continue
			}
			text = append(text, c)
		}
		rel, _ := filepath.Rel(dir, p)
		fmt.Printf("| %s | %s | %s |\n", rel, strings.Join(acc, ", "), strings.ReplaceAll(strings.Join(text, " "), "|", "\\|"))
	}
	return nil
}
