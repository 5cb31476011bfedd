package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// QueueStatus is the state of a queue row. It says nothing about the status of the run (contract T36).
type QueueStatus string

// Queue statuses.
const (
	QueuePending   QueueStatus = "PENDING"
	QueueLocked    QueueStatus = "LOCKED"
	QueueStarted   QueueStatus = "STARTED"
	QueueFailed    QueueStatus = "FAILED"
	QueueCancelled QueueStatus = "CANCELLED"
)

// QueueRow is a run waiting for its engine start.
type QueueRow struct {
	RunID     string
	TenantID  string
	ProjectID string
	// Waiting says that the run was not admitted yet (see Admissions), so that Lease skips it.
	Waiting    bool
	Priority   int
	Position   int           // of a waiting run in its lane, from 1; set only by Admissions.WaitingRuns
	ExpiresAt  time.Time     // when the run stops waiting; zero: never
	Estimate   time.Duration // of the wait, from when the run was put into the queue; 0: unknown
	Status     QueueStatus
	Owner      string
	Generation int64 // the fencing token: increases with every lease
	LeaseUntil time.Time
	NotBefore  time.Time
	CreatedAt  time.Time
	Attempts   int
	LastError  string
}

// Queue leases admitted runs to the servers that start them, each run to one server at a time. All times are the
// store's.
type Queue interface {
	// Lease leases up to limit (≤ MaxPage) rows, the oldest first: rows that are PENDING and due, and rows that are
	// LOCKED by an expired lease, because their owner may have died (contract T128). A run may therefore be started
	// twice; the engine must accept the second start (contract T130).
	Lease(ctx context.Context, owner string, ttl time.Duration, limit int) ([]QueueRow, error)
	// MarkStarted marks a leased row STARTED. Repeating it changes nothing. ErrConflict when the row was leased again,
	// released or cancelled; ErrNotFound without a row.
	MarkStarted(ctx context.Context, runID string, generation int64) error
	// Release ends a lease: the row is PENDING again, due after delay, with cause as its LastError. ErrConflict when the
	// row is not LOCKED by this lease any more; ErrNotFound without a row.
	Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error
	// QueueRow reads the queue row of a run; ErrNotFound without one.
	QueueRow(ctx context.Context, runID string) (QueueRow, error)
}

// Signals stores receipts and leases their delivery to the engine. Signals of a run are delivered in the order of their
// numbers (contract T196), and an accepted signal is delivered even if the server that accepted it died (contract T93).
type Signals interface {
	// Receipt reads the receipt of a signal; ErrNotFound.
	Receipt(ctx context.Context, runID, signalID string) (run.SignalReceipt, error)
	// Receipts lists a run's receipts in the order in which they were received, after the given signal ("": from the
	// first), at most limit (≤ MaxPage).
	Receipts(ctx context.Context, runID, afterSignalID string, limit int) ([]run.SignalReceipt, error)
	// After lists the receipts of accepted signals with No > no by No, at most MaxPage.
	After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error)
	// LeaseDeliveries leases up to limit (≤ MaxPage) runs that have accepted signals without an acknowledgement of the
	// engine, are due and are not leased.
	LeaseDeliveries(ctx context.Context, owner string, ttl time.Duration, limit int) ([]Delivery, error)
	// MarkDelivered records that the engine acknowledged the signals up to no: PENDING receipts become DELIVERED, and a
	// PAUSE that is APPLIED already gets its DeliveredAt. It does not end the lease. ErrConflict when the run was
	// leased again or the lease was settled.
	MarkDelivered(ctx context.Context, d Delivery, no int64) error
	// ReleaseDelivery ends a lease. If signals are left to deliver the run is due again after delay. Generation keeps
	// its value, so that a late call of an earlier owner still conflicts. ErrConflict as for MarkDelivered.
	ReleaseDelivery(ctx context.Context, d Delivery, delay time.Duration) error
}

// Senders finds receipts by the actor who sent the signal.
type Senders interface {
	// ReceiptsOf lists the receipts of one actor of a tenant, the newest first.
	ReceiptsOf(ctx context.Context, f SenderFilter) ([]run.SignalReceipt, error)
}

// SenderFilter selects the receipts of one actor of a tenant.
type SenderFilter struct {
	TenantID string
	Actor    string
	Single   bool // without the signals of bulks; only the newest MaxSent receipts are considered
	Limit    int  // 1..MaxPage
}

// MaxSent bounds the receipts that SenderFilter.Single looks through.
const MaxSent = 10_000

// Delivery is a leased run with signals to deliver.
type Delivery struct {
	RunID       string
	TenantID    string
	Generation  int64 // the fencing token: increases with every lease
	DeliveredNo int64 // the number of the last signal that the engine acknowledged
	Attempts    int
}

