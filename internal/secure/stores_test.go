package secure

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// private is the key that all of testdata is about.
func private(t testing.TB) (key interface{ Equal(crypto.PrivateKey) bool }, der []byte) {
	t.Helper()
	block, _ := pem.Decode([]byte(file(t, "key.pem")))
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.(interface{ Equal(crypto.PrivateKey) bool }), block.Bytes
}

// TestEncryptedKeys: what OpenSSL writes is decrypted, or refused by name.
func TestEncryptedKeys(t *testing.T) {
	_, want := private(t)
	const long = "p\u00e4ssw\u00f6rd, longer than one block of sixty-four octets"
	for _, c := range []struct{ name, password, err string }{
		{"pbes2-aes256-sha256.pem", "secret", ""},
		{"pbes2-aes128-sha1.pem", "secret", ""},
		{"pbes2-aes192-sha512.pem", "secret", ""},
		{"pbes2-des3.pem", "secret", ""},
		{"pbe-sha1-3des.pem", "secret", ""},
		{"pbe-sha1-3des-long.pem", long, ""},
		{"pbe-sha1-3des.pem", long, "ssl.key.password is wrong"},
		{"pbes2-aes256-sha256.pem", "Secret", "ssl.key.password is wrong"},
		{"pbe-md5-des.pem", "secret", "1.2.840.113549.1.5.3) is not supported"},
		{"scrypt.pem", "secret", "1.3.6.1.4.1.11591.4.11) is not supported"},
		{"key.pem", "secret", "not an encrypted PKCS #8 key"},
	} {
		block, _ := pem.Decode([]byte(file(t, c.name)))
		got, err := decryptKey(block.Bytes, c.password)
		switch {
		case err == nil && c.err == "" && bytes.Equal(got, want):
		case err == nil || c.err == "" || !strings.Contains(err.Error(), c.err):
			t.Errorf("%s with %q: %x, %v, want %q", c.name, c.password, got, err, c.err)
		}
	}
}

func FuzzEncryptedKey(f *testing.F) {
	for _, name := range []string{"pbes2-aes256-sha256.pem", "pbe-sha1-3des.pem", "scrypt.pem"} {
		block, _ := pem.Decode([]byte(file(f, name)))
		f.Add(block.Bytes, "secret")
	}
	f.Fuzz(func(t *testing.T, der []byte, password string) {
		if plain, err := decryptKey(der, password); err == nil && len(plain) >= len(der) {
			t.Fatalf("%d bytes became %d", len(der), len(plain))
		}
	})
}

