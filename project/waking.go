package project

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Waking decorates a store so that every commit that has something to project
// wakes w for that run, and nobody can forget to (T211).
func Waking(s store.Store, w interface{ Wake(runID string) }) store.Store {
	return &waking{Store: s, wake: w.Wake}
}

type waking struct {
	store.Store
	wake func(runID string)
}

func (s *waking) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := s.Store.Append(ctx, a)
	s.wake(a.RunID) // also after an error: it may have committed
	return out, err
}

func (s *waking) Begin(ctx context.Context, b store.Begin) (store.Begun, error) {
	out, err := s.Store.Begin(ctx, b)
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

func (s *waking) Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error {
	err := s.Store.Release(ctx, runID, generation, delay, cause)
	s.wake(runID)
	return err
}

func (s *waking) Started(ctx context.Context, runID string, generation int64) error {
	err := s.Store.Started(ctx, runID, generation)
	s.wake(runID)
	return err
}

func (s *waking) Delivered(ctx context.Context, d store.Delivery, no int64) error {
	err := s.Store.Delivered(ctx, d, no)
	s.wake(d.RunID)
	return err
}
