package controltest

import (
	"context"
	"sync/atomic"

	"github.com/dvt-engine/dvt/store"
)

// ReadCounter counts how often runs are read or locked. It decorates the store that a use case or a Journal gets.
type ReadCounter struct {
	store.Store
	Gets, Loads, TailReads, QueueRowReads, ApprovalReads, Locks atomic.Int64
}

func (c *ReadCounter) Get(ctx context.Context, runID string) (store.Run, error) {
	c.Gets.Add(1)
	return c.Store.Get(ctx, runID)
}

func (c *ReadCounter) Load(ctx context.Context, runID string) (store.Loaded, error) {
	c.Loads.Add(1)
	return c.Store.Load(ctx, runID)
}

func (c *ReadCounter) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	c.TailReads.Add(1)
	return c.Store.Tails(ctx, known)
}

func (c *ReadCounter) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	c.QueueRowReads.Add(1)
	return c.Store.QueueRow(ctx, runID)
}

func (c *ReadCounter) Approval(ctx context.Context, runID string) (store.Approval, error) {
	c.ApprovalReads.Add(1)
	return c.Store.Approval(ctx, runID)
}

func (c *ReadCounter) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	c.Locks.Add(1)
	return c.Store.InRun(ctx, runID, f)
}
