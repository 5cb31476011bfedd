package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"
)

// How many viewers look on.
const (
	fewViewers  = 1_000
	idleViewers = 5_000
	manyViewers = 10_000
)

// pair is a server and its floor, both with their viewers.
type pair struct{ ours, floor *watching }

func (p pair) close() error {
	var errs []error
	for _, w := range []*watching{p.ours, p.floor} {
		if w != nil {
			errs = append(errs, w.close())
		}
	}
	return errors.Join(errs...)
}

// trial closes the pair when err is not nil.
func (p pair) trial(repeat func(context.Context) (rig.Sample, error), err error) (*rig.Trial, error) {
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return &rig.Trial{Repeat: repeat, Done: p.close}, nil
}

// watchRuns starts a server of runs with viewers.
func watchRuns(ctx context.Context, o rig.Options, query string, n int, beside *watching) (*watching, error) {
	s, err := rig.StartOwn(ctx, rig.CoreOf(o), "runs", o)
	if err != nil {
		return nil, err
	}
	return lookOn(ctx, s, runsDialect(viewerToken, query, func(viewer int) string { return rig.RunName(viewer % o.Runs) }), n,
		beside)
}

// warmed makes some updates, after which everything is as it stays.
func warmed(ctx context.Context, w *watching, updates int) error {
	_, err := w.spend(ctx, updates)
	return err
}

// framePrepared is the processor time of one frame of a run that 1,000 watch.
func framePrepared(ctx context.Context, r *rig.Rig) (t *rig.Trial, err error) {
	const turns, updates = 5, 60
	var p pair
	if p.ours, err = watchRuns(ctx, rig.Options{Runs: 1, Steps: watchedSteps}, runQuery, fewViewers, nil); err != nil {
		return p.trial(nil, err)
	}
	if err = warmed(ctx, p.ours, 20); err != nil {
		return p.trial(nil, err)
	}
	if p.floor, err = watchPrepared(ctx, rig.Options{Payload: p.ours.last}, fewViewers, p.ours); err == nil {
		err = warmed(ctx, p.floor, 20)
	}
	return p.trial(rig.ByTurns(turns, p.ours.perMessage(updates), p.floor.perMessage(updates)), err)
}

// againstStock is the processor time of one frame against that of gqlgen's own
// transport, for 1,000 viewers of the given number of runs.
func againstStock(runs, updates, stockUpdates int) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (t *rig.Trial, err error) {
		const turns = 3
		var p pair
		o := rig.Options{Runs: runs, Steps: watchedSteps}
		if p.ours, err = watchRuns(ctx, o, runQuery, fewViewers, nil); err != nil {
			return p.trial(nil, err)
		}
		o.Stock = true
		if p.floor, err = watchRuns(ctx, o, runQuery, fewViewers, p.ours); err == nil {
			err = errors.Join(warmed(ctx, p.ours, 10), warmed(ctx, p.floor, 2))
		}
		if err == nil {
			err = sameMessages(p)
		}
		return p.trial(rig.ByTurns(turns, p.ours.perMessage(updates), p.floor.perMessage(stockUpdates)), err)
	}
}

// sameMessages is an error when the two servers show different things.
func sameMessages(p pair) error {
	if a, b := len(p.ours.last), len(p.floor.last); a*10 < b*9 || b*10 < a*9 {
		return fmt.Errorf("a frame has %d bytes and one of gqlgen's %d: %s, %s", a, b, p.ours.last, p.floor.last)
	}
	return nil
}

// alone measures a server that is started for it, and ends it.
func alone(begin func(context.Context) (*watching, error), of func(context.Context, *watching) (time.Duration,
	error)) rig.Measure {
	return func(ctx context.Context, _ int) (_ time.Duration, err error) {
		w, err := begin(ctx)
		if w != nil {
			defer func() { err = errors.Join(err, w.close()) }()
		}
		if err == nil {
			err = warmed(ctx, w, 5)
		}
		if err != nil {
			return 0, err
		}
		return of(ctx, w)
	}
}

// againstCentrifuge measures a server of one run and then centrifuge with the same
// payload, each with the given number of viewers at first, by turns.
func againstCentrifuge(ctx context.Context, o rig.Options, viewers, turns int, of func(context.Context,
	*watching) (time.Duration, error)) (*rig.Trial, error) {
	return against(ctx, o, viewers, turns, of, func(ctx context.Context, payload string) (*watching, error) {
		return watchCentrifuge(ctx, payload, viewers)
	})
}

