package server

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/store"
)

// bucketURL returns location unchanged when it is a URL, and otherwise the file:// URL of the directory.
func bucketURL(location string) (string, error) {
	if strings.Contains(location, "://") {
		return location, nil
	}
	dir, err := filepath.Abs(location)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: dir}).String(), nil
}

// openAuditHeads opens the archive of the setting audit-heads and its key. It returns the zero value when the setting
// is empty.
func (p *parts) openAuditHeads(ctx context.Context) (control.AuditHeads, error) {
	if p.cfg.AuditHeads == "" {
		return control.AuditHeads{}, nil
	}
	at, err := bucketURL(p.cfg.AuditHeads)
	if err != nil {
		return control.AuditHeads{}, fmt.Errorf("audit-heads: %w", err)
	}
	key, err := openHeadsKey(p.log, p.cfg.AuditHeadsKey)
	if err != nil {
		return control.AuditHeads{}, fmt.Errorf("audit-heads-key: %w", err)
	}
	if p.auditHeads, err = artifact.OpenArchive(ctx, at); err != nil {
		return control.AuditHeads{}, fmt.Errorf("audit-heads: %w", err)
	}
	return control.AuditHeads{Archive: p.auditHeads, Key: key.Get, Every: p.cfg.AuditHeadsInterval,
		Installation: p.cfg.PublicURL}, nil
}

// openHeadsKey opens an Ed25519 private key in PKCS 8 and PEM.
func openHeadsKey(log *slog.Logger, path string) (*secretfile.Value[ed25519.PrivateKey], error) {
	return secretfile.Open(log, func(contents [][]byte) (ed25519.PrivateKey, error) {
		block, _ := pem.Decode(contents[0])
		if block == nil {
			return nil, errors.New("the file contains no key in PEM: make one with `openssl genpkey -algorithm ed25519`")
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if own, ok := key.(ed25519.PrivateKey); ok && err == nil {
			return own, nil
		}
		return nil, errors.New(
			"the key is not an Ed25519 private key in PKCS 8: make one with `openssl genpkey -algorithm ed25519`")
	}, path)
}

// SignedHeads contains the last link of each audit chain at one moment, with a signature.
type SignedHeads = store.SignedHeads

// ActionCutAudit is the action of audit rows that record a cut of the audit by the retention.
const ActionCutAudit = store.ActionCutAudit

// AuditCut is the record of a cut.
type AuditCut struct{ store.AuditCut }

// Object returns the name of the object of the row that records the cut.
func (c AuditCut) Object() string { return store.AuditCutObject(c.No) }

// ReadAuditCut reads the record of a cut, the detail of its row. signed says that the public key in the PEM file signed
// it; false without a file.
func ReadAuditCut(doc []byte, publicKeyFile string) (c AuditCut, signed bool, err error) {
	if c.AuditCut, err = store.DecodeAuditCut(doc); err != nil || publicKeyFile == "" {
		return c, false, err
	}
	key, err := readPublicKey(publicKeyFile)
	return c, err == nil && c.IsSignedBy(key), err
}

// OutlivesAuditCut reports whether the row that made an object stays after a cut.
func OutlivesAuditCut(object string) bool { return store.OutlivesCut(object) }

// KeptAudit is store.KeptAudit.
func KeptAudit(before string, no int64, hash string) string { return store.KeptAudit(before, no, hash) }

// ReadAuditHeads reads the signed documents at location, a bucket URL or a directory, in the order of their times. It
// calls good with each document whose signature matches the public key in the PEM file, and bad with the name of each
// other document.
func ReadAuditHeads(ctx context.Context, location, publicKeyFile string, good func(SignedHeads),
	bad func(name string)) error {
	key, err := readPublicKey(publicKeyFile)
	if err != nil {
		return err
	}
	at, err := bucketURL(location)
	if err != nil {
		return err
	}
	archive, err := artifact.ReadArchive(ctx, at)
	if err != nil {
		return err
	}
	defer archive.Close()
	return archive.Walk(ctx, func(name string, body []byte) error {
		heads, err := store.DecodeHeads(body, key)
		switch {
		case errors.Is(err, store.ErrSignature):
			bad(name)
			return nil
		case err == nil:
			good(heads)
		}
		return err
	})
}
