package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Lease implements store.Queue.
func (s *Store) Lease(ctx context.Context, owner string, ttl time.Duration, limit int) (out []store.QueueRow, err error) {
	err = s.write(ctx, "lease queue rows", func(tx *sql.Tx) error {
		now := s.now()
		rows, err := tx.QueryContext(ctx, `UPDATE run_queue SET status = 'LOCKED', owner = ?1, generation = generation + 1,
				attempts = attempts + 1, lease_until = ?2
			WHERE run_id IN (SELECT run_id FROM run_queue WHERE status IN ('PENDING', 'LOCKED')
				AND ((status = 'PENDING' AND not_before <= ?3) OR (status = 'LOCKED' AND lease_until < ?3))
				ORDER BY created_at, run_id LIMIT ?4)
			RETURNING `+queueColumns, owner, micros(now.Add(ttl)), micros(now), clamp(limit, store.MaxPage))
		if out, err = collect(rows, err, scanQueue); err != nil {
			return s.failed("lease queue rows", err)
		}
		sortQueue(out)
		for _, q := range out {
			if err := s.touch(ctx, tx, q.RunID); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Started implements store.Queue. Saying it twice is once.
func (s *Store) Started(ctx context.Context, runID string, generation int64) error {
	return s.settleQueue(ctx, "queue row started", runID, `UPDATE run_queue SET status = 'STARTED', last_error = ''
		WHERE run_id = ? AND generation = ? AND status IN ('LOCKED', 'STARTED')`, runID, generation)
}

// Release implements store.Queue.
func (s *Store) Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error {
	return s.settleQueue(ctx, "release queue row", runID, `UPDATE run_queue SET status = 'PENDING', owner = '', lease_until = 0,
		not_before = ?, last_error = ? WHERE run_id = ? AND generation = ? AND status = 'LOCKED'`,
		micros(s.now().Add(delay)), cause, runID, generation)
}

// settleQueue is a fenced change of one queue row.
func (s *Store) settleQueue(ctx context.Context, what, runID, query string, args ...any) error {
	return s.write(ctx, what, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return s.failed(what, err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return s.fenced(ctx, tx, what, `SELECT 1 FROM run_queue WHERE run_id = ?`, runID, err)
		}
		return s.touch(ctx, tx, runID)
	})
}

// fenced says why a fenced write found nothing: no row, or a moved fence.
func (s *Store) fenced(ctx context.Context, q querier, what, query, runID string, err error) error {
	if err == nil {
		var one int
		err = q.QueryRowContext(ctx, query, runID).Scan(&one)
	}
	if err == nil {
		err = store.ErrConflict
	}
	return s.failed(what+" of run "+runID, err)
}

// QueueRow implements store.Queue.
func (s *Store) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	return s.queueRow(ctx, s.reader, runID)
}

func (s *Store) queueRow(ctx context.Context, q querier, runID string) (store.QueueRow, error) {
	row, err := scanQueue(q.QueryRowContext(ctx, `SELECT `+queueColumns+` FROM run_queue WHERE run_id = ?`, runID))
	return row, s.failed("queue row", err)
}

// Queue implements store.QueueTx.
func (t *runTx) Queue(ctx context.Context) (store.QueueRow, error) {
	return t.s.queueRow(ctx, t.sql, t.run.RunID)
}

// SetQueue implements store.QueueTx.
func (t *runTx) SetQueue(ctx context.Context, q store.QueueRow) error {
	if q.Status != store.QueueLocked {
		q.Owner, q.LeaseUntil = "", time.Time{}
	}
	n, err := t.count(ctx, "set queue row", `UPDATE run_queue SET status = ?, owner = ?, lease_until = ?, not_before = ?, last_error = ?
		WHERE run_id = ? AND generation = ?`,
		q.Status, q.Owner, micros(q.LeaseUntil), micros(q.NotBefore), q.LastError, t.run.RunID, q.Generation)
	if err != nil || n == 0 {
		return t.s.fenced(ctx, t.sql, "set queue row", `SELECT 1 FROM run_queue WHERE run_id = ?`, t.run.RunID, err)
	}
	t.ops()
	return nil
}