// Transactor runs decisions under the lock of one run's head.
type Transactor interface {
	// InRun locks the run's head, calls f, and commits when f returns nil. An error of f rolls everything back and is
	// returned unchanged. InRun calls f again after a serialisation conflict that committed nothing, so f must not keep
	// state between calls. f must do no I/O except through tx, because it runs under the lock. ErrNotFound for an unknown
	// run.
	InRun(ctx context.Context, runID string, f func(tx RunTx) error) error
	// CreateRun inserts run, head, plan body, queue row and first events in one transaction. If a run with the request
	// key exists it changes nothing and returns that run and created = false. ErrConflict when another request has made a
	// run with this id; a *RefusedError when the queue refuses the run. Nothing is written in either case.
	CreateRun(ctx context.Context, n NewRun) (r Run, created bool, err error)
}

// NewRun is the input of CreateRun.
type NewRun struct {
	Run    Run
	Plan   []byte // body to store under Run.PlanRef.SHA256; nil when the store has it already
	Events []run.Draft
	// Enqueue puts the run into the queue; nil: the run gets no queue row. If the run has to wait, the drafts that Wait
	// returns are appended instead of Events.
	Enqueue *Enqueue
	Wait    func(Admission) ([]run.Draft, error)
	// Written, if set, is called once with the committed run, before CreateRun returns created = true. Wait and Written
	// must do no I/O. Another goroutine may call them, even after CreateRun returned because its context ended. Wait is
	// called again after a conflict that committed nothing.
	Written func(Written)
	// NeedApproval makes the run wait for approval. It excludes Enqueue.
	NeedApproval *NeedApproval
	// Bulk, if set, is the leased bulk whose row asks for the run. CreateRun holds it like HoldBulk, with the same error.
	Bulk *Bulk
	// UnlessRerun makes CreateRun return ErrAlreadyRerun when the chain of Run.ParentRunID has a run that is newer than
	// that one and was not cancelled. Transactions that create reruns of one chain take turns, so of two such calls at
	// the same time one creates a run.
	UnlessRerun bool
	Audit       []AuditRow
	// Receipts are only for Import, which writes them unchanged, including their numbers.
	Receipts []run.SignalReceipt
	// Tags and Notes are only for Import, which writes them unchanged.
	Tags  []string
	Notes []Note
}

// Written is a new run as Load and QueueRow would read it.
type Written struct {
	Loaded Loaded
	Queue  *QueueRow // nil when the run has no queue row
}

// RunTx is one decision under the head lock. It is valid only inside InRun.
type RunTx interface { //nolint:interfacebloat // the sum of what a decision may touch; callers name the part they need
	LogTx
	SignalTx
	OverlayTx
	AlertTx
	QueueTx
	QuotaTx
	ApprovalTx
	AnnotationTx
	BulkTx
	// Audit works like Audits.Audit, in this transaction.
	Audit(ctx context.Context, rows ...AuditRow) error
}

// LogTx is the log of the locked run.
type LogTx interface {
	// Head returns the head, including the appends of this transaction.
	Head() Head
	// State reads the checkpoint and folds the events after it, up to Head.
	State(ctx context.Context) (run.State, error)
	// Append works like Log.Append, in this transaction.
	Append(ctx context.Context, a Append) (Appended, error)
}

// SignalTx is the receipts of the locked run.
type SignalTx interface {
	// PutReceipt inserts a receipt and returns it as stored. ErrConflict when the run has a receipt of this signalId. An
	// accepted receipt gets the run's next No and, if deliver is set, makes the run due for delivery. The store sets a
	// zero ReceivedAt.
	PutReceipt(ctx context.Context, r run.SignalReceipt, deliver bool) (run.SignalReceipt, error)
	// Receipt reads the receipt of a signal; ErrNotFound.
	Receipt(ctx context.Context, signalID string) (run.SignalReceipt, error)
	// IsUndecided reports whether an accepted receipt of the run has no final application.
	IsUndecided(ctx context.Context) (bool, error)
}

// QueueTx is the queue row of the locked run.
type QueueTx interface {
	// Queue reads the queue row; ErrNotFound without one.
	Queue(ctx context.Context) (QueueRow, error)
	// SetQueue updates Status, Owner, LeaseUntil, NotBefore, ExpiresAt and LastError of the row. A row that goes on
	// waiting for its admission keeps its NotBefore. A zero ExpiresAt leaves that of the row. Any status but LOCKED
	// ends the lease, and any but PENDING ends the wait for admission. ErrConflict when the row has another
	// Generation than q; ErrNotFound without a row.
	SetQueue(ctx context.Context, q QueueRow) error
}
