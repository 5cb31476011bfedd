package control

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Reconcile starts queued runs in the engine until ctx ends: woken at once by
// StartRun here, sweeping every 500 ms for what others left. Starting is
// idempotent and marking is fenced, so any number of reconcilers start each run
// once (T128, T130).
func (s *Service) Reconcile(ctx context.Context, owner string) error {
	return s.duty(ctx, s.starts, func(ctx context.Context) (bool, error) {
		n := s.leasing()
		if n == 0 {
			return false, nil
		}
		rows, err := s.cfg.Store.Lease(ctx, owner, s.cfg.Limits.LeaseTTL, n)
		if err == nil && len(rows) == 0 {
			s.probe(ctx)
		}
		atOnce(rows, func(q store.QueueRow) {
			if err := s.start(ctx, q); err != nil && ctx.Err() == nil {
				s.cfg.Logger.WarnContext(ctx, "run not started", slog.String("runId", q.RunID), slog.Any("error", err))
			}
		})
		return len(rows) == s.cfg.Limits.LeaseBatch, err
	})
}

func (s *Service) start(ctx context.Context, q store.QueueRow) error {
	if held, err := s.heldBack(ctx, q); held {
		return err
	}
	r, err := s.cfg.Store.Get(ctx, q.RunID)
	if err == nil {
		err = s.startInEngine(ctx, r.Identity)
	}
	if err != nil {
		delay := min(time.Second<<min(q.Attempts, 5), 30*time.Second)
		return errors.Join(err, s.cfg.Store.Release(ctx, q.RunID, q.Generation, delay, err.Error()))
	}
	err = s.cfg.Store.Started(ctx, q.RunID, q.Generation)
	if errors.Is(err, store.ErrConflict) {
		return nil // somebody else holds the lease now and will find the run started
	}
	return err
}

// atOnce does a leased batch side by side, so that one run whose engine is slow
// does not let the leases of the others expire. A batch has at most LeaseBatch.
func atOnce[T any](batch []T, f func(T)) {
	var wg sync.WaitGroup
	for _, item := range batch {
		wg.Go(func() { f(item) })
	}
	wg.Wait()
}

// duty calls work when woken and every 500 ms until ctx ends, at once again
// while it says that there is more.
func (s *Service) duty(ctx context.Context, wake <-chan struct{}, work func(context.Context) (more bool, err error)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		more, err := work(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.cfg.Logger.WarnContext(ctx, "duty", slog.Any("error", err))
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}
