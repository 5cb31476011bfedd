package store

import (
	"context"
	"encoding/json"
	"time"
)

// Limits of stored worker reports.
const (
	MaxWorkerReports  = 1000           // rows of an installation; the oldest are deleted first
	MaxAccountReports = 500            // rows of one account, so that no account displaces all others
	WorkerReportLife  = 24 * time.Hour // older rows are deleted
)

// WorkerReport is the newest report of a worker about one of its queues.
type WorkerReport struct {
	Account string // the worker account that sent it
	Worker  string // names the process within its account
	Queue   string
	Doc     json.RawMessage // the report; opaque to the store
	At      time.Time       // set by the store
}

// WorkerDrain asks a worker to begin no further steps.
type WorkerDrain struct {
	Account, Worker string
	RequestID       string
	Actor, Reason   string
	At              time.Time // set by the store
}

// Workers stores the newest report of each worker about each of its queues, and the drains of workers.
type Workers interface {
	// PutWorkerReports replaces the rows of the same account, worker and queue, and adds the audit rows in the same
	// transaction. It also deletes rows older than WorkerReportLife, and the oldest ones above MaxAccountReports and
	// MaxWorkerReports. All rows must be of one account, each worker and queue at most once.
	PutWorkerReports(ctx context.Context, rows []WorkerReport, audit ...AuditRow) error
	// WorkerReports lists the reports about these queues that are at most age old by the store's clock, by queue,
	// account and worker; about every queue when none is given. It is one statement.
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]WorkerReport, error)

	// DrainWorker stores the drain of a worker with the audit rows in one transaction. A worker has at most one drain;
	// a drained worker keeps the one that it has, and no audit row is written. It returns the one in force. ErrNotFound
	// when the store has no report of the worker.
	DrainWorker(ctx context.Context, d WorkerDrain, audit ...AuditRow) (WorkerDrain, error)
	// EndWorkerDrain removes the drain of a worker with the audit rows in one transaction; ErrNotFound.
	EndWorkerDrain(ctx context.Context, account, worker string, audit ...AuditRow) error
	// WorkerDrains lists the drains of an account, or of every account for "", by account and worker, at most
	// MaxWorkerReports. A drain is forgotten when the store has no report of its worker any more.
	WorkerDrains(ctx context.Context, account string) ([]WorkerDrain, error)
}
