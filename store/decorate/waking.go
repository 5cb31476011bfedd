// Package decorate holds decorators of a store: each adds one side effect to commits of the store below it and changes
// no answer. store/coalesce, which merges commits, is a decorator of its own.
package decorate

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Waker receives commits. Its methods never block.
type Waker interface {
	// Wake reports that a change of the run was committed, or may have been.
	Wake(runID string)
	// Notify reports the result of an append that was committed.
	Notify(a store.Append, out store.Appended)
}

// WakeOnCommit returns a store that wakes w for a run after every commit through it that marks the run for projection,
// so that no caller can forget to (contract T211). For an append it passes the events too, which saves w a read. A call
// that fails wakes w as well, because it may have committed.
func WakeOnCommit(s store.Store, w Waker) store.Store {
	return &waking{Store: s, waker: w, wake: w.Wake}
}

type waking struct {
	store.Store
	waker Waker
	wake  func(runID string)
}

func (s *waking) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := s.Store.Append(ctx, a)
	if err != nil {
		s.wake(a.RunID) // it may have committed
		return out, err
	}
	s.waker.Notify(a, out)
	return out, nil
}

func (s *waking) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := s.Store.StartAttempt(ctx, b)
	s.wake(b.RunID)
	return out, err
}

func (s *waking) Import(ctx context.Context, n store.NewRun, evs []run.Event) error {
	err := s.Store.Import(ctx, n, evs)
	s.wake(n.Run.RunID)
	return err
}

func (s *waking) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	err := s.Store.InRun(ctx, runID, f)
	s.wake(runID)
	return err
}

func (s *waking) CreateRun(ctx context.Context, n store.NewRun) (store.Run, bool, error) {
	r, created, err := s.Store.CreateRun(ctx, n)
	if created || err != nil {
		s.wake(n.Run.RunID)
	}
	return r, created, err
}

func (s *waking) Lease(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.QueueRow, error) {
	rows, err := s.Store.Lease(ctx, owner, ttl, limit)
	for _, row := range rows {
		s.wake(row.RunID)
	}
	return rows, err
}

func (s *waking) AdmitWaiting(ctx context.Context, terms func(tenantID, projectID string) store.Terms,
	limit int) (store.Admitted, error) {
	admitted, err := s.Store.AdmitWaiting(ctx, terms, limit)
	for _, row := range admitted.Rows {
		s.wake(row.RunID)
	}
	return admitted, err
}

func (s *waking) Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error {
	err := s.Store.Release(ctx, runID, generation, delay, cause)
	s.wake(runID)
	return err
}

func (s *waking) MarkStarted(ctx context.Context, runID string, generation int64) error {
	err := s.Store.MarkStarted(ctx, runID, generation)
	s.wake(runID)
	return err
}

func (s *waking) MarkDelivered(ctx context.Context, d store.Delivery, no int64) error {
	err := s.Store.MarkDelivered(ctx, d, no)
	s.wake(d.RunID)
	return err
}
