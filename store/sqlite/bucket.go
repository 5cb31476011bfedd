package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
	"github.com/dvt-engine/dvt/store/authority"
)

// take takes a token in the write transaction of c.
func (s *Store) take(ctx context.Context, c *conn, b store.Bucket) (time.Duration, error) {
	var fullAt time.Time
	if b.PerMinute > 0 {
		at, err := one(ctx, c, "bucket", value[int64], `SELECT full_at FROM bucket WHERE tenant_id = ? AND project_id = ? AND action = ?`,
			b.TenantID, b.ProjectID, string(b.Action))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, err
		}
		fullAt = instant(at)
	}
	next, wait := admission.Take(fullAt, s.now(), b.PerMinute)
	if wait != 0 || b.PerMinute < 0 {
		return wait, nil
	}
	_, err := c.exec(ctx, "bucket", `INSERT INTO bucket (tenant_id, project_id, action, full_at) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET full_at = excluded.full_at`, b.TenantID, b.ProjectID, string(b.Action), micros(next))
	return 0, err
}

// pay takes the token of a begin that inserts its StepStarted; other plans need none.
func (t *runTx) pay(ctx context.Context, b *store.Bucket, p authority.Plan) (time.Duration, error) {
	if b == nil || len(p.Insert) == 0 {
		return 0, nil
	}
	return t.s.take(ctx, t.conn, *b)
}

// Take implements store.QuotaTx.
func (t *runTx) Take(ctx context.Context, b store.Bucket) (time.Duration, error) {
	return t.s.take(ctx, t.conn, b)
}

// RecentSignals implements store.QuotaTx. It reads as many entries of signal_recent as
// may be within the span.
func (t *runTx) RecentSignals(ctx context.Context, most int, span time.Duration) (time.Duration, error) {
	at, err := one(ctx, t.conn, "recent signals", value[int64], `SELECT received_at FROM signal WHERE run_id = ? AND rejection <> 'FORBIDDEN' AND received_at > ?
		ORDER BY received_at DESC LIMIT 1 OFFSET ?`, t.id.RunID, micros(t.at.Add(-span)), max(0, most-1))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return instant(at).Add(span).Sub(t.at), nil
}
