package secure

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

// Setting is one setting: its name, what it is unless set, what it may be (nil:
// any text), and what it means.
type Setting struct {
	Name    string
	Default string
	Allowed []string
	Help    string
}

// Settings lists all settings.
func Settings() []Setting {
	return []Setting{
		{"security.protocol", "PLAINTEXT", []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, "how brokers are reached"},
		{"sasl.mechanism", "PLAIN", []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, "SASL_*: how this client proves who it is; Kafka's own default, GSSAPI, is not supported"},
		{"sasl.jaas.config", "", nil, "SASL_*: user and password as Java clients have them: ...LoginModule required username=\"alice\" password=\"...\";"},
		{"sasl.username", "", nil, "SASL_*: the user, instead of sasl.jaas.config (librdkafka's name)"},
		{"sasl.password", "", nil, "SASL_*: the password, instead of sasl.jaas.config (librdkafka's name)"},
		{"ssl.truststore.type", "PEM", []string{"PEM"}, "*SSL: PEM (KIP-651)"},
		{"ssl.truststore.location", "", nil, "*SSL: PEM file with the certificates to trust; those of the system unless set"},
		{"ssl.truststore.certificates", "", nil, "*SSL: the same as text"},
		{"ssl.ca.location", "", nil, "*SSL: librdkafka's name for ssl.truststore.location"},
		{"ssl.keystore.type", "PEM", []string{"PEM"}, "*SSL: PEM (KIP-651)"},
		{"ssl.keystore.location", "", nil, "*SSL: PEM file with this client's private key, not encrypted, and its certificate chain"},
		{"ssl.keystore.key", "", nil, "*SSL: the private key as text"},
		{"ssl.keystore.certificate.chain", "", nil, "*SSL: the certificate chain as text"},
		{"ssl.endpoint.identification.algorithm", "https", []string{"https", ""}, "*SSL: https: the broker's certificate must be for its host name; empty: any name will do"},
		{"ssl.certificate.location", "", nil, "*SSL: librdkafka's name for a PEM file with this client's certificate chain"},
		{"ssl.key.location", "", nil, "*SSL: librdkafka's name for a PEM file with this client's private key, not encrypted"},
	}
}

// Check says what is wrong with a value, for itself.
func (s Setting) Check(value string) error {
	if s.Name == "sasl.jaas.config" {
		return jaas(value)
	}
	if s.Allowed != nil && !slices.ContainsFunc(s.Allowed, func(a string) bool { return a == value || s.Name == "security.protocol" && strings.EqualFold(a, value) }) {
		return fmt.Errorf("want %s", strings.Join(s.Allowed, " or "))
	}
	return nil
}

// Secret says that the value of a setting belongs in no log.
func Secret(name string) bool {
	return slices.Contains([]string{"sasl.jaas.config", "sasl.password", "ssl.keystore.key"}, name)
}

// Transport is what every connection to a broker needs. The zero Transport is
// not encrypted and not authenticated.
type Transport struct {
	tls  *tls.Config    // nil: not encrypted
	sasl sasl.Mechanism // nil: not authenticated
}

// New puts settings together that Check has found in order, each for itself;
// set answers those that are set.
func New(set map[string]string) (t Transport, err error) {
	text := func(name string) string {
		if v, ok := set[name]; ok {
			return v
		}
		for _, s := range Settings() {
			if s.Name == name {
				return s.Default
			}
		}
		panic("secure: setting " + name + " is not in the table")
	}
	protocol := strings.ToUpper(text("security.protocol"))
	if strings.HasSuffix(protocol, "SSL") {
		if t.tls, err = readTLS(text); err != nil {
			return t, err
		}
	}
	if !strings.HasPrefix(protocol, "SASL") {
		return t, nil
	}
	user, password := text("sasl.username"), text("sasl.password")
	if config := text("sasl.jaas.config"); config != "" {
		user, password, _ = parseJAAS(config)
	}
	if user == "" {
		return t, fmt.Errorf("security.protocol=%s needs sasl.jaas.config, or sasl.username and sasl.password", protocol)
	}
	switch text("sasl.mechanism") {
	case "PLAIN":
		t.sasl = plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		t.sasl = scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		t.sasl = scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return t, nil
}

func readTLS(text func(name string) string) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	trust := []byte(text("ssl.truststore.certificates"))
	for _, name := range []string{"ssl.truststore.location", "ssl.ca.location"} {
		if file := text(name); file != "" {
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
	key, chain, err := keyPair(text)
	if err != nil {
		return nil, err
	}
	if len(key)+len(chain) > 0 {
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("the client's key and certificate (ssl.keystore.location; ssl.keystore.key and ssl.keystore.certificate.chain; or ssl.key.location and ssl.certificate.location): %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	if text("ssl.endpoint.identification.algorithm") == "" {
		anyName(t)
	}
	return t, nil
}

// keyPair finds the client's key and certificate chain, wherever they are told.
func keyPair(text func(name string) string) (key, chain []byte, err error) {
	key, chain = []byte(text("ssl.keystore.key")), []byte(text("ssl.keystore.certificate.chain"))
	read := func(name string, into ...*[]byte) {
		file := text(name)
		if file == "" || err != nil {
			return
		}
		pem, readErr := os.ReadFile(file)
		if readErr != nil {
			err = fmt.Errorf("read %s: %w", name, readErr)
		}
		for _, p := range into {
			*p = pem
		}
	}
	read("ssl.keystore.location", &key, &chain)
	read("ssl.key.location", &key)
	read("ssl.certificate.location", &chain)
	return key, chain, err
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

// Options are those of every client; dial opens connections, nil is TCP.
func (t Transport) Options(dial func(ctx context.Context, network, hostport string) (net.Conn, error)) []kgo.Opt {
	var opts []kgo.Opt
	switch {
	case t.tls != nil:
		opts = append(opts, kgo.Dialer(t.Encrypt(dial)))
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

// Encrypt answers a dialler that speaks TLS over what dial opens; nil is TCP. It
// is for transports that are encrypted.
func (t Transport) Encrypt(dial func(ctx context.Context, network, hostport string) (net.Conn, error)) func(ctx context.Context, network, hostport string) (net.Conn, error) {
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
