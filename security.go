package rondo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func securityKeys() []settingKey {
	return []settingKey{
		{"security.protocol", "PLAINTEXT", oneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), "how brokers are reached", ""},
		{"sasl.mechanism", "PLAIN", oneOf("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), "SASL_*: how this client proves who it is; Kafka's own default, GSSAPI, is not supported", ""},
		{"sasl.jaas.config", "", jaas, "SASL_*: user and password as Java clients have them: ...LoginModule required username=\"alice\" password=\"...\";", ""},
		{"sasl.username", "", anything, "SASL_*: the user, instead of sasl.jaas.config (librdkafka's name)", ""},
		{"sasl.password", "", anything, "SASL_*: the password, instead of sasl.jaas.config (librdkafka's name)", ""},
		{"ssl.truststore.type", "PEM", oneOf("PEM"), "*SSL: PEM (KIP-651)", ""},
		{"ssl.truststore.location", "", anything, "*SSL: PEM file with the certificates to trust; those of the system unless set", ""},
		{"ssl.truststore.certificates", "", anything, "*SSL: the same as text", ""},
		{"ssl.ca.location", "", anything, "*SSL: librdkafka's name for ssl.truststore.location", ""},
		{"ssl.keystore.type", "PEM", oneOf("PEM"), "*SSL: PEM (KIP-651)", ""},
		{"ssl.keystore.location", "", anything, "*SSL: PEM file with this client's private key, not encrypted, and its certificate chain", ""},
		{"ssl.keystore.key", "", anything, "*SSL: the private key as text", ""},
		{"ssl.keystore.certificate.chain", "", anything, "*SSL: the certificate chain as text", ""},
		{"ssl.endpoint.identification.algorithm", "https", oneOf("https", ""), "*SSL: https: the broker's certificate must be for its host name; empty: any name will do", ""},
	}
}

// secret says that the value of a setting belongs in no log.
func secret(name string) bool {
	return slices.Contains([]string{"sasl.jaas.config", "sasl.password", "ssl.keystore.key"}, name)
}

// transport is what every connection to a broker needs.
type transport struct {
	tls  *tls.Config    // nil: not encrypted
	sasl sasl.Mechanism // nil: not authenticated
}

// transport puts the settings of security together; check has found the values
// in order, each for itself.
func (c *config) transport() (t transport, err error) {
	protocol := c.text("security.protocol")
	if strings.HasSuffix(protocol, "SSL") {
		if t.tls, err = c.tls(); err != nil {
			return t, err
		}
	}
	if !strings.HasPrefix(protocol, "SASL") {
		return t, nil
	}
	user, password := c.text("sasl.username"), c.text("sasl.password")
	if text := c.text("sasl.jaas.config"); text != "" {
		user, password, _ = parseJAAS(text)
	}
	if user == "" {
		return t, fmt.Errorf("security.protocol=%s needs sasl.jaas.config, or sasl.username and sasl.password", protocol)
	}
	switch c.text("sasl.mechanism") {
	case "PLAIN":
		t.sasl = plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		t.sasl = scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		t.sasl = scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return t, nil
}

func (c *config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	trust := []byte(c.text("ssl.truststore.certificates"))
	for _, name := range []string{"ssl.truststore.location", "ssl.ca.location"} {
		if file := c.text(name); file != "" {
			pem, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			trust = append(append(trust, '\n'), pem...)
		}
	}
	if len(trust) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(trust) {
			return nil, errors.New("ssl.truststore.location or ssl.truststore.certificates: no certificate in it: a PEM file is wanted (from a Java key store: keytool -exportcert -rfc)")
		}
	}
	key, chain := []byte(c.text("ssl.keystore.key")), []byte(c.text("ssl.keystore.certificate.chain"))
	if file := c.text("ssl.keystore.location"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read ssl.keystore.location: %w", err)
		}
		key, chain = pem, pem
	}
	if len(key)+len(chain) > 0 {
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	if c.text("ssl.endpoint.identification.algorithm") == "" {
		anyName(t)
	}
	return t, nil
}

// anyName checks the chain of the server's certificate and not its name.
func anyName(t *tls.Config) {
	roots := t.RootCAs
	t.InsecureSkipVerify = true // in favour of the check below, which leaves only the name out
	t.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

// options are those of every client.
func (t transport) options(dial func(ctx context.Context, network, hostport string) (net.Conn, error)) []kgo.Opt {
	var opts []kgo.Opt
	switch {
	case t.tls != nil:
		opts = append(opts, kgo.Dialer(t.encrypt(dial)))
	case dial != nil:
		opts = append(opts, kgo.Dialer(dial))
	}
	if t.sasl != nil {
		opts = append(opts, kgo.SASL(t.sasl))
	}
	return opts
}

// handshakeTimeout bounds a TLS handshake and the dialling before it.
const handshakeTimeout = 10 * time.Second

// encrypt speaks TLS over what dial opens; nil is TCP.
func (t transport) encrypt(dial func(ctx context.Context, network, hostport string) (net.Conn, error)) func(ctx context.Context, network, hostport string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, hostport string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		raw, err := dial(ctx, network, hostport)
		if err != nil {
			return nil, err
		}
		own := t.tls.Clone()
		if own.ServerName, _, err = net.SplitHostPort(hostport); err != nil {
			raw.Close()
			return nil, err
		}
		conn := tls.Client(raw, own)
		if err := conn.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, fmt.Errorf("TLS handshake with %s: %w", hostport, err)
		}
		return conn, nil
	}
}

func jaas(s string) error {
	_, _, err := parseJAAS(s)
	return err
}

// parseJAAS reads the user and the password out of a JAAS configuration: the
// class of a login module, a flag, options NAME=VALUE, and a semicolon. Values
// may be quoted, with backslashes before quotes and backslashes. No error
// repeats the text: it holds a password.
func parseJAAS(s string) (user, password string, err error) {
	words, err := jaasWords(s)
	if err != nil {
		return "", "", err
	}
	if len(words) < 2 || !strings.HasSuffix(words[0], "LoginModule") {
		return "", "", errors.New("want a login module and a flag first: org.apache.kafka.common.security.plain.PlainLoginModule required ...;")
	}
	for _, w := range words[2:] {
		name, value, ok := strings.Cut(w, "=")
		switch {
		case !ok:
			return "", "", errors.New("want NAME=VALUE after the flag")
		case name == "username":
			user = value
		case name == "password":
			password = value
		}
	}
	if user == "" {
		return "", "", errors.New("it has no username")
	}
	return user, password, nil
}

// jaasWords splits at blanks outside of quotes, up to the semicolon.
func jaasWords(s string) (words []string, err error) {
	var word []byte
	quoted, open := false, false
	end := func() {
		if open {
			words = append(words, string(word))
		}
		word, open = nil, false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quoted && i+1 < len(s):
			i++
			word = append(word, s[i])
		case c == '"':
			quoted, open = !quoted, true
		case quoted:
			word = append(word, c)
		case c == ';':
			end()
			if strings.TrimSpace(s[i+1:]) != "" {
				return nil, errors.New("want one login module, and nothing after its semicolon")
			}
			return words, nil
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			end()
		default:
			word, open = append(word, c), true
		}
	}
	return nil, errors.New("want a semicolon at the end, outside of quotes")
}
