package control

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

// WorkerState is the newest report of a data worker about one of its queues.
type WorkerState struct {
	Account, Queue string
	engine.WorkerReport
	ReportedAt time.Time // the store's clock
	Live       bool      // recent enough to count in the admission of plans
}

// Workers lists the reports of data workers from the last 24 hours, by queue, account and worker. FORBIDDEN for callers
// that may not see the health of the installation.
func (s *Service) Workers(ctx context.Context, p authz.Principal) ([]WorkerState, error) {
	if err := s.maySeeInstallation(ctx, p); err != nil {
		return nil, err
	}
	rows, err := s.cfg.Store.WorkerReports(ctx, nil, store.WorkerReportLife)
	if err != nil {
		return nil, translate(err)
	}
	now := s.cfg.Now()
	out := make([]WorkerState, 0, len(rows))
	for _, row := range rows {
		w := WorkerState{Account: row.Account, Queue: row.Queue, ReportedAt: row.At, Live: now.Sub(row.At) <= freshReport}
		if err := json.Unmarshal(row.Doc, &w.WorkerReport); err != nil {
			w.Problem = "this server cannot read the report"
		}
		w.Worker = row.Worker
		out = append(out, w)
	}
	return out, nil
}
