package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rondo-streams/rondo/predict"
)

// maxConfig is how large a configuration file may be.
const maxConfig = 4 << 20

// readSettings reads a configuration file by its name: .yaml and .yml are
// Spring's, .json is a Rondo topology, all else is Java properties. It returns
// the settings in it that a prediction has no use for.
func readSettings(path string, s *predict.Settings) (unused []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("read settings: %w", err), "-c wants a .properties, .yaml or .json file")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("read settings %s: %w", path, err), "-c wants a .properties, .yaml or .json file")
	}
	if len(data) > maxConfig {
		return nil, fail(exitUsage, fmt.Errorf("read settings %s: more than %d bytes", path, maxConfig), "is it the right file?")
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		if err := s.FromTopology(data); err != nil {
			return nil, fail(exitUsage, fmt.Errorf("%s: %w", path, err), "json.Marshal(topology) in the program, or its metrics page, gives it")
		}
		return nil, nil
	case ".yaml", ".yml":
		unused, err = springYAML(data, s)
	default:
		var properties map[string]string
		if properties, err = parseProperties(data); err == nil {
			unused, err = springOrPlain(properties, s)
		}
	}
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("read settings %s: %w", path, err), "names and values are those of Kafka's clients, or Spring's")
	}
	return unused, nil
}

// springYAML reads an application.yaml, with all its documents.
func springYAML(data []byte, s *predict.Settings) (unused []string, err error) {
	flat := map[string]string{}
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		flatten("", document, flat)
	}
	return springOrPlain(flat, s)
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

// springOrPlain takes what is Spring's by Spring's rules, and a file that has
// nothing of Spring as plain properties.
func springOrPlain(flat map[string]string, s *predict.Settings) (unused []string, err error) {
	spring, streams := false, false
	properties := map[string]string{}
	for name := range flat {
		spring = spring || strings.HasPrefix(name, "spring.")
		streams = streams || strings.HasPrefix(name, "spring.kafka.streams.") || strings.HasPrefix(name, "spring.cloud.stream.kafka.streams.")
	}
	if !spring {
		return s.SetAll(flat)
	}
	if s.Kind = predict.JavaConsumer; streams {
		s.Kind = predict.KafkaStreams
	}
	for _, pair := range springNames {
		if value, ok := flat[pair[0]]; ok {
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
		return nil, errors.New("it has no setting of a Kafka client below spring.kafka or spring.cloud.stream.kafka")
	}
	return s.SetAll(properties)
}

// environPlaces are what images and frameworks put in front of a property.
var environPlaces = [...]string{
	"", "KAFKA_", "CONNECT_CONSUMER_", "KAFKA_CONSUMER_", "KAFKA_STREAMS_", "SPRING_KAFKA_PROPERTIES_", "SPRING_KAFKA_CONSUMER_PROPERTIES_",
	"SPRING_KAFKA_STREAMS_PROPERTIES_", "STREAMS_", "RONDO_",
}

// environSettings finds properties in the environment: dots are underscores,
// letters upper case.
func environSettings(environ []string) map[string]string {
	names := map[string]string{}
	for _, name := range predict.Names() {
		if !strings.Contains(name, ".") {
			continue // "n" and "tasks" are no names for a variable
		}
		bare := strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name))
		for _, place := range environPlaces {
			names[place+bare] = name
		}
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
