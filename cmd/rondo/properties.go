package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseProperties reads a Java properties file: name=value, name: value or
// name value a line, # and ! comments, a backslash at the end of a line joins
// the next one, and \t \n \r \f \uXXXX escapes. The last of two equal names
// wins, as in Java.
func parseProperties(data []byte) (map[string]string, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("not UTF-8 text")
	}
	properties := map[string]string{}
	lines := strings.Split(string(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))), "\n")
	for i := 0; i < len(lines); i++ {
		first := i + 1
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		var whole strings.Builder
		for endsWithEscape(line) {
			whole.WriteString(line[:len(line)-1])
			if i++; i == len(lines) {
				return nil, fmt.Errorf("line %d: ends with a backslash, nothing follows", first)
			}
			line = strings.TrimLeft(lines[i], " \t\f")
		}
		whole.WriteString(line)
		name, value := splitProperty(whole.String())
		name, err := unescapeProperty(name)
		if err != nil {
			return nil, fmt.Errorf("line %d: name: %w", first, err)
		}
		if value, err = unescapeProperty(value); err != nil {
			return nil, fmt.Errorf("line %d: value of %s: %w", first, name, err)
		}
		if name == "" {
			return nil, fmt.Errorf("line %d: no name before the separator", first)
		}
		properties[name] = value
	}
	return properties, nil
}

// endsWithEscape says whether a line goes on: an odd number of backslashes at
// its end.
func endsWithEscape(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// splitProperty cuts at the first separator that is not escaped.
func splitProperty(line string) (name, value string) {
	i := 0
	for i < len(line) && !strings.ContainsRune(" \t\f=:", rune(line[i])) {
		if line[i] == '\\' && i+1 < len(line) {
			i++
		}
		i++
	}
	name, rest := line[:i], strings.TrimLeft(line[i:], " \t\f")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t\f")
	}
	return name, rest
}

func unescapeProperty(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
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
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+4 >= len(s) {
				return "", fmt.Errorf("\\u wants four hex digits")
			}
			code, err := strconv.ParseUint(s[i+1:i+5], 16, 32)
			if err != nil {
				return "", fmt.Errorf("\\u%s: want four hex digits", s[i+1:i+5])
			}
			b.WriteRune(rune(code))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// readProperties reads a properties file, "" is none.
func readProperties(path string) (map[string]string, error) {
	if path == "" {
		return map[string]string{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("read properties: %w", err), "--properties wants a file of name=value lines")
	}
	properties, err := parseProperties(data)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("read properties %s: %w", path, err), "one name=value a line, as Kafka's server.properties")
	}
	return properties, nil
}

// parsePairs reads the -X name=value flags.
func parsePairs(pairs []string) (map[string]string, error) {
	properties := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fail(exitUsage, fmt.Errorf("-X %s: no name=value", pair), "-X acks=all")
		}
		properties[name] = value
	}
	return properties, nil
}

// variableName is the environment variable of a configuration name.
func variableName(property string) string {
	return "RONDO_" + strings.ToUpper(strings.NewReplacer("_", "__", "-", "___", ".", "_").Replace(property))
}

// environProperties picks from the environment the variables of known
// configuration names. A variable that names none is not ours, and an empty
// one counts as not set.
func environProperties(environ []string, known []string) map[string]string {
	names := map[string]string{}
	for _, name := range known {
		names[variableName(name)] = name
	}
	properties := map[string]string{}
	for _, entry := range environ {
		variable, value, _ := strings.Cut(entry, "=")
		if name, ok := names[variable]; ok && value != "" {
			properties[name] = value
		}
	}
	return properties
}

// layer lays the sources of properties over each other, later ones win.
func layer(sources ...map[string]string) map[string]string {
	properties := map[string]string{}
	for _, source := range sources {
		maps.Copy(properties, source)
	}
	return properties
}
