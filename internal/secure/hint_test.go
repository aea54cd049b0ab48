package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestHint: errors as crypto/tls and franz-go give them; peers/secure.sh makes
// them on a broker.
func TestHint(t *testing.T) {
	for _, c := range []struct {
		err  error
		hint string
	}{
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "ssl.truststore.location"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"other"}}, Host: "kafka"}}, "advertised.listeners"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "kafka"}}, "SAN=dns:HOST"},
		{&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "renewed"},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "security.protocol"},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, "ssl.keystore.location"},
		{&kgo.ErrFirstReadEOF{}, "security.protocol"},
		{errors.New("the first three bytes received appear to be a tls alert record for TLS v1.2"), "SASL_SSL"},
		{kerr.SaslAuthenticationFailed, "sasl.jaas.config"},
		{kerr.UnsupportedSaslMechanism, "sasl.mechanism"},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, ""},
		{io.EOF, ""},
		{nil, ""},
	} {
		err := c.err
		if _, first := err.(*kgo.ErrFirstReadEOF); err != nil && !first {
			err = fmt.Errorf("unable to dial: %w", err)
		}
		if hint := Hint(err); !strings.Contains(hint, c.hint) || c.hint == "" && hint != "" {
			t.Errorf("%v: hint %q, want %q", c.err, hint, c.hint)
		}
	}
}
