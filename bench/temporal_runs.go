package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// handWritten is what somebody would write who needs one linear plan of three steps
// and nothing else: the same activities with the same facts, one append for the
// start, one for each step, the end with the last one.
func handWritten(ctx workflow.Context, in handInput) error {
	batch := 0
	appendEvents := func(events ...run.Draft) error {
		batch++
		ctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue: in.LogQueue, StartToCloseTimeout: 10 * time.Second,
			RetryPolicy: &sdktemporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
		})
		return workflow.ExecuteActivity(ctx, "dvt.append", map[string]any{
			"batch": batch, "append": store.Append{RunID: in.RunID, Events: events},
		}).Get(ctx, nil)
	}
	draft := func(t run.EventType, step string) run.Draft {
		return run.Draft{
			Type: t, StepID: step, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: workflow.Now(ctx), EmittedBy: run.ByEngine,
			Payload: json.RawMessage(`{}`),
		}
	}
	started := draft(run.RunStarted, "")
	started.Payload, _ = json.Marshal(map[string]any{"startedAt": started.EmittedAt}) // a time
	if err := appendEvents(started); err != nil {
		return err
	}
	for i := range in.Steps {
		ctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue: in.StepQueue, StartToCloseTimeout: time.Minute, HeartbeatTimeout: 30 * time.Second,
		})
		var end engine.StepEnd
		if err := workflow.ExecuteActivity(ctx, "dvt.execute", map[string]any{
			"runId": in.RunID, "stepId": stepName(i), "la": 1, "n": 1,
		}).Get(ctx, &end); err != nil {
			return err
		}
		events := []run.Draft{draft(run.StepStartedEvent, stepName(i)), draft(run.StepCompletedEvent, stepName(i))}
		if i == in.Steps-1 {
			events = append(events, draft(run.RunCompleted, ""))
		}
		if err := appendEvents(events...); err != nil {
			return err
		}
	}
	return nil
}

type handInput struct {
	RunID, StepQueue, LogQueue string
	Steps                      int
}

const (
	handQueue = "hand-written"
	handSteps = 3
)

// byHand serves handWritten beside dvt's worker, whose activities it calls.
func (b *bed) byHand() (starter, func(), error) {
	w := worker.New(b.client, handQueue, worker.Options{DisableRegistrationAliasing: true, LocalActivityWorkerOnly: true})
	w.RegisterWorkflowWithOptions(handWritten, workflow.RegisterOptions{Name: handQueue})
	if err := w.Start(); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, id run.Identity) error {
		_, err := b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: temporal.WorkflowID(id), TaskQueue: handQueue}, handQueue, handInput{
			RunID: id.RunID, StepQueue: b.queues.Control, LogQueue: b.queues.Control + "-log", Steps: handSteps,
		})
		return err
	}, w.Stop, nil
}

// runVsHandWritten runs 3-step plans on the interpreter and by hand.
func runVsHandWritten(ctx context.Context, r *rig) (*trial, error) {
	const runs, atOnce, turns = 40, 10, 5
	b, err := newBed(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	hand, stop, err := b.byHand()
	if err != nil {
		return nil, b.closing(err)
	}
	doc := layers(handSteps, 1)
	with := func(start starter) measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			return b.through(ctx, doc, runs, atOnce, start)
		}
	}
	return &trial{
		repeat: byTurns(turns, with(b.start), with(hand)),
		done:   func() error { stop(); return b.close() },
	}, nil
}

// historyPerStep counts events of both.
func historyPerStep(ctx context.Context, r *rig) (*trial, error) {
	b, err := newBed(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	hand, stop, err := b.byHand()
	if err != nil {
		return nil, b.closing(err)
	}
	doc := layers(handSteps, 1)
	count := func(start starter) measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			ids, err := b.create(ctx, doc, 1)
			if err == nil {
				err = start(ctx, ids[0])
			}
			if err == nil {
				err = b.ended(ctx, ids[0])
			}
			if err != nil {
				return 0, err
			}
			n, err := b.events(ctx, ids[0])
			return time.Duration(n), err
		}
	}
	return &trial{
		repeat: byTurns(1, count(b.start), count(hand)),
		done:   func() error { stop(); return b.close() },
	}, nil
}

// closing is err after everything was closed.
func (b *bed) closing(err error) error {
	_ = b.close() // what was first is told
	return err
}

// plan5000 runs the largest plan there is, in layers of 50, against one of 100 steps.
func plan5000(ctx context.Context, r *rig) (*trial, error) {
	b, err := newBed(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	per := func(steps, runs int) measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			took, err := b.through(ctx, layers(steps, 50), runs, 1, b.start)
			return took / time.Duration(steps), err
		}
	}
	return &trial{repeat: byTurns(1, per(plan.MaxSteps, 1), per(100, 10)), done: b.close}, nil
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
func runsInFlight(ctx context.Context, r *rig) (*trial, error) {
	const runs = 1000
	repeat := func(ctx context.Context) (sample, error) {
		open := make(held)
		b, err := newBed(ctx, r, map[plan.StepType]executor.Executor{plan.Noop: open})
		if err != nil {
			return sample{}, err
		}
		most, err := b.flight(ctx, runs, open)
		return sample{cost: time.Duration(most), floor: 1 << 30}, b.closingOr(err)
	}
	return &trial{repeat: repeat}, nil
}

func (b *bed) closingOr(err error) error {
	if closed := b.close(); err == nil {
		err = closed
	}
	return err
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
				if err := wait(starting, time.Second); err != nil {
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
			if err := errors.Join(look(), wait(ctx, 50*time.Millisecond)); err != nil {
				return 0, err
			}
		}
	}
	if err := look(); err != nil {
		return 0, err
	}
	close(open)
	for _, id := range ids {
		if err := b.ended(ctx, id); err != nil {
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
