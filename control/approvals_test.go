package control_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// readings counts the reads of whole states and of other facts of runs.
type readings struct {
	store.Store
	whole, more atomic.Int64
	ahead       atomic.Bool // the log is longer than after a restore
}

func (s *readings) Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
	l, d, err := s.Store.Since(ctx, runID, w)
	if s.ahead.Load() {
		d.To += 1000
	}
	return l, d, err
}

func (s *readings) Load(ctx context.Context, runID string) (store.Loaded, error) {
	s.whole.Add(1)
	return s.Store.Load(ctx, runID)
}

func (s *readings) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	s.more.Add(1)
	return s.Store.QueueRow(ctx, runID)
}

func (s *readings) Approval(ctx context.Context, runID string) (store.Approval, error) {
	s.more.Add(1)
	return s.Store.Approval(ctx, runID)
}

// Approvals reads each run of the list once and does not read it again for each row.
func TestApprovals_ReadEachRunOnce(t *testing.T) {
	t.Parallel()
	w := asking(t, 1)
	id := w.queued("r1", "s1")
	w.queued("r2", "s1")
	counting := &readings{Store: w.config.Store}
	w.config.Store = counting
	page := must[control.RunsPage](t)(usecases.New(w.config).Approvals(t.Context(), w.eng(), 0, ""))
	if len(page.Runs) != 2 || counting.more.Load() != 0 {
		t.Errorf("the page has %d runs after %d further reads, want 2 runs and no further read",
			len(page.Runs), counting.more.Load())
	}
	alone := must[control.RunView](t)(w.Run(t.Context(), w.eng(), id, nil))
	if diff := cmp.Diff(alone, page.Runs[0], cmpopts.IgnoreFields(control.RunView{}, "AsOf"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a row is not the run (-alone +row):\n%s", diff)
	}
}
