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

// plan5000 runs the largest plan there is, in layers of 50, against one of 100 steps.
func plan5000(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	b, err := newBed(ctx, r, bedOptions{})
	if err != nil {
		return nil, err
	}
	per := func(steps, runs int) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			took, err := b.through(ctx, b.dvt(layers(steps, 50)), runs, 1)
			return took / time.Duration(steps), err
		}
	}
	return &rig.Trial{Repeat: rig.ByTurns(1, per(plan.MaxSteps, 1), per(100, 10)), Done: b.close}, nil
}

// held is an executor whose steps wait until they are let go.
type held chan struct{}

func (h held) Execute(ctx context.Context, _ executor.Task, _ executor.Host) (executor.Result, error) {
	select {
	case <-h:
		return executor.Result{}, nil
	case <-ctx.Done():
		return executor.Result{}, context.Cause(ctx)
	}
}

// runsInFlight opens 1,000 runs that wait for a step each, on one worker, lets them
// all end, and says how much memory the process had at most: that of the worker, of
// the store and of what asks for the runs.
func runsInFlight(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const runs = 1000
	repeat := func(ctx context.Context) (rig.Sample, error) {
		open := make(held)
		b, err := newBed(ctx, r, bedOptions{executors: map[plan.StepType]executor.Executor{plan.Noop: open}})
		if err != nil {
			return rig.Sample{}, err
		}
		most, err := b.flight(ctx, runs, open)
		return rig.Sample{Cost: time.Duration(most), Floor: 1 << 30}, b.closingOr(err)
	}
	return &rig.Trial{Repeat: repeat}, nil
}

// flight is the most bytes that the process had while n runs were open at once.
func (b *bed) flight(ctx context.Context, n int, open held) (most int64, err error) {
	ids, err := b.create(ctx, layers(1, 1), n)
	if err != nil {
		return 0, err
	}
	debug.FreeOSMemory()
	look := func() error {
		now, err := resident()
		most = max(most, now)
		return err
	}
	g, starting := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, id := range ids {
		g.Go(func() error {
			for { // starting is safe to repeat
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
	for _, id := range ids { // each has come as far as it can
		for {
			l, err := b.store.Load(ctx, id.RunID)
			if err != nil {
				return 0, err
			}
			if l.State.Status == run.Running {
				break
			}
			if err := errors.Join(look(), rig.Wait(ctx, 50*time.Millisecond)); err != nil {
				return 0, err
			}
		}
	}
	if err := look(); err != nil {
		return 0, err
	}
	close(open)
	for _, id := range ids {
		if err := errors.Join(b.await(ctx, id), b.completed(ctx, id)); err != nil {
			return 0, err
		}
		if err := look(); err != nil {
			return 0, err
		}
	}
	return most, nil
}

// resident is how many bytes of memory this process has.
func resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/self/statm says %q", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
