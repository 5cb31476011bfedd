package preflight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dvt-engine/dvt/internal/secretfile"
)

// expiresSoon is the remaining life of a certificate below which a finding names it.
const expiresSoon = 14 * 24 * time.Hour

func (t *target) files(_ context.Context, l *list) {
	seen := 0
	for _, path := range t.SecretFiles() {
		seen++
		t.file(l, path)
	}
	if info, err := os.Stat(t.SettingsFile); err == nil && info.Mode().Perm()&0o004 != 0 {
		l.note(t.SettingsFile, "every user of this machine can read the settings", "they may hold secrets",
			"chmod o-r "+t.SettingsFile+" unless they hold none")
	}
	for _, pair := range t.Certificates() {
		if pair.CA != "" {
			seen++
			t.authority(l, pair.CA)
		}
		if pair.Cert != "" && pair.Key != "" {
			seen++
			t.certificate(l, pair)
		}
	}
	switch {
	case len(l.findings) > 0:
	case seen == 0:
		l.ok("files", "the settings name no file of a secret or certificate")
	default:
		l.ok("files", "%d files are readable, private where they hold secrets, and their certificates are valid", seen)
	}
}

func (t *target) file(l *list, path string) {
	info, err := os.Stat(path)
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			err = f.Close()
		}
	}
	switch {
	case err != nil:
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err
		}
		l.missing(path, fmt.Sprintf("the file cannot be read: %v", err), "the settings name it",
			fmt.Sprintf("create it for this user: chown %d %s && chmod 600 %s", os.Getuid(), path, path))
	case info.Mode().Perm()&0o007 != 0:
		l.missing(path, fmt.Sprintf("every user of this machine can use the file: its mode is %#o", info.Mode().Perm()),
			"it holds a secret", "chmod o-rwx "+path)
	case info.Mode().Perm()&0o020 != 0:
		l.missing(path, fmt.Sprintf("its group can change the file: its mode is %#o", info.Mode().Perm()),
			"somebody else could replace the secret", "chmod g-w "+path)
	default:
		if owner, known := ownerOf(info); known && owner != 0 && owner != os.Getuid() {
			l.note(path, fmt.Sprintf("the file belongs to the user %d, and this is %d", owner, os.Getuid()),
				"that user can replace the secret", fmt.Sprintf("chown %d %s", os.Getuid(), path))
		}
	}
}

// authority judges a file of certificates of authorities.
func (t *target) authority(l *list, path string) {
	body, err := os.ReadFile(path)
	if err != nil {
		l.missing(path, "the file of authorities cannot be read", "certificates of peers are verified with it",
			"create it, in PEM")
		return
	}
	found := false
	for block, rest := pem.Decode(body); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = true
			judgeExpiry(l, path, cert)
		}
	}
	if !found {
		l.missing(path, "the file holds no certificate in PEM", "certificates of peers are verified with it",
			"write the certificate of the authority into it, in PEM")
	}
}

// certificate judges the certificate of this process and its key.
func (t *target) certificate(l *list, pair secretfile.Files) {
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err
		}
		l.missing(pair.Cert, fmt.Sprintf("it and %s are no certificate with its private key: %v", pair.Key, err),
			"the process presents it to its peers", "write the certificate with its chain, and the key that belongs to it")
		return
	}
	judgeExpiry(l, pair.Cert, loaded.Leaf)
}

func judgeExpiry(l *list, path string, cert *x509.Certificate) {
	now := time.Now()
	const why = "peers refuse connections with a certificate that is not valid"
	switch {
	case now.After(cert.NotAfter):
		l.missing(path, "the certificate expired at "+cert.NotAfter.UTC().Format(time.RFC3339), why,
			"issue it again; processes read the new file without a restart")
	case now.Before(cert.NotBefore):
		l.missing(path, "the certificate is valid from "+cert.NotBefore.UTC().Format(time.RFC3339), why,
			"check the clock of this machine")
	case cert.NotAfter.Sub(now) < expiresSoon:
		l.note(path, "the certificate expires at "+cert.NotAfter.UTC().Format(time.RFC3339), why,
			"issue it again before; processes read the new file without a restart")
	}
}
