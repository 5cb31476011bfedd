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

	Format     int    // of the hash, set by the store: 1 does not cover the fields below
	Credential string // that the actor showed, without its secret; "" when dvt itself acted
	Address    string // of the caller; "" when dvt itself acted
	Via        string // http, websocket, worker; "" when dvt itself acted
	Object     string // that the row made, as TokenObject and the others name it; "": none
	Digest     string // of the object's content, in hex
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
	// order of At and ID, at most limit (1 to MaxPage), and returns how many. Each tenant
	// has a transaction of its own, so that a tenant whose chain is damaged stops no other.
	// The number is right also with an error, which joins those of the tenants. Several
	// servers may call it at once: each row is linked once, and a tenant that another server
	// links at the moment is left to it.
	LinkAudit(ctx context.Context, limit int) (int, error)
	// AuditBacklog lists the tenants that have rows without a link, the oldest row first, at most limit.
	AuditBacklog(ctx context.Context, limit int) ([]AuditBacklog, error)
	// AuditLinks reads links of a tenant in the order of their numbers, or from the
	// newest back.
	AuditLinks(ctx context.Context, f AuditFilter) ([]AuditLink, error)
	// AuditLoose counts the rows of a tenant that no link names: those that wait for
	// theirs, and those that do not and so came past dvt.
	AuditLoose(ctx context.Context, tenantID string) (waiting, stray int64, err error)
	AuditProofs
}

// AuditProofs gives what the audit is compared with.
type AuditProofs interface {
	// AuditObjects lists objects of a tenant after the cursor with the rows that made them, in the order of
	// their cursors. An object of the installation belongs to the tenant "".
	AuditObjects(ctx context.Context, f AuditObjectFilter) ([]AuditObject, error)
	LogSeals
	// AuditMissing lists linked rows of a tenant that made a policy, a setting or a decision that the store does not
	// hold any more, with a number above after, in the order of their numbers, at most limit (1 to MaxPage).
	AuditMissing(ctx context.Context, tenantID string, after int64, limit int) ([]AuditLink, error)
	// AuditHeads lists the newest link of each tenant after a tenant, in the order of tenants, at most limit.
	AuditHeads(ctx context.Context, afterTenant string, limit int) ([]AuditHead, error)
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
	WithoutSeals    bool // leaves out the rows of ActionSealLog
}

// AuditLink is one link of a tenant's chain.
type AuditLink struct {
	No   int64
	ID   string // of the row
	Hash [sha256.Size]byte
	Row  *AuditRow // nil: it was taken away
}

// MaxAuditNo bounds the numbers of links. A link at or above it is a forgery; the chain goes on below it.
const MaxAuditNo = 1 << 62

// AuditBacklog is what waits for its link in one tenant.
type AuditBacklog struct {
	TenantID string
	Oldest   time.Time     // At of the oldest row
	Waiting  time.Duration // since Oldest, by the store's clock
}

// AuditHead is the end of a tenant's chain.
type AuditHead struct {
	TenantID string `json:"tenant"`
	No       int64  `json:"no"`
	Hash     string `json:"hash"` // in hex
}

// Link is the hash of a row as link no of its tenant's chain: SHA-256 over the
// strings v2, hash before in hex (empty for the first), no, id, at (RFC 3339 in UTC
// with six digits), tenantId, actor, action, runId, signalId, outcome, code, reason,
// requestId, detail (empty for none), credential, address, via, object and digest, each
// written as its length in bytes, a colon and itself. Rows of format 1 begin with v1 and
// end with detail. Anybody can compute it.
func (r AuditRow) Link(before [sha256.Size]byte, no int64) [sha256.Size]byte {
	previous := ""
	if no > 1 {
		previous = hex.EncodeToString(before[:])
	}
	parts := []string{
		"v" + strconv.Itoa(max(r.Format, 1)), previous, strconv.FormatInt(no, 10), r.ID,
		r.At.UTC().Format("2006-01-02T15:04:05.000000Z"), r.TenantID,
		r.Actor, r.Action, r.RunID, r.SignalID, r.Outcome, string(r.Code), r.Reason, r.RequestID, string(r.Detail),
	}
	if r.Format > 1 {
		parts = append(parts, r.Credential, r.Address, r.Via, r.Object, r.Digest)
	}
	return Digest(parts...)
}

// Digest is SHA-256 over parts, each written as its length in bytes, a colon and itself.
func Digest(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, s := range parts {
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
