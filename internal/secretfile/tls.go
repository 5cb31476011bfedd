package secretfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
)

// Files are the PEM files of one end of TLS connections. Each may be empty; Cert and Key go together.
type Files struct {
	CA   string // certificates of the trusted authorities; empty means those of the system
	Cert string // the certificate of this end, with its chain
	Key  string // the private key of Cert
}

// Check returns an error for a certificate without its key and for a key without its certificate.
func (f Files) Check() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("a certificate and its key must be given together")
	}
	return nil
}

// pair reads the certificate of this end.
func (f Files) pair(log *slog.Logger) (*Value[*tls.Certificate], error) {
	return Open(log, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return nil, fmt.Errorf("no certificate with its private key: %w", err)
		}
		return &pair, nil
	}, f.Cert, f.Key)
}

func (f Files) pool(log *slog.Logger) (*Value[*x509.CertPool], error) {
	return Open(log, func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, errors.New("the file holds no certificate in PEM")
		}
		return pool, nil
	}, f.CA)
}

// Client returns the TLS settings for connections to a server. name is its host name or IP address. Each handshake uses
// the current content of the files.
func (f Files) Client(log *slog.Logger, name string) (*tls.Config, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errors.New("the name of the server is missing, so its certificate cannot be checked")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	if f.CA != "" {
		pool, err := f.pool(log)
		if err != nil {
			return nil, err
		}
		// RootCAs cannot change while a Config is in use. VerifyConnection does the same check with the current roots,
		// in every handshake including resumed ones. The connection state has no name for an IP address, so use name.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error { return verify(s, pool.Get(), name) }
	}
	if f.Cert != "" {
		pair, err := f.pair(log)
		if err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Get(), nil }
	}
	return c, nil
}

func verify(s tls.ConnectionState, roots *x509.CertPool, name string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server presented no certificate")
	}
	o := x509.VerifyOptions{Roots: roots, DNSName: name, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := s.PeerCertificates[0].Verify(o); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

// Server returns the TLS settings of a listener. With CA a client may send a certificate, which must then come from one
// of these authorities; handlers decide whether a caller needs one. Each handshake uses the current content of the
// files.
func (f Files) Server(log *slog.Logger) (*tls.Config, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("a listener with TLS needs a certificate and its key")
	}
	pair, err := f.pair(log)
	if err != nil {
		return nil, err
	}
	base := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // WebSockets need it, and limits for connections would not bound HTTP/2 streams
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}
	if f.CA == "" {
		return base, nil
	}
	pool, err := f.pool(log)
	if err != nil {
		return nil, err
	}
	base.ClientAuth = tls.VerifyClientCertIfGiven
	base.SessionTicketsDisabled = true // a resumed session would still trust a removed authority
	base.ClientCAs = pool.Get()
	with := base.Clone()
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := with.Clone()
		c.ClientCAs = pool.Get()
		return c, nil
	}
	return base, nil
}
