package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
)

var lineComment = regexp.MustCompile(`(?m)^\s*//.*$|\s//[^"\n]*$`)

func extractSchemas(jars []string) error {
	var out []any
	for _, jar := range jars {
		z, err := zip.OpenReader(jar)
		if err != nil {
			return err
		}
		for _, f := range z.File {
			if !strings.HasPrefix(f.Name, "common/message/") || !strings.HasSuffix(f.Name, ".json") {
				continue
			}
			rc, err := f.Open()
			if err != nil {
				return err
			}
			raw, err := io.ReadAll(rc)
			if err != nil {
				return err
			}
			var m map[string]any
			if err := json.Unmarshal(lineComment.ReplaceAll(raw, nil), &m); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			out = append(out, strip(m))
		}
		z.Close()
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].(map[string]any)["name"].(string) < out[j].(map[string]any)["name"].(string)
	})
	w := os.Stdout
	fmt.Fprint(w, "[\n")
	for i, s := range out {
		b, _ := json.Marshal(s)
		if i > 0 {
			fmt.Fprint(w, ",\n")
		}
		w.Write(b)
	}
	_, err := fmt.Fprint(w, "\n]\n")
	return err
}

// strip drops what the runner does not read.
func strip(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range []string{"about", "entityType", "ignorable", "mapKey", "listeners", "latestVersionUnstable", "zeroCopy"} {
			delete(x, k)
		}
		for k := range x {
			x[k] = strip(x[k])
		}
	case []any:
		for i := range x {
			x[i] = strip(x[i])
		}
	}
	return v
}
