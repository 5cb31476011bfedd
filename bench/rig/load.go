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

// makeRun makes a run with the given number of steps, started: its head is 1.
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

func StepName(i int) string { return fmt.Sprintf("s%05d", i) }

// runName is the id of the n-th run of a figure, shaped like those of real runs.
func RunName(n int) string { return fmt.Sprintf("5f0c3b1e-6a7d-4c52-9b1e-%012d", n) }

// makeRuns makes n runs and returns their ids.
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

// draft is the n-th event of a run that works through its steps again and again: each begins and completes.
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

// writer appends a run's events one by one or by several.
type Writer struct {
	Log   store.Log
	RunID string
	Steps int
	N     int
}

// append appends the next events; all of them must be new.
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

// writersOf is a writer for each run.
func WritersOf(log store.Log, runIDs []string, steps int) []*Writer {
	ws := make([]*Writer, len(runIDs))
	for i, id := range runIDs {
		ws[i] = &Writer{Log: log, RunID: id, Steps: steps}
	}
	return ws
}

// crowd has n workers call again and again for d, and returns d over the number of calls.
func Crowd(ctx context.Context, n int, d time.Duration, call func(ctx context.Context, worker int) error) (
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

// paced has n workers call, each once an interval and not at the same moment, for d. A call is told when it was due:
// what delays one call delays its worker's next ones too, and their times are counted from then. Falling behind by more
// than lateness is an error.
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

// lateness is how late a paced call may be.
const lateness = time.Second

// wait is a sleep that ends with ctx.
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

// latencies collects times from several goroutines.
type Latencies struct {
	mu   sync.Mutex
	took []time.Duration
}

func (l *Latencies) Add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, d)
}

func (l *Latencies) Quantile(q float64) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.took) == 0 {
		return 0, fmt.Errorf("nothing was measured")
	}
	return Quantile(l.took, q), nil
}
