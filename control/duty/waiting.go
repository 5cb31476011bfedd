package duty

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// checkWaiting fails the runs that waited longer than they may (contract T131). A run that a freeze or the mode holds
// gets more time instead, so that it neither fails nor fills the next page of expired runs. A lease, a slot or a stop
// that came first wins, because all of them decide under the head lock.
func (w *pass) checkWaiting(ctx context.Context) error {
	rows, err := w.s.waits.ListExpiredWaits(ctx, w.cfg.Batch)
	if err != nil {
		return err
	}
	return control.ForEach(ctx, rows, func(q store.QueueRow) error {
		return w.s.background.DoForRun(ctx, control.DutyReconcile, q.RunID, func() error { return w.s.expireWaiting(ctx, q) })
	})
}

func (s *Reconciler) expireWaiting(ctx context.Context, q store.QueueRow) error {
	stop, stopping, err := s.stopper.OpenStop(ctx, q.RunID)
	if err != nil {
		return err
	}
	expired := false
	err = s.runs.InRun(ctx, q.RunID, func(tx store.RunTx) error {
		expired = false
		now, err := tx.Queue(ctx)
		if err != nil || !now.Waiting || now.Status != store.QueuePending || tx.Head().Terminal {
			return err
		}
		if stopping {
			// An open stop wins over the expiry (contract T192).
			return s.stopper.CompleteStop(ctx, tx, stop, runs.CutByKill(), "")
		}
		until, held := s.admission.Allowances.WaitsUntil(now)
		if held {
			until = s.background.Now().Add(s.admission.Allowances.TimeToWait(now))
		}
		if until.After(s.background.Now()) {
			now.ExpiresAt = until
			return tx.SetQueue(ctx, now)
		}
		expired = true
		failed, err := json.Marshal(run.RunFailedPayload{FailurePayload: run.FailurePayload{
			ErrorCode: string(run.CodeQueueTTL), Retryable: true, FailureCategory: run.CategorySystem,
			FailureSource: string(run.ByAdmission),
			ErrorMessage: fmt.Sprintf("The run waited for %s and was not started.",
				plan.DurationWords(until.Sub(now.CreatedAt))),
		}})
		if err != nil {
			return err
		}
		now.Status = store.QueueFailed
		if err := tx.SetQueue(ctx, now); err != nil {
			return err
		}
		return runs.EndRun(ctx, tx, q.RunID, []run.Draft{{
			Type: run.RunFailed, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.background.Now(), EmittedBy: run.ByAdmission,
			Payload: failed,
		}})
	})
	if err == nil && expired {
		s.admission.Usage.Expired.WithLabelValues(s.admission.Usage.Label(q.TenantID)).Inc()
		s.background.Log.InfoContext(ctx, "a run waited longer than it may", slog.String("runId", q.RunID),
			slog.String("tenantId", q.TenantID))
	}
	return err
}
