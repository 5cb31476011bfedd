package duty

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// DeliveryStore leases signals for delivery.
type DeliveryStore interface {
	After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error)
	MarkDelivered(ctx context.Context, d store.Delivery, no int64) error
	Get(ctx context.Context, runID string) (store.Run, error)
	LeaseDeliveries(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.Delivery, error)
	ReleaseDelivery(ctx context.Context, d store.Delivery, delay time.Duration) error
}

// Deliverer delivers accepted signals to the engine. It is safe for concurrent use.
type Deliverer struct {
	store      DeliveryStore
	engine     engine.Engine
	stopper    *runs.Stopper
	background *control.Background
	leases     admission.Leases
	wake       <-chan struct{}
}

// NewDeliverer makes a Deliverer.
func NewDeliverer(store DeliveryStore, engine engine.Engine, stopper *runs.Stopper, background *control.Background,
	leases admission.Leases,
	wake <-chan struct{}) *Deliverer {
	return &Deliverer{store: store, engine: engine, stopper: stopper, background: background, leases: leases, wake: wake}
}

// Deliver delivers accepted signals to the engine until ctx ends: in order for each run, signal n+1 only after the
// engine acknowledged n, and each at least once (contract T93, T196). Signals stay ACCEPTED while the engine does not
// answer. owner names this process in leases. Any number of servers may do it.
func (s *Deliverer) Deliver(ctx context.Context, owner string) error {
	return s.background.Loop(ctx, s.wake, func(ctx context.Context) (bool, error) {
		leased, err := s.store.LeaseDeliveries(ctx, owner, s.leases.TTL, s.leases.Batch)
		control.DoConcurrently(leased, func(d store.Delivery) {
			wait := time.Duration(0)
			if err := s.background.DoForRun(ctx, control.DutyDeliver, d.RunID, func() error {
				return s.deliver(ctx, d)
			}); err != nil {
				wait = 250 * time.Millisecond << min(d.Attempts, 6)
				if errors.Is(err, engine.ErrNotStarted) {
					wait = min(wait, time.Second) // the start is under way
				} else if ctx.Err() == nil && !errors.Is(err, control.ErrSetAside) {
					s.background.Log.WarnContext(ctx, "signals were not delivered; they are tried again",
						slog.String("runId", d.RunID), slog.Any("error", err))
				}
			}
			err := s.store.ReleaseDelivery(ctx, d, min(wait, 15*time.Second))
			if err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
				s.background.Log.WarnContext(ctx, "the lease of a delivery was not released; it ends when it expires",
					slog.String("runId", d.RunID), slog.Any("error", err))
			}
		})
		s.background.Beats.Mark(control.DutyDeliver)
		return len(leased) == s.leases.Batch, err
	})
}

func (s *Deliverer) deliver(ctx context.Context, d store.Delivery) error {
	r, err := s.store.Get(ctx, d.RunID)
	if err != nil {
		return err
	}
	receipts, err := s.store.After(ctx, d.RunID, d.DeliveredNo)
	if err != nil {
		return err
	}
	if stop, ok := runs.Killer(receipts); ok {
		return s.stopper.Kill(ctx, r, stop) // before earlier signals, which no longer matter
	}
	for _, rc := range receipts {
		err := s.engine.Signal(ctx, r.Identity, runs.EngineSignal(rc))
		if err != nil {
			return err
		}
		if err := s.store.MarkDelivered(ctx, d, rc.No); err != nil {
			return err
		}
	}
	return nil
}