// storeCases are each way to say whom to trust and who one is, and what is said
// twice, by halves, or about another kind of file. TRUST is the authority as a
// text, DIR the folder of files that the test makes.
func storeCases() []struct{ settings, err string } {
	return []struct{ settings, err string }{
		{"ssl.truststore.location=testdata/ca.pem ssl.keystore.location=DIR/both.pem", ""},
		{"ssl.truststore.location=testdata/trust.p12 ssl.truststore.password=secret ssl.keystore.location=testdata/keytool.p12 ssl.keystore.password=secret", ""},
		{"ssl.truststore.type=jks ssl.truststore.location=testdata/trust.p12 ssl.truststore.password=secret", ""},
		{"ssl.truststore.type=PKCS12 ssl.truststore.location=testdata/trust.p12 ssl.truststore.password=secret", ""},
		{"ssl.ca.location=testdata/ca.pem ssl.key.location=testdata/key.pem ssl.certificate.location=testdata/chain.pem", ""},
		{"ssl.ca.location=testdata/ca.pem ssl.key.location=testdata/pbes2-des3.pem ssl.key.password=secret ssl.certificate.location=testdata/chain.pem", ""},
		{"TRUST ssl.keystore.location=testdata/openssl.p12 ssl.keystore.password=secret ssl.key.password=secret", ""},
		{"TRUST ssl.keystore.type=PKCS12 ssl.keystore.location=testdata/openssl-legacy.p12 ssl.keystore.password=secret", ""},
		{"TRUST ssl.keystore.location=DIR/encrypted.pem ssl.key.password=secret", ""},
		{"TRUST ssl.keystore.type=PEM ssl.keystore.location=DIR/both.pem ssl.key.password=idle", ""},

		{"ssl.truststore.location=testdata/trust.jks ssl.truststore.password=secret", "keytool -importkeystore -srckeystore testdata/trust.jks"},
		{"ssl.truststore.location=testdata/trust.p12", "ssl.truststore.password is not set"},
		{"ssl.truststore.location=testdata/trust.p12 ssl.truststore.password=guess", "read ssl.truststore.location testdata/trust.p12: ssl.truststore.password is wrong"},
		{"ssl.truststore.location=testdata/nokeys.p12 ssl.truststore.password=secret", "not marked as trusted; a trust store holds"},
		{"ssl.truststore.location=testdata/openssl.p12 ssl.truststore.password=secret", "a trust store holds"},
		{"ssl.truststore.location=testdata/ca.pem ssl.truststore.password=guess", "a PEM file, which has no password"},
		{"ssl.truststore.type=PKCS12 ssl.truststore.location=testdata/ca.pem", "it is PEM, and ssl.truststore.type says PKCS12"},
		{"ssl.truststore.type=PEM ssl.truststore.location=testdata/trust.p12", "it is PKCS12, and ssl.truststore.type says PEM"},
		{"ssl.truststore.type=JKS ssl.truststore.location=testdata/ca.pem", "it is PEM, and ssl.truststore.type says JKS"},
		{"ssl.truststore.location=DIR/empty", "no certificate in it"},
		{"ssl.truststore.location=testdata/key.pem", "no certificate in it"},
		{"ssl.truststore.location=testdata", "read ssl.truststore.location"},
		{"ssl.truststore.password=guess", "ssl.truststore.location is not"},
		{"ssl.truststore.location=testdata/ca.pem ssl.ca.location=testdata/ca.pem", "are both set"},

		{"ssl.keystore.location=DIR/encrypted.pem", "encrypted.pem: its key is encrypted, and ssl.key.password is not set"},
		{"ssl.keystore.location=DIR/encrypted.pem ssl.key.password=guess", "ssl.key.password is wrong"},
		{"ssl.keystore.location=DIR/encrypted.pem ssl.keystore.password=secret", "ssl.key.password is the password of the key in it"},
		{"ssl.keystore.location=DIR/own.pem ssl.key.password=secret", "openssl pkcs8 -topk8"},
		{"ssl.keystore.location=testdata/chain.pem", "private key"},
		{"ssl.keystore.location=testdata/key.pem", "certificate"},
		{"ssl.keystore.location=testdata/openssl.p12", "ssl.keystore.password is not set"},
		{"ssl.keystore.location=testdata/openssl.p12 ssl.keystore.password=guess", "ssl.keystore.password is wrong"},
		{"ssl.keystore.location=testdata/openssl.p12 ssl.keystore.password=secret ssl.key.password=guess", "both are the same"},
		{"ssl.keystore.location=testdata/trust.p12 ssl.keystore.password=secret", "private key missing; a key store holds"},
		{"ssl.keystore.location=testdata/trust.jks ssl.keystore.password=secret", "JKS"},
		{"ssl.keystore.password=guess", "ssl.keystore.location is not"},
		{"ssl.key.location=testdata/key.pem", "ssl.certificate.location is not: they belong together"},
		{"ssl.key.location=testdata/key.pem ssl.certificate.location=testdata/ca.pem", "private key does not match"},
		{"ssl.keystore.location=DIR/both.pem ssl.key.location=testdata/key.pem", "are both set"},
	}
}

