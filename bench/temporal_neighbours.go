package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// dispatchTimeout bounds the time until a step is RUNNING on a worker with free slots.
const dispatchTimeout = time.Minute

// dbtLike is an executor that prints a line per second, like dbt, until it receives a value.
type dbtLike chan struct{}

func (d dbtLike) Execute(ctx context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
	lines := time.NewTicker(time.Second)
	defer lines.Stop()
	for n := 1; ; n++ {
		h.Print("stdout", fmt.Sprintf("%d of 50 OK created sql table model shop.orders", n))
		select {
		case <-lines.C:
		case <-d:
			return executor.Result{}, nil
		case <-ctx.Done():
			return executor.Result{}, context.Cause(ctx)
		}
	}
}

// controlBesideDBT measures the p95 of 1,000 control steps that are ready at once, from the start of their runs to the
// end of the step, while 50 DBT_RUN steps hold the data queue. The floor is the same with an empty data queue.
func controlBesideDBT(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const runs, width, heavy = 20, 50, 50
	hold := make(dbtLike)
	b, err := newBed(ctx, r, bedOptions{executors: map[plan.StepType]executor.Executor{plan.DBTRun: hold},
		dataSlots: heavy})
	if err != nil {
		return nil, err
	}
	light := b.dvt(layers(width, width))
	measured := func(ctx context.Context, _ int) (time.Duration, error) {
		return b.stepsEnd(ctx, light, runs)
	}
	if _, err := measured(ctx, 0); err != nil { // warm up
		return nil, b.closeAfter(err)
	}
	beside := func(ctx context.Context, i int) (took time.Duration, err error) {
		ids, err := b.create(ctx, dbtRuns(heavy), 1)
		if err == nil {
			err = b.start(ctx, ids[0])
		}
		if err == nil {
			err = b.untilRunning(ctx, ids[0], heavy)
		}
		if err == nil {
			took, err = measured(ctx, i)
		}
		for range heavy {
			select {
			case hold <- struct{}{}:
			case <-time.After(dispatchTimeout):
				return 0, fmt.Errorf("a DBT_RUN step is no longer running: %w", err)
			}
		}
		if err == nil {
			err = b.await(ctx, ids[0])
		}
		if err == nil {
			err = b.checkCompleted(ctx, ids[0])
		}
		return took, err
	}
	return &rig.Trial{Repeat: rig.Alternate(1, beside, measured), Done: b.close}, nil
}

// dbtRuns returns a plan of n independent DBT_RUN steps.
func dbtRuns(n int) []byte {
	steps := make([]map[string]any, n)
	for i := range steps {
		steps[i] = map[string]any{"stepId": rig.StepName(i), "type": "DBT_RUN", "inputs": map[string]any{"projectDir": "p"},
			"timeout": "1h", "dependsOn": []string{}}
	}
	return document(steps)
}

// untilRunning waits until n steps of a run are RUNNING, for at most dispatchTimeout.
func (b *bed) untilRunning(ctx context.Context, id run.Identity, n int) error {
	for began := time.Now(); time.Since(began) < dispatchTimeout; {
		l, err := b.store.Load(ctx, id.RunID)
		if err != nil {
			return err
		}
		running := 0
		for _, s := range l.State.Steps {
			if s.Status == run.StepRunning {
				running++
			}
		}
		if running == n {
			return nil
		}
		if err := rig.Wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("not all of the %d steps of run %s are RUNNING after %s", n, id.RunID, dispatchTimeout)
}

// stepsEnd starts n runs at once and returns the p95 of the time from the start of a run to the end of a step.
func (b *bed) stepsEnd(ctx context.Context, c contender, n int) (time.Duration, error) {
	ids, err := c.create(ctx, n)
	if err != nil {
		return 0, err
	}
	var ends rig.Latencies
	g, ctx := errgroup.WithContext(ctx)
	for _, id := range ids {
		g.Go(func() error {
			began := time.Now()
			if err := c.start(ctx, id); err != nil {
				return err
			}
			if err := b.await(ctx, id); err != nil {
				return err
			}
			l, err := b.store.Load(ctx, id.RunID)
			if err != nil {
				return err
			}
			for _, s := range l.State.Steps {
				if s.Status != run.StepSuccess || len(s.Attempts) != 1 || s.Attempts[0].CompletedAt == nil {
					return fmt.Errorf("step %s of run %s is %s", s.StepID, id.RunID, s.Status)
				}
				ends.Add(s.Attempts[0].CompletedAt.Sub(began))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return ends.Quantile(0.95)
}

// neighbour measures the p95, from start to end, of one tenant's runs of one step while 10,000 steps of another tenant
// are in the queue. The floor is an empty system.
func neighbour(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const floods, width, runs = 100, 100, 40
	quiet := lonelyP95(runs)
	repeat := func(ctx context.Context) (rig.Sample, error) {
		b, err := newBed(ctx, r, bedOptions{})
		if err != nil {
			return rig.Sample{}, err
		}
		one := b.dvt(documentOf("neighbour", noops(1)))
		if _, err := b.runAll(ctx, one, 10, 1); err != nil {
			return rig.Sample{}, b.closeAfter(err)
		}
		var s rig.Sample
		if s.Floor, err = quiet(ctx, b, one); err != nil {
			return s, b.closeAfter(err)
		}
		ids, err := b.create(ctx, layers(width, width), floods)
		if err != nil {
			return s, b.closeAfter(err)
		}
		flood, flooding := errgroup.WithContext(ctx)
		for _, id := range ids {
			flood.Go(func() error { return b.start(flooding, id) })
		}
		if err := flood.Wait(); err != nil {
			return s, b.closeAfter(err)
		}
		beside, err := quiet(ctx, b, one)
		if err == nil && b.checkCompleted(ctx, ids[len(ids)-1]) == nil {
			err = fmt.Errorf("the other tenant's runs ended before the neighbour was measured")
		}
		s.Cost = max(1, beside-s.Floor)
		return s, b.closeOr(err)
	}
	return &rig.Trial{Repeat: repeat}, nil
}

// lonelyP95 runs n workflows one after the other and returns the p95 of their durations.
func lonelyP95(n int) func(context.Context, *bed, contender) (time.Duration, error) {
	return func(ctx context.Context, b *bed, c contender) (time.Duration, error) {
		took := make([]time.Duration, n)
		for i := range took {
			var err error
			if took[i], err = b.runAll(ctx, c, 1, 1); err != nil {
				return 0, err
			}
		}
		return rig.Quantile(took, 0.95), nil
	}
}
