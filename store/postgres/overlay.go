package postgres

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The overlays of run $1, and those that concern the step $2.
const (
	overlayType = `type IN ('UPDATE_PARAMS', 'INJECT_OVERRIDE', 'UPDATE_TARGET')`
	overlaysSQL = `SELECT ` + signalColumns + ` FROM signal WHERE run_id = $1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType + ` AND step_id IN ('', $2)
		AND accepted_seq > $3 AND accepted_seq <= $4 ORDER BY accepted_seq LIMIT $5`
	overlaidSQL = `SELECT count(*), coalesce(max(accepted_seq) FILTER (WHERE step_id IN ('', $2)), 0)
		FROM signal WHERE run_id = $1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType
)

// Overlays implements store.Overlays.
func (s *Store) Overlays(ctx context.Context, runID, stepID string, after, upTo run.Seq) ([]run.Receipt, error) {
	return s.receipts(ctx, overlaysSQL, runID, stepID, after, upTo, store.MaxPage)
}

// Overlaid implements store.OverlayTx.
func (r runTx) Overlaid(ctx context.Context, stepID string) (count int, newest run.Seq, err error) {
	if err := r.t.flush(ctx); err != nil {
		return 0, 0, translate(ctx, err)
	}
	err = r.t.conn.QueryRow(ctx, overlaidSQL, r.t.id.RunID, stepID).Scan(&count, &newest)
	return count, newest, translate(ctx, err)
}

// StartAttempt implements store.OverlayTx.
func (r runTx) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := r.t.begin(ctx, b, run.GateOverlaid)
	return out, translate(ctx, err)
}
