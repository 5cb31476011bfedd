package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Stopper ends runs that a signal stops. It is safe for concurrent use.
type Stopper struct {
	store    SignalStore
	Engine   engine.Engine
	receipts *ReceiptReader
	now      func() time.Time
}

// NewStopper makes a Stopper.
func NewStopper(store SignalStore, engine engine.Engine, receipts *ReceiptReader, now func() time.Time) *Stopper {
	return &Stopper{store: store, Engine: engine, receipts: receipts, now: now}
}

// acceptStop accepts a CANCEL or EMERGENCY_STOP. It ends a run whose log has no RunStarted in the same transaction
// (contract T100, G24): the run may wait in the queue, or its execution may load the plan, for minutes and without
// hearing signals. Such an execution finds the run ended, because the store refuses its RunStarted. For a started run
// it closes the gate, which records the intent before the engine is called (contract T192).
func (j *judging) acceptStop(ctx context.Context, tx store.RunTx, st run.State) error {
	q, err := tx.Queue(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	queued := err == nil && (q.Status == store.QueuePending || q.Status == store.QueueStarted)
	if err != nil {
		if queued, err = isAwaitingApproval(ctx, tx); err != nil {
			return err
		}
	}
	// A server starts a run whose row is LOCKED. Delivery carries the stop out when that start is over.
	if !queued || st.StartedAt != nil {
		return j.appendAccepted(ctx, tx, j.in.Signal, run.GateStopped, true)
	}
	if err := j.appendAccepted(ctx, tx, j.in.Signal, 0, false); err != nil {
		return err
	}
	if err := j.s.stopper.CompleteStop(ctx, tx, j.out.SignalReceipt, CutByKill(), ""); err != nil {
		return err
	}
	j.out.SignalReceipt, err = tx.Receipt(ctx, j.in.Signal.ID)
	return err
}

// Killer returns the newest forced stop among receipts that is not carried out yet, or false.
func Killer(receipts []run.SignalReceipt) (run.SignalReceipt, bool) {
	for _, rc := range slices.Backward(receipts) {
		if rc.Signal.Type == run.EmergencyStop && rc.Signal.Force && !rc.Application.Final() {
			return rc, true
		}
	}
	return run.SignalReceipt{}, false
}

// Kill carries out an EMERGENCY_STOP with forceKill: the engine ends the execution, then the events that end the run
// are written (contract T99). It is idempotent from any point. It returns engine.ErrNotStarted while a start is under
// way.
func (s *Stopper) Kill(ctx context.Context, r store.Run, stop run.SignalReceipt) error {
	err := s.Engine.Terminate(ctx, r.Identity, "dvt: EMERGENCY_STOP "+stop.Signal.ID)
	unknown := errors.Is(err, engine.ErrNotStarted)
	if err != nil && !unknown && !errors.Is(err, engine.ErrClosed) {
		return err
	}
	return s.store.InRun(ctx, r.RunID, func(tx store.RunTx) error {
		if unknown {
			q, err := tx.Queue(ctx)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil && q.Status == store.QueueLocked {
				return engine.ErrNotStarted // the start may still reach the engine, and the run would go on
			}
		}
		return s.CompleteStop(ctx, tx, stop, CutByKill(), "")
	})
}

// OpenStop returns the first accepted stop of a run that has not been carried out, or false. Code that would end the
// run for another reason completes this stop instead (contract T192).
func (s *Stopper) OpenStop(ctx context.Context, runID string) (run.SignalReceipt, bool, error) {
	for rc, err := range s.receipts.SignalsOf(ctx, runID) {
		if err != nil {
			return run.SignalReceipt{}, false, err
		}
		if rc.Signal.Type.Stops() && !rc.Application.Final() {
			return rc, true, nil
		}
	}
	return run.SignalReceipt{}, false, nil
}

// CompleteStop ends a run for a stop that the engine will not carry out. In the caller's transaction it writes
// StepFailed with cut for every running attempt and RunCancelled, and marks the receipt APPLIED with reason (contract
// T99). A start that is under way conflicts on the queue row, and its workflow finds the run ended. CompleteStop does
// nothing when the run has ended or the stop was carried out.
func (s *Stopper) CompleteStop(
	ctx context.Context, tx store.RunTx, stop run.SignalReceipt, cut run.FailurePayload, reason string,
) error {
	now, err := tx.Receipt(ctx, stop.Signal.ID)
	if err != nil || now.Application.Final() || tx.Head().Terminal {
		return err
	}
	st, err := tx.State(ctx)
	if err != nil {
		return err
	}
	events, err := s.stopEvents(st, stop, cut)
	if err != nil {
		return err
	}
	q, err := tx.Queue(ctx)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return err
	case q.Status == store.QueuePending, q.Status == store.QueueLocked: // the run must not start any more
		q.Status = store.QueueCancelled
		if err := tx.SetQueue(ctx, q); err != nil {
			return err
		}
	}
	return EndRun(ctx, tx, stop.RunID, events, store.SignalOutcome{
		SignalID: stop.Signal.ID, Application: run.SignalApplied, Reason: reason,
	})
}

// EndRun appends events. The last event must end the run. The signals in applied are marked as applied by that event.
func EndRun(ctx context.Context, tx store.RunTx, runID string, events []run.Draft,
	applied ...store.SignalOutcome) error {
	for part := range slices.Chunk(events, store.MaxBatch) {
		a := store.Append{RunID: runID, Events: part}
		if last := len(part) - 1; part[last].Type.EndsRun() {
			for _, o := range applied {
				o.AppliedBy = last
				a.Outcomes = append(a.Outcomes, o)
			}
		}
		out, err := tx.Append(ctx, a)
		if err != nil {
			return err
		}
		for i, o := range out.Outcomes {
			if o.Refused != "" {
				return fmt.Errorf("control: %s was refused: %s", part[i].Type, o.Refused)
			}
		}
	}
	return nil
}

// stopEvents returns StepFailed for the running attempts in canonical order, then RunCancelled.
func (s *Stopper) stopEvents(st run.State, stop run.SignalReceipt, cut run.FailurePayload) ([]run.Draft, error) {
	events, err := s.CutOff(st, cut)
	if err != nil {
		return nil, err
	}
	cancelled, err := json.Marshal(run.RunCancelledPayload{SignalID: stop.Signal.ID, SignalType: stop.Signal.Type,
		Actor: stop.Actor, Reason: stop.Reason})
	return append(events, run.Draft{
		Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.now(), EmittedBy: run.ByControl,
		Payload: cancelled,
	}), err
}

// CutByKill returns the failure of attempts whose execution was ended without their cooperation (contract T99).
func CutByKill() run.FailurePayload {
	return run.FailurePayload{
		ErrorCode: string(run.CodeTerminated), ErrorMessage: "the attempt was cut off because its run was stopped",
		FailureCategory: run.CategoryPlatform, FailureSource: string(run.ByControl),
	}
}

// CutOff returns a StepFailed with cut for every running attempt, in canonical order.
func (s *Stopper) CutOff(st run.State, cut run.FailurePayload) ([]run.Draft, error) {
	failed, err := json.Marshal(cut)
	var events []run.Draft
	for _, step := range st.Steps {
		if step.Status != run.StepRunning {
			continue
		}
		latest := step.Attempts[len(step.Attempts)-1]
		events = append(events, run.Draft{
			Type: run.StepFailedEvent, StepID: step.StepID, LogicalAttempt: latest.LogicalAttempt,
			EngineAttempt: latest.EngineAttempt,
			EmittedAt:     s.now(), EmittedBy: run.ByControl, Payload: failed,
		})
	}
	return events, err
}
