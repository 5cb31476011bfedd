package control

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Deliver hands accepted signals to the engine until ctx ends: in order per run,
// n+1 only after the engine acknowledged n, at least once (T93, T196). An engine
// that does not answer leaves them ACCEPTED.
func (s *Service) Deliver(ctx context.Context, owner string) error {
	return s.loop(ctx, s.signals, func(ctx context.Context) (bool, error) {
		leased, err := s.cfg.Store.LeaseDeliveries(ctx, owner, s.cfg.Limits.LeaseTTL, s.cfg.Limits.LeaseBatch)
		doConcurrently(leased, func(d store.Delivery) {
			wait := time.Duration(0)
			if err := s.doForRun(ctx, dutyDeliver, d.RunID, func() error { return s.deliver(ctx, d) }); err != nil {
				wait = 250 * time.Millisecond << min(d.Attempts, 6)
				if errors.Is(err, engine.ErrNotStarted) {
					wait = min(wait, time.Second) // its start is under way
				} else if ctx.Err() == nil && !errors.Is(err, errSetAside) {
					s.cfg.Logger.WarnContext(ctx, "signals not delivered", slog.String("runId", d.RunID), slog.Any("error", err))
				}
			}
			err := s.cfg.Store.Settle(ctx, d, min(wait, 15*time.Second))
			if err != nil && !errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
				s.cfg.Logger.WarnContext(ctx, "delivery not settled", slog.String("runId", d.RunID), slog.Any("error", err))
			}
		})
		return len(leased) == s.cfg.Limits.LeaseBatch, err
	})
}

func (s *Service) deliver(ctx context.Context, d store.Delivery) error {
	r, err := s.cfg.Store.Get(ctx, d.RunID)
	if err != nil {
		return err
	}
	receipts, err := s.cfg.Store.After(ctx, d.RunID, d.DeliveredNo)
	if err != nil {
		return err
	}
	if stop, ok := killer(receipts); ok {
		return s.kill(ctx, r, stop) // before what waits in front of it: nothing else matters any more
	}
	for _, rc := range receipts {
		err := s.cfg.Engine.Signal(ctx, r.Identity, engineSignal(rc))
		if err != nil {
			return err
		}
		if err := s.cfg.Store.Delivered(ctx, d, rc.No); err != nil {
			return err
		}
	}
	return nil
}

// engineSignal is what travels to the engine: never a payload (T196).
func engineSignal(r run.Receipt) engine.Signal {
	return engine.Signal{
		No: r.No, ID: r.Signal.ID, Type: r.Signal.Type, StepID: r.Signal.StepID, LA: r.Signal.ExpectedAttempt,
		Force:   r.Signal.Force,
		Outcome: outcomeOf(r), Applied: r.Signal.Type == run.Pause && r.Application == run.SignalApplied,
		Ineffective: r.Application == run.SignalNoop || r.Application == run.SignalNotApply,
	}
}
