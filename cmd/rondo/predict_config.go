package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/rondo-streams/rondo/predict"
)

// maxConfig is how large a configuration file may be.
const maxConfig = 4 << 20

// readSettings reads a configuration file by its name: .yaml and .yml are
// Spring's, .json is a Rondo topology, .env has variables of an environment, all
// else is Java properties. It returns what it had to assume, and the settings in
// it that a prediction has no use for.
func readSettings(path string, s *predict.Settings) (assumed, unused []string, err error) {
	const hint = "-c wants a .properties, .yaml, .env or .json file"
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fail(exitUsage, fmt.Errorf("read settings: %w", err), hint)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, nil, fail(exitUsage, fmt.Errorf("read settings %s: %w", path, err), hint)
	}
	if len(data) > maxConfig {
		return nil, nil, fail(exitUsage, fmt.Errorf("read settings %s: more than %d bytes", path, maxConfig), "is it the right file?")
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		if err := s.FromTopology(data); err != nil {
			return nil, nil, fail(exitUsage, fmt.Errorf("%s: %w", path, err), "json.Marshal(topology) in the program, or its metrics page, gives it")
		}
		return nil, nil, nil
	case ".yaml", ".yml":
		assumed, unused, err = springYAML(data, s)
	case ".env":
		var variables []string
		if variables, err = parseVariables(data); err == nil {
			assumed, err = fromVariables(variables, s, true)
		}
	default:
		var properties map[string]string
		if properties, err = parseProperties(data); err == nil {
			assumed, unused, err = springOrPlain(properties, s)
		}
	}
	if err != nil {
		return nil, nil, fail(exitUsage, fmt.Errorf("read settings %s: %w", path, err), "names and values are those of Kafka's clients, or Spring's")
	}
	for i := range assumed {
		assumed[i] = path + ": " + assumed[i]
	}
	return assumed, unused, nil
}

// springYAML reads an application.yaml, with all its documents.
func springYAML(data []byte, s *predict.Settings) (assumed, unused []string, err error) {
	flat := map[string]string{}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		one := map[string]string{}
		flatten("", document, one)
		if profile := one[springProfile]; profile != "" {
			assumed = append(assumed, fmt.Sprintf("profile %s is active: what its document says wins", profile))
		}
		maps.Copy(flat, one)
	}
	more, unused, err := springOrPlain(flat, s)
	return append(assumed, more...), unused, err
}

// flatten joins nested names with dots. Brackets around a name, with which
// Spring keeps dots in it, are taken off.
func flatten(prefix string, value any, into map[string]string) {
	nested, ok := value.(map[string]any)
	if !ok {
		if value != nil {
			into[prefix] = fmt.Sprint(value)
		}
		return
	}
	for name, inner := range nested {
		name = strings.Trim(name, "[]")
		if prefix != "" {
			name = prefix + "." + name
		}
		flatten(name, inner, into)
	}
}

// springPlaces are where Spring keeps properties of a Kafka client, the most
// special last.
var springPlaces = [...]string{
	"spring.kafka.properties.", "spring.cloud.stream.kafka.binder.configuration.", "spring.cloud.stream.kafka.binder.consumer-properties.",
	"spring.kafka.consumer.properties.", "spring.cloud.stream.kafka.streams.binder.configuration.", "spring.kafka.streams.properties.",
}

// springNames are the settings that Spring Boot has under names of its own.
var springNames = [...][2]string{
	{"spring.kafka.consumer.max-poll-records", "max.poll.records"},
	{"spring.kafka.consumer.max-poll-interval", "max.poll.interval.ms"},
	{"spring.kafka.consumer.heartbeat-interval", "heartbeat.interval.ms"},
	{"spring.kafka.consumer.auto-commit-interval", "auto.commit.interval.ms"},
	{"spring.kafka.consumer.isolation-level", "isolation.level"},
	{"spring.kafka.listener.concurrency", "num.stream.threads"},
}

// springProfile makes a document of a file one of a profile.
const springProfile = "spring.config.activate.on-profile"

