package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// machineRun drives the interpreter through a linear plan of n steps.
func machineRun(n int) error {
	steps := make([]plan.SkeletonStep, n)
	for i := range steps {
		steps[i] = plan.SkeletonStep{StepID: fmt.Sprintf("s%05d", i), TaskQueue: "q", Retry: plan.Retry{MaxAttempts: 1},
			Timeout: time.Minute}
		if i > 0 {
			steps[i].Deps = []int{i - 1}
		}
	}
	m := interp.New(plan.Skeleton{Steps: steps}, interp.Config{Identity: run.Identity{RunID: "r"}})
	now, seq := time.Unix(1, 0), run.Seq(0)
	todo := []interp.Input{interp.Init{At: now}}
	for len(todo) > 0 && !m.Done() {
		in := todo[0]
		todo = todo[1:]
		for _, e := range m.Step(in) {
			switch e := e.(type) {
			case interp.Append:
				r := interp.Recorded{At: now, Batch: e.Batch}
				for range e.Events {
					seq++
					r.Ends = append(r.Ends, interp.RecordedEvent{Seq: seq})
				}
				r.Head = seq
				todo = append(todo, r)
			case interp.Execute:
				seq += 2
				todo = append(todo, interp.Ended{At: now, StepID: steps[e.Ord].StepID, LogicalAttempt: e.LogicalAttempt,
					Receipt: engine.Receipt{
						Type: run.StepCompletedEvent, StartedSeq: seq - 1, Seq: seq, Head: seq,
					}})
			}
		}
	}
	if !m.Done() {
		return fmt.Errorf("the interpreter stopped at seq %d before the run was done", seq)
	}
	return nil
}

// interpStep takes the minimum of many short calls with equal work, because other load on the machine can only prolong
// a call. The garbage collector is off during a call.
func interpStep(context.Context, *rig.Rig) (*rig.Trial, error) {
	const steps, turns = 5000, 25
	per := func(n int) rig.Measure {
		return func(context.Context, int) (time.Duration, error) {
			runtime.GC()
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			took, err := rig.Timed(func() error {
				for range steps / n {
					if err := machineRun(n); err != nil {
						return err
					}
				}
				return nil
			})
			return took / steps, err
		}
	}
	return &rig.Trial{Repeat: rig.LeastOf(turns, per(steps), per(50))}, nil
}

// logOf returns the events of a run in which all n steps complete.
func logOf(n int) []run.Event {
	id := run.Identity{RunID: "r", TenantID: "t", ProjectID: "p", EnvironmentID: "e", PlanID: "plan", PlanVersion: "1"}
	outline := make([]byte, 0, n*40)
	for i := range n {
		if i > 0 {
			outline = append(outline, ',')
		}
		outline = fmt.Appendf(outline, `{"stepId":"s%05d","type":"NOOP"}`, i)
	}
	at := time.Unix(1, 0)
	evs := []run.Event{{Identity: id, Type: run.RunStarted, Seq: 1, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: at,
		PersistedAt: at, Payload: fmt.Appendf(nil, `{"steps":[%s]}`, outline)}}
	for i := range n {
		for _, t := range []run.EventType{run.StepStartedEvent, run.StepCompletedEvent} {
			evs = append(evs, run.Event{
				Identity: id, Type: t, Seq: run.Seq(len(evs) + 1), StepID: fmt.Sprintf("s%05d", i), LogicalAttempt: 1,
				EngineAttempt: 1,
				EmittedAt:     at, PersistedAt: at, Payload: []byte(`{}`),
			})
		}
	}
	return evs
}

// foldEvent measures run.Fold per event, in pages of 100 events.
func foldEvent(context.Context, *rig.Rig) (*rig.Trial, error) {
	per := func(steps, rounds int) rig.Measure {
		evs := logOf(steps)
		return func(context.Context, int) (time.Duration, error) {
			took, err := rig.Median(rounds, func(int) error {
				s := run.State{Header: run.Header{Identity: evs[0].Identity, Status: run.Pending, Rev: run.ReducerRev}}
				for at := 0; at < len(evs); at += 100 {
					s, _, _ = run.Fold(s, evs[at:min(at+100, len(evs))])
				}
				if s.Seq != run.Seq(len(evs)) {
					return fmt.Errorf("folded to %d of %d", s.Seq, len(evs))
				}
				return nil
			})
			return took / time.Duration(len(evs)), err
		}
	}
	return &rig.Trial{Repeat: rig.Alternate(1, per(1000, 20), per(10, 500))}, nil
}
