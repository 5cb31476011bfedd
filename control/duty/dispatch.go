// Package duty is the work of a server that no request waits for: Dispatcher starts queued runs, Deliverer hands
// signals to the engine, and Reconciler finds runs whose log and engine disagree.
package duty

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// DispatchQueue admits and leases runs that wait.
type DispatchQueue interface {
	AdmitWaiting(ctx context.Context, terms func(tenantID string, projectID string) store.Terms,
		limit int) (store.Admitted, error)
	Lease(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.QueueRow, error)
	Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error
	Started(ctx context.Context, runID string, generation int64) error
}

// DispatchRuns reads the runs that are started.
type DispatchRuns interface {
	Get(ctx context.Context, runID string) (store.Run, error)
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
}

// Dispatcher starts the runs of the queue in the engine. It is safe for concurrent use.
type Dispatcher struct {
	queue      DispatchQueue
	runs       DispatchRuns
	launcher   *Launcher
	starter    *runs.Starter
	admission  *admission.Admission
	background *control.Background
}

// NewDispatcher makes a Dispatcher.
func NewDispatcher(queue DispatchQueue, runs DispatchRuns, launcher *Launcher, starter *runs.Starter,
	admission *admission.Admission,
	background *control.Background) *Dispatcher {
	return &Dispatcher{queue: queue, runs: runs, launcher: launcher, starter: starter, admission: admission,
		background: background}
}

// giveBackFrozen gives a leased start of a frozen tenant back; false: it may start.
func (s *Dispatcher) giveBackFrozen(ctx context.Context, q store.QueueRow) (bool, error) {
	if _, frozen := s.admission.Modes.State.Current().Frozen[q.TenantID]; !frozen {
		return false, nil
	}
	return true, s.queue.Release(ctx, q.RunID, q.Generation, admission.FrozenPause, "the tenant is frozen")
}

const (
	// lookEvery is how often a reconciler looks without being told; runs that end or are
	// asked for anywhere wake it over the bus. Without a bus or a store it looks more often.
	lookEvery      = 5 * time.Second
	lookWithoutBus = 500 * time.Millisecond
	// lookWhileShut is how often it asks whether anything may start, which costs nothing.
	lookWhileShut = time.Second
	// lookGap is the least time between two looks, so that a crowd of wake-ups is one.
	lookGap = 10 * time.Millisecond
)

// Dispatch admits what waits for a token or a place, and starts what was admitted in the
// engine, until ctx ends. It is woken at once by a run that is asked for or ends, here or
// on another server, and when time alone lets something in. Admitting is one
// transaction, starting is idempotent and marking is fenced, so any number of reconcilers
// start each run once (T128, T130).
func (s *Dispatcher) Dispatch(ctx context.Context, owner string) error {
	s.admission.Waker.Dispatchers.Add(1)
	defer s.admission.Waker.Dispatchers.Add(-1)
	defer s.admission.Waker.Listen(s.admission.Waker.Starts)()
	for {
		more, wait, err := s.dispatch(ctx, owner)
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.background.Log.WarnContext(ctx, "queued runs were not started; the next look tries again",
				slog.Any("error", err))
		}
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		if !control.Sleep(ctx, nil, lookGap) || !control.Sleep(ctx, s.admission.Waker.Starts, wait) {
			return nil
		}
	}
}

// dispatch is one look: whether there may be more to do at once, else how long there is not.
func (s *Dispatcher) dispatch(ctx context.Context, owner string) (more bool, wait time.Duration, err error) {
	wait = lookEvery
	if !s.admission.Waker.Up() {
		wait = lookWithoutBus
	}
	n := s.admission.Modes.LeaseSize()
	if n == 0 {
		return false, lookWhileShut, nil
	}
	admitted, admitErr := s.queue.AdmitWaiting(ctx, s.admission.Allowances.Terms, n)
	if admitted.Next > 0 {
		wait = min(wait, admitted.Next)
	}
	s.admission.Usage.Admitted(admitted.Rows, s.background.Now())
	rows, err := s.queue.Lease(ctx, owner, s.admission.Leases.TTL, n)
	if err == nil && len(rows) == 0 {
		s.launcher.tryEngine(ctx)
	}
	s.admission.Usage.Leased(rows)
	control.DoConcurrently(rows, func(q store.QueueRow) {
		err := s.background.DoForRun(ctx, control.DutyStart, q.RunID, func() error { return s.start(ctx, q) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, control.ErrSetAside) {
			s.admission.Usage.StartFailures.Inc()
			s.background.Log.WarnContext(ctx, "run not started", slog.String("runId", q.RunID), slog.Any("error", err))
		}
	})
	if err = errors.Join(admitErr, err); err != nil {
		wait = lookWithoutBus
	}
	full := s.admission.Leases.Batch
	return len(rows) == full || len(admitted.Rows) == full, wait, err
}

// start hands a leased run to the engine.
func (s *Dispatcher) start(ctx context.Context, q store.QueueRow) error {
	if held, err := s.giveBackFrozen(ctx, q); held {
		return err
	}
	r, err := s.runs.Get(ctx, q.RunID)
	if err == nil {
		err = s.approveLeased(ctx, q)
	}
	if err == nil {
		err = s.launcher.startInEngine(ctx, r.Identity)
	}
	if err == nil {
		err = s.queue.Started(ctx, q.RunID, q.Generation)
	} else if !errors.Is(err, store.ErrConflict) {
		delay := min(time.Second<<min(q.Attempts, 5), 30*time.Second)
		err = errors.Join(err, s.queue.Release(ctx, q.RunID, q.Generation, delay, err.Error()))
		s.admission.Waker.WakeAfter(delay)
		return err
	}
	if errors.Is(err, store.ErrConflict) {
		return nil // somebody else holds the lease now and will find the run started
	}
	return err
}

// approveLeased appends the RunApproved of a run that waited, once, under the fence of its
// lease: store.ErrConflict when that moved. A run that was approved before it came into the
// queue stays as it is (T213).
func (s *Dispatcher) approveLeased(ctx context.Context, q store.QueueRow) error {
	first, err := s.runs.Events(ctx, q.RunID, 0, 1)
	if err != nil || len(first) == 0 || first[0].Type != run.RunQueued {
		return err
	}
	waited, err := run.PayloadOf[run.RunQueuedPayload](first[0].Payload)
	if err != nil {
		return err
	}
	approved, err := s.starter.RunApprovedDraft(waited.Rerun)
	if err != nil {
		return err
	}
	return s.runs.InRun(ctx, q.RunID, func(tx store.RunTx) error {
		now, err := tx.Queue(ctx)
		if err != nil {
			return err
		}
		if now.Generation != q.Generation || now.Status != store.QueueLocked {
			return store.ErrConflict
		}
		out, err := tx.Append(ctx, store.Append{RunID: q.RunID, Events: []run.Draft{approved}})
		if err == nil && out.Outcomes[0].Refused != "" {
			err = fmt.Errorf("control: RunApproved was refused: %s", out.Outcomes[0].Refused)
		}
		return err
	})
}
