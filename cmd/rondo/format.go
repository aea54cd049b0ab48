package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kcatVerbs are the letters that kcat has and franz-go spells otherwise. Where
// both have a letter with two meanings (%T), kcat's wins: the flags are its
// own. %h stands alone here; %h{...} is franz-go's.
var kcatVerbs = map[byte]string{'s': "%v", 'S': "%V", 'T': "%d"}

// newFormat makes the printer of -f. The layout is cut at kcat's %h; what is
// between goes to franz-go's formatter.
func newFormat(layout string) (form, error) {
	var parts []form
	var rest strings.Builder
	flush := func() error {
		if rest.Len() == 0 {
			return nil
		}
		formatter, err := kgo.NewRecordFormatter(rest.String())
		if err != nil {
			return fail(exitUsage, fmt.Errorf("-f %q: %w", layout, err), "rondo consume --help lists the letters")
		}
		parts = append(parts, formatter.AppendRecord)
		rest.Reset()
		return nil
	}
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			rest.WriteByte(layout[i])
			continue
		}
		i++
		verb := layout[i]
		switch {
		case verb == 'h' && !strings.HasPrefix(layout[i+1:], "{"):
			if err := flush(); err != nil {
				return nil, err
			}
			parts = append(parts, appendHeaders)
		case verb == 'h':
			end := nestedEnd(layout, i+1)
			rest.WriteString(layout[i-1 : end])
			i = end - 1
		case kcatVerbs[verb] != "":
			rest.WriteString(kcatVerbs[verb])
		default:
			rest.WriteString(layout[i-1 : i+1])
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return func(dst []byte, r *kgo.Record) []byte {
		for _, part := range parts {
			dst = part(dst, r)
		}
		return dst
	}, nil
}

// nestedEnd is where the braces that open at i are closed.
func nestedEnd(layout string, i int) int {
	depth := 0
	for ; i < len(layout); i++ {
		switch layout[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(layout)
}

// appendHeaders is kcat's %h: name=value,name=value.
func appendHeaders(dst []byte, r *kgo.Record) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, h.Key...), '='), h.Value...)
	}
	return dst
}

// unescape reads \n \t \r \0 \\ and \xNN in a delimiter.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", fmt.Errorf("ends with a backslash")
		}
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '0':
			b.WriteByte(0)
		case '\\':
			b.WriteByte('\\')
		case 'x':
			if i+2 >= len(s) {
				return "", fmt.Errorf(`\x wants two hex digits`)
			}
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", fmt.Errorf(`\x%s: want two hex digits`, s[i+1:i+3])
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			return "", fmt.Errorf(`\%c is unknown`, s[i])
		}
	}
	return b.String(), nil
}
