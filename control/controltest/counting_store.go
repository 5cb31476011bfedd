package controltest

import (
	"context"
	"sync/atomic"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// CountingReads counts the reads of whole states and of other facts of runs.
type CountingReads struct {
	store.Store
	Whole, More atomic.Int64
	Ahead       atomic.Bool // the log is longer than after a restore
}

func (s *CountingReads) Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
	l, d, err := s.Store.Since(ctx, runID, w)
	if s.Ahead.Load() {
		d.To += 1000
	}
	return l, d, err
}

func (s *CountingReads) Load(ctx context.Context, runID string) (store.Loaded, error) {
	s.Whole.Add(1)
	return s.Store.Load(ctx, runID)
}

func (s *CountingReads) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	s.More.Add(1)
	return s.Store.QueueRow(ctx, runID)
}

func (s *CountingReads) Approval(ctx context.Context, runID string) (store.Approval, error) {
	s.More.Add(1)
	return s.Store.Approval(ctx, runID)
}
