package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// leaseSQL skips rows that wait for admission without reading them, because they are not in the index that it uses.
const leaseSQL = `UPDATE run_queue SET status = 'LOCKED', owner = ?1, generation = generation + 1,
	attempts = attempts + 1, lease_until = ?2
WHERE run_id IN (SELECT run_id FROM run_queue WHERE waiting = 0 AND status IN ('PENDING', 'LOCKED')
	AND ((status = 'PENDING' AND not_before <= ?3) OR (status = 'LOCKED' AND lease_until < ?3))
	ORDER BY created_at, run_id LIMIT ?4)
RETURNING ` + queueColumns

// Lease implements store.Queue.
func (s *Store) Lease(ctx context.Context, owner string, ttl time.Duration, limit int) (out []store.QueueRow,
	err error) {
	err = s.write(ctx, func(c *conn) (err error) {
		now := s.now()
		out, err = collect(ctx, c, "lease queue rows", scanQueue, leaseSQL, owner, micros(now.Add(ttl)), micros(now),
			clamp(limit, store.MaxPage))
		if err != nil {
			return err
		}
		sortQueue(out)
		for _, q := range out {
			if err := s.touch(ctx, c, q.RunID); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// MarkStarted implements store.Queue. It is idempotent.
func (s *Store) MarkStarted(ctx context.Context, runID string, generation int64) error {
	return s.moveQueue(ctx, "queue row started", runID, `UPDATE run_queue SET status = 'STARTED', last_error = ''
		WHERE run_id = ? AND generation = ? AND status IN ('LOCKED', 'STARTED')`, runID, generation)
}

// Release implements store.Queue.
func (s *Store) Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error {
	return s.moveQueue(
		ctx, "release queue row", runID, `UPDATE run_queue SET status = 'PENDING', owner = '', lease_until = 0,
		not_before = ?, last_error = ? WHERE run_id = ? AND generation = ? AND status = 'LOCKED'`,
		micros(s.now().Add(delay)), cause, runID, generation)
}

// moveQueue runs an update of one queue row that checks the generation.
func (s *Store) moveQueue(ctx context.Context, what, runID, query string, args ...any) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, what, query, args...)
		if err != nil || n == 0 {
			return fenceError(ctx, c, what, `SELECT 1 FROM run_queue WHERE run_id = ?`, runID, err)
		}
		return s.touch(ctx, c, runID)
	})
}

// fenceError explains why a write with a generation found no row. It returns store.ErrNotFound if the row does not
// exist, and store.ErrConflict if the generation has changed.
func fenceError(ctx context.Context, c *conn, what, query, runID string, err error) error {
	if err == nil {
		_, err = collectOne(ctx, c, what, value[int], query, runID)
	}
	if err == nil {
		err = fmt.Errorf("sqlite: %s of run %s: %w", what, runID, store.ErrConflict)
	}
	return err
}

// QueueRow implements store.Queue.
func (s *Store) QueueRow(ctx context.Context, runID string) (store.QueueRow, error) {
	return readOne(ctx, s, "queue row", scanQueue, queueRowSQL, runID)
}

const queueRowSQL = `SELECT ` + queueColumns + ` FROM run_queue WHERE run_id = ?`

// Queue implements store.QueueTx.
func (t *runTx) Queue(ctx context.Context) (store.QueueRow, error) {
	return collectOne(ctx, t.conn, "queue row", scanQueue, queueRowSQL, t.id.RunID)
}

const setQueueSQL = `UPDATE run_queue SET status = ?1, owner = ?2, lease_until = ?3, last_error = ?5,
	not_before = CASE WHEN waiting = 1 AND ?1 = 'PENDING' THEN not_before ELSE ?4 END, waiting = (waiting = 1 AND ?1 = 'PENDING'),
	expires_at = CASE WHEN ?8 > 0 THEN ?8 ELSE expires_at END
WHERE run_id = ?6 AND generation = ?7`

// SetQueue implements store.QueueTx. Every status except LOCKED ends the lease. Every status except PENDING ends the
// wait for admission.
func (t *runTx) SetQueue(ctx context.Context, q store.QueueRow) error {
	if q.Status != store.QueueLocked {
		q.Owner, q.LeaseUntil = "", time.Time{}
	}
	n, err := t.conn.exec(ctx, "set queue row", setQueueSQL,
		q.Status, q.Owner, micros(q.LeaseUntil), micros(q.NotBefore), q.LastError, t.id.RunID, q.Generation,
		micros(q.ExpiresAt))
	if err != nil || n == 0 {
		return fenceError(ctx, t.conn, "set queue row", `SELECT 1 FROM run_queue WHERE run_id = ?`, t.id.RunID, err)
	}
	t.bumpOpsRev()
	return nil
}
