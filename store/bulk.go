package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Bulks stores bulks: one action on many runs, with one row for each run. The action is a signal or a rerun. The row
// has the result of sending the signal or of creating the new run; only the receipt of the signal says how it was
// applied.
type Bulks interface {
	BulkReader
	// PutBulk inserts a bulk with one row for each of b.Runs, numbered from 1, and the audit row, in one transaction.
	// When the actor of the tenant has a bulk with the same request id it writes nothing and returns the stored bulk and
	// false. ErrTooMany when the actor has b.MostOpen unfinished bulks. It also deletes finished bulks of the actor, with
	// their rows, that are not among the b.Keep newest.
	PutBulk(ctx context.Context, b NewBulk) (Bulk, bool, error)
	// StopBulk marks a bulk as stopped, with the audit row in the same transaction. From then on HoldBulk refuses it, and
	// it is due at once, so that its waiting rows are settled as BulkNotSent. When the bulk is finished or was stopped
	// before, it writes nothing and returns the bulk and false. ErrNotFound for an unknown bulk.
	StopBulk(ctx context.Context, id string, audit AuditRow) (Bulk, bool, error)
	// Identities reads the identities of runs, in any order. Unknown runs and runs of other tenants are absent. At most
	// MaxBulk ids.
	Identities(ctx context.Context, tenantID string, runIDs []string) ([]run.Identity, error)
}

// BulkReader reads bulks and their results.
type BulkReader interface {
	// Bulk reads a bulk; ErrNotFound.
	Bulk(ctx context.Context, id string) (Bulk, error)
	// Bulks lists the bulks of one actor, the newest first.
	Bulks(ctx context.Context, f BulkFilter) ([]Bulk, error)
	// BulkRows lists rows by number, with the receipts of their signals.
	BulkRows(ctx context.Context, f BulkRowFilter) ([]BulkRow, error)
	// BulkMarks reads the progress of all rows of a bulk, by number.
	BulkMarks(ctx context.Context, id string) ([]BulkMark, error)
	// BulkStatuses counts the runs of ACCEPTED rows by status, of those of the bulks that belong to the actor of the
	// tenant, in any order. At most MaxPage ids.
	BulkStatuses(ctx context.Context, tenantID, actor string, ids []string) ([]BulkStatusCount, error)
}

// BulkWork leases unfinished bulks to servers, each bulk to one server at a time. All times are the store's.
type BulkWork interface {
	// LeaseBulks leases up to limit (≤ MaxPage) bulks that are due and not leased, the longest due first.
	LeaseBulks(ctx context.Context, owner string, ttl time.Duration, limit int) ([]Bulk, error)
	// WaitingBulkRows lists rows that have no outcome and are due, by number, at most limit (≤ MaxPage). It also returns
	// why and how long the next row that is not due waits; the zero BulkPause when there is no such row. In a stopped
	// bulk all rows are due.
	WaitingBulkRows(ctx context.Context, id string, limit int) ([]BulkRow, BulkPause, error)
	// SettleBulkRows writes the outcomes of rows and extends the lease to ttl from now. A row that has an outcome does
	// not change. When all rows have an outcome the bulk is finished, and nobody leases it again. ErrConflict, and
	// nothing is written, when the bulk was leased again, the lease was released, or the bulk is finished.
	SettleBulkRows(ctx context.Context, b Bulk, s BulkSettlement, ttl time.Duration) (Bulk, error)
	// ReleaseBulk ends a lease. The bulk is due again after delay, or at once when it was stopped. ErrConflict as for
	// SettleBulkRows.
	ReleaseBulk(ctx context.Context, b Bulk, delay time.Duration) error
}

// BulkTx locks the bulk to which a signal to the locked run belongs.
type BulkTx interface {
	// HoldBulk locks a leased bulk until the transaction ends, so that nobody leases, stops or settles it meanwhile. A
	// sender that slept past its lease cannot send a signal, and the next owner finds the receipt of every signal that
	// was sent before. ErrConflict when the bulk was leased again, released, finished or stopped.
	HoldBulk(ctx context.Context, b Bulk) error
}

// MaxBulk is the most runs of one bulk.
const MaxBulk = 5000

// BulkOutcome is the result of sending the signal of a row.
type BulkOutcome string

// Outcomes of rows.
const (
	BulkWaiting  BulkOutcome = "WAITING"  // the signal was not sent yet
	BulkAccepted BulkOutcome = "ACCEPTED" // the receipt says how far the signal has come
	BulkRejected BulkOutcome = "REJECTED" // by the state of the run; the receipt says why
	BulkRefused  BulkOutcome = "REFUSED"  // for another reason, which the row names; there is no receipt
	BulkNotSent  BulkOutcome = "NOT_SENT" // the bulk was stopped before the signal was sent
)