// TestStores: where no error is wanted, the authority is trusted, and the key is
// the client's with its chain if there is one.
func TestStores(t *testing.T) {
	key, _ := private(t)
	caBlock, _ := pem.Decode([]byte(file(t, "ca.pem")))
	ca, err := x509.ParseCertificate(caBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("both.pem", "0 is a comment\n"+file(t, "chain.pem")+file(t, "key.pem"))
	write("encrypted.pem", file(t, "pbe-sha1-3des.pem")+file(t, "chain.pem"))
	write("own.pem", file(t, "openssl.pem")+file(t, "chain.pem"))
	write("empty", "")
	line := strings.NewReplacer("\n", " ")
	for _, c := range storeCases() {
		set := map[string]string{"security.protocol": "SSL"}
		for pair := range strings.FieldsSeq(strings.NewReplacer("DIR", dir, "TRUST", "ssl.truststore.certificates=text").Replace(c.settings)) {
			name, value, _ := strings.Cut(pair, "=")
			if value == "text" {
				value = line.Replace(file(t, "ca.pem"))
			}
			set[name] = value
		}
		transport, err := New(set)
		switch {
		case err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "guess")):
			t.Errorf("%s: %v, want %q", c.settings, err, c.err)
		case err == nil && c.err != "":
			t.Errorf("%s: taken, want %q", c.settings, c.err)
		case err == nil:
			if _, err := ca.Verify(x509.VerifyOptions{Roots: transport.tls.RootCAs}); err != nil {
				t.Errorf("%s: the authority is not trusted: %v", c.settings, err)
			}
			for _, pair := range transport.tls.Certificates {
				leaf, err := x509.ParseCertificate(pair.Certificate[0])
				if err != nil || !key.Equal(pair.PrivateKey) || leaf.Subject.CommonName != "client" {
					t.Errorf("%s: not the client's key and certificate: %v", c.settings, err)
				}
				if len(pair.Certificate) > 2 || len(pair.Certificate) == 2 && !bytes.Equal(pair.Certificate[1], ca.Raw) {
					t.Errorf("%s: the chain has %d certificates", c.settings, len(pair.Certificate))
				}
			}
			if strings.Contains(c.settings, ".key") && len(transport.tls.Certificates) != 1 {
				t.Errorf("%s: no certificate to show", c.settings)
			}
		}
	}
}

// TestTextsInOneLine: Kafka takes blanks for the line ends of PEM.
func TestTextsInOneLine(t *testing.T) {
	line := func(name string) string { return strings.TrimSpace(strings.ReplaceAll(file(t, name), "\n", " ")) }
	transport, err := New(map[string]string{"security.protocol": "SSL",
		"ssl.keystore.key": line("pbes2-aes128-sha1.pem"), "ssl.key.password": "secret",
		"ssl.keystore.certificate.chain": line("chain.pem") + " " + line("ca.pem"), "ssl.truststore.certificates": line("ca.pem") + line("chain.pem"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(transport.tls.Certificates[0].Certificate); n != 2 {
		t.Errorf("the chain has %d certificates, want 2", n)
	}
}

// TestProtocols: the versions of TLS that are offered.
func TestProtocols(t *testing.T) {
	for _, c := range []struct {
		list           string
		oldest, newest uint16
	}{
		{"TLSv1.2,TLSv1.3", tls.VersionTLS12, tls.VersionTLS13},
		{"TLSv1.3, TLSv1.2", tls.VersionTLS12, tls.VersionTLS13},
		{"TLSv1.2", tls.VersionTLS12, tls.VersionTLS12},
		{"TLSv1.3", tls.VersionTLS13, tls.VersionTLS13},
		{"TLSv1.1,TLSv1.2", 0, 0},
		{"", 0, 0},
	} {
		transport, err := New(map[string]string{"security.protocol": "SSL", "ssl.enabled.protocols": c.list})
		if (err != nil) != (c.oldest == 0) || err == nil && (transport.tls.MinVersion != c.oldest || transport.tls.MaxVersion != c.newest) {
			t.Errorf("%q: %+v, %v", c.list, transport.tls, err)
		}
	}
}
