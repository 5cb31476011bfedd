package erasure

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
)

// Certificate says what was erased. It names the tenant and the people only by hashes with a key of the installation.
type Certificate struct {
	Installation string            `json:"installation"`
	Erasure      string            `json:"erasure"` // id of the request
	Kind         store.ErasureKind `json:"kind"`
	HashKey      string            `json:"hashKey"` // id of the key of the hashes
	TenantHash   string            `json:"tenantHash"`
	SubjectHash  string            `json:"subjectHash,omitempty"`
	// RequestedBy and ConfirmedBy are hashes of the two people who decided.
	RequestedBy string    `json:"requestedBy"`
	ConfirmedBy string    `json:"confirmedBy"`
	RequestedAt time.Time `json:"requestedAt"`
	ConfirmedAt time.Time `json:"confirmedAt"`
	FinishedAt  time.Time `json:"finishedAt"`
	Restored    bool      `json:"restored,omitempty"` // it was repeated on a restored store
	// Erased counts what was erased, by place.
	Erased map[string]int64 `json:"erased"`
	// Pseudonym replaces the person in every row; empty for a tenant.
	Pseudonym string `json:"pseudonym,omitempty"`
	// Remaining counts the rows that still name the person, and under "archive" the archived logs of runs. Because says
	// why, by place.
	Remaining map[string]int64  `json:"remaining,omitempty"`
	Because   map[string]string `json:"because,omitempty"`
	// NotSearched names the places that may contain the name and were not searched.
	NotSearched []string `json:"notSearched,omitempty"`
	// AuditRows and AuditHash are the last link of the tenant's audit, which was erased with the tenant. They prove an
	// export of the audit that somebody keeps.
	AuditRows int64  `json:"auditRows,omitempty"`
	AuditHash string `json:"auditHash,omitempty"`
	Signature []byte `json:"signature,omitempty"` // Ed25519 over the document without this field
}

// ErrSignature is returned for a certificate that the key did not sign.
var ErrSignature = errors.New("erasure: the certificate is not signed by this key")

func (c Certificate) sign(key ed25519.PrivateKey) (json.RawMessage, error) {
	c.Signature = nil
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	c.Signature = ed25519.Sign(key, body)
	return json.Marshal(c)
}

// ReadCertificate reads a certificate and checks its signature. Error: ErrSignature.
func ReadCertificate(body []byte, key ed25519.PublicKey) (Certificate, error) {
	var c Certificate
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, errors.Join(ErrSignature, err)
	}
	signature := c.Signature
	c.Signature = nil
	plain, err := json.Marshal(c)
	if err != nil || !ed25519.Verify(key, plain, signature) {
		return Certificate{}, errors.Join(ErrSignature, err)
	}
	return c, nil
}

// certify signs the certificate, notes the end in the ledger and makes the request a tombstone.
func (r *Runner) certify(ctx context.Context, e *store.Erasure) error {
	entry := r.entryOf(*e, true)
	var draft Certificate // of keepHead
	if e.Certificate != nil {
		if err := json.Unmarshal(e.Certificate, &draft); err != nil {
			return err
		}
	}
	c := Certificate{
		Installation: r.cfg.Installation, Erasure: e.ID, Kind: e.Kind, HashKey: entry.HashKey, TenantHash: entry.TenantHash,
		SubjectHash: entry.SubjectHash, RequestedBy: entry.RequestedBy, ConfirmedBy: entry.ConfirmedBy,
		RequestedAt: e.RequestedAt, FinishedAt: r.cfg.Now().UTC().Truncate(time.Second),
		Restored: strings.HasPrefix(e.RequestedBy, hashed), Erased: maps.Clone(e.Counts),
		AuditRows: draft.AuditRows, AuditHash: draft.AuditHash,
	}
	if e.ConfirmedAt != nil {
		c.ConfirmedAt = *e.ConfirmedAt
	}
	if e.Kind == store.EraseSubject {
		var err error
		if c.Remaining, c.NotSearched, err = r.findNames(ctx, owner.Scope{TenantID: e.TenantID,
			Subject: e.Subject}); err != nil {
			return err
		}
		c.Because, c.Pseudonym = reasons(c.Remaining), store.Pseudonym(e.ID)
	}
	var err error
	if e.Certificate, err = c.sign(r.cfg.Sign); err != nil {
		return fmt.Errorf("sign the certificate: %w", err)
	}
	if err := r.cfg.Ledger.write(ctx, entry); err != nil {
		return err
	}
	return r.cfg.Owner.Finish(ctx, *e)
}