// Bulk is one signal to many runs.
type Bulk struct {
	ID          string // UUID
	TenantID    string
	Actor       string
	RequestID   string
	Fingerprint string          // of the request, to detect another request under the same request id
	Principal   json.RawMessage // that requested the bulk, and how it authenticated
	Action      json.RawMessage
	Reason      string
	Total       int
	Accepted    int
	Rejected    int
	Refused     int
	NotSent     int
	// Paced is the reason why rows wait, "" when none waits; PacedUntil is the end of the wait.
	Paced      run.Code
	PacedUntil *time.Time
	Rev        int64 // increases with every change of the bulk or its rows
	CreatedAt  time.Time
	FinishedAt *time.Time
	StoppedAt  *time.Time // when StopBulk was called
	Generation int64      // the fencing token: increases with every lease
}

// Waiting returns the number of rows without an outcome.
func (b Bulk) Waiting() int { return b.Total - b.Accepted - b.Rejected - b.Refused - b.NotSent }

// NewBulk is the input of PutBulk. The store sets Generation, Rev, counts and times of Bulk.
type NewBulk struct {
	Bulk
	Runs     []run.Identity // 1..MaxBulk, each once
	Keys     []string       // SignalID of each row, as many as Runs; nil: BulkSignalID of each row
	MostOpen int            // unfinished bulks that the actor may have
	Keep     int            // bulks of the actor that are not deleted
	Audit    AuditRow
}

// BulkRow is one run of a bulk.
type BulkRow struct {
	No            int // from 1
	RunID         string
	ProjectID     string
	EnvironmentID string
	SignalID      string // of a rerun: the request key of the new run
	Outcome       BulkOutcome
	Code          run.Code // of a REFUSED row, or why a WAITING row waits
	Message       string
	At            *time.Time         // of the outcome
	Receipt       *run.SignalReceipt // nil when there is none, and in WaitingBulkRows
	NewRunID      string             // the run that the rerun of this row created; "" for signals and before it exists
	RunStatus     run.Status         // of the new run if there is one, else of the run, by its checkpoint; "" when unknown
	PlanID        string             // of the run; "" when it is not stored
	Cause         *run.StepRef       // the failed step that blocks the run of RunStatus, by the same checkpoint
}

// Failed reports whether the signal was rejected or refused, or was accepted and not applied.
func (r BulkRow) Failed() bool {
	return r.Outcome == BulkRejected || r.Outcome == BulkRefused || r.Receipt != nil &&
		r.Receipt.Application == run.SignalNotApply
}

// BulkMark is the progress of one row.
type BulkMark struct {
	No          int
	Outcome     BulkOutcome
	Application run.Application // of the signal of an ACCEPTED row
	Moving      bool            // an applied PAUSE whose run is not quiescent yet
	RunStatus   run.Status      // see BulkRow.RunStatus
}

// BulkStatusCount is the number of accepted rows of a bulk whose run has the status; see BulkRow.RunStatus.
type BulkStatusCount struct {
	BulkID string
	Status run.Status
	Count  int
}

// BulkFilter selects bulks of one actor of a tenant.
type BulkFilter struct {
	TenantID string
	Actor    string
	Before   string // ID of a bulk: only bulks made before it
	Limit    int    // 1..MaxPage
}

// BulkRowFilter selects rows of one bulk. Empty fields do not restrict.
type BulkRowFilter struct {
	BulkID  string
	Nos     []int
	After   int // only rows with a higher number
	Outcome BulkOutcome
	Failed  bool // see BulkRow.Failed
	Limit   int  // 1..MaxBulk
}

// BulkSettlement is the results of some rows.
type BulkSettlement struct {
	Ends  []BulkEnd
	Pause BulkPause // becomes Bulk.Paced and Bulk.PacedUntil
}

// BulkPause says why and for how long rows wait. Code is "" when none waits.
type BulkPause struct {
	Code run.Code
	For  time.Duration
}

// BulkEnd is the result of one row. A row with BulkWaiting is due again after Delay.
type BulkEnd struct {
	No      int
	Outcome BulkOutcome
	Code    run.Code
	Message string
	Delay   time.Duration
}

// RecoverySignalPrefix is the prefix of the signalIds of retries that dvt sends by itself.
const RecoverySignalPrefix = "recovery."

// BulkSignalPrefix is the prefix of the signalIds of rows.
const BulkSignalPrefix = "bulk."

// BulkSignalID returns the signalId of a row. It is the same whenever the row is sent, so that sending twice has one
// effect.
func BulkSignalID(bulkID string, no int) string {
	return fmt.Sprintf("%s%s.%d", BulkSignalPrefix, bulkID, no)
}

// Key returns the SignalID of the row of Runs[i].
func (b NewBulk) Key(i int) string {
	if b.Keys != nil {
		return b.Keys[i]
	}
	return BulkSignalID(b.ID, i+1)
}
