package sqlite

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// markDirty keeps the oldest since (T189).
const (
	markDirty = `INSERT INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES (?, ?, ?, ?)` + keepSince
	keepSince = ` ON CONFLICT (run_id) DO UPDATE SET head_seq = excluded.head_seq, ops_rev = excluded.ops_rev`
)

const dirtySQL = `SELECT run_id, head_seq, ops_rev, since FROM run_dirty WHERE since <= ? AND not_before <= ? ORDER BY since, run_id LIMIT ?`

// Dirty implements store.States.
func (s *Store) Dirty(ctx context.Context, minAge time.Duration, limit int) ([]store.DirtyRun, error) {
	now := s.now()
	return readAll(ctx, s, "dirty runs", scanDirty, dirtySQL, micros(now.Add(-minAge)), micros(now),
		clamp(limit, store.MaxPage))
}

func scanDirty(row scanner) (store.DirtyRun, error) {
	var d store.DirtyRun
	var since int64
	err := row.Scan(&d.RunID, &d.HeadSeq, &d.OpsRev, &since)
	d.Since = instant(since)
	return d, err
}

// Published implements store.States.
func (s *Store) Published(ctx context.Context, runID string, to run.Seq, opsRev int64) error {
	return s.write(ctx, func(c *conn) error { return s.published(ctx, c, runID, to, opsRev) })
}

const publishedSQL = `UPDATE run_state SET published_seq = max(published_seq, ?), change = ? WHERE run_id = ?`

const cleanSQL = `DELETE FROM run_dirty WHERE run_id = ? AND head_seq <= ? AND ops_rev <= ?`

const stillDirtySQL = `UPDATE run_dirty SET attempts = 0, upto = 0, not_before = 0, since = coalesce((SELECT persisted_at FROM event
	WHERE run_id = ?1 AND run_seq > ?2 ORDER BY run_seq LIMIT 1), ?3) WHERE run_id = ?1`

// published moves the published seq, and clears the mark or frees it of refusals.
// A mark that stays is as old as the first event that was not published. What was
// published may be a change beside the log, so a feed shows the run again.
func (s *Store) published(ctx context.Context, c *conn, runID string, to run.Seq, opsRev int64) error {
	change, err := nextChange(ctx, c)
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, "published", publishedSQL, to, change, runID); err != nil {
		return err
	}
	n, err := c.exec(ctx, "published", cleanSQL, runID, to, opsRev)
	if err != nil || n > 0 {
		return err
	}
	_, err = c.exec(ctx, "published", stillDirtySQL, runID, to, micros(s.now()))
	return err
}

const nextChangeSQL = `UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = 'change'
	RETURNING CAST(value AS INTEGER)`

// nextChange numbers one change of a row of a list; commit order is its order.
func nextChange(ctx context.Context, c *conn) (int64, error) {
	return one(ctx, c, "number a change", value[int64], nextChangeSQL)
}
