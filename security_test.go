package rondo

import (
	"strings"
	"testing"
)

// TestSecuritySettings: what does not go together is said, and no secret is.
func TestSecuritySettings(t *testing.T) {
	for _, c := range []struct{ set, err string }{
		{"security.protocol=SASL_PLAINTEXT", "needs sasl.jaas.config"},
		{"security.protocol=SASL_PLAINTEXT sasl.username=alice sasl.password=secret", ""},
		{"security.protocol=SASL_PLAINTEXT sasl.username=alice", "sasl.password is not"},
		{"security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-512 sasl.username=alice sasl.password=secret", ""},
		{"security.protocol=SSL", ""},
		{"security.protocol=SSL ssl.truststore.location=testdata/none.pem", "read ssl.truststore.location"},
		{"security.protocol=SSL ssl.truststore.location=doc.go", "no certificate in it"},
		{"security.protocol=SSL ssl.keystore.key=secret", "ssl.keystore.key"},
		{"security.protocol=SSL ssl.truststore.type=BKS", "want PEM"},
		{"security.protocol=TLS", "want PLAINTEXT or SSL"},
		{"sasl.mechanism=GSSAPI", "want PLAIN or SCRAM"},
		{"sasl.jaas.config=secret", "(hidden)"},
	} {
		opts := []Option{Bootstrap("127.0.0.1:1")}
		for pair := range strings.FieldsSeq(c.set) {
			name, value, _ := strings.Cut(pair, "=")
			opts = append(opts, Set(name, value))
		}
		_, err := newConfig("app", opts)
		switch {
		case err == nil && c.err == "":
		case err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "=secret") || strings.Contains(err.Error(), `"secret`):
			t.Errorf("%s: %v, want %q", c.set, err, c.err)
		}
	}
}
