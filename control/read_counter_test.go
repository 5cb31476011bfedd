package control_test

import (
	"context"
	"sync/atomic"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// readCounter counts how often runs are read or locked. It decorates the store that a use case or a Journal gets.
type readCounter struct {
	store.Store
	gets, loads, tails, queueRows, approvals, locks atomic.Int64
}

func (c *readCounter) Get(ctx context.Context, runID string) (store.Run, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, runID)
}

func (c *readCounter) Load(ctx context.Context, runID string) (store.Loaded, error) {
	c.loads.Add(1)
	return c.Store.Load(ctx, runID)
}

func (c *readCounter) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	c.tails.Add(1)
	return c.Store.Tails(ctx, known)
}

func (c *readCounter) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	c.queueRows.Add(1)
	return c.Store.QueueRow(ctx, runID)
}

func (c *readCounter) Approval(ctx context.Context, runID string) (store.Approval, error) {
	c.approvals.Add(1)
	return c.Store.Approval(ctx, runID)
}

func (c *readCounter) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	c.locks.Add(1)
	return c.Store.InRun(ctx, runID, f)
}

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
