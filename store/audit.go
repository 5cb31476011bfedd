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

// AuditRow records an action of an actor, carried out or refused.
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
	Credential string // of the actor, without its secret; "" when dvt itself acted
	Address    string // of the caller; "" when dvt itself acted
	Via        string // http, websocket, sign-in, worker, command; "" when dvt itself acted
	Object     string // name of the object that the action made, as MadeToken and the others set it; "": none
	Digest     string // of the object's content, in hex

	// Key seals Actor, Reason and Address of this row. The store keeps it in the transaction of the row, unless it has
	// it. nil: the texts are plain. No read sets it.
	Key *SubjectKey
	// Sealed are the stored texts, where a reader opened Actor, Reason and Address. No store sets it.
	Sealed *SealedTexts
}

// Audits stores audit rows, insert-only (contract T208), in one hash chain for each tenant. A link has a number, from 1
// without holes, and a hash over its row and the hash of the link before. Rows are linked shortly after they were
// committed, so that no write waits for the chain. A linked row that somebody deletes, changes or moves afterwards
// breaks the chain at its number.
type Audits interface { //nolint:interfacebloat // one subject: the chain of audit rows
	// Audit inserts rows. Every row needs an ID; a row whose ID is stored already does not change.
	Audit(ctx context.Context, rows ...AuditRow) error
	// LinkAudit links committed rows that have no link yet, those of one tenant in the order of At and ID, at most limit
	// (1 to MaxPage), and returns the number of linked rows. Each tenant has a transaction of its own, so that a tenant
	// with a damaged chain does not stop the others. The error joins those of the tenants; the number is right also with
	// an error. Several servers may call it at once: each row is linked once, and a call skips a tenant that another
	// server is linking.
	LinkAudit(ctx context.Context, limit int) (int, error)
	// AuditBacklog lists the tenants that have rows waiting for a link, the tenant with the oldest row first, at most
	// limit (≤ MaxPage).
	AuditBacklog(ctx context.Context, limit int) ([]AuditBacklog, error)
	// AuditLinks lists links of a tenant by number, ascending, or descending with f.Newest.
	AuditLinks(ctx context.Context, f AuditFilter) ([]AuditLink, error)
	// CountUnlinked counts the rows of a tenant without a link. waiting will be linked; stray do not wait for a link, so
	// somebody inserted them past dvt or removed their links.
	CountUnlinked(ctx context.Context, tenantID string) (waiting, stray int64, err error)
	AuditProofs
	SubjectKeys
}

// AuditProofs reads the objects and heads with which the audit is compared.
type AuditProofs interface {
	// AuditObjects lists objects of a tenant after the cursor with the rows that made them, in the order of their
	// cursors. Objects of the whole installation belong to the tenant "".
	AuditObjects(ctx context.Context, f AuditObjectFilter) ([]AuditObject, error)
	LogSeals
	// AuditMissing lists linked rows that made a policy, a setting or a decision which is no longer in the store: the
	// rows of a tenant with a number above after, by number, at most limit (1 to MaxPage).
	AuditMissing(ctx context.Context, tenantID string, after int64, limit int) ([]AuditLink, error)
	// AuditHeads lists the newest link of each tenant, for tenants after afterTenant by id, at most limit (≤ MaxPage).
	// Tenants without a link are absent.
	AuditHeads(ctx context.Context, afterTenant string, limit int) ([]AuditHead, error)
	// AuditEnds returns the number of the newest link of each of at most MaxPage tenants. Tenants without a link are
	// absent.
	AuditEnds(ctx context.Context, tenantIDs []string) (map[string]int64, error)
}

// AuditFilter selects links of one tenant. Empty fields do not restrict.
type AuditFilter struct {
	TenantID       string
	After, Before  int64 // numbers, both excluded
	From, To       time.Time
	Actor, Action  string
	RunID, Outcome string
	RequestID      string // exact
	Object         string // exact; has an index
	// Parts in lower case: of the actor, of the action, and the beginning of the id of the run.
	ActorPart, ActionPart, RunPrefix string
	// StoredActors are stored texts of actors, whose rows match beside those of ActorPart.
	StoredActors []string

	Limit           int  // 1..MaxPage
	Newest          bool // the highest number first
	WithMissingRows bool // also links whose row was deleted; only without the fields that restrict rows
	WithoutSeals    bool // without rows of ActionSealLog
}

// AuditLink is one link of a tenant's chain.
type AuditLink struct {
	No   int64
	ID   string // of the row
	Hash [sha256.Size]byte
	Row  *AuditRow // nil when the row was deleted
}

// MaxAuditNo limits the numbers of links. A link with this number or a higher one is a forgery; new links continue
// after the highest number below it, so that a forged link cannot exhaust the numbers.
const MaxAuditNo = 1 << 62

// AuditBacklog says how long rows of a tenant have been waiting for a link.
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

// Link returns the hash of a row as link no of its tenant's chain, given the hash of the link before. It is the Digest
// of the strings v2, hash before in hex (empty for the first link), no, id, at (RFC 3339 in UTC with six digits),
// tenantId, actor, action, runId, signalId, outcome, code, reason, requestId, detail (empty for none), credential,
// address, via, object and digest. For rows of format 1 the strings begin with v1 and end with detail. Of sealed
// texts it takes the stored form, so that destroying a key changes no hash. The hash needs no secret, so that an
// auditor can compute it.
func (r AuditRow) Link(before [sha256.Size]byte, no int64) [sha256.Size]byte {
	previous := ""
	if no > 1 {
		previous = hex.EncodeToString(before[:])
	}
	if r.Sealed != nil {
		r.Actor, r.Reason, r.Address = r.Sealed.Actor, r.Sealed.Reason, r.Sealed.Address
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

// Digest returns the SHA-256 over parts, each written as its length in bytes, a colon and itself, so that different
// parts never give the same input.
func Digest(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, s := range parts {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// AuditChain computes the links of rows in memory. It maps tenants to the newest link of their chains.
type AuditChain map[string]AuditLink

// Next returns the link of the next row of its tenant and adds it to the chain.
func (c AuditChain) Next(r AuditRow) AuditLink {
	last := c[r.TenantID]
	link := AuditLink{No: last.No + 1, ID: r.ID, Hash: r.Link(last.Hash, last.No+1), Row: &r}
	c[r.TenantID] = link
	return link
}
