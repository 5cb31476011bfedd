package journal

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// LogStore reads and appends to the logs of runs.
type LogStore interface {
	Append(ctx context.Context, a store.Append) (store.Appended, error)
	StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error)
	EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error)
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
	Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error)
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
}

// RunStore reads runs, and reads and stores their plans.
type RunStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
	Load(ctx context.Context, runID string) (store.Loaded, error)
	QueueRow(ctx context.Context, runID string) (store.QueueRow, error)
	Epoch(ctx context.Context) (string, error)
	Plan(ctx context.Context, sha256 string) ([]byte, error)
	PutPlan(ctx context.Context, sha256 string, doc []byte) error
}

// ListStore lists runs.
type ListStore interface {
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
}

// SignalStore reads signals, overlays and approvals of runs.
type SignalStore interface {
	After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error)
	Receipt(ctx context.Context, runID, signalID string) (run.SignalReceipt, error)
	Overlays(ctx context.Context, runID, stepID string, after, upTo run.Seq) ([]run.SignalReceipt, error)
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Approval(ctx context.Context, runID string) (store.Approval, error)
}

// WorkerStore reads and stores the reports of workers, and writes audit rows.
type WorkerStore interface {
	Audit(ctx context.Context, rows ...store.AuditRow) error
	PutWorkerReports(ctx context.Context, rows []store.WorkerReport, audit ...store.AuditRow) error
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error)
	WorkerDrains(ctx context.Context, account string) ([]store.WorkerDrain, error)
}

// SecretStore records reads of secrets, and has the orders about secrets.
type SecretStore interface {
	PutSecretReads(ctx context.Context, rows []store.SecretRead) error
	OpenSecretOrders(ctx context.Context) ([]store.SecretOrder, error)
	PutSecretAnswer(ctx context.Context, a store.SecretAnswer) error
}

// Store groups the ports of a Journal.
type Store struct {
	Log     LogStore
	Runs    RunStore
	Signals SignalStore
	Workers WorkerStore
	Secrets SecretStore
	Lists   ListStore
}

// On returns the ports on one store that implements all of them.
func On(s interface {
	LogStore
	RunStore
	SignalStore
	WorkerStore
	SecretStore
	ListStore
}) Store {
	return Store{Log: s, Runs: s, Signals: s, Workers: s, Secrets: s, Lists: s}
}
