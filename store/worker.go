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

// Workers stores the newest report of each worker about each of its queues.
type Workers interface {
	// PutWorkerReports replaces the rows of the same account, worker and queue, and adds the audit rows in the same
	// transaction. It also deletes rows older than WorkerReportLife, and the oldest ones above MaxAccountReports and
	// MaxWorkerReports. All rows must be of one account, each worker and queue at most once.
	PutWorkerReports(ctx context.Context, rows []WorkerReport, audit ...AuditRow) error
	// WorkerReports lists the reports about these queues that are at most age old by the store's clock, by queue,
	// account and worker; about every queue when none is given. It is one statement.
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]WorkerReport, error)
}
