package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Hint says what to do about a connection that did not come about for the sake
// of TLS or SASL, and nothing about one that failed for another reason.
func Hint(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return verificationHint(err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the broker does not speak TLS there: look at security.protocol and at the port"
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" { // crypto/tls: an alert
		return "the broker broke off TLS: it may want a certificate of this client that it trusts: look at ssl.keystore.location"
	}
	if _, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok {
		return "the broker closed the connection: look at security.protocol, which must be that of the listener at this port (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)"
	}
	if err != nil && strings.Contains(err.Error(), "tls alert record") { // franz-go has no type for it
		return "the broker speaks TLS there: look at security.protocol (SSL or SASL_SSL) and at the port"
	}
	if errors.Is(err, kerr.SaslAuthenticationFailed) {
		return "the broker refused the user or the password: look at sasl.jaas.config and sasl.mechanism"
	}
	if errors.Is(err, kerr.UnsupportedSaslMechanism) {
		return "look at sasl.mechanism"
	}
	return ""
}

// verificationHint is about the broker's certificate.
func verificationHint(err error) string {
	if name, ok := errors.AsType[x509.HostnameError](err); ok {
		if len(name.Certificate.DNSNames)+len(name.Certificate.IPAddresses) == 0 {
			return "the broker's certificate has no subject alternative name, and its common name does not count: issue it anew (keytool -ext SAN=dns:HOST)"
		}
		return "the broker's certificate is for other names: use one of them in bootstrap.servers and in the broker's advertised.listeners"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the broker's certificate must be renewed, or the clock of one of the machines is wrong"
	}
	return "look at ssl.truststore.location, which names who may sign the broker's certificate"
}
