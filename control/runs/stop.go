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

// Stopper ends runs that are stopped. It is safe for concurrent use.
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

// acceptStop accepts a CANCEL or EMERGENCY_STOP. A run that no engine has seen ends
// here and now (T100, G24); for any other the closed gate is the intent, there
// before the engine is touched (T192).
func (j *judging) acceptStop(ctx context.Context, tx store.RunTx, st run.State) error {
	q, err := tx.Queue(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	waits := err == nil && q.Status == store.QueuePending
	if err != nil {
		if waits, err = isAwaitingApproval(ctx, tx); err != nil {
			return err
		}
	}
	// A start that failed may have reached the engine all the same: a run that
	// began is stopped there, whatever its queue row says.
	if !waits || st.Status == run.Running || st.Status == run.Paused {
		return j.appendAccepted(ctx, tx, j.in.Signal, run.GateStopped, true)
	}
	if err := j.appendAccepted(ctx, tx, j.in.Signal, 0, false); err != nil {
		return err
	}
	if err := j.s.stopper.CompleteStop(ctx, tx, j.out.Receipt, CutByKill(), ""); err != nil {
		return err
	}
	j.out.Receipt, err = tx.Receipt(ctx, j.in.Signal.ID)
	return err
}

// Killer is the newest forced stop among receipts that is not done yet, or false.
func Killer(receipts []run.Receipt) (run.Receipt, bool) {
	for _, rc := range slices.Backward(receipts) {
		if rc.Signal.Type == run.EmergencyStop && rc.Signal.Force && !rc.Application.Final() {
			return rc, true
		}
	}
	return run.Receipt{}, false
}

// Kill carries out an EMERGENCY_STOP with forceKill: the engine ends the execution,
// then control writes the end of the run (T99). It may be repeated from any point.
// engine.ErrNotStarted says that a start is under way.
func (s *Stopper) Kill(ctx context.Context, r store.Run, stop run.Receipt) error {
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
				return engine.ErrNotStarted // it may be there at any moment, and would go on
			}
		}
		return s.CompleteStop(ctx, tx, stop, CutByKill(), "")
	})
}

// OpenStop is the accepted stop of a run that has not been carried out: whoever
// would end the run otherwise completes it instead (T192). The first one wins.
func (s *Stopper) OpenStop(ctx context.Context, runID string) (run.Receipt, bool, error) {
	for rc, err := range s.receipts.SignalsOf(ctx, runID) {
		if err != nil {
			return run.Receipt{}, false, err
		}
		if rc.Signal.Type.Stops() && !rc.Application.Final() {
			return rc, true, nil
		}
	}
	return run.Receipt{}, false, nil
}

// CompleteStop ends a run on the word of a stop that no engine is to carry out any more: StepFailed with cut for every
// attempt that runs, RunCancelled, and the receipt APPLIED by it with reason, in the caller's transaction (T99). A
// start that is under way conflicts with the queue row, and the workflow that it makes finds the run ended. A run that
// ended, or a stop that was carried out, stays as it is.
func (s *Stopper) CompleteStop(
	ctx context.Context, tx store.RunTx, stop run.Receipt, cut run.FailurePayload, reason string,
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
	case q.Status == store.QueuePending, q.Status == store.QueueLocked: // nobody is to start it any more
		q.Status = store.QueueCancelled
		if err := tx.SetQueue(ctx, q); err != nil {
			return err
		}
	}
	return EndRun(ctx, tx, stop.RunID, events, store.SignalOutcome{
		SignalID: stop.Signal.ID, Application: run.SignalApplied, Reason: reason,
	})
}

// EndRun appends what ends a run, whose last event does; applied are the signals
// that this carries out.
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

// stopEvents end what runs, in canonical order, and then the run.
func (s *Stopper) stopEvents(st run.State, stop run.Receipt, cut run.FailurePayload) ([]run.Draft, error) {
	events, err := s.CutOff(st, cut)
	if err != nil {
		return nil, err
	}
	cancelled, err := json.Marshal(run.RunCancelledPayload{SignalID: stop.Signal.ID, Actor: stop.Actor,
		Reason: stop.Reason})
	return append(events, run.Draft{
		Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.now(), EmittedBy: run.ByControl,
		Payload: cancelled,
	}), err
}

// CutByKill is the failure of attempts whose execution was ended without its cooperation (T99).
func CutByKill() run.FailurePayload {
	return run.FailurePayload{
		ErrorCode: string(run.CodeTerminated), ErrorMessage: "the attempt was cut off because its run was stopped",
		FailureCategory: run.CategoryPlatform, FailureSource: string(run.ByControl),
	}
}

// CutOff is StepFailed with cut for every attempt that runs, in canonical order.
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
