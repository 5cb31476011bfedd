package watch_test

import (
	"context"
	"sync/atomic"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// restoredStore claims, while ahead is set, that the log of a run was longer before a restore.
type restoredStore struct {
	store.Store
	ahead atomic.Bool
}

func (s *restoredStore) Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
	l, d, err := s.Store.Since(ctx, runID, w)
	if s.ahead.Load() {
		d.To += 1000
	}
	return l, d, err
}
