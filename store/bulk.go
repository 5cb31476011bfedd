package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Bulks keeps bulks: the same signal to many runs, one row for each run. What became of
// a signal is in its receipt alone; a row says what came back when it was sent.
type Bulks interface {
	BulkReader
	// PutBulk keeps a bulk whose rows are numbered from 1 in their order, with the audit row, in
	// one transaction. One with the same tenant, actor and request id is left as it is: the stored one
	// and false are returned. ErrTooMany when the actor has b.MostOpen that are not finished. Of the
	// actor's finished ones those beyond the b.Keep newest bulks are deleted with their rows.
	PutBulk(ctx context.Context, b NewBulk) (Bulk, bool, error)
	// StopBulk stops a bulk, with the audit row, in one transaction: it is held no more (BulkTx), and due at once, for
	// what waits to be settled as BulkNotSent. One that is finished or was stopped is left as it is: it is returned
	// with false. ErrNotFound.
	StopBulk(ctx context.Context, id string, audit AuditRow) (Bulk, bool, error)
	// Identities reads whose runs are, in any order; unknown runs and those of other tenants are
	// absent. At most MaxBulk ids.
	Identities(ctx context.Context, tenantID string, runIDs []string) ([]run.Identity, error)
}

// BulkReader says what became of bulks.
type BulkReader interface {
	// Bulk reads one; ErrNotFound.
	Bulk(ctx context.Context, id string) (Bulk, error)
	// Bulks lists those of one actor, newest first.
	Bulks(ctx context.Context, f BulkFilter) ([]Bulk, error)
	// BulkRows lists rows with the receipts of their signals, by number.
	BulkRows(ctx context.Context, f BulkRowFilter) ([]BulkRow, error)
	// BulkMarks reads how far each row has come, by number: at most MaxBulk.
	BulkMarks(ctx context.Context, id string) ([]BulkMark, error)
}

// BulkWork hands bulks that are not finished to whoever is alive, one at a time each. All times are the store's.
type BulkWork interface {
	// LeaseBulks takes up to limit bulks that are due and whose lease is free, the longest due first.
	LeaseBulks(ctx context.Context, owner string, ttl time.Duration, limit int) ([]Bulk, error)
	// WaitingBulkRows lists rows that have no outcome and are due, by number, at most limit, and what
	// the next one of the others waits for: nothing when there is none. Of a bulk that was stopped all are due.
	WaitingBulkRows(ctx context.Context, id string, limit int) ([]BulkRow, BulkPause, error)
	// SettleBulkRows keeps what became of rows under the lease, which lasts for ttl from now on; a row
	// that has an outcome keeps it. With the last one the bulk is finished and the lease ends.
	// ErrConflict when the fence moved or the lease ended: nothing is written.
	SettleBulkRows(ctx context.Context, b Bulk, s BulkSettlement, ttl time.Duration) (Bulk, error)
	// ReleaseBulk ends a lease; the bulk is due again after delay, at once when it was stopped. ErrConflict when the
	// fence moved.
	ReleaseBulk(ctx context.Context, b Bulk, delay time.Duration) error
}

// BulkTx is the bulk that a signal to the locked run is of.
type BulkTx interface {
	// HoldBulk keeps a leased bulk as it is until the transaction ends: nobody leases, stops or settles it meanwhile.
	// So a signal is sent under the fence of its bulk, however long its sender slept, and who leased it next finds the
	// receipt of each that was sent before. ErrConflict when the fence moved, the lease was given back or the bulk was
	// stopped.
	HoldBulk(ctx context.Context, b Bulk) error
}

// MaxBulk is the most runs of one bulk.
const MaxBulk = 5000

// BulkOutcome is what came back when the signal of a row was sent.
type BulkOutcome string

// Outcomes of rows.
const (
	BulkWaiting  BulkOutcome = "WAITING"  // it was not sent yet
	BulkAccepted BulkOutcome = "ACCEPTED" // its receipt says how far it has come
	BulkRejected BulkOutcome = "REJECTED" // by the state of the run; its receipt says why
	BulkRefused  BulkOutcome = "REFUSED"  // for another reason, which the row says; there is no receipt
	BulkNotSent  BulkOutcome = "NOT_SENT" // the bulk was stopped before
)

// Bulk is one signal to many runs.
type Bulk struct {
	ID          string // UUID
	TenantID    string
	Actor       string
	RequestID   string
	Fingerprint string          // of what was asked for
	Principal   json.RawMessage // who asked, and how they came
	Action      json.RawMessage
	Reason      string
	Total       int
	Accepted    int
	Rejected    int
	Refused     int
	NotSent     int
	// Paced is why rows wait, "" when none does, and PacedUntil for how long.
	Paced      run.Code
	PacedUntil *time.Time
	Rev        int64 // grows whenever anything of the bulk or its rows changes
	CreatedAt  time.Time
	FinishedAt *time.Time
	StoppedAt  *time.Time // when it was asked to stop
	Generation int64      // the fence: grows with every lease
}

// Waiting is how many rows have no outcome.
func (b Bulk) Waiting() int { return b.Total - b.Accepted - b.Rejected - b.Refused - b.NotSent }

// NewBulk is what PutBulk writes; Generation, Rev, counts and times of Bulk are the store's.
type NewBulk struct {
	Bulk
	Runs     []run.Identity // 1..MaxBulk, each of them once
	MostOpen int
	Keep     int
	Audit    AuditRow
}

// BulkRow is one run of a bulk.
type BulkRow struct {
	No            int // from 1
	RunID         string
	ProjectID     string
	EnvironmentID string
	SignalID      string
	Outcome       BulkOutcome
	Code          run.Code // of a REFUSED one
	Message       string
	At            *time.Time   // of the outcome
	Receipt       *run.Receipt // nil when there is none, and in WaitingBulkRows
}

// Failed reports whether what was asked for did not come about.
func (r BulkRow) Failed() bool {
	return r.Outcome == BulkRejected || r.Outcome == BulkRefused || r.Receipt != nil &&
		r.Receipt.Application == run.SignalNotApply
}

// BulkMark is how far one row has come.
type BulkMark struct {
	No          int
	Outcome     BulkOutcome
	Application run.Application // of an ACCEPTED one
	Moving      bool            // an applied PAUSE whose run is not quiescent yet
}

// BulkFilter selects bulks of one actor of a tenant.
type BulkFilter struct {
	TenantID string
	Actor    string
	Before   string // ID: those made before it
	Limit    int    // 1..MaxPage
}

// BulkRowFilter selects rows of one bulk. Empty fields do not restrict.
type BulkRowFilter struct {
	BulkID  string
	Nos     []int
	After   int // those with a higher number
	Outcome BulkOutcome
	Failed  bool // see BulkRow.Failed
	Limit   int  // 1..MaxBulk
}

// BulkSettlement is what became of some rows.
type BulkSettlement struct {
	Ends  []BulkEnd
	Pause BulkPause // of the bulk, from now on
}

// BulkPause is why something waits, "" when it does not, and for how long.
type BulkPause struct {
	Code run.Code
	For  time.Duration
}

// BulkEnd is what became of one row. One that is WAITING is tried again after Delay.
type BulkEnd struct {
	No      int
	Outcome BulkOutcome
	Code    run.Code
	Message string
	Delay   time.Duration
}

// BulkSignalPrefix begins the signalIds of rows.
const BulkSignalPrefix = "bulk."

// BulkSignalID is the signalId of a row: the same whenever it is sent.
func BulkSignalID(bulkID string, no int) string {
	return fmt.Sprintf("%s%s.%d", BulkSignalPrefix, bulkID, no)
}
