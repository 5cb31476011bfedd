package sqlite

import (
	"context"
	"encoding/json"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AllRuns implements store.Upkeep.
func (s *Store) AllRuns(ctx context.Context, after string, limit int) ([]store.Run, error) {
	return readAll(ctx, s, "all runs", scanRun, `SELECT `+runColumns+` FROM run WHERE run_id > ? ORDER BY run_id LIMIT ?`,
		after, clamp(limit, store.MaxPage))
}

// Checkpoint implements store.Upkeep.
func (s *Store) Checkpoint(ctx context.Context, runID string) (st run.State, err error) {
	found := false
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, "checkpoint", `SELECT -1 AS ord, header FROM run_state WHERE run_id = ?1 AND rev > 0
			UNION ALL SELECT ord, body FROM step_state WHERE run_id = ?1 ORDER BY ord`, []any{runID}, func(r row) error {
			var ord run.Ord
			var doc []byte
			if err := r.Scan(&ord, &doc); err != nil {
				return err
			}
			if ord < 0 {
				found = true
				return json.Unmarshal(doc, &st.Header)
			}
			step := new(run.Step)
			st.Steps = append(st.Steps, step)
			return json.Unmarshal(doc, step)
		})
	})
	if err == nil && !found {
		err = notFound("checkpoint of run " + runID)
	}
	if err != nil {
		return run.State{}, err
	}
	return st, nil
}

// DropCheckpoint implements store.Upkeep. It keeps the row without a usable state, because the row holds published_seq.
func (s *Store) DropCheckpoint(ctx context.Context, runID string) error {
	return s.inRun(ctx, runID, func(t *runTx) error {
		if _, err := t.conn.exec(ctx, "drop steps", `DELETE FROM step_state WHERE run_id = ?`, runID); err != nil {
			return err
		}
		if _, err := t.conn.exec(ctx, "drop checkpoint", `UPDATE run_state SET rev = 0, seq = 0 WHERE run_id = ?`,
			runID); err != nil {
			return err
		}
		return t.markDirty(ctx)
	})
}

// MarkRepaired implements store.Upkeep.
func (s *Store) MarkRepaired(ctx context.Context, runID string, known run.Seq) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "repaired", `INSERT INTO run_repair (run_id, known_seq) VALUES (?, ?)
			ON CONFLICT (run_id) DO UPDATE SET known_seq = max(known_seq, excluded.known_seq)`, runID, known)
		return err
	})
}

const repairSQL = `SELECT coalesce(max(known_seq), 0) FROM run_repair WHERE run_id = ?`

// repairedMinHead returns 0 if a repair recorded that the events up to minHead are lost, otherwise minHead.
func (t *runTx) repairedMinHead(ctx context.Context, minHead run.Seq) (run.Seq, error) {
	known, err := collectOne(ctx, t.conn, "look for a repair", value[run.Seq], repairSQL, t.id.RunID)
	if err == nil && minHead <= known {
		return 0, nil
	}
	return minHead, err
}

// importReceipts writes receipts unchanged.
func (t *runTx) importReceipts(ctx context.Context, receipts []run.SignalReceipt) error {
	for _, r := range receipts {
		if err := t.insertReceipt(ctx, r); err != nil {
			return err
		}
		t.head.SignalNo = max(t.head.SignalNo, r.No)
	}
	return nil
}
