package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// AuditRow records who did or was refused what.
type AuditRow struct {
	ID        string    // UUID
	At        time.Time // set by the store
	TenantID  string
	Actor     string
	Action    string
	RunID     string
	SignalID  string
	Outcome   string // ACCEPTED, REJECTED, DENIED, …
	Code      run.Code
	Reason    string
	RequestID string
	Detail    json.RawMessage
}

// Audits keeps audit rows, insert-only (T208), and chains those of a tenant: each
// link has a number, from 1 without holes, and a hash over its row and the link before. A
// row is linked a moment after it was committed, so that no write of dvt waits for
// another one's audit; who takes a row away, changes one or moves one after that
// breaks the chain at that number.
type Audits interface {
	// Audit adds rows; one whose ID is known is left as it is.
	Audit(ctx context.Context, rows ...AuditRow) error
	// LinkAudit links rows that are committed and wait for it, of each tenant in the
	// order of At and ID, at most limit (1 to MaxPage), and returns how many. Several
	// servers may do it at once: each row is linked once, and a call that another one
	// was faster than links nothing.
	LinkAudit(ctx context.Context, limit int) (int, error)
	// AuditLinks reads links of a tenant in the order of their numbers, or from the
	// newest back.
	AuditLinks(ctx context.Context, f AuditFilter) ([]AuditLink, error)
	// AuditLoose counts the rows of a tenant that no link names: those that wait for
	// theirs, and those that do not and so came past dvt.
	AuditLoose(ctx context.Context, tenantID string) (waiting, stray int64, err error)
}

// AuditFilter selects links of one tenant. Empty fields do not restrict.
type AuditFilter struct {
	TenantID        string
	After, Before   int64 // numbers, both excluded
	From, To        time.Time
	Actor, Action   string
	RunID, Outcome  string
	Limit           int // 1..MaxPage
	Newest          bool
	WithMissingRows bool // links whose row is not there any more too; only without restrictions on rows
}

// AuditLink is one link of a tenant's chain.
type AuditLink struct {
	No   int64
	ID   string // of the row
	Hash [sha256.Size]byte
	Row  *AuditRow // nil: it was taken away
}

// Link is the hash of a row as link no of its tenant's chain: SHA-256 over the
// strings v1, hash before in hex (empty for the first), no, id, at (RFC 3339 in UTC
// with six digits), tenantId, actor, action, runId, signalId, outcome, code, reason,
// requestId and detail (empty for none), each written as its length in bytes, a colon
// and itself. Anybody can compute it.
func (r AuditRow) Link(before [sha256.Size]byte, no int64) [sha256.Size]byte {
	previous := ""
	if no > 1 {
		previous = hex.EncodeToString(before[:])
	}
	h := sha256.New()
	for _, s := range []string{
		"v1", previous, strconv.FormatInt(no, 10), r.ID, r.At.UTC().Format("2006-01-02T15:04:05.000000Z"), r.TenantID, r.Actor, r.Action,
		r.RunID, r.SignalID, r.Outcome, string(r.Code), r.Reason, r.RequestID, string(r.Detail),
	} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// AuditChain goes on with the chains of tenants.
type AuditChain map[string]AuditLink

// Next links a row to the chain of its tenant.
func (c AuditChain) Next(r AuditRow) AuditLink {
	last := c[r.TenantID]
	link := AuditLink{No: last.No + 1, ID: r.ID, Hash: r.Link(last.Hash, last.No+1), Row: &r}
	c[r.TenantID] = link
	return link
}
