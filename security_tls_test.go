package rondo

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate makes a key and a certificate that is its own authority, as PEM.
func certificate(t *testing.T, name string) (key, chain []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestTLS: a broker is believed when its chain is trusted and its name is the
// one that was dialled, and shown this client's certificate.
func TestTLS(t *testing.T) {
	serverKey, serverChain := certificate(t, "localhost")
	otherKey, otherChain := certificate(t, "somebody.else")
	clientKey, clientChain := certificate(t, "client")
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(clientChain)
	serve := func(key, chain []byte) string {
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go c.Write([]byte("hello")) // after the handshake
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return "localhost:" + port
	}
	right, other := serve(serverKey, serverChain), serve(otherKey, otherChain)
	file := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	store := Set("ssl.keystore.location", file("client.pem", append(clientKey, clientChain...)))
	texts := []Option{Set("ssl.keystore.key", string(clientKey)), Set("ssl.keystore.certificate.chain", string(clientChain))}
	trust := Set("ssl.truststore.location", file("trust.pem", append(serverChain, otherChain...)))
	anyName := Set("ssl.endpoint.identification.algorithm", "")
	for _, c := range []struct {
		name, to string
		opts     []Option
		ok       bool
	}{
		{"files", right, []Option{store, trust}, true},
		{"texts", right, append(texts, Set("ssl.truststore.certificates", string(serverChain))), true},
		{"not trusted", right, []Option{store, Set("ssl.truststore.certificates", string(otherChain))}, false},
		{"the system's trust", right, []Option{store}, false},
		{"another name", other, []Option{store, trust}, false},
		{"any name", other, []Option{store, trust, anyName}, true},
		{"any name, not trusted", other, []Option{store, Set("ssl.truststore.certificates", string(serverChain)), anyName}, false},
		{"no certificate to show", right, []Option{trust}, false},
	} {
		config, err := newConfig("app", append(c.opts, Bootstrap(c.to), Set("security.protocol", "SSL")))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		conn, err := config.secure.Encrypt(nil)(context.Background(), "tcp", c.to)
		if err == nil {
			_, err = conn.Read(make([]byte, 5))
			conn.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