// against measures a server of one run and then a floor that shows the same payload,
// each with the given number of viewers at first, by turns.
func against(ctx context.Context, o rig.Options, viewers, turns int, of func(context.Context, *watching) (time.Duration,
	error),
	floor func(ctx context.Context, payload string) (*watching, error),
) (*rig.Trial, error) {
	var payload string
	ours := func(ctx context.Context) (*watching, error) { return watchRuns(ctx, o, runQuery, viewers, nil) }
	if _, err := alone(func(ctx context.Context) (*watching, error) { return watchRuns(ctx, o, runQuery, 1, nil) },
		func(_ context.Context, w *watching) (time.Duration, error) {
			payload = w.last
			return 0, nil
		})(ctx, 0); err != nil {
		return nil, err
	}
	return &rig.Trial{Repeat: rig.ByTurns(turns, alone(ours, of),
		alone(func(ctx context.Context) (*watching, error) { return floor(ctx, payload) }, of))}, nil
}

// watchPrepared starts a server that does nothing but send a message to its viewers (see servePrepared).
func watchPrepared(ctx context.Context, o rig.Options, n int, beside *watching) (*watching, error) {
	s, err := rig.StartOwn(ctx, rig.CoreOf(o), "prepared", o)
	if err != nil {
		return nil, err
	}
	return lookOn(ctx, s, preparedDialect(), n, beside)
}

// receiptsOf is the p99 from commit to receipt, against that from publish to
// receipt of centrifuge, at the same pace.
func receiptsOf(viewers, updates int, interval time.Duration, turns int) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
		o, err := stored(r)
		if err != nil {
			return nil, err
		}
		return againstCentrifuge(ctx, o, viewers, turns, func(ctx context.Context, w *watching) (time.Duration, error) {
			return w.receipt(ctx, updates, interval)
		})
	}
}

// tenThousand is the p99 from commit to receipt of many viewers, against that of a server
// that does nothing but send them the same bytes: what the kernel takes for it here.
func tenThousand(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const turns, updates = 2, 6
	o, err := stored(r)
	if err != nil {
		return nil, err
	}
	o.Spread = true
	return against(ctx, o, manyViewers, turns,
		func(ctx context.Context, w *watching) (time.Duration, error) {
			return w.receipt(ctx, updates, time.Second)
		},
		func(ctx context.Context, payload string) (*watching, error) {
			return watchPrepared(ctx, rig.Options{Payload: payload, Spread: true}, manyViewers, nil)
		})
}

// stored is a server of one run with SQLite and Redis.
func stored(r *rig.Rig) (rig.Options, error) {
	url, err := r.RedisURL()
	return rig.Options{Runs: 1, Steps: watchedSteps, Redis: url, Dir: r.Dir}, err
}

// idleViewer is how many bytes a server has for each viewer more of one run, while
// nothing happens.
func idleViewer(ctx context.Context, _ *rig.Rig) (*rig.Trial, error) {
	const before = 100 // have come when counting begins: everything built once is built
	o := rig.Options{Runs: 1, Steps: watchedSteps}
	return againstCentrifuge(ctx, o, before, 1, func(ctx context.Context, w *watching) (time.Duration, error) {
		few, err := w.Memory()
		if err == nil {
			err = w.more(ctx, idleViewers-before)
		}
		if err == nil {
			err = warmed(ctx, w, 2)
		}
		if err != nil {
			return 0, err
		}
		all, err := w.Memory()
		return time.Duration(all-few) / (idleViewers - before), err
	})
}

// delta is what one update of a run with 1,000 steps costs a server whose viewers
// take deltas, against one of a run with 10.
func delta(count func(spent) int64) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (t *rig.Trial, err error) {
		const turns, updates, viewers = 5, 400, 1
		var p pair
		if p.ours, err = watchRuns(ctx, rig.Options{Runs: 1, Steps: 1000}, deltaQuery, viewers, nil); err != nil {
			return p.trial(nil, err)
		}
		if p.floor, err = watchRuns(ctx, rig.Options{Runs: 1, Steps: 10}, deltaQuery, viewers, p.ours); err == nil {
			err = errors.Join(warmed(ctx, p.ours, 50), warmed(ctx, p.floor, 50))
		}
		per := func(w *watching) rig.Measure {
			return func(ctx context.Context, _ int) (time.Duration, error) {
				s, err := w.spend(ctx, updates)
				return time.Duration(count(s) / updates), err
			}
		}
		return p.trial(rig.ByTurns(turns, per(p.ours), per(p.floor)), err)
	}
}
