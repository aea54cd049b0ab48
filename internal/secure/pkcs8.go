package secure

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"slices"
	"unicode/utf16"
)

// The standard library reads private keys of PKCS #8 (RFC 5208) and not those
// that are encrypted. Here are the two encryptions that matter: PBES2 with
// PBKDF2 (RFC 8018), which is what OpenSSL writes and Java reads from 19 on, and
// that of PKCS #12 with SHA-1 and triple DES (RFC 7292), which older Java reads
// and "openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES" writes.

// Object identifiers.
const (
	oidPBES2       = "1.2.840.113549.1.5.13"
	oidPBKDF2      = "1.2.840.113549.1.5.12"
	oidPBESHA13DES = "1.2.840.113549.1.12.1.3"
)

// maxIterations bounds how long a file can keep a process busy: some seconds.
const maxIterations = 5_000_000

// errKeyPassword is a guess that is right in all but contrived cases.
var errKeyPassword = errors.New("ssl.key.password is wrong, or the key is damaged")

// reencrypt is what to do about an encryption that is not known here.
const reencrypt = "openssl pkcs8 -topk8 -v2 aes-256-cbc -in KEY -out NEW, or -v1 PBE-SHA1-3DES for Java before 19, writes it in one that is"

type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Encrypted []byte
}

type pbes2 struct{ KDF, Scheme pkix.AlgorithmIdentifier }

type pbkdf2Parameters struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"` // absent: HMAC with SHA-1
}

type pbe struct {
	Salt       []byte
	Iterations int
}

// decryptKey turns a DER EncryptedPrivateKeyInfo into a DER PrivateKeyInfo.
func decryptKey(der []byte, password string) ([]byte, error) {
	var k encryptedKey
	if err := unmarshal(der, &k); err != nil {
		return nil, fmt.Errorf("not an encrypted PKCS #8 key: %w", err)
	}
	var block cipher.Block
	var iv []byte
	var err error
	switch oid := k.Algorithm.Algorithm.String(); oid {
	case oidPBES2:
		block, iv, err = pbes2Cipher(k.Algorithm.Parameters.FullBytes, password)
	case oidPBESHA13DES:
		block, iv, err = tripleDESCipher(k.Algorithm.Parameters.FullBytes, password)
	default:
		err = fmt.Errorf("its encryption (object identifier %s) is not supported; %s", oid, reencrypt)
	}
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(iv) != size || len(k.Encrypted) == 0 || len(k.Encrypted)%size != 0 {
		return nil, errors.New("the encrypted key is damaged: its length does not go with its cipher")
	}
	plain := make([]byte, len(k.Encrypted))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, k.Encrypted)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > size || !bytes.Equal(plain[len(plain)-padding:], bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil, errKeyPassword
	}
	return plain[:len(plain)-padding], nil
}

// unmarshal wants the whole of der.
func unmarshal(der []byte, into any) error {
	rest, err := asn1.Unmarshal(der, into)
	if err == nil && len(rest) > 0 {
		err = errors.New("something follows it")
	}
	return err
}

func checkIterations(n int) error {
	if n < 1 || n > maxIterations {
		return fmt.Errorf("it wants %d iterations; from 1 to %d are done", n, maxIterations)
	}
	return nil
}

