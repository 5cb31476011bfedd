package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"
)

// Numbers of viewers.
const (
	fewViewers  = 1_000
	idleViewers = 5_000
	manyViewers = 10_000
)

// pair holds the measured server and its floor, each with its viewers.
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

// trial returns a Trial that closes the pair. If err is not nil it closes the pair and returns err.
func (p pair) trial(repeat func(context.Context) (rig.Sample, error), err error) (*rig.Trial, error) {
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return &rig.Trial{Repeat: repeat, Done: p.close}, nil
}

// watchRuns starts a server of runs and connects n viewers.
func watchRuns(ctx context.Context, o rig.Options, query string, n int, beside *watching) (*watching, error) {
	s, err := rig.StartOwn(ctx, rig.CoreOf(o), "runs", o)
	if err != nil {
		return nil, err
	}
	return connectViewers(ctx, s, runsDialect(viewerToken, query,
		func(viewer int) string { return rig.RunName(viewer % o.Runs) }), n,
		beside)
}

// warmUpdates publishes some updates, so that caches and buffers have their final size before the measurement.
func warmUpdates(ctx context.Context, w *watching, updates int) error {
	_, err := w.measureUsage(ctx, updates)
	return err
}

// framePrepared measures the processor time of one frame of a run with 1,000 viewers.
func framePrepared(ctx context.Context, r *rig.Rig) (t *rig.Trial, err error) {
	const turns, updates = 5, 60
	var p pair
	if p.ours, err = watchRuns(ctx, rig.Options{Runs: 1, Steps: watchedSteps}, runQuery, fewViewers, nil); err != nil {
		return p.trial(nil, err)
	}
	if err = warmUpdates(ctx, p.ours, 20); err != nil {
		return p.trial(nil, err)
	}
	if p.floor, err = watchPrepared(ctx, rig.Options{Payload: p.ours.last}, fewViewers, p.ours); err == nil {
		err = warmUpdates(ctx, p.floor, 20)
	}
	return p.trial(rig.Alternate(turns, p.ours.perMessage(updates), p.floor.perMessage(updates)), err)
}

// againstStock measures the processor time of one frame against that of gqlgen's own transport, for 1,000 viewers of
// the given number of runs.
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
			err = errors.Join(warmUpdates(ctx, p.ours, 10), warmUpdates(ctx, p.floor, 2))
		}
		if err == nil {
			err = checkSameSize(p)
		}
		return p.trial(rig.Alternate(turns, p.ours.perMessage(updates), p.floor.perMessage(stockUpdates)), err)
	}
}

// checkSameSize returns an error when the messages of the two servers differ in size by more than a tenth, because the
// comparison would then be unfair.
func checkSameSize(p pair) error {
	if a, b := len(p.ours.last), len(p.floor.last); a*10 < b*9 || b*10 < a*9 {
		return fmt.Errorf("a frame has %d bytes, but one of gqlgen has %d: %s, %s", a, b, p.ours.last, p.floor.last)
	}
	return nil
}

// alone starts a server with begin, measures it with of and ends it.
func alone(begin func(context.Context) (*watching, error), of func(context.Context, *watching) (time.Duration,
	error)) rig.Measure {
	return func(ctx context.Context, _ int) (_ time.Duration, err error) {
		w, err := begin(ctx)
		if w != nil {
			defer func() { err = errors.Join(err, w.close()) }()
		}
		if err == nil {
			err = warmUpdates(ctx, w, 5)
		}
		if err != nil {
			return 0, err
		}
		return of(ctx, w)
	}
}

// againstCentrifuge is against with centrifuge as the floor.
func againstCentrifuge(ctx context.Context, o rig.Options, viewers, turns int, of func(context.Context,
	*watching) (time.Duration, error)) (*rig.Trial, error) {
	return against(ctx, o, viewers, turns, of, func(ctx context.Context, payload string) (*watching, error) {
		return watchCentrifuge(ctx, payload, viewers)
	})
}

