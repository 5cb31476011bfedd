package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// Authority is a private certificate authority of a test.
type Authority struct {
	// PEM is the certificate of the authority.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its private key, in PEM.
type Pair struct{ Cert, Key []byte }

// NewAuthority creates an authority whose certificate has the common name name.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key := newKey(t)
	template := certificate(t, name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatalf("testserver: make an authority: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("testserver: make an authority: %v", err)
	}
	return &Authority{PEM: pemOf("CERTIFICATE", der), cert: cert, key: key}
}

// Issue creates a certificate for servers and clients that is valid for a day. name is its common name. hosts are the
// host names and IP addresses of a server with this certificate.
func (a *Authority) Issue(t testing.TB, name string, hosts ...string) Pair {
	t.Helper()
	key := newKey(t)
	template := certificate(t, name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatalf("testserver: issue a certificate: %v", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("testserver: issue a certificate: %v", err)
	}
	return Pair{Cert: pemOf("CERTIFICATE", der), Key: pemOf("PRIVATE KEY", private)}
}

// Write writes the pair to dir as NAME.pem and NAME.key, replaces existing files, and returns the paths.
func (p Pair) Write(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	return WriteFile(t, dir, name+".pem", p.Cert), WriteFile(t, dir, name+".key", p.Key)
}

// WriteFile writes a file that only its owner can read to dir, replaces an existing file atomically, and returns its
// path.
func WriteFile(t testing.TB, dir, name string, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatalf("testserver: %v", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatalf("testserver: %v", err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("testserver: make a key: %v", err)
	}
	return key
}

func certificate(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatalf("testserver: make a serial number: %v", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
	}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
