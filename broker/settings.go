package broker

import (
	"fmt"
	"strconv"
	"time"
)

// settings are the broker's properties under Kafka's names.
type settings struct {
	values map[string]string
}

func parseSettings(given map[string]string) (*settings, error) {
	return &settings{values: given}, nil
}

// int returns a number; the name must be in the table.
func (s *settings) int(name string) int64 {
	n, err := strconv.ParseInt(s.string(name), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("setting %s: %v", name, err))
	}
	return n
}

// duration returns a setting whose name ends in .ms.
func (s *settings) duration(name string) time.Duration {
	return time.Duration(s.int(name)) * time.Millisecond
}

// bool returns a switch.
func (s *settings) bool(name string) bool { return s.string(name) == "true" }

// string returns a setting as text.
func (s *settings) string(name string) string { return s.values[name] }