// against measures a server of one run and a floor that sends the same payload, alternately. Each starts with the given
// number of viewers. The payload is the message that a single viewer of the server receives.
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
	return &rig.Trial{Repeat: rig.Alternate(turns, alone(ours, of),
		alone(func(ctx context.Context) (*watching, error) { return floor(ctx, payload) }, of))}, nil
}

// watchPrepared starts a server that only sends a message to its n viewers (see servePrepared).
func watchPrepared(ctx context.Context, o rig.Options, n int, beside *watching) (*watching, error) {
	s, err := rig.StartOwn(ctx, rig.CoreOf(o), "prepared", o)
	if err != nil {
		return nil, err
	}
	return connectViewers(ctx, s, preparedDialect(), n, beside)
}

// receiptsOf measures the p99 from commit to receipt, against centrifuge's p99 from publish to receipt at the same
// rate.
func receiptsOf(viewers, updates int, interval time.Duration, turns int) func(context.Context, *rig.Rig) (*rig.Trial,
	error) {
	return func(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
		o, err := storeOptions(r)
		if err != nil {
			return nil, err
		}
		return againstCentrifuge(ctx, o, viewers, turns, func(ctx context.Context, w *watching) (time.Duration, error) {
			return w.receiptP99(ctx, updates, interval)
		})
	}
}

// tenThousand measures the p99 from commit to receipt of 10,000 viewers. The floor is a server that only sends the same
// bytes, that is the time that the kernel of this machine needs.
func tenThousand(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const turns, updates = 2, 6
	o, err := storeOptions(r)
	if err != nil {
		return nil, err
	}
	o.Spread = true
	return against(ctx, o, manyViewers, turns,
		func(ctx context.Context, w *watching) (time.Duration, error) {
			return w.receiptP99(ctx, updates, time.Second)
		},
		func(ctx context.Context, payload string) (*watching, error) {
			return watchPrepared(ctx, rig.Options{Payload: payload, Spread: true}, manyViewers, nil)
		})
}

// storeOptions returns the options of a server of one run with SQLite and Redis.
func storeOptions(r *rig.Rig) (rig.Options, error) {
	url, err := r.RedisURL()
	return rig.Options{Runs: 1, Steps: watchedSteps, Redis: url, Dir: r.Dir}, err
}

// idleViewer measures the resident memory, in bytes, that each further viewer of one run costs a server without
// updates.
func idleViewer(ctx context.Context, _ *rig.Rig) (*rig.Trial, error) {
	const before = 100 // viewers that are connected first, so that memory which is allocated once does not count
	o := rig.Options{Runs: 1, Steps: watchedSteps}
	return againstCentrifuge(ctx, o, before, 1, func(ctx context.Context, w *watching) (time.Duration, error) {
		few, err := w.Memory()
		if err == nil {
			err = w.addViewers(ctx, idleViewers-before)
		}
		if err == nil {
			err = warmUpdates(ctx, w, 2)
		}
		if err != nil {
			return 0, err
		}
		all, err := w.Memory()
		return time.Duration(all-few) / (idleViewers - before), err
	})
}

// delta measures the cost of one update in DELTA mode of a run with 1,000 steps, against one of a run with 10. count
// selects processor time or bytes.
func delta(count func(usage) int64) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (t *rig.Trial, err error) {
		const turns, updates, viewers = 5, 400, 1
		var p pair
		if p.ours, err = watchRuns(ctx, rig.Options{Runs: 1, Steps: 1000}, deltaQuery, viewers, nil); err != nil {
			return p.trial(nil, err)
		}
		if p.floor, err = watchRuns(ctx, rig.Options{Runs: 1, Steps: 10}, deltaQuery, viewers, p.ours); err == nil {
			err = errors.Join(warmUpdates(ctx, p.ours, 50), warmUpdates(ctx, p.floor, 50))
		}
		per := func(w *watching) rig.Measure {
			return func(ctx context.Context, _ int) (time.Duration, error) {
				s, err := w.measureUsage(ctx, updates)
				return time.Duration(count(s) / updates), err
			}
		}
		return p.trial(rig.Alternate(turns, per(p.ours), per(p.floor)), err)
	}
}
