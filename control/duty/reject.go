package duty

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// maxRejectedStarts is the number of tries after which a run fails whose start the engine refuses. They take about a
// minute, in which the operators may restore a namespace that was lost with the engine's database.
const maxRejectedStarts = 6

// isHopeless reports whether the engine refused the start of q with err and with the try before, and no try is left.
// The row keeps the error of the last try, so the tries of all servers count. Tries during an outage alone are not
// enough, because the engine may still refuse its first calls after it.
func isHopeless(q store.QueueRow, err error) bool {
	return errors.Is(err, engine.ErrRejected) && q.Attempts >= maxRejectedStarts &&
		strings.Contains(q.LastError, engine.ErrRejected.Error())
}

// failStart ends a run that the engine never starts with ENGINE_START_REJECTED, under the fence of its lease. An open
// stop of the run wins. It returns store.ErrConflict when the lease was lost or the run has begun after all.
func (s *Dispatcher) failStart(ctx context.Context, q store.QueueRow, cause error) error {
	stop, stopping, err := s.launcher.stopper().OpenStop(ctx, q.RunID)
	if err != nil {
		return err
	}
	failed, err := json.Marshal(run.RunFailedPayload{FailurePayload: run.FailurePayload{
		ErrorCode: string(run.CodeStartRejected), Retryable: true, FailureCategory: run.CategoryPlatform,
		FailureSource: string(run.ByControl),
		ErrorMessage: run.Text(fmt.Sprintf("The engine refused to start the run, %d times. Its last answer: %v.", q.Attempts,
			cause), control.MaxAuditedReason),
	}})
	if err != nil {
		return err
	}
	err = s.runs.InRun(ctx, q.RunID, func(tx store.RunTx) error {
		now, err := tx.Queue(ctx)
		if err != nil {
			return err
		}
		st, err := tx.State(ctx)
		if err != nil {
			return err
		}
		if now.Generation != q.Generation || now.Status != store.QueueLocked || tx.Head().Terminal || st.StartedAt != nil {
			return store.ErrConflict
		}
		if stopping {
			return s.launcher.stopper().CompleteStop(ctx, tx, stop, runs.CutByKill(), "")
		}
		now.Status = store.QueueFailed
		if err := tx.SetQueue(ctx, now); err != nil {
			return err
		}
		return runs.EndRun(ctx, tx, q.RunID, []run.Draft{{
			Type: run.RunFailed, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.background.Now(), EmittedBy: run.ByControl,
			Payload: failed,
		}})
	})
	if err == nil {
		s.admission.Usage.StartsGivenUp.Inc()
		s.background.Log.WarnContext(ctx, "a run failed because the engine refused to start it",
			slog.String("runId", q.RunID), slog.String("tenantId", q.TenantID), slog.Int("tries", q.Attempts),
			slog.Any("error", cause))
	}
	return err
}
