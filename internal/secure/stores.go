package secure

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

// The settings of both stores, as DefaultSslEngineFactory of Kafka 4.2 puts them
// together: what it refuses for being said twice or by halves is refused here.
// What a file is, its first bytes say; a type that is set must not contradict
// them.

// textOf answers the value of a setting, its default when it is not set.
type textOf func(name string) string

// store is a file with certificates or with a key: its settings and its content.
type store struct {
	name string // ssl.keystore or ssl.truststore
	path string
	data []byte
}

// The formats of stores. Java's keystore type JKS reads PKCS12 as well.
const (
	formatPEM     = "PEM"
	formatPKCS12  = "PKCS12"
	formatJKS     = "JKS"
	formatUnknown = ""
)

func formatOf(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte{0xFE, 0xED, 0xFE, 0xED}), bytes.HasPrefix(data, []byte{0xCE, 0xCE, 0xCE, 0xCE}): // JKS, JCEKS
		return formatJKS
	case bytes.Contains(data, []byte("-----BEGIN ")): // perhaps behind a text that begins as DER does
		return formatPEM
	case bytes.HasPrefix(data, []byte{0x30}): // DER
		return formatPKCS12
	}
	return formatUnknown
}

// openStore reads the file of a store and says what it is.
func openStore(text textOf, name string) (s store, format string, err error) {
	s = store{name: name, path: text(name + ".location")}
	if s.data, err = os.ReadFile(s.path); err != nil {
		return s, "", fmt.Errorf("read %s.location: %w", name, err)
	}
	format = formatOf(s.data)
	set := strings.ToUpper(text(name + ".type"))
	switch {
	case format == formatJKS:
		return s, "", s.errorf("a JKS key store, which only Java reads: keytool -importkeystore -srckeystore %s -destkeystore %s.p12 -deststoretype PKCS12 makes a PKCS12 store of it", s.path, s.path)
	case format == formatUnknown:
		return s, "", s.errorf("no certificate in it: a PEM or PKCS12 file is wanted")
	case set == "", set == format, set == formatJKS && format == formatPKCS12:
		return s, format, nil
	}
	return s, "", s.errorf("it is %s, and %s.type says %s", format, name, set)
}

func (s store) errorf(format string, args ...any) error {
	return fmt.Errorf("read %s.location %s: %w", s.name, s.path, fmt.Errorf(format, args...))
}

// once wants at most one of several ways to say the same thing. A way is a list
// of settings that belong together, and is answered by the name of its first;
// empty when none is taken.
func once(text textOf, ways ...[]string) (way string, err error) {
	for _, names := range ways {
		set := slices.IndexFunc(names, func(n string) bool { return text(n) != "" })
		if set < 0 {
			continue
		}
		if way != "" {
			return "", fmt.Errorf("%s and %s are both set: they say the same thing, one is wanted", way, names[set])
		}
		for _, n := range names {
			if text(n) == "" {
				return "", fmt.Errorf("%s is set and %s is not: they belong together", names[set], n)
			}
		}
		way = names[0]
	}
	return way, nil
}

