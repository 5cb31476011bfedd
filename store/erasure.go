package store

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// ErasureKind says what an erasure erases.
type ErasureKind string

// Kinds of erasures.
const (
	EraseTenant  ErasureKind = "TENANT"  // everything of a tenant
	EraseSubject ErasureKind = "SUBJECT" // one person of a tenant
)

// Erasure is a request to erase a tenant or a person, and what became of it. When it has finished it is a tombstone:
// Subject, Reason, the names, and TenantID of an erased tenant are then empty. Certificate says what was erased.
type Erasure struct {
	Pos         int64
	ID          string
	Kind        ErasureKind
	TenantID    string
	Subject     string // name of the person; "" for a tenant
	Reason      string
	RequestedBy string
	RequestedAt time.Time
	ExpiresAt   time.Time // a request that nobody confirmed until then cannot be confirmed
	ConfirmedBy string
	ConfirmedAt *time.Time
	CancelledBy string
	CancelledAt *time.Time
	StartedAt   *time.Time
	Phase       string
	Position    string           // within Phase
	Counts      map[string]int64 // what was erased, by place
	FinishedAt  *time.Time
	Certificate json.RawMessage
}

// OpenWork is what an erasure of a person waits for: open runs and working bulks that name the person. The owner finds
// it, because only the owner reads every row, and keeps it in Erasure.Position.
type OpenWork struct {
	At    time.Time `json:"at"`    // when the owner looked
	Count int       `json:"count"` // of all
	Runs  []string  `json:"runs"`  // at most MaxOpenWork
	Bulks []string  `json:"bulks"`
}

// MaxOpenWork is the most runs that an OpenWork names.
const MaxOpenWork = 20

// openWork begins a Position that is an OpenWork.
const openWork = "open "

// Position returns the text for Erasure.Position.
func (w OpenWork) Position() string {
	doc, _ := json.Marshal(w) // times and strings have a JSON form
	return openWork + string(doc)
}

// OpenWorkOf returns what an erasure waits for; false when it waits for nothing that is open.
func OpenWorkOf(e Erasure) (w OpenWork, waits bool) {
	doc, found := strings.CutPrefix(e.Position, openWork)
	return w, found && e.FinishedAt == nil && json.Unmarshal([]byte(doc), &w) == nil
}

// ErasureFilter selects erasures. Empty fields do not restrict.
type ErasureFilter struct {
	TenantID string
	IDs      []string // at most MaxPage
	Before   int64    // only erasures with a lower Pos; 0: all
	Open     bool     // only those that are neither finished nor cancelled, also expired ones
	Limit    int      // 1..MaxPage
}

// MaxErasureCount is the most that ErasureCounts counts in one table.
const MaxErasureCount = 100_000

// ErasureCounts is what an erasure would do now. Tables without such rows are absent, and a table with more than
// MaxErasureCount rows has MaxErasureCount.
type ErasureCounts struct {
	Deleted map[string]int64 // rows that it would delete, by table
	// Remaining counts the rows that name the person and remain, by table. The erasure replaces the name in them, except
	// where nothing can: its certificate counts these.
	Remaining map[string]int64
}

// Erasures stores requests to erase, and the decisions about them. No method carries one out: that needs the rights of
// the store's owner, which servers do not have (contract T208).
type Erasures interface {
	// RequestErasure inserts a request, and the audit row in the same transaction. It expires ttl from now. A request
	// whose ID is stored does not change and is returned. ErrConflict, and nothing is written, while another request for
	// the same person or tenant can still be carried out or confirmed.
	RequestErasure(ctx context.Context, e Erasure, ttl time.Duration, audit ...AuditRow) (Erasure, error)
	// DecideErasure confirms or cancels a request, with the audit row in the same transaction. ErrConflict, and nothing
	// is written, when the request was decided before, has expired, or when the person who requested it confirms it. A
	// confirmed erasure can be cancelled until it starts. ErrNotFound for an unknown id, also of another tenant.
	DecideErasure(ctx context.Context, tenantID, id, by string, confirm bool, audit ...AuditRow) (Erasure, error)
	// Erasures lists erasures, the newest first.
	Erasures(ctx context.Context, f ErasureFilter) ([]Erasure, error)
	// CountErasure counts what an erasure of a person would delete and leave, or of the whole tenant when subject is "".
	// It changes nothing.
	CountErasure(ctx context.Context, tenantID, subject string) (ErasureCounts, error)
	// ErasureHolds counts the open legal holds that forbid this erasure.
	ErasureHolds(ctx context.Context, tenantID, subject string) (int64, error)
}
