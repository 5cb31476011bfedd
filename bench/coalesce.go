package main

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
	"github.com/dvt-engine/dvt/store/postgres"
)

// appenderConns is the pool size in figures with 32 appenders, so that they can run as many transactions at once as
// pgbench.
const appenderConns = 32

func coalesced(s *postgres.Store) store.Store { return coalesce.New(s, coalesce.Config{}) }

// fanOut measures the start of an attempt when all steps of one run start at once. Each round has a run of its own.
func fanOut(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const executors, rounds = 100, 15
	s, _, err := r.Store(ctx, rig.OneMS, appenderConns)
	if err != nil {
		return nil, err
	}
	runs := 0
	through := func(log store.Log) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			id := rig.RunName(runs)
			runs++
			if err := rig.MakeRun(ctx, s, id, executors); err != nil {
				return 0, err
			}
			took, err := rig.Timed(func() error {
				g, ctx := errgroup.WithContext(ctx)
				for i := range executors {
					g.Go(func() error {
						b, err := log.StartAttempt(ctx, store.StartAttempt{RunID: id, StepID: rig.StepName(i), LogicalAttempt: 1,
							EngineAttempt: 1,
							EmittedAt:     time.Now()})
						if err == nil && b.Verdict != store.StartGranted {
							err = verdictError(b.Verdict)
						}
						return err
					})
				}
				return g.Wait()
			})
			return took / executors, err
		}
	}
	return &rig.Trial{Repeat: rig.Alternate(rounds, through(coalesced(s)), through(s)), Done: s.Close}, nil
}

type verdictError store.StartVerdict

func (v verdictError) Error() string {
	return "StartAttempt returned " + string(v) + ", want " + string(store.StartGranted)
}

func coalesceLone(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const appends, steps = 1500, 100
	s, _, err := r.Store(ctx, rig.NativeFlush, appenderConns)
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, 2, steps)
	if err != nil {
		return nil, err
	}
	with, without := rig.WritersOf(coalesced(s), ids[:1], steps)[0], rig.WritersOf(s, ids[1:], steps)[0]
	return &rig.Trial{Repeat: rig.Alternate(appends, with.TimeAppend, without.TimeAppend), Done: s.Close}, nil
}

// coalesceOthers measures appends to eight runs while a ninth run receives events at the same rate. The cost has
// control transactions that hold the lock of the ninth run; the floor has none.
func coalesceOthers(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const (
		others, steps     = 8, 100
		interval, forTime = 20 * time.Millisecond, 1500 * time.Millisecond
		turns             = 5
		hold, pause       = 40 * time.Millisecond, 10 * time.Millisecond
	)
	s, _, err := r.Store(ctx, rig.OneMS, postgres.DefaultMaxConns)
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, others+1, steps)
	if err != nil {
		return nil, err
	}
	log := coalesced(s)
	ws := rig.WritersOf(log, ids, steps)
	held := ws[others]
	holding := func(ctx context.Context) error {
		for {
			if err := s.InRun(ctx, held.RunID, func(store.RunTx) error { return rig.Wait(ctx, hold) }); err != nil {
				return err
			}
			if err := rig.Wait(ctx, pause); err != nil {
				return err
			}
		}
	}
	appending := func(ctx context.Context) error {
		for {
			if _, err := held.Append(ctx, 1); err != nil {
				return err
			}
			if err := rig.Wait(ctx, interval); err != nil {
				return err
			}
		}
	}
	p99 := func(with bool) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			var l rig.Latencies
			background, stop := context.WithCancel(ctx)
			defer stop()
			g, background := errgroup.WithContext(background)
			g.Go(func() error { return appending(background) })
			if with {
				g.Go(func() error { return holding(background) })
			}
			err := rig.Paced(ctx, others, interval, forTime, func(ctx context.Context, i int, due time.Time) error {
				_, err := ws[i].Append(ctx, 1)
				l.Add(time.Since(due))
				return err
			})
			stop()
			if failed := g.Wait(); err == nil && !errors.Is(failed, context.Canceled) {
				err = failed
			}
			if err != nil {
				return 0, err
			}
			return l.Quantile(0.99)
		}
	}
	return &rig.Trial{Repeat: rig.Alternate(turns, p99(true), p99(false)), Done: s.Close}, nil
}
