package duty

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// terminateWait limits one call that ends an execution, so that an unresponsive engine does not delay other runs.
const terminateWait = 2 * time.Second

// stopLoop ends runs whose stop the engine has not carried out within ReconcileSettings.StopWithin, even if the engine
// is down, has lost the run, or executes a foreign workflow under the run's id. It runs in its own goroutine and
// depends only on the store, because the rest of the pass waits for an engine that does not answer.
type stopLoop struct {
	w      *pass  // only its settings, engine and metrics, because the rest belongs to another goroutine
	cursor string // position in the list of stopping runs
	// silent is true when the engine did not answer in this round. The round then makes no more calls to it;
	// checkLeftovers ends these executions later.
	silent bool
}

// run calls look every ReconcileSettings.Interval until ctx ends. It always returns nil.
func (x *stopLoop) run(ctx context.Context) error {
	tick := time.NewTicker(x.w.cfg.Interval)
	defer tick.Stop()
	for {
		if err := x.look(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, control.ErrSetAside) &&
			!errors.Is(err, store.ErrUnavailable) {
			x.w.s.background.Log.WarnContext(ctx, "overdue stops were not completed; the next round tries again",
				slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look ends the runs of the next page of overdue stops. A run that cannot be ended does not delay the others.
func (x *stopLoop) look(ctx context.Context) error {
	cfg := x.w.cfg
	rows, err := x.w.s.waits.ListStoppingRuns(ctx, cfg.StopWithin, x.cursor, cfg.Batch)
	if err != nil {
		return err
	}
	x.silent = false
	left := len(rows)
	err = control.ForEach(ctx, rows, func(r store.StoppingRun) error {
		err := x.w.s.background.DoForRun(ctx, control.DutyReconcile, r.RunID, func() error { return x.end(ctx, r) })
		if err == nil {
			left--
		}
		return err
	})
	x.w.metrics.open.WithLabelValues(stopUnanswered).Set(float64(left))
	x.cursor = ""
	if len(rows) == cfg.Batch {
		x.cursor = rows[len(rows)-1].RunID
	}
	return err
}

// end ends one run in the store and then terminates its execution. Under the lock of the run's head, the receipt shows
// whether the workflow or another server was faster, so that a run is ended once.
func (x *stopLoop) end(ctx context.Context, r store.StoppingRun) error {
	s, within := x.w.s, x.w.cfg.StopWithin
	var why string
	err := s.runs.InRun(ctx, r.RunID, func(tx store.RunTx) error {
		why = ""
		stop, err := tx.Receipt(ctx, r.SignalID)
		if err != nil || stop.Application.Final() || tx.Head().Terminal {
			return err
		}
		why = fmt.Sprintf("The engine had not carried out the stop %s of %s within %s: %s.",
			stop.Signal.ID, stop.ReceivedAt.UTC().Format(time.RFC3339), plan.DurationWords(within), describeDelivery(stop))
		if err := s.stopper.CompleteStop(ctx, tx, stop, cutByStop(stop), appliedBySweep(within)); err != nil {
			return err
		}
		return x.w.trail(ctx, tx, r.Identity, run.CodeCancelled, why)
	})
	if err != nil || why == "" {
		return err
	}
	x.w.done(ctx, r.RunID, stopUnanswered, didCancel, why)
	x.terminate(ctx, r.Identity)
	return nil
}

// terminate ends the execution of a run that has ended. It is best effort, because checkLeftovers repeats it.
func (x *stopLoop) terminate(ctx context.Context, id run.Identity) {
	if x.silent {
		return
	}
	within, cancel := context.WithTimeout(ctx, terminateWait)
	defer cancel()
	err := x.w.engine.Terminate(within, id, "dvt: the run was stopped, and its execution had not done so in time")
	if err != nil && !errors.Is(err, engine.ErrNotStarted) && !errors.Is(err, engine.ErrClosed) && ctx.Err() == nil {
		x.silent = true
		x.w.s.background.Log.WarnContext(ctx,
			"the execution of an ended run is still open; it is ended once the engine answers", slog.String("runId",
				id.RunID),
			slog.Any("error", err))
	}
}

// describeDelivery describes how far the engine got with a stop, as part of a sentence.
func describeDelivery(stop run.SignalReceipt) string {
	if stop.DeliveredAt == nil {
		return "the engine did not take the order"
	}
	return "the engine took the order at " + stop.DeliveredAt.UTC().Format(time.RFC3339) + " and did not end the run"
}

// appliedBySweep returns the reason for the receipt of a stop that a sweep carried out.
func appliedBySweep(within time.Duration) string {
	const why = "dvt ended the run by itself, because the engine had not carried out the order within %s"
	return fmt.Sprintf(why, plan.DurationWords(within))
}

// cutByStop returns the failure of attempts that a stop ends without waiting for their workers. It equals the failure
// that the workflow writes for a CANCEL, contract T79, or for an EMERGENCY_STOP with forceKill, contract T99.
func cutByStop(stop run.SignalReceipt) run.FailurePayload {
	if stop.Signal.Force {
		return runs.CutByKill()
	}
	return run.FailurePayload{
		ErrorCode: string(run.CodeCancelled), FailureCategory: run.CategoryUser, FailureSource: string(run.ByControl),
		ErrorMessage: "the run was stopped, and the engine did not end the attempt",
	}
}
