package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
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
	formats := []string{formatPEM, formatPKCS12, formatJKS}
	return []Setting{
		{"security.protocol", "PLAINTEXT", []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, "how brokers are reached"},
		{"sasl.mechanism", "PLAIN", []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, "SASL_*: how this client proves who it is; Kafka's own default, GSSAPI, is not supported"},
		{"sasl.jaas.config", "", nil, "SASL_*: user and password as Java clients have them: ...LoginModule required username=\"alice\" password=\"...\";"},
		{"sasl.username", "", nil, "SASL_*: the user, instead of sasl.jaas.config (librdkafka's name)"},
		{"sasl.password", "", nil, "SASL_*: the password, instead of sasl.jaas.config (librdkafka's name)"},
		{"ssl.protocol", "TLSv1.3", []string{"TLSv1.2", "TLSv1.3", "TLS"}, "*SSL: no effect here, nor in Kafka beside ssl.enabled.protocols"},
		{"ssl.enabled.protocols", "TLSv1.2,TLSv1.3", nil, "*SSL: the versions of TLS to offer"},
		{"ssl.truststore.type", "", formats, "*SSL: PEM (KIP-651) or PKCS12; what the file is unless set. Kafka's default, JKS, stands for PKCS12 too; files that are JKS are refused"},
		{"ssl.truststore.location", "", nil, "*SSL: file with the certificates to trust; those of the system unless set"},
		{"ssl.truststore.password", "", nil, "*SSL: the password of a PKCS12 trust store"},
		{"ssl.truststore.certificates", "", nil, "*SSL: the certificates to trust, in PEM, as text"},
		{"ssl.ca.location", "", nil, "*SSL: librdkafka's name for a PEM file with the certificates to trust"},
		{"ssl.keystore.type", "", formats, "*SSL: as ssl.truststore.type"},
		{"ssl.keystore.location", "", nil, "*SSL: file with this client's private key and its certificate chain"},
		{"ssl.keystore.password", "", nil, "*SSL: the password of a PKCS12 key store"},
		{"ssl.keystore.key", "", nil, "*SSL: the private key, in PEM, as text"},
		{"ssl.keystore.certificate.chain", "", nil, "*SSL: the certificate chain, in PEM, as text"},
		{"ssl.key.password", "", nil, "*SSL: the password of an encrypted private key in PEM (PKCS #8)"},
		{"ssl.endpoint.identification.algorithm", "https", []string{"https", ""}, "*SSL: https: the broker's certificate must be for its host name; empty: any name will do"},
		{"ssl.certificate.location", "", nil, "*SSL: librdkafka's name for a PEM file with this client's certificate chain"},
		{"ssl.key.location", "", nil, "*SSL: librdkafka's name for a PEM file with this client's private key"},
	}
}

// Check says what is wrong with a value, for itself.
func (s Setting) Check(value string) error {
	switch s.Name {
	case "sasl.jaas.config":
		return jaas(value)
	case "ssl.enabled.protocols":
		_, _, err := protocols(value)
		return err
	}
	exact := s.Name == "sasl.mechanism"
	if s.Allowed != nil && value != s.Default && !slices.ContainsFunc(s.Allowed, func(a string) bool { return a == value || !exact && strings.EqualFold(a, value) }) {
		return fmt.Errorf("want %s", strings.Join(s.Allowed, " or "))
	}
	return nil
}

// Secret says that the value of a setting belongs in no log.
func Secret(name string) bool {
	return slices.Contains([]string{"sasl.jaas.config", "sasl.password", "ssl.keystore.key", "ssl.key.password", "ssl.keystore.password", "ssl.truststore.password"}, name)
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
	way, err := once(text, []string{"sasl.jaas.config"}, []string{"sasl.username", "sasl.password"})
	if err != nil {
		return t, err
	}
	who := login{user: text("sasl.username"), password: text("sasl.password")}
	switch way {
	case "":
		return t, fmt.Errorf("security.protocol=%s needs sasl.jaas.config, or sasl.username and sasl.password", protocol)
	case "sasl.jaas.config":
		if who, err = parseJAAS(text(way)); err != nil {
			return t, fmt.Errorf("%s: %w", way, err)
		}
	}
	if who.password == "" {
		return t, fmt.Errorf("%s: it has no password", way)
	}
	switch text("sasl.mechanism") {
	case "PLAIN":
		t.sasl = plain.Auth{User: who.user, Pass: who.password}.AsMechanism()
	case "SCRAM-SHA-256":
		t.sasl = scram.Auth{User: who.user, Pass: who.password, IsToken: who.token}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		t.sasl = scram.Auth{User: who.user, Pass: who.password, IsToken: who.token}.AsSha512Mechanism()
	}
	return t, nil
}

func readTLS(text textOf) (t *tls.Config, err error) {
	t = &tls.Config{}
	if t.MinVersion, t.MaxVersion, err = protocols(text("ssl.enabled.protocols")); err != nil {
		return nil, fmt.Errorf("ssl.enabled.protocols: %w", err)
	}
	if t.RootCAs, err = readTrust(text); err != nil {
		return nil, err
	}
	if t.Certificates, err = readKey(text); err != nil {
		return nil, err
	}
	if text("ssl.endpoint.identification.algorithm") == "" {
		anyName(t)
	}
	return t, nil
}

// protocols are the oldest and the newest version of TLS in a list.
func protocols(list string) (oldest, newest uint16, err error) {
	for name := range strings.SplitSeq(list, ",") {
		var version uint16
		switch strings.TrimSpace(name) {
		case "TLSv1.2":
			version = tls.VersionTLS12
		case "TLSv1.3":
			version = tls.VersionTLS13
		default:
			return 0, 0, errors.New("want TLSv1.2, TLSv1.3, or both with a comma; older ones are not safe")
		}
		newest = max(newest, version)
		if oldest == 0 || version < oldest {
			oldest = version
		}
	}
	return oldest, newest, nil
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
		if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
		}
		return nil
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
