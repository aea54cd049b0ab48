package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rondo-streams/rondo/broker"
)

// A refusal that stays, and a name that nobody knows, are certain: nobody waits
// for the whole of --timeout.
func TestConnectGivesUpWhatIsCertain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := l.Addr().String()
	l.Close()
	for address, hint := range map[string]string{refused: "is a broker listening there?", "no-such-host.invalid:9092": "does not resolve"} {
		began := time.Now()
		f := &clientFlags{Bootstrap: []string{address}, Timeout: defaultTimeout}
		_, err := f.connect(context.Background(), &terminal{})
		failed, ok := errors.AsType[*failure](err)
		if !ok || failed.code != exitUnreachable || !strings.Contains(failed.hint, hint) || time.Since(began) > 4*time.Second {
			t.Errorf("%s: %v after %s, want exit %d and a hint that says %q", address, err, time.Since(began), exitUnreachable, hint)
		}
	}
}

// The settings of TLS and SASL are those of the runtime, and no error says a
// secret.
func TestSecuritySettings(t *testing.T) {
	const jaas = `sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret"`
	for _, c := range []struct{ set, err string }{
		{"security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-512|" + jaas + ";", ""},
		{"security.protocol=sasl_plaintext|" + jaas + ";", ""},
		{"security.protocol=SASL_PLAINTEXT|" + jaas, "semicolon"},
		{"security.protocol=SASL_PLAINTEXT", "needs sasl.jaas.config"},
		{"security.protocol=SASL", "want PLAINTEXT or"},
		{"ssl.truststore.type=BKS", "want PEM"},
		{"security.protocol=SSL ssl.truststore.location=/nowhere.pem", "read ssl.truststore.location"},
		{"security.protocol=SSL ssl.keystore.key=secret", "ssl.keystore.certificate.chain"},
		{"ssl.truststore.locatoin=x", "unknown setting"},
	} {
		var sets []string
		for i, part := range strings.SplitN(c.set, "|", 2) {
			if i == 0 {
				sets = strings.Fields(part)
			} else {
				sets = append(sets, part)
			}
		}
		f := &clientFlags{Bootstrap: []string{"127.0.0.1:1"}, X: sets, Timeout: time.Second}
		_, err := f.options(&terminal{})
		switch {
		case (err == nil) != (c.err == ""), err != nil && !strings.Contains(err.Error(), c.err):
			t.Errorf("%s: %v, want %q", c.set, err, c.err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error says a secret: %v", c.set, err)
		}
	}
}

// "rondo serve &" and "rondo produce" in one breath: the broker does not listen
// yet when the client knocks.
func TestConnectWaitsForTheBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	connected := make(chan error, 1)
	go func() {
		f := &clientFlags{Bootstrap: []string{address}, Timeout: time.Minute}
		client, err := f.connect(context.Background(), &terminal{})
		if err == nil {
			client.Close()
		}
		connected <- err
	}()
	select {
	case err := <-connected:
		t.Fatalf("connect: %v, want patience", err)
	case <-time.After(200 * time.Millisecond):
	}
	b, err := broker.Start(context.Background(), broker.Config{Dir: t.TempDir(), Listen: address, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := <-connected; err != nil {
		t.Error(err)
	}
}

// A connection that does not come about is told with the address that was dialled,
// also when a properties file names it, and with what to do about it.
func TestWhyNotConnected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(file, []byte("bootstrap.servers=127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	code := run(&terminal{in: strings.NewReader(""), out: &out, err: &talk}, []string{"groups", "--list", "--command-config", file, "--timeout", "1s"})
	if code != exitUnreachable || !strings.Contains(talk.String(), "connect to 127.0.0.1:1:") {
		t.Errorf("exit %d: %s", code, talk.String())
	}
	for _, c := range []struct {
		err  error
		hint string
	}{
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, "ssl.truststore.location"},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "security.protocol"},
		{kerr.SaslAuthenticationFailed, "sasl.jaas.config"},
		{kerr.UnsupportedSaslMechanism, "sasl.mechanism"},
		{&net.DNSError{Name: "nowhere", IsNotFound: true}, "nowhere"},
		{io.EOF, "rondo serve"},
	} {
		if hint := whatToDo(fmt.Errorf("dial: %w", c.err), "kafka:9092"); !strings.Contains(hint, c.hint) {
			t.Errorf("%v: hint %q", c.err, hint)
		}
	}
}