// readTrust reads whom to trust; nil are those whom the system trusts.
func readTrust(text textOf) (*x509.CertPool, error) {
	way, err := once(text, []string{"ssl.truststore.location"}, []string{"ssl.truststore.certificates"}, []string{"ssl.ca.location"})
	if err != nil {
		return nil, err
	}
	if way != "ssl.truststore.location" && text("ssl.truststore.password") != "" {
		return nil, errors.New("ssl.truststore.password is set and ssl.truststore.location is not: they belong together")
	}
	var certificates []byte
	switch way {
	case "":
		return nil, nil
	case "ssl.truststore.certificates":
		if t := text("ssl.truststore.type"); t != "" && !strings.EqualFold(t, formatPEM) {
			return nil, fmt.Errorf("ssl.truststore.certificates is PEM, and ssl.truststore.type says %s", t)
		}
		certificates = []byte(text(way))
	case "ssl.ca.location":
		if certificates, err = os.ReadFile(text(way)); err != nil {
			return nil, fmt.Errorf("read %s: %w", way, err)
		}
	case "ssl.truststore.location":
		s, format, err := openStore(text, "ssl.truststore")
		if err != nil {
			return nil, err
		}
		if format == formatPKCS12 {
			return s.trust(text("ssl.truststore.password"))
		}
		if text("ssl.truststore.password") != "" {
			return nil, s.errorf("a PEM file, which has no password, and ssl.truststore.password is set")
		}
		certificates = s.data
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(onLines(certificates)) {
		return nil, fmt.Errorf("read %s: no certificate in it: PEM is wanted (from a Java key store: keytool -exportcert -rfc)", way)
	}
	return pool, nil
}

func (s store) trust(password string) (*x509.CertPool, error) {
	certificates, err := pkcs12.DecodeTrustStore(s.data, password)
	if err != nil {
		return nil, s.pkcs12Error(password, err, "a trust store holds trusted certificates alone, as keytool -importcert makes it")
	}
	if len(certificates) == 0 {
		return nil, s.errorf("no certificate in it")
	}
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool, nil
}

func (s store) pkcs12Error(password string, err error, hint string) error {
	switch {
	case password == "" && errors.Is(err, pkcs12.ErrIncorrectPassword):
		return s.errorf("a PKCS12 store with a password, and %s.password is not set", s.name)
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return s.errorf("%s.password is wrong", s.name)
	}
	return s.errorf("%w; %s", err, hint)
}

// readKey reads the client's key and certificate chain; there may be none.
func readKey(text textOf) ([]tls.Certificate, error) {
	way, err := once(text, []string{"ssl.keystore.location"}, []string{"ssl.keystore.key", "ssl.keystore.certificate.chain"}, []string{"ssl.key.location", "ssl.certificate.location"})
	if err != nil {
		return nil, err
	}
	if way != "ssl.keystore.location" && text("ssl.keystore.password") != "" {
		return nil, errors.New("ssl.keystore.password is set and ssl.keystore.location is not: they belong together")
	}
	var pair tls.Certificate
	switch way {
	case "":
		return nil, nil
	case "ssl.keystore.location":
		pair, err = readKeyStore(text)
	case "ssl.keystore.key":
		if t := text("ssl.keystore.type"); t != "" && !strings.EqualFold(t, formatPEM) {
			return nil, fmt.Errorf("ssl.keystore.key is PEM, and ssl.keystore.type says %s", t)
		}
		if pair, err = keyPair([]byte(text(way)), []byte(text("ssl.keystore.certificate.chain")), text("ssl.key.password")); err != nil {
			err = fmt.Errorf("read ssl.keystore.key and ssl.keystore.certificate.chain: %w", err)
		}
	case "ssl.key.location":
		var key, chain []byte
		if key, err = os.ReadFile(text(way)); err != nil {
			return nil, fmt.Errorf("read %s: %w", way, err)
		}
		if chain, err = os.ReadFile(text("ssl.certificate.location")); err != nil {
			return nil, fmt.Errorf("read ssl.certificate.location: %w", err)
		}
		if pair, err = keyPair(key, chain, text("ssl.key.password")); err != nil {
			err = fmt.Errorf("read %s %s and ssl.certificate.location %s: %w", way, text(way), text("ssl.certificate.location"), err)
		}
	}
	if err != nil {
		return nil, err
	}
	return []tls.Certificate{pair}, nil
}

// readKeyStore reads what ssl.keystore.location names.
func readKeyStore(text textOf) (pair tls.Certificate, err error) {
	s, format, err := openStore(text, "ssl.keystore")
	switch {
	case err != nil:
		return pair, err
	case format == formatPKCS12:
		return s.keyPair(text("ssl.keystore.password"), text("ssl.key.password"))
	case text("ssl.keystore.password") != "":
		return pair, s.errorf("a PEM file, which has no password, and ssl.keystore.password is set: ssl.key.password is the password of the key in it")
	}
	if pair, err = keyPair(s.data, s.data, text("ssl.key.password")); err != nil {
		err = s.errorf("%w", err)
	}
	return pair, err
}

// onLines gives PEM its line ends. Kafka takes blanks for them, so that a text
// in PEM can stand in one line of a properties file.
func onLines(text []byte) []byte {
	blocks := regexp.MustCompile(`-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END [A-Z0-9 ]+-----`)
	return blocks.ReplaceAll(text, []byte("\n-----BEGIN $1-----\n$2\n-----END $1-----\n"))
}

// keyPair reads a key and a chain in PEM. A password for a key that is not
// encrypted does no harm.
func keyPair(key, chain []byte, password string) (tls.Certificate, error) {
	key, chain = onLines(key), onLines(chain)
	for rest := key; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break // X509KeyPair says what is missing
		}
		if strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return tls.Certificate{}, errors.New("its key is encrypted in OpenSSL's own way, which Kafka does not read either: openssl pkcs8 -topk8 -in KEY -out NEW writes it as PKCS #8")
		}
		if block.Type != "ENCRYPTED PRIVATE KEY" {
			if strings.HasSuffix(block.Type, "PRIVATE KEY") {
				break
			}
			continue
		}
		if password == "" {
			return tls.Certificate{}, errors.New("its key is encrypted, and ssl.key.password is not set")
		}
		der, err := decryptKey(block.Bytes, password)
		if err != nil {
			return tls.Certificate{}, err
		}
		if _, err := x509.ParsePKCS8PrivateKey(der); err != nil {
			return tls.Certificate{}, errKeyPassword // one wrong password in 256 leaves a padding that looks right
		}
		key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		break
	}
	return tls.X509KeyPair(chain, key)
}

func (s store) keyPair(password, keyPassword string) (pair tls.Certificate, err error) {
	if password == "" {
		return pair, s.errorf("a PKCS12 store, and ssl.keystore.password is not set")
	}
	if keyPassword != "" && keyPassword != password {
		return pair, s.errorf("ssl.key.password is not ssl.keystore.password: in a PKCS12 store both are the same")
	}
	key, leaf, chain, err := pkcs12.DecodeChain(s.data, password)
	if err != nil {
		return pair, s.pkcs12Error(password, err, "a key store holds one private key with its certificate chain")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return pair, s.errorf("its key is a %T, which cannot sign", key)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	all := append([]*x509.Certificate{leaf}, chain...)
	own := slices.IndexFunc(all, func(c *x509.Certificate) bool { return ok && public.Equal(c.PublicKey) })
	if own < 0 {
		return pair, s.errorf("no certificate in it is for its private key")
	}
	pair.PrivateKey, pair.Leaf = key, all[own]
	for c := all[own]; c != nil; { // by issuer: other certificates may be in the store
		pair.Certificate = append(pair.Certificate, c.Raw)
		all = slices.DeleteFunc(all, c.Equal)
		next := slices.IndexFunc(all, func(i *x509.Certificate) bool { return bytes.Equal(i.RawSubject, c.RawIssuer) })
		c = nil
		if next >= 0 {
			c = all[next]
		}
	}
	return pair, nil
}
