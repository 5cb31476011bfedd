package health

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

// ReportStore reads the reports of workers.
type ReportStore interface {
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error)
}

// WorkerReader lists the reports of data workers. It is safe for concurrent use.
type WorkerReader struct {
	rights *control.Rights
	store  ReportStore
}

// NewWorkerReader makes a WorkerReader.
func NewWorkerReader(rights *control.Rights, store ReportStore) *WorkerReader {
	return &WorkerReader{rights: rights, store: store}
}

// WorkerState is the newest report of a data worker about one of its queues.
type WorkerState struct {
	Account, Queue string
	engine.WorkerReport
	ReportedAt time.Time // the store's clock
	Live       bool      // recent enough to count in the admission of plans
}

// Workers lists the reports of data workers from the last 24 hours, by queue, account and worker. FORBIDDEN for callers
// that may not see the health of the installation.
func (s *WorkerReader) Workers(ctx context.Context, p authz.Principal) ([]WorkerState, error) {
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return nil, err
	}
	rows, err := s.store.WorkerReports(ctx, nil, store.WorkerReportLife)
	if err != nil {
		return nil, control.Translate(err)
	}
	now := s.rights.Now()
	out := make([]WorkerState, 0, len(rows))
	for _, row := range rows {
		w := WorkerState{Account: row.Account, Queue: row.Queue, ReportedAt: row.At,
			Live: now.Sub(row.At) <= admission.FreshReport}
		if err := json.Unmarshal(row.Doc, &w.WorkerReport); err != nil {
			w.Problem = "this server cannot read the report"
		}
		w.Worker = row.Worker
		out = append(out, w)
	}
	return out, nil
}
