package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
	"github.com/dvt-engine/dvt/store/postgres"
)

// appenderConns is the pool of figures with 32 appenders: as many transactions at once as pgbench has.
const appenderConns = 32

func coalesced(s *postgres.Store) store.Store { return coalesce.New(s, coalesce.Config{}) }

// fanOut begins the steps of one run all at once; each round has a run of its own.
func fanOut(ctx context.Context, r *rig) (*trial, error) {
	const executors, rounds = 100, 15
	s, _, err := r.store(ctx, oneMS, appenderConns)
	if err != nil {
		return nil, err
	}
	runs := 0
	through := func(log store.Log) measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			id := runName(runs)
			runs++
			if err := makeRun(ctx, s, id, executors); err != nil {
				return 0, err
			}
			took, err := timed(func() error {
				g, ctx := errgroup.WithContext(ctx)
				for i := range executors {
					g.Go(func() error {
						b, err := log.StartAttempt(ctx, store.StartAttempt{RunID: id, StepID: stepName(i), LogicalAttempt: 1,
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
	return &trial{repeat: byTurns(rounds, through(coalesced(s)), through(s)), done: s.Close}, nil
}

type verdictError store.StartVerdict

func (v verdictError) Error() string { return "a step that was to run was told " + string(v) }

func coalesceLone(ctx context.Context, r *rig) (*trial, error) {
	const appends, steps = 1500, 100
	s, _, err := r.store(ctx, asItIs, appenderConns)
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, 2, steps)
	if err != nil {
		return nil, err
	}
	with, without := writersOf(coalesced(s), ids[:1], steps)[0], writersOf(s, ids[1:], steps)[0]
	return &trial{repeat: byTurns(appends, with.timed, without.timed), done: s.Close}, nil
}

// timed appends one event.
func (w *writer) timed(ctx context.Context, _ int) (time.Duration, error) {
	return timed(func() error {
		_, err := w.append(ctx, 1)
		return err
	})
}

// coalesceOthers measures appends to eight runs while a ninth is appended to at
// the same pace, with and without somebody who holds the ninth.
func coalesceOthers(ctx context.Context, r *rig) (*trial, error) {
	const (
		others, steps     = 8, 100
		interval, forTime = 20 * time.Millisecond, 1500 * time.Millisecond
		turns             = 5
		hold, pause       = 40 * time.Millisecond, 10 * time.Millisecond
	)
	s, _, err := r.store(ctx, oneMS, postgres.DefaultMaxConns)
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, others+1, steps)
	if err != nil {
		return nil, err
	}
	log := coalesced(s)
	ws := writersOf(log, ids, steps)
	held := ws[others]
	holding := func(ctx context.Context) error {
		for {
			if err := s.InRun(ctx, held.runID, func(store.RunTx) error { return wait(ctx, hold) }); err != nil {
				return err
			}
			if err := wait(ctx, pause); err != nil {
				return err
			}
		}
	}
	appending := func(ctx context.Context) error {
		for {
			if _, err := held.append(ctx, 1); err != nil {
				return err
			}
			if err := wait(ctx, interval); err != nil {
				return err
			}
		}
	}
	p99 := func(with bool) measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			var l latencies
			background, stop := context.WithCancel(ctx)
			defer stop()
			g, background := errgroup.WithContext(background)
			g.Go(func() error { return appending(background) })
			if with {
				g.Go(func() error { return holding(background) })
			}
			err := paced(ctx, others, interval, forTime, func(ctx context.Context, i int, due time.Time) error {
				_, err := ws[i].append(ctx, 1)
				l.add(time.Since(due))
				return err
			})
			stop()
			if failed := g.Wait(); err == nil && !errors.Is(failed, context.Canceled) {
				err = failed
			}
			if err != nil {
				return 0, err
			}
			return l.quantile(0.99)
		}
	}
	return &trial{repeat: byTurns(turns, p99(true), p99(false)), done: s.Close}, nil
}
