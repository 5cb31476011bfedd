package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AllRuns implements store.Upkeep.
func (s *Store) AllRuns(ctx context.Context, after string, limit int) ([]store.Run, error) {
	return collect(ctx, s, "all runs", func(row pgx.CollectableRow) (store.Run, error) { return scanRun(row) },
		`SELECT `+runColumns+` FROM run r WHERE run_id > $1 ORDER BY run_id LIMIT $2`, after, pageSize(limit))
}

// Checkpoint implements store.Upkeep.
func (s *Store) Checkpoint(ctx context.Context, runID string) (st run.State, err error) {
	err = s.do(ctx, "checkpoint", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT true, -1 AS ord, header FROM run_state WHERE run_id = $1 AND rev > 0
			UNION ALL SELECT false, ord, body FROM step_state WHERE run_id = $1 ORDER BY ord`, runID)
		if err != nil {
			return err
		}
		defer rows.Close()
		st = run.State{}
		found := false
		for rows.Next() {
			var header bool
			var ord int
			var doc []byte
			if err := rows.Scan(&header, &ord, &doc); err != nil {
				return err
			}
			if header {
				found = true
				if err := unmarshal(doc, &st.Header); err != nil {
					return err
				}
				continue
			}
			step := &run.Step{}
			if err := unmarshal(doc, step); err != nil {
				return err
			}
			st.Steps = append(st.Steps, step)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if !found {
			return store.ErrNotFound
		}
		return nil
	})
	return st, err
}

// DropCheckpoint implements store.Upkeep. It keeps the row without a usable state, because the row holds published_seq.
func (s *Store) DropCheckpoint(ctx context.Context, runID string) error {
	return s.withHeadLock(ctx, "drop checkpoint", runID, func(_ context.Context, t *tx) error {
		t.batch.Queue(`UPDATE run_state SET rev = 0, seq = 0 WHERE run_id = $1`, runID)
		t.batch.Queue(`DELETE FROM step_state WHERE run_id = $1`, runID)
		t.batch.Queue(dirtySQL, runID, t.head.LastSeq, t.head.OpsRev, t.at())
		return nil
	})
}

// MarkRepaired implements store.Upkeep.
func (s *Store) MarkRepaired(ctx context.Context, runID string, known run.Seq) error {
	return s.do(ctx, "repaired", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `INSERT INTO run_repair AS r (run_id, known_seq) VALUES ($1, $2)
			ON CONFLICT (run_id) DO UPDATE SET known_seq = greatest(r.known_seq, excluded.known_seq)`, runID, known)
		return err
	})
}

// importReceipts queues receipts unchanged and returns their highest number.
func importReceipts(b *pgx.Batch, runID string, receipts []run.SignalReceipt) (no int64) {
	for _, r := range receipts {
		b.Queue(putReceiptSQL, runID, r.Signal.ID, r.Signal.Type, r.Signal.StepID,
			r.Signal.ExpectedAttempt, r.Signal.Force, text(r.Payload), r.Actor, r.Reason, r.No, r.Rejected, r.Rejection,
			r.RejectText, r.Application, r.ApplicationReason, r.AcceptedSeq, r.AppliedSeq, r.QuiescentSeq,
			r.ReceivedAt, r.DeliveredAt, r.AppliedAt)
		no = max(no, r.No)
	}
	return no
}
