package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// plan5000 measures a step of the largest permitted plan against one of a plan of 100 steps, both in layers of 50.
func plan5000(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	b, err := newBed(ctx, r, bedOptions{})
	if err != nil {
		return nil, err
	}
	per := func(steps, runs int) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			took, err := b.runAll(ctx, b.dvt(layers(steps, 50)), runs, 1)
			return took / time.Duration(steps), err
		}
	}
	return &rig.Trial{Repeat: rig.Alternate(1, per(plan.MaxSteps, 1), per(100, 10)), Done: b.close}, nil
}

// blocker is an executor whose steps block until the channel is closed.
type blocker chan struct{}

func (h blocker) Execute(ctx context.Context, _ executor.Task, _ executor.Host) (executor.Result, error) {
	select {
	case <-h:
		return executor.Result{}, nil
	case <-ctx.Done():
		return executor.Result{}, context.Cause(ctx)
	}
}

// runsInFlight starts 1,000 runs that each wait for a step, on one worker, and then lets them end. It measures the peak
// of the resident memory of this process: that of the worker, of the store and of the client that starts the runs.
func runsInFlight(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const runs = 1000
	repeat := func(ctx context.Context) (rig.Sample, error) {
		open := make(blocker)
		b, err := newBed(ctx, r, bedOptions{executors: map[plan.StepType]executor.Executor{plan.Noop: open}})
		if err != nil {
			return rig.Sample{}, err
		}
		most, err := b.peakMemory(ctx, runs, open)
		return rig.Sample{Cost: time.Duration(most), Floor: 1 << 30}, b.closeOr(err)
	}
	return &rig.Trial{Repeat: repeat}, nil
}

// peakMemory returns the peak of the resident memory of this process, in bytes, while n runs are in flight. It closes
// open when all runs are RUNNING.
func (b *bed) peakMemory(ctx context.Context, n int, open blocker) (most int64, err error) {
	ids, err := b.create(ctx, layers(1, 1), n)
	if err != nil {
		return 0, err
	}
	debug.FreeOSMemory()
	sample := func() error {
		now, err := resident()
		most = max(most, now)
		return err
	}
	g, starting := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, id := range ids {
		g.Go(func() error {
			for { // repeat, because Start is idempotent
				err := b.start(starting, id)
				if !errors.Is(err, engine.ErrUnavailable) {
					return err
				}
				if err := rig.Wait(starting, time.Second); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	for _, id := range ids { // wait until each run is RUNNING
		for {
			l, err := b.store.Load(ctx, id.RunID)
			if err != nil {
				return 0, err
			}
			if l.State.Status == run.Running {
				break
			}
			if err := errors.Join(sample(), rig.Wait(ctx, 50*time.Millisecond)); err != nil {
				return 0, err
			}
		}
	}
	if err := sample(); err != nil {
		return 0, err
	}
	close(open)
	for _, id := range ids {
		if err := errors.Join(b.await(ctx, id), b.checkCompleted(ctx, id)); err != nil {
			return 0, err
		}
		if err := sample(); err != nil {
			return 0, err
		}
	}
	return most, nil
}

// resident returns the resident memory of this process, in bytes.
func resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/self/statm contains %q, want at least two numbers", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
