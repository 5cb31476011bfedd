package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SignedHeads is the newest link of each chain at one moment. It is signed, so that somebody outside can keep it and
// later prove which links existed.
type SignedHeads struct {
	Installation string      `json:"installation"`
	At           time.Time   `json:"at"`
	Heads        []AuditHead `json:"heads"`
	Signature    []byte      `json:"signature,omitempty"` // Ed25519 over the document without this field
}

// ErrSignature is returned for a document that the key did not sign or that has another form.
var ErrSignature = errors.New("store: the heads are not signed by this key")

// Encode signs the heads and returns the document.
func (h SignedHeads) Encode(key ed25519.PrivateKey) ([]byte, error) {
	h.Signature = nil
	body, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	h.Signature = ed25519.Sign(key, body)
	return json.Marshal(h)
}

// DecodeHeads reads a document of Encode. ErrSignature when key did not sign it.
func DecodeHeads(body []byte, key ed25519.PublicKey) (SignedHeads, error) {
	var h SignedHeads
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, errors.Join(ErrSignature, err)
	}
	signature := h.Signature
	h.Signature = nil
	plain, err := json.Marshal(h)
	if err != nil || !ed25519.Verify(key, plain, signature) {
		return SignedHeads{}, errors.Join(ErrSignature, err)
	}
	return h, nil
}

// ActionCutAudit is the action of audit rows that record a cut of the audit by the retention. Their detail is an
// AuditCut.
const ActionCutAudit = "CUT_AUDIT"

// MinAuditAge is the least age of an audit row that a cut deletes, by the clock of the database.
const MinAuditAge = 365 * 24 * time.Hour

// AuditCut says which beginning of a tenant's chain the retention deleted and by which policy. It is signed by the key
// of the heads, so that nobody who can only write to the database can pass a deletion off as a cut. The chain continues
// from Hash.
type AuditCut struct {
	Installation string    `json:"installation"`
	TenantID     string    `json:"tenant"`
	No           int64     `json:"no"`   // of the last link that is cut
	Hash         string    `json:"hash"` // of that link, in hex
	At           time.Time `json:"at"`
	Before       time.Time `json:"before"`        // every row that was deleted is older
	Policy       int64     `json:"policyVersion"` // of the retention policy; 0: that of the installation
	Days         int       `json:"days"`          // that the policy keeps the audit
	Rows         int64     `json:"rows"`          // deleted by this cut
	Total        int64     `json:"total"`         // deleted by this cut and those before it
	// Kept counts the rows up to No that stay, because what they made stays, and KeptDigest is their KeptAudit.
	Kept       int64  `json:"kept"`
	KeptDigest string `json:"keptDigest"`
	// Location names the object in the archive with the rows that this cut deleted, as JSON lines in gzip; "" when the
	// tenant archives nothing. SHA256 is its digest, in hex.
	Location  string `json:"location,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	Signature []byte `json:"signature,omitempty"` // Ed25519 over the document without this field
}

// Encode signs the cut and returns the document.
func (c AuditCut) Encode(key ed25519.PrivateKey) ([]byte, error) {
	body, err := c.signed()
	if err != nil {
		return nil, err
	}
	c.Signature = ed25519.Sign(key, body)
	return json.Marshal(c)
}

// signed returns what the signature covers. The first word keeps it apart from signed heads.
func (c AuditCut) signed() ([]byte, error) {
	c.Signature = nil
	body, err := json.Marshal(c)
	return append([]byte("audit-cut "), body...), err
}

// DecodeAuditCut reads the document of a row with ActionCutAudit. It does not check the signature.
func DecodeAuditCut(body []byte) (c AuditCut, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("store: the record of a cut cannot be read: %w", err)
	}
	return c, nil
}

// IsSignedBy reports whether one of the keys signed the cut.
func (c AuditCut) IsSignedBy(keys ...ed25519.PublicKey) bool {
	body, err := c.signed()
	for _, key := range keys {
		if err == nil && ed25519.Verify(key, body, c.Signature) {
			return true
		}
	}
	return false
}

// AuditCutObject returns the name of the object of the row that records a cut up to a number.
func AuditCutObject(no int64) string { return "cut/" + strconv.FormatInt(no, 10) }

// OutlivesCut reports whether the row that made an object stays after a cut, because the object stays in the store.
func OutlivesCut(object string) bool {
	kind, _, _ := strings.Cut(object, "/")
	switch kind {
	case string(AuditToken), "revocation", string(AuditPolicy), string(AuditSetting):
		return true
	}
	return false
}

// KeptAudit is the digest of links that a cut keeps, given that of the links before; "" before the first one. It is
// the Digest of the strings kept1, the digest before, the number of the link and its hash, in hex.
func KeptAudit(before string, no int64, hash string) string {
	sum := Digest("kept1", before, strconv.FormatInt(no, 10), hash)
	return hex.EncodeToString(sum[:])
}

// AuditCutState says how far a tenant's chain is cut. The zero value: not at all.
type AuditCutState struct {
	No      int64
	RowID   string // of the audit row that records the cut
	EndedAt *time.Time
}

// AuditCutPlan is what a cut may delete.
type AuditCutPlan struct {
	End      int64             // number of the last link; the one that was asked for when nothing may be deleted
	Hash     [sha256.Size]byte // of that link
	Obstacle ArchiveObstacle   // HELD or ERASURE, when nothing may be deleted now
}

// AuditCuts deletes the beginnings of the chains of audit rows.
type AuditCuts interface {
	// AuditCut returns how far the chain of a tenant is cut.
	AuditCut(ctx context.Context, tenantID string) (AuditCutState, error)
	// PlanAuditCut returns up to which link after a number the chain may be cut. It reads at most limit links. A row stops
	// a cut that is not older than before, that speaks of a run in the store, or that somebody deleted.
	PlanAuditCut(ctx context.Context, tenantID string, after int64, before time.Time, limit int) (AuditCutPlan, error)
	// CutAudit deletes, of at most limit (1 to MaxPage) links after a number, the rows that do not outlive the cut which
	// the linked audit row rowID records, and the links that no row needs. It returns the number of the last link that it
	// looked at; that of the cut when none is left. *ObstacleError with HELD or ERASURE; ErrConflict when rowID records no
	// cut, or the cut would delete a row that is younger than MinAuditAge or speaks of a run in the store.
	CutAudit(ctx context.Context, tenantID, rowID string, after int64, limit int) (int64, error)
}
