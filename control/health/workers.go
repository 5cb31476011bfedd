package health

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

// ReportStore reads the reports of workers, and reads and writes their drains.
type ReportStore interface {
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error)
	WorkerDrains(ctx context.Context, account string) ([]store.WorkerDrain, error)
	DrainWorker(ctx context.Context, d store.WorkerDrain, audit ...store.AuditRow) (store.WorkerDrain, error)
	EndWorkerDrain(ctx context.Context, account, worker string, audit ...store.AuditRow) error
}

// WorkerReader lists the reports of data workers, and drains workers. It is safe for concurrent use.
type WorkerReader struct {
	rights *control.Rights
	store  ReportStore
}

// NewWorkerReader makes a WorkerReader.
func NewWorkerReader(rights *control.Rights, store ReportStore) *WorkerReader {
	return &WorkerReader{rights: rights, store: store}
}

// WorkerStep is a step that a worker runs.
type WorkerStep = engine.WorkerStep

// WorkerDrain asks a worker to begin no further steps.
type WorkerDrain = store.WorkerDrain

// WorkerState is the newest report of a data worker about one of its queues.
type WorkerState struct {
	Account, Queue string
	engine.WorkerReport
	ReportedAt time.Time // the store's clock
	Live       bool      // recent enough to count in the admission of plans
	// Overdue means that reports are missing, so whether the worker still runs is unknown. It counts as gone.
	Overdue bool
	// Drain is why the worker begins no further steps; nil for a worker that may. Report.Drained says whether the worker
	// knows it.
	Drain *WorkerDrain
	// Last means that no other worker that reports and may begin steps serves the queue: without this one its steps wait.
	Last bool
}

func (w WorkerState) begins() bool { return w.Live && !w.Overdue && w.OK && w.Drain == nil }

// overdueAfter is the age at which two reports are missing: one is due every 20 seconds, and an answer may be late. A
// process that was killed tells nobody, so this is the earliest sign of it. Admission waits longer
// (admission.FreshReport), because it refuses plans.
const overdueAfter = 50 * time.Second

// Workers lists the reports of data workers from the last 24 hours, by queue, account and worker. FORBIDDEN for callers
// that may not see the health of the installation.
func (s *WorkerReader) Workers(ctx context.Context, p authz.Principal) ([]WorkerState, error) {
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return nil, err
	}
	out, err := s.workers(ctx)
	return out, control.Translate(err)
}

func (s *WorkerReader) workers(ctx context.Context) ([]WorkerState, error) {
	rows, err := s.store.WorkerReports(ctx, nil, store.WorkerReportLife)
	if err != nil {
		return nil, err
	}
	list, err := s.store.WorkerDrains(ctx, "")
	if err != nil {
		return nil, err
	}
	drains := map[string]*store.WorkerDrain{}
	for i, d := range list {
		drains[d.Account+"/"+d.Worker] = &list[i]
	}
	begin := map[string]int{} // workers that may begin steps, by queue
	now := s.rights.Now()
	out := make([]WorkerState, 0, len(rows))
	for _, row := range rows {
		w := WorkerState{Account: row.Account, Queue: row.Queue, ReportedAt: row.At,
			Live: now.Sub(row.At) <= admission.FreshReport, Overdue: now.Sub(row.At) > overdueAfter}
		if err := json.Unmarshal(row.Doc, &w.WorkerReport); err != nil {
			w.Problem = "this server cannot read the report"
		}
		w.Worker, w.Drain = row.Worker, drains[row.Account+"/"+row.Worker]
		if w.begins() {
			begin[w.Queue]++
		}
		out = append(out, w)
	}
	for i, w := range out {
		out[i].Last = w.begins() && begin[w.Queue] == 1
	}
	return out, nil
}

// Drained returns by queue the drains of all its live workers, for those of the queues that have such workers and none
// that may begin steps. A worker whose reports are missing begins none. It reads the store twice, whatever the number
// of queues. It decides no right: what a drain says is for those who may see the installation.
func (s *WorkerReader) Drained(ctx context.Context, queues ...string) (map[string][]WorkerDrain, error) {
	if len(queues) == 0 {
		return nil, nil //nolint:nilnil // nothing is asked
	}
	rows, err := s.store.WorkerReports(ctx, queues, admission.FreshReport)
	if err != nil {
		return nil, control.Translate(err)
	}
	list, err := s.store.WorkerDrains(ctx, "")
	if err != nil {
		return nil, control.Translate(err)
	}
	out, served, now := map[string][]WorkerDrain{}, map[string]bool{}, s.rights.Now()
	for _, row := range rows {
		at := slices.IndexFunc(list, func(d WorkerDrain) bool {
			return d.Account == row.Account && d.Worker == row.Worker
		})
		if at < 0 {
			served[row.Queue] = served[row.Queue] || now.Sub(row.At) <= overdueAfter
			continue
		}
		out[row.Queue] = append(out[row.Queue], list[at])
	}
	maps.DeleteFunc(out, func(queue string, _ []WorkerDrain) bool { return served[queue] })
	return out, nil
}
