package sqlite

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// overlayOf picks the overlays of run ?1 that concern the step ?2.
const (
	overlayType = `type IN ('UPDATE_PARAMS', 'INJECT_OVERRIDE', 'UPDATE_TARGET')`
	overlaysSQL = `SELECT ` + signalColumns + ` FROM signal WHERE run_id = ?1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType + ` AND step_id IN ('', ?2)
		AND accepted_seq > ?3 AND accepted_seq <= ?4 ORDER BY accepted_seq LIMIT ?5`
	overlaidSQL = `SELECT count(*), coalesce(max(accepted_seq) FILTER (WHERE step_id IN ('', ?2)), 0)
		FROM signal WHERE run_id = ?1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType
)

// Overlays implements store.Overlays.
func (s *Store) Overlays(ctx context.Context, runID, stepID string, after, upTo run.Seq) ([]run.Receipt, error) {
	return readAll(ctx, s, "overlays", scanReceipt, overlaysSQL, runID, stepID, after, upTo, store.MaxPage)
}

// Overlaid implements store.OverlayTx.
func (t *runTx) Overlaid(ctx context.Context, stepID string) (count int, newest run.Seq, err error) {
	newest, err = one(ctx, t.conn, "overlaid", func(row scanner) (seq run.Seq, err error) {
		return seq,
			row.Scan(&count, &seq)
	}, overlaidSQL, t.id.RunID, stepID)
	return count, newest, err
}

// StartAttempt implements store.OverlayTx.
func (t *runTx) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	beginning, err := authority.PrepareStart(t.id, b)
	if err != nil {
		return store.AttemptStarted{}, err
	}
	facts, err := t.facts(ctx, beginning.Batch())
	if err != nil {
		return store.AttemptStarted{}, err
	}
	plan, begun := authority.DecideStart(t.head, beginning.WithOverlays(), facts, t.at)
	if wait, err := t.pay(ctx, b.Heavy, plan); err != nil || wait != 0 {
		return authority.Throttled(t.head, wait), err
	}
	if err := t.carryOut(ctx, plan); err != nil {
		return store.AttemptStarted{}, err
	}
	begun.Head = t.head
	return begun, nil
}
