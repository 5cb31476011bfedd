package runs_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// runReads counts reads of runs, of their states and of their rows in the queue.
type runReads struct {
	store.Store
	n atomic.Int64
}

func (s *runReads) Get(ctx context.Context, runID string) (store.Run, error) {
	s.n.Add(1)
	return s.Store.Get(ctx, runID)
}

func (s *runReads) Load(ctx context.Context, runID string) (store.Loaded, error) {
	s.n.Add(1)
	return s.Store.Load(ctx, runID)
}

func (s *runReads) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	s.n.Add(1)
	return s.Store.QueueRow(ctx, runID)
}

// The third run waits for a token.
func TestStartRun_ReadsNothingAgainAfterItsCommit(t *testing.T) {
	t.Parallel()
	var reads *runReads
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()), func(c *usecases.Config) {
		reads = &runReads{Store: c.Store}
		c.Store = reads
	})
	for i, request := range []string{"r1", "r2", "r3"} {
		before := reads.n.Load()
		first := w.StartOneStep(request)
		if n := reads.n.Load() - before; n != 0 || first.Deduplicated || controltest.Waits(first) != (i == 2) {
			t.Errorf("%s: %d reads of the run, deduplicated %t, it waits %t; want no read, and that only the third waits",
				request, n, first.Deduplicated, controltest.Waits(first))
		}
		again := w.StartOneStep(request)
		if diff := cmp.Diff(again.View, first.View, cmpopts.IgnoreFields(control.RunView{}, "AsOf"),
			cmpopts.IgnoreFields(control.QueueEntry{}, "Wait"),
			cmpopts.EquateEmpty()); diff != "" || !again.Deduplicated {
			t.Errorf("%s: view that is read and view that was written (-want +got):\n%s", request, diff)
		}
	}
}
