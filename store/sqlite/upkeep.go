package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AllRuns implements store.Upkeep.
func (s *Store) AllRuns(ctx context.Context, after string, limit int) (out []store.Run, err error) {
	err = s.read(ctx, "all runs", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT `+runColumns+` FROM run WHERE run_id > ? ORDER BY run_id LIMIT ?`, after, clamp(limit, store.MaxPage))
		out, err = collect(rows, err, scanRun)
		return s.failed("all runs", err)
	})
	return out, err
}

// Checkpoint implements store.Upkeep.
func (s *Store) Checkpoint(ctx context.Context, runID string) (st run.State, err error) {
	err = s.read(ctx, "checkpoint", func(tx *sql.Tx) error {
		var header []byte
		if err := tx.QueryRowContext(ctx, `SELECT header FROM run_state WHERE run_id = ? AND rev > 0`, runID).Scan(&header); err != nil {
			return s.failed("checkpoint", err)
		}
		st = run.State{}
		if err := json.Unmarshal(header, &st.Header); err != nil {
			return fmt.Errorf("sqlite: checkpoint of run %s: %w", runID, err)
		}
		rows, err := tx.QueryContext(ctx, `SELECT body FROM step_state WHERE run_id = ? ORDER BY ord`, runID)
		st.Steps, err = collect(rows, err, scanStep)
		return s.failed("checkpoint", err)
	})
	return st, err
}

// DropCheckpoint implements store.Upkeep. The row stays without a usable state,
// because it holds the published seq.
func (s *Store) DropCheckpoint(ctx context.Context, runID string) error {
	return s.inRun(ctx, runID, func(t *runTx) error {
		if err := t.exec(ctx, "drop checkpoint", `UPDATE run_state SET rev = 0, seq = 0 WHERE run_id = ?`, runID); err != nil {
			return err
		}
		if err := t.exec(ctx, "drop steps", `DELETE FROM step_state WHERE run_id = ?`, runID); err != nil {
			return err
		}
		return t.exec(ctx, "mark dirty", markDirty, runID, t.head.LastSeq, t.head.OpsRev, micros(t.at))
	})
}

// Repaired implements store.Upkeep.
func (s *Store) Repaired(ctx context.Context, runID string, known run.Seq) error {
	return s.write(ctx, "repaired", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO run_repair (run_id, known_seq) VALUES (?, ?)
			ON CONFLICT (run_id) DO UPDATE SET known_seq = max(known_seq, excluded.known_seq)`, runID, known)
		return s.failed("repaired", err)
	})
}

// forgiven is minHead, or 0 when a repair says that the log is as long as it can be.
func (t *runTx) forgiven(ctx context.Context, minHead run.Seq) (run.Seq, error) {
	if minHead <= t.head.LastSeq {
		return minHead, nil
	}
	var known run.Seq
	err := t.sql.QueryRowContext(ctx, `SELECT coalesce(max(known_seq), 0) FROM run_repair WHERE run_id = ?`, t.run.RunID).Scan(&known)
	if err == nil && minHead <= known {
		return 0, nil
	}
	return minHead, t.s.failed("look for a repair", err)
}

// importReceipts writes receipts as they are.
func (t *runTx) importReceipts(ctx context.Context, receipts []run.Receipt) error {
	for _, r := range receipts {
		if err := t.insertReceipt(ctx, r); err != nil {
			return err
		}
		t.head.SignalNo = max(t.head.SignalNo, r.No)
	}
	return nil
}
