package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const queueColumns = `q.run_id, q.tenant_id, q.project_id, q.waiting, q.priority, nullif(q.expires_at, 'infinity'), q.estimate_ms,
  q.status, q.owner, q.generation, q.lease_until, CASE WHEN NOT q.waiting THEN q.not_before END, q.created_at, q.attempts, q.last_error`

// scanQueue reads queueColumns and scans the columns behind them into more.
func scanQueue(row pgx.Row, more ...any) (q store.QueueRow, err error) {
	var estimate int64
	err = row.Scan(append([]any{&q.RunID, &q.TenantID, &q.ProjectID, &q.Waiting, &q.Priority, utc{&q.ExpiresAt}, &estimate,
		&q.Status, &q.Owner, &q.Generation, utc{&q.LeaseUntil}, utc{&q.NotBefore}, utc{&q.CreatedAt}, &q.Attempts,
		&q.LastError}, more...)...)
	q.Estimate = time.Duration(estimate) * time.Millisecond
	return q, err
}

// leaseSQL locks the queue row and the head together. It skips locked rows, so it never waits and cannot violate the
// lock order (contracts T128, T204). Rows that wait for admission are not in the index that it uses.
const leaseSQL = `WITH due AS (
  SELECT q.run_id FROM run_queue q JOIN run_head h USING (run_id)
  WHERE NOT q.waiting AND ((q.status = 'PENDING' AND q.not_before <= clock_timestamp())
    OR (q.status = 'LOCKED' AND q.lease_until < clock_timestamp()))
  ORDER BY q.created_at, q.run_id LIMIT $3 FOR UPDATE OF q, h SKIP LOCKED
), ops AS (
  UPDATE run_head h SET ops_rev = ops_rev + 1 FROM due WHERE h.run_id = due.run_id
  RETURNING h.run_id, h.last_seq, h.ops_rev
), marks AS (
  INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since)
  SELECT run_id, last_seq, ops_rev, clock_timestamp() FROM ops ORDER BY run_id
  ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq),
    ops_rev = greatest(d.ops_rev, excluded.ops_rev)
), leased AS (
  UPDATE run_queue q SET status = 'LOCKED', owner = $1, generation = generation + 1, attempts = attempts + 1,
    lease_until = clock_timestamp() + $2::interval
  FROM due WHERE q.run_id = due.run_id RETURNING q.*
)
SELECT ` + queueColumns + ` FROM leased q ORDER BY q.created_at, q.run_id`

// Lease implements store.Queue.
func (s *Store) Lease(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.QueueRow, error) {
	return collect(ctx, s, "lease", func(row pgx.CollectableRow) (store.QueueRow, error) { return scanQueue(row) },
		leaseSQL, owner, ttl, pageSize(limit))
}

// MarkStarted implements store.Queue. It is idempotent.
func (s *Store) MarkStarted(ctx context.Context, runID string, generation int64) error {
	return s.moveQueue(ctx, runID, `UPDATE run_queue SET status = 'STARTED', last_error = ''
		WHERE run_id = $1 AND generation = $2 AND status IN ('LOCKED', 'STARTED')`, runID, generation)
}

// Release implements store.Queue.
func (s *Store) Release(ctx context.Context, runID string, generation int64, delay time.Duration, cause string) error {
	return s.moveQueue(ctx, runID, `UPDATE run_queue SET status = 'PENDING', owner = '', lease_until = 'epoch',
		not_before = clock_timestamp() + $3::interval, last_error = $4
		WHERE run_id = $1 AND generation = $2 AND status = 'LOCKED'`, runID, generation, delay, cause)
}

func (s *Store) moveQueue(ctx context.Context, runID, sql string, args ...any) error {
	return s.withHeadLock(ctx, "queue", runID, func(ctx context.Context, t *tx) error {
		return t.moveQueue(ctx, sql, args...)
	})
}

// moveQueue runs an update of the queue row that checks the generation. If it changed no row, moveQueue returns
// store.ErrConflict, or store.ErrNotFound if the run has no queue row.
func (t *tx) moveQueue(ctx context.Context, sql string, args ...any) error {
	tag, err := t.conn.Exec(ctx, sql, args...)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		var one int
		if err := t.conn.QueryRow(ctx, `SELECT 1 FROM run_queue WHERE run_id = $1`, t.id.RunID).Scan(&one); err != nil {
			return err
		}
		return store.ErrConflict
	}
	t.ops = true
	return nil
}

const queueSQL = `SELECT ` + queueColumns + ` FROM run_queue q WHERE run_id = $1`

// QueueRow implements store.Queue.
func (s *Store) QueueRow(ctx context.Context, runID string) (q store.QueueRow, err error) {
	err = s.do(ctx, "queue row", func(ctx context.Context, c *pgx.Conn) error {
		q, err = scanQueue(c.QueryRow(ctx, queueSQL, runID))
		return err
	})
	return q, err
}

// Queue implements store.QueueTx.
func (r runTx) Queue(ctx context.Context) (store.QueueRow, error) {
	q, err := scanQueue(r.t.conn.QueryRow(ctx, queueSQL, r.t.id.RunID))
	return q, translate(ctx, err)
}

const setQueueSQL = `UPDATE run_queue SET status = $3, owner = $4, lease_until = $5, last_error = $7,
  not_before = CASE WHEN waiting AND $3 = 'PENDING' THEN not_before ELSE $6 END, waiting = waiting AND $3 = 'PENDING',
  expires_at = coalesce($8::timestamptz, expires_at)
WHERE run_id = $1 AND generation = $2`

// SetQueue implements store.QueueTx. Every status except LOCKED ends the lease. Every status except PENDING ends the
// wait for admission.
func (r runTx) SetQueue(ctx context.Context, q store.QueueRow) error {
	if q.Status != store.QueueLocked {
		q.Owner, q.LeaseUntil = "", time.Unix(0, 0)
	}
	return translate(ctx, r.t.moveQueue(ctx, setQueueSQL,
		r.t.id.RunID, q.Generation, q.Status, q.Owner, q.LeaseUntil, q.NotBefore, q.LastError,
		nilIfZero(q.ExpiresAt)))
}
