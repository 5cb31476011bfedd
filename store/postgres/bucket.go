package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
)

const (
	makeBucketSQL = `INSERT INTO bucket (tenant_id, project_id, action, full_at) VALUES ($1, $2, $3, 'epoch') ON CONFLICT DO NOTHING`
	// lockBucketSQL reads the clock above the lock, as lockSQL does.
	lockBucketSQL = `SELECT b.full_at, clock_timestamp() FROM (
  SELECT full_at FROM bucket WHERE tenant_id = $1 AND project_id = $2 AND action = $3 FOR UPDATE) b`
	fillBucketSQL = `UPDATE bucket SET full_at = $4 WHERE tenant_id = $1 AND project_id = $2 AND action = $3`
)

// take locks a bucket and queues what is left of it when it has a token. The lock of
// a bucket comes after those of heads.
func (t *tx) take(ctx context.Context, b store.Bucket) (time.Duration, error) {
	if b.PerMinute <= 0 {
		_, wait := admission.Take(time.Time{}, t.now, b.PerMinute)
		return wait, nil
	}
	var fullAt, now time.Time
	t.batch.Queue(makeBucketSQL, b.TenantID, b.ProjectID, b.Action)
	t.batch.Queue(lockBucketSQL, b.TenantID, b.ProjectID,
		b.Action).QueryRow(func(row pgx.Row) error { return row.Scan(utc{&fullAt}, utc{&now}) })
	if err := t.flush(ctx); err != nil {
		return 0, err
	}
	fullAt, wait := admission.Take(fullAt, now, b.PerMinute)
	if wait == 0 {
		t.batch.Queue(fillBucketSQL, b.TenantID, b.ProjectID, b.Action, fullAt)
	}
	return wait, nil
}

// Take implements store.QuotaTx.
func (r runTx) Take(ctx context.Context, b store.Bucket) (time.Duration, error) {
	wait, err := r.t.take(ctx, b)
	return wait, translate(ctx, err)
}

// recentSignalsSQL reads as many entries of signal_recent as may be within the span.
const recentSignalsSQL = `SELECT received_at FROM signal WHERE run_id = $1 AND rejection <> 'FORBIDDEN' AND received_at > $2 ORDER BY received_at DESC OFFSET $3 LIMIT 1`

// RecentSignals implements store.QuotaTx.
func (r runTx) RecentSignals(ctx context.Context, most int, span time.Duration) (wait time.Duration, err error) {
	now := r.t.at()
	r.t.batch.Queue(recentSignalsSQL, r.t.id.RunID, now.Add(-span), max(0, most-1)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (at time.Time, err error) {
			return at,
				row.Scan(utc{&at})
		})
		if err == nil && len(found) > 0 {
			wait = found[0].Add(span).Sub(now)
		}
		return err
	})
	return wait, translate(ctx, r.t.flush(ctx))
}
