// Package duty has the background work of a server: Dispatcher starts queued runs, Deliverer delivers signals to the
// engine, and Reconciler finds runs whose log and engine disagree.
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

// DispatchQueue admits and leases waiting runs.
type DispatchQueue interface {
	AdmitWaiting(ctx context.Context, terms func(tenantID string, projectID string) store.Terms,
		limit int) (store.Admitted, error)
	Lease(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.QueueRow, error)
	Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error
	MarkStarted(ctx context.Context, runID string, generation int64) error
}

// DispatchRuns reads and approves the runs that are started.
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

// giveBackFrozen releases the leased start of a frozen tenant. It returns false when the tenant is not frozen.
func (s *Dispatcher) giveBackFrozen(ctx context.Context, q store.QueueRow) (bool, error) {
	if _, frozen := s.admission.Modes.State.Current().Frozen[q.TenantID]; !frozen {
		return false, nil
	}
	return true, s.queue.Release(ctx, q.RunID, q.Generation, admission.FrozenPause, "the tenant is frozen")
}

const (
	// pollEvery is how often a dispatcher polls the queue. Runs that end or are requested on any server wake it over
	// the bus, so it polls more often without the bus, and after an error.
	pollEvery      = 5 * time.Second
	pollWithoutBus = 500 * time.Millisecond
	// pollWhileHeld is how often a dispatcher checks whether the mode allows starts again. The check does no I/O.
	pollWhileHeld = time.Second
	// pollGap is the minimum time between two rounds, so that many wake-ups at once cause one round.
	pollGap = 10 * time.Millisecond
)

// Dispatch admits runs that wait for a quota token or a slot, and starts admitted runs in the engine, until ctx ends. A
// run that is requested or ends on any server wakes it at once, and so does the time at which the next run can be
// admitted. Admission is one transaction, starting is idempotent, and the mark of a started run is fenced, so that any
// number of dispatchers start each run once (contract T128, T130). owner names this process in leases.
func (s *Dispatcher) Dispatch(ctx context.Context, owner string) error {
	s.admission.Waker.Dispatchers.Add(1)
	defer s.admission.Waker.Dispatchers.Add(-1)
	defer s.admission.Waker.Listen(s.admission.Waker.Starts)()
	for {
		more, wait, err := s.dispatch(ctx, owner)
		s.background.Beats.Mark(control.DutyDispatch)
		for _, duty := range s.admission.Modes.Breaker.Duties() {
			s.background.Beats.Mark(duty)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.background.Log.WarnContext(ctx, "queued runs were not started; the next round tries again",
				slog.Any("error", err))
		}
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		if !control.Sleep(ctx, nil, pollGap) || !control.Sleep(ctx, s.admission.Waker.Starts, wait) {
			return nil
		}
	}
}

// dispatch does one round. It returns more when there may be more to do at once, and else the time until the next
// round.
func (s *Dispatcher) dispatch(ctx context.Context, owner string) (more bool, wait time.Duration, err error) {
	wait = pollEvery
	if !s.admission.Waker.Up() {
		wait = pollWithoutBus
	}
	n := s.admission.Modes.LeaseSize()
	if n == 0 {
		return false, pollWhileHeld, nil
	}
	admitted, admitErr := s.queue.AdmitWaiting(ctx, s.admission.Allowances.Terms, n)
	if admitted.Next > 0 {
		wait = min(wait, admitted.Next)
	}
	s.admission.Usage.ObserveAdmitted(admitted.Rows, s.background.Now())
	rows, err := s.queue.Lease(ctx, owner, s.admission.Leases.TTL, n)
	if err == nil && len(rows) == 0 {
		s.launcher.tryEngine(ctx)
	}
	s.admission.Usage.CountLeased(rows)
	control.DoConcurrently(rows, func(q store.QueueRow) {
		err := s.background.DoForRun(ctx, control.DutyDispatch, q.RunID, func() error { return s.start(ctx, q) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, control.ErrSetAside) {
			s.admission.Usage.StartFailures.Inc()
			s.background.Log.WarnContext(ctx, "a run was not started; it is tried again",
				slog.String("runId", q.RunID), slog.Any("error", err))
		}
	})
	if err = errors.Join(admitErr, err); err != nil {
		wait = pollWithoutBus
	}
	full := s.admission.Leases.Batch
	return len(rows) == full || len(admitted.Rows) == full, wait, err
}

// start starts a leased run in the engine.
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
		err = s.queue.MarkStarted(ctx, q.RunID, q.Generation)
	} else if isHopeless(q, err) {
		err = s.failStart(ctx, q, err)
	} else if !errors.Is(err, store.ErrConflict) {
		delay := min(time.Second<<min(q.Attempts, 5), 30*time.Second)
		err = errors.Join(err, s.queue.Release(ctx, q.RunID, q.Generation, delay, err.Error()))
		s.admission.Waker.WakeAfter(delay)
		return err
	}
	if errors.Is(err, store.ErrConflict) {
		return nil // another dispatcher holds the lease now and will find the run started
	}
	return err
}

// approveLeased appends the RunApproved of a run that waited in the queue, once, under the fence of its lease. It
// returns store.ErrConflict when the lease was lost. It does nothing for a run that was approved before it was queued
// (contract T213).
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