func pbes2Cipher(parameters []byte, password string) (cipher.Block, []byte, error) {
	var p pbes2
	if err := unmarshal(parameters, &p); err != nil {
		return nil, nil, fmt.Errorf("its parameters of PBES2: %w", err)
	}
	if p.KDF.Algorithm.String() != oidPBKDF2 {
		return nil, nil, fmt.Errorf("its key derivation (object identifier %v) is not supported; %s", p.KDF.Algorithm, reencrypt)
	}
	var kdf pbkdf2Parameters
	if err := unmarshal(p.KDF.Parameters.FullBytes, &kdf); err != nil {
		return nil, nil, fmt.Errorf("its parameters of PBKDF2: %w", err)
	}
	if err := checkIterations(kdf.Iterations); err != nil {
		return nil, nil, err
	}
	prf := sha1.New
	if len(kdf.PRF.Algorithm) > 0 {
		if prf = hmacHash(kdf.PRF.Algorithm); prf == nil {
			return nil, nil, fmt.Errorf("its key derivation with HMAC of object identifier %v is not supported; %s", kdf.PRF.Algorithm, reencrypt)
		}
	}
	length, cipherOf := blockCipher(p.Scheme.Algorithm)
	if cipherOf == nil {
		return nil, nil, fmt.Errorf("its cipher (object identifier %v) is not supported; %s", p.Scheme.Algorithm, reencrypt)
	}
	var iv []byte
	if err := unmarshal(p.Scheme.Parameters.FullBytes, &iv); err != nil {
		return nil, nil, fmt.Errorf("its initial vector: %w", err)
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, length)
	if err != nil {
		return nil, nil, fmt.Errorf("its key derivation: %w", err)
	}
	block, err := cipherOf(key)
	return block, iv, err
}

// hmacHash is the hash of an HMAC, nil for one that is not supported.
func hmacHash(oid asn1.ObjectIdentifier) func() hash.Hash {
	switch oid.String() {
	case "1.2.840.113549.2.7":
		return sha1.New
	case "1.2.840.113549.2.8":
		return sha256.New224
	case "1.2.840.113549.2.9":
		return sha256.New
	case "1.2.840.113549.2.10":
		return sha512.New384
	case "1.2.840.113549.2.11":
		return sha512.New
	}
	return nil
}

// blockCipher is a cipher in CBC mode and the length of its key.
func blockCipher(oid asn1.ObjectIdentifier) (keyLength int, cipherOf func(key []byte) (cipher.Block, error)) {
	switch oid.String() {
	case "2.16.840.1.101.3.4.1.2":
		return 16, aes.NewCipher
	case "2.16.840.1.101.3.4.1.22":
		return 24, aes.NewCipher
	case "2.16.840.1.101.3.4.1.42":
		return 32, aes.NewCipher
	case "1.2.840.113549.3.7":
		return 24, des.NewTripleDESCipher
	}
	return 0, nil
}

func tripleDESCipher(parameters []byte, password string) (cipher.Block, []byte, error) {
	var p pbe
	if err := unmarshal(parameters, &p); err != nil {
		return nil, nil, fmt.Errorf("its parameters of PBE-SHA1-3DES: %w", err)
	}
	if err := checkIterations(p.Iterations); err != nil {
		return nil, nil, err
	}
	block, err := des.NewTripleDESCipher(pkcs12Derive(1, password, p.Salt, p.Iterations, 24))
	return block, pkcs12Derive(2, password, p.Salt, p.Iterations, 8), err
}

// pkcs12Derive is the key derivation of RFC 7292, appendix B.2, with SHA-1; id
// says what for.
func pkcs12Derive(id byte, password string, salt []byte, iterations, length int) []byte {
	const v = sha1.BlockSize
	var secret []byte // UTF-16, with a zero at the end
	for _, unit := range append(utf16.Encode([]rune(password)), 0) {
		secret = append(secret, byte(unit>>8), byte(unit))
	}
	d := bytes.Repeat([]byte{id}, v)
	i := append(repeatTo(salt, v), repeatTo(secret, v)...)
	var out []byte
	for {
		a := sha1.Sum(slices.Concat(d, i))
		for range iterations - 1 {
			a = sha1.Sum(a[:])
		}
		out = append(out, a[:]...)
		if len(out) >= length {
			return out[:length]
		}
		b := repeatTo(a[:], v)
		for j := 0; j < len(i); j += v { // each block of i becomes i + b + 1
			carry := 1
			for k := v - 1; k >= 0; k-- {
				carry += int(i[j+k]) + int(b[k])
				i[j+k] = byte(carry)
				carry >>= 8
			}
		}
	}
}

// repeatTo repeats b until its length is a multiple of v, cut there.
func repeatTo(b []byte, v int) []byte {
	n := (len(b) + v - 1) / v * v
	out := make([]byte, 0, n+len(b))
	for len(out) < n {
		out = append(out, b...)
	}
	return out[:n]
}
