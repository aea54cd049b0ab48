package rondo

import "github.com/rondo-streams/rondo/internal/secure"

// securityKeys are the settings of TLS and SASL.
func securityKeys() []settingKey {
	var keys []settingKey
	for _, s := range secure.Settings() {
		keys = append(keys, settingKey{s.Name, s.Default, s.Check, s.Help, ""})
	}
	return keys
}
