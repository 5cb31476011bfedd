package rig

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// MakeRun creates a run with the given number of steps and its RunStarted event, so that its head is at seq 1. It
// returns an error if the run exists.
func MakeRun(ctx context.Context, s store.Transactor, id string, steps int) error {
	names := make([]string, steps)
	for i := range names {
		names[i] = StepName(i)
	}
	of := runtest.ID
	of.RunID = id
	_, created, err := s.CreateRun(ctx, store.NewRun{
		Run: store.Run{
			Identity: of, RequestID: id, RequestKey: run.RequestKey(of.TenantID, of.ProjectID, of.EnvironmentID, of.PlanID,
				of.PlanVersion, id),
			PlanRef: plan.Ref{SHA256: fmt.Sprintf("%064d", 1), SchemaVersion: "v1.2", PlanID: of.PlanID,
				PlanVersion: of.PlanVersion},
		},
		Events: []run.Draft{runtest.Start(names...)},
	})
	if err == nil && !created {
		err = fmt.Errorf("run %s was there already", id)
	}
	return err
}

// StepName returns the id of the i-th step of a run.
func StepName(i int) string { return fmt.Sprintf("s%05d", i) }

// RunName returns the id of the n-th run of a figure. It has the form and length of a real id, because key length
// affects the cost of indexes.
func RunName(n int) string { return fmt.Sprintf("5f0c3b1e-6a7d-4c52-9b1e-%012d", n) }

// MakeRuns creates the first n runs (see MakeRun) and returns their ids.
func MakeRuns(ctx context.Context, s store.Transactor, n, steps int) ([]string, error) {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = RunName(i)
		if err := MakeRun(ctx, s, ids[i], steps); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Draft returns the n-th event, from 0, of a run that executes its steps one after another: StepStarted and
// StepCompleted of each. After the last step it starts over with the next logical attempt.
func Draft(n, steps int) run.Draft {
	step := n / 2 % steps
	d := run.Draft{
		Type: run.StepStartedEvent, StepID: StepName(step), LogicalAttempt: 1 + n/2/steps, EngineAttempt: 1,
		EmittedAt: time.Now(), EmittedBy: run.ByEngine, Payload: []byte(`{}`),
	}
	if n%2 == 1 {
		d.Type = run.StepCompletedEvent
	}
	return d
}

// Writer appends the events of Draft to one run. It is not safe for concurrent use.
type Writer struct {
	Log   store.Log
	RunID string
	Steps int // steps of the run
	N     int // number of events appended so far, without RunStarted
}

// Append appends the next events in one call of Log.Append and returns the run's head. It returns an error if the log
// refused or deduplicated one of them, because then the figure would measure something else.
func (w *Writer) Append(ctx context.Context, events int) (run.Seq, error) {
	a := store.Append{RunID: w.RunID, Events: make([]run.Draft, events)}
	for i := range a.Events {
		a.Events[i] = Draft(w.N, w.Steps)
		w.N++
	}
	out, err := w.Log.Append(ctx, a)
	if err != nil {
		return 0, err
	}
	for _, o := range out.Outcomes {
		if o.Deduplicated || o.Refused != "" {
			return 0, fmt.Errorf("an event was not inserted: %+v", o)
		}
	}
	return out.Head.LastSeq, nil
}

// TimeAppend appends one event and returns how long that took. It is a Measure.
func (w *Writer) TimeAppend(ctx context.Context, _ int) (time.Duration, error) {
	return Timed(func() error {
		_, err := w.Append(ctx, 1)
		return err
	})
}

// WritersOf returns a Writer for each run.
func WritersOf(log store.Log, runIDs []string, steps int) []*Writer {
	ws := make([]*Writer, len(runIDs))
	for i, id := range runIDs {
		ws[i] = &Writer{Log: log, RunID: id, Steps: steps}
	}
	return ws
}

// Concurrently lets n workers call concurrently and repeatedly for d. It returns the elapsed time divided by the number
// of calls. The first error stops all workers.
func Concurrently(ctx context.Context, n int, d time.Duration, call func(ctx context.Context, worker int) error) (
	time.Duration, error) {
	var calls atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for w := range n {
		g.Go(func() error {
			for time.Since(began) < d {
				if err := call(ctx, w); err != nil {
					return err
				}
				calls.Add(1)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return time.Since(began) / time.Duration(max(1, calls.Load())), nil
}

// Paced lets n workers call for d, each once every interval, evenly staggered. A call receives the time at which it was
// due: when an earlier call of the worker was slow, the delay counts for the later ones as well. It returns an error if
// a call is more than lateness late, because the machine then cannot sustain the rate, or if a call fails.
func Paced(ctx context.Context, n int, interval, d time.Duration, call func(ctx context.Context, worker int,
	due time.Time) error) error {
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for w := range n {
		g.Go(func() error {
			next := began.Add(interval * time.Duration(w) / time.Duration(n))
			for ; next.Sub(began) < d; next = next.Add(interval) {
				if err := Wait(ctx, time.Until(next)); err != nil {
					return err
				}
				if late := time.Since(next); late > lateness {
					return fmt.Errorf("this machine cannot keep the pace of %.0f calls a second: one is %s late",
						float64(n)/interval.Seconds(), late.Round(time.Millisecond))
				}
				if err := call(ctx, w, next); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// lateness is the longest delay of a call of Paced.
const lateness = time.Second

// Wait sleeps for d. It returns the error of ctx if ctx ends first.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Latencies collects durations. The zero value is ready for use, by several goroutines.
type Latencies struct {
	mu   sync.Mutex
	took []time.Duration
}

// Add adds one duration.
func (l *Latencies) Add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, d)
}

// Quantile returns quantile q of the durations, or an error if there is none.
func (l *Latencies) Quantile(q float64) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.took) == 0 {
		return 0, fmt.Errorf("nothing was measured")
	}
	return Quantile(l.took, q), nil
}
