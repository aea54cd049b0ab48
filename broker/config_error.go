package broker

import (
	"maps"
	"slices"
)

// ConfigError is what Start answers when the Config is at fault: a property
// that does not exist, a value that cannot be, an address that may not be
// listened on. Nothing was opened then.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap is the mistake itself.
func (e *ConfigError) Unwrap() error { return e.Err }

// PropertyNames lists the broker properties of Apache Kafka 4.2 that
// Config.Properties may hold, also those without effect, in order.
func PropertyNames() []string { return slices.Sorted(maps.Keys(properties())) }
