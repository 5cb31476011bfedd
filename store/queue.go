package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// QueueStatus is the life of a queue row; never mixed with run status (T36).
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
	// Waiting: it was not admitted yet (Admissions); Lease passes it by.
	Waiting    bool
	Priority   int
	Position   int           // of a waiting one in its lane, from 1; only Admissions.WaitingRuns says it
	ExpiresAt  time.Time     // when it stops waiting; zero: never
	Estimate   time.Duration // that it was told when it came; 0: none
	Status     QueueStatus
	Owner      string
	Generation int64 // the fence: grows with every lease (T128)
	LeaseUntil time.Time
	NotBefore  time.Time
	CreatedAt  time.Time
	Attempts   int
	LastError  string
}

// Queue hands run starts to whoever is alive, once at a time (T128, T130). All
// times are the store's.
type Queue interface {
	// Lease takes up to limit rows that are PENDING and due, or LOCKED with an
	// expired lease, oldest first.
	Lease(ctx context.Context, owner string, ttl time.Duration, limit int) ([]QueueRow, error)
	// Started marks a leased row STARTED; ErrConflict when the fence moved.
	Started(ctx context.Context, runID string, generation int64) error
	// Release gives a leased row back, due after delay; ErrConflict when the fence moved.
	Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error
	QueueRow(ctx context.Context, runID string) (QueueRow, error)
}

// Signals is receipts and their delivery to the engine, in order per run (T93, T196).
type Signals interface {
	Receipt(ctx context.Context, runID, signalID string) (run.Receipt, error)
	// Receipts lists a run's receipts in the order they were received, after the
	// given signal ("" for the first), at most limit.
	Receipts(ctx context.Context, runID, afterSignalID string, limit int) ([]run.Receipt, error)
	// After lists accepted signals with No > no in order, at most MaxPage.
	After(ctx context.Context, runID string, no int64) ([]run.Receipt, error)
	// LeaseDeliveries takes up to limit runs that have accepted signals the engine
	// has not acknowledged and whose lease is free.
	LeaseDeliveries(ctx context.Context, owner string, ttl time.Duration, limit int) ([]Delivery, error)
	// Delivered records that the engine acknowledged signals up to no: those that are
	// PENDING become DELIVERED, and a PAUSE that is APPLIED already gets its DeliveredAt. The
	// lease stays until Settle.
	Delivered(ctx context.Context, d Delivery, no int64) error
	// Settle ends a lease; it is due again after delay when something is left to
	// deliver. Its fence outlives it. ErrConflict when the fence moved.
	Settle(ctx context.Context, d Delivery, delay time.Duration) error
}

// Senders finds receipts by who sent them.
type Senders interface {
	// ReceiptsOf lists what one actor of a tenant sent, newest first, at most limit.
	ReceiptsOf(ctx context.Context, tenantID, actor string, limit int) ([]run.Receipt, error)
}

// Delivery is a leased run with signals to deliver.
type Delivery struct {
	RunID       string
	TenantID    string
	Generation  int64
	DeliveredNo int64 // acknowledged so far
	Attempts    int
}

// Transactor runs decisions under the head lock of one run.
type Transactor interface {
	// InRun locks the run's head and calls f once (again only after a
	// serialisation conflict that committed nothing). f does no I/O of its own. An
	// error of f rolls everything back and is returned as it is. ErrNotFound for
	// an unknown run.
	InRun(ctx context.Context, runID string, f func(tx RunTx) error) error
	// CreateRun makes run, head, plan body, queue row and first events in one
	// transaction. When the request key exists it changes nothing and returns the
	// run of the first call and created = false. A *RefusedError when the queue does not take it in.
	CreateRun(ctx context.Context, n NewRun) (r Run, created bool, err error)
}

// NewRun is what CreateRun writes.
type NewRun struct {
	Run    Run
	Plan   []byte // body to keep under Run.PlanRef.SHA256; nil when it is there already
	Events []run.Draft
	// Enqueue puts the run into the queue; nil: it has no queue row. When it has to wait
	// Events are not written, but what Wait makes of the answer.
	Enqueue *Enqueue
	Wait    func(Admission) ([]run.Draft, error)
	// Written, if set, is called with what was committed before CreateRun returns created = true, by a store that knows
	// it without reading. Neither function does I/O; both may be called by another goroutine, also after a caller whose
	// context ended has left, and Wait again after a conflict that committed nothing.
	Written func(Written)
	// NeedApproval instead of Enqueue: the run waits for people first.
	NeedApproval *NeedApproval
	Audit        []AuditRow
	// Receipts are for Import alone: they are kept as they are, numbers included.
	Receipts []run.Receipt
}

// Written is a new run as Load and QueueRow would read it.
type Written struct {
	Loaded Loaded
	Queue  *QueueRow // nil: it has no queue row
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
	BulkTx
	Audit(ctx context.Context, rows ...AuditRow) error
}

// LogTx is the log of the locked run.
type LogTx interface {
	Head() Head // moves with Append
	// State loads checkpoint and tail.
	State(ctx context.Context) (run.State, error)
	// Append works as Log.Append, in this transaction.
	Append(ctx context.Context, a Append) (Appended, error)
}

// SignalTx is the receipts of the locked run.
type SignalTx interface {
	// PutReceipt inserts a receipt, or ErrConflict when the signalId exists. An
	// accepted one gets the run's next No and, when deliver is set, the run's
	// delivery mark. It returns the stored receipt.
	PutReceipt(ctx context.Context, r run.Receipt, deliver bool) (run.Receipt, error)
	Receipt(ctx context.Context, signalID string) (run.Receipt, error)
	// Undecided reports whether an accepted receipt of the run has no final application.
	Undecided(ctx context.Context) (bool, error)
}

// QueueTx is the queue row of the locked run.
type QueueTx interface {
	Queue(ctx context.Context) (QueueRow, error)
	// SetQueue moves the row to the given status, fenced by Generation: ErrConflict when it moved.
	SetQueue(ctx context.Context, q QueueRow) error
}
