package control_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// tellingStore passes the rows of CreateRun to NewRun.Written and counts the reads of states.
type tellingStore struct {
	store.Store
	loads int
}

func (s *tellingStore) CreateRun(ctx context.Context, n store.NewRun) (store.Run, bool, error) {
	r, created, err := s.Store.CreateRun(ctx, n)
	if err != nil || !created || n.Written == nil {
		return r, created, err
	}
	l, err := s.Store.Load(ctx, r.RunID)
	if err != nil {
		return r, created, err
	}
	q, err := s.QueueRow(ctx, r.RunID)
	n.Written(store.Written{Loaded: l, Queue: &q})
	return r, created, err
}

func (s *tellingStore) Load(ctx context.Context, runID string) (store.Loaded, error) {
	s.loads++
	return s.Store.Load(ctx, runID)
}

func TestStartRun_TheWrittenViewEqualsTheReadView(t *testing.T) {
	t.Parallel()
	var telling *tellingStore
	w := newWorld(t, func(c *usecases.Config) {
		telling = &tellingStore{Store: c.Store}
		c.Store = telling
	})
	in := startOf("r1", document(nil, "s1", "b<s1"))
	first := must[runs.StartedRun](t)(w.StartRun(t.Context(), w.eng(), in))
	if telling.loads != 0 {
		t.Errorf("StartRun read the state %d times, want none", telling.loads)
	}
	second := must[runs.StartedRun](t)(w.StartRun(t.Context(), w.eng(), in))
	if first.Deduplicated || !second.Deduplicated || telling.loads != 1 {
		t.Errorf("deduplicated %t and %t with %d reads, want false and true with one", first.Deduplicated,
			second.Deduplicated, telling.loads)
	}
	if diff := cmp.Diff(second.View, first.View, cmpopts.IgnoreFields(control.RunView{}, "AsOf"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("view that is read and view that was written (-want +got):\n%s", diff)
	}
}