// relaxed is a name as Spring compares names.
func relaxed(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// springOrPlain takes what is Spring's by Spring's rules, and a file that has
// nothing of Spring as plain properties.
func springOrPlain(flat map[string]string, s *predict.Settings) (assumed, unused []string, err error) {
	spring, streams := false, false
	properties, canonical := map[string]string{}, map[string]string{}
	for name, value := range flat {
		spring = spring || strings.HasPrefix(name, "spring.")
		streams = streams || strings.HasPrefix(name, "spring.kafka.streams.") || strings.HasPrefix(name, "spring.cloud.stream.kafka.streams.")
		canonical[relaxed(name)] = value
	}
	if !spring {
		return setAll(flat, s)
	}
	if s.Kind = predict.JavaConsumer; streams {
		s.Kind = predict.KafkaStreams
	}
	for _, pair := range springNames {
		if value, ok := canonical[relaxed(pair[0])]; ok {
			properties[pair[1]] = value
		}
	}
	for _, place := range springPlaces {
		for name, value := range flat {
			if rest, ok := strings.CutPrefix(name, place); ok {
				properties[rest] = value
			}
		}
	}
	if len(properties) == 0 {
		return nil, nil, errors.New("it has no setting of a Kafka client below spring.kafka or spring.cloud.stream.kafka")
	}
	return setAll(properties, s)
}

// placeholder is a value that Spring takes from elsewhere.
var placeholder = regexp.MustCompile(`^\$\{([^:}]+)(:([^{}]*))?\}$`)

// setAll sets properties. Of a placeholder it takes the default.
func setAll(properties map[string]string, s *predict.Settings) (assumed, unused []string, err error) {
	known := predict.Names()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		m := placeholder.FindStringSubmatch(properties[name])
		if m == nil || !slices.ContainsFunc(known, func(k string) bool { return name == k || strings.HasSuffix(name, "."+k) }) {
			continue
		}
		if m[3] == "" {
			return nil, nil, fmt.Errorf("%s=%s: a placeholder without a default; put the value in its place", name, m[0])
		}
		properties[name] = m[3]
		assumed = append(assumed, fmt.Sprintf("%s=%s, the default of %s", name, m[3], m[0]))
	}
	unused, err = s.SetAll(properties)
	if err == nil && len(unused) == len(properties) {
		assumed = append(assumed, "it sets nothing that a prediction uses")
	}
	return assumed, unused, err
}

// environPlaces are what images and frameworks put in front of a property, the
// most special last.
var environPlaces = [...]string{
	"", "KAFKA_", "RONDO_", "SPRING_KAFKA_PROPERTIES_", "CONNECT_CONSUMER_", "KAFKA_CONSUMER_", "SPRING_KAFKA_CONSUMER_PROPERTIES_",
	"STREAMS_", "KAFKA_STREAMS_", "SPRING_KAFKA_STREAMS_PROPERTIES_",
}

// variable is one that names a property.
type variable struct{ name, property string }

// environNames are all of them: dots are underscores, letters upper case. Later
// ones win.
func environNames() []variable {
	var list []variable
	upper := strings.NewReplacer(".", "_", "-", "_")
	for _, place := range environPlaces {
		for _, name := range predict.Names() {
			if strings.Contains(name, ".") { // "n" and "tasks" are no names for a variable
				list = append(list, variable{place + strings.ToUpper(upper.Replace(name)), name})
			}
		}
	}
	for _, pair := range springNames {
		list = append(list, variable{strings.ToUpper(upper.Replace(pair[0])), pair[1]},
			variable{strings.ToUpper(upper.Replace(strings.ReplaceAll(pair[0], "-", ""))), pair[1]})
	}
	return list
}

// fromVariables sets what an environment names, and says from where. When there
// is nothing else, variables of a plain consumer only make it one.
func fromVariables(environ []string, s *predict.Settings, alone bool) (assumed []string, err error) {
	given := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			given[name] = value
		}
	}
	from := map[string]string{}
	properties := map[string]string{}
	consumer, streams := false, false
	for _, v := range environNames() {
		if value, ok := given[v.name]; ok {
			properties[v.property], from[v.property] = value, v.name
			streams = streams || strings.Contains(v.name, "STREAM")
			consumer = consumer || strings.Contains(v.name, "CONSUMER_") || strings.Contains(v.name, "LISTENER_")
		}
	}
	if len(properties) == 0 {
		return []string{"the environment sets nothing that a prediction uses"}, nil
	}
	if alone && consumer && !streams {
		s.Kind = predict.JavaConsumer
	}
	for _, property := range slices.Sorted(maps.Keys(properties)) {
		if err := s.Set(property, properties[property]); err != nil {
			return nil, fmt.Errorf("%s: %w", from[property], err)
		}
		assumed = append(assumed, fmt.Sprintf("%s=%s, from %s", property, properties[property], from[property]))
	}
	return assumed, nil
}

// parseVariables reads a file of NAME=VALUE lines, as shells and Docker do:
// export in front and quotes around a value are taken off.
func parseVariables(data []byte) ([]string, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8 text")
	}
	var list []string
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			return nil, fmt.Errorf("line %d: not NAME=VALUE", i+1)
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		list = append(list, strings.TrimSpace(name)+"="+value)
	}
	return list, nil
}
