package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
)

// One transaction of AdmitWaiting picks at most maxPicks lanes and wakes at most maxWakes, because it holds the lock of
// all lanes.
const (
	maxPicks = 32
	maxWakes = 256
)

// outlookSQL reads whether a run can be admitted now, and the time at which the next lane becomes ready.
const outlookSQL = `SELECT (SELECT waiting FROM lane WHERE tenant_id = '' AND project_id = '') > 0
    AND (SELECT true FROM lane WHERE project_id = '' AND tenant_id <> '' AND waiting > 0 AND ready ORDER BY pass, tenant_id LIMIT 1) IS NOT NULL,
  (SELECT ready_at FROM lane WHERE waiting > 0 AND NOT ready ORDER BY ready_at LIMIT 1), clock_timestamp()`

// wakeSQL marks the lanes whose ready_at has passed as ready. It runs under the lock of the lanes, so that no lane
// changes meanwhile.
const wakeSQL = `UPDATE lane SET ready = true WHERE ctid = ANY (ARRAY(SELECT ctid FROM lane
  WHERE waiting > 0 AND NOT ready AND ready_at <= clock_timestamp() ORDER BY ready_at LIMIT $1))`

// pickSQL selects the ready tenant with the lowest pass, its ready project with the lowest pass, and the first run of
// that project whose queue row and head are unlocked. It runs under the lock of the lanes.
const pickSQL = `WITH t AS (
  SELECT tenant_id, active, pass, turn FROM lane
  WHERE project_id = '' AND tenant_id <> '' AND waiting > 0 AND ready ORDER BY pass, tenant_id LIMIT 1
), p AS (
  SELECT l.* FROM t, LATERAL (SELECT project_id, active, pass, pace_ms, admitted_at FROM lane
    WHERE tenant_id = t.tenant_id AND project_id <> '' AND waiting > 0 AND ready ORDER BY pass, project_id LIMIT 1) l
), q AS (
  SELECT r.* FROM t, p, LATERAL (SELECT q.* FROM run_queue q JOIN run_head h USING (run_id)
    WHERE q.waiting AND q.tenant_id = t.tenant_id AND q.project_id = p.project_id
    ORDER BY q.priority DESC, q.created_at, q.run_id LIMIT 1 FOR UPDATE OF q, h SKIP LOCKED) r
)
SELECT clock_timestamp(), i.active, i.turn, t.tenant_id, t.active, t.pass, t.turn,
  coalesce(p.project_id, ''), coalesce(p.active, 0), coalesce(p.pass, 0), coalesce(p.pace_ms, 0), p.admitted_at,
  (SELECT full_at FROM bucket b WHERE b.tenant_id = t.tenant_id AND b.project_id = '' AND b.action = 'START_RUN'),
  (SELECT full_at FROM bucket b WHERE b.tenant_id = t.tenant_id AND b.project_id = p.project_id AND b.action = 'START_RUN'),
  coalesce(q.run_id, '')
FROM t JOIN lane i ON i.tenant_id = '' AND i.project_id = '' LEFT JOIN p ON true LEFT JOIN q ON true`

// deferLaneSQL marks a lane as not ready until $3. If $3 is NULL, the lane of a tenant waits for the earliest ready_at
// of its projects.
const deferLaneSQL = `UPDATE lane SET ready = false, ready_at = coalesce($3::timestamptz, (SELECT min(ready_at) FROM lane
    WHERE tenant_id = $1 AND project_id <> '' AND waiting > 0), clock_timestamp())
  WHERE tenant_id = $1 AND project_id = $2`

const admitSQL = `UPDATE run_queue q SET waiting = false, slot = true, token_taken = true, not_before = $2 WHERE run_id = $1
  RETURNING ` + queueColumns

const turnSQL = `UPDATE lane l SET pass = coalesce(v.pass, l.pass), turn = coalesce(v.turn, l.turn),
    pace_ms = coalesce(v.pace, l.pace_ms), admitted_at = coalesce(v.at, l.admitted_at)
  FROM (VALUES ('', '', NULL::float8, $3::float8, NULL::float8, NULL::timestamptz), ($1, '', $4, $5, NULL, NULL), ($1, $2, $6, NULL, $7, $8))
    v (tenant, project, pass, turn, pace, at)
  WHERE l.tenant_id = v.tenant AND l.project_id = v.project`

// markAdmittedSQL counts the admission in ops_rev and marks the runs dirty, so that projectors show the new queue state
// (contract T204).
const markAdmittedSQL = `WITH ops AS (
  UPDATE run_head SET ops_rev = ops_rev + 1 WHERE run_id = ANY ($1) RETURNING run_id, last_seq, ops_rev
)
INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since)
SELECT run_id, last_seq, ops_rev, clock_timestamp() FROM ops ORDER BY run_id
ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq), ops_rev = greatest(d.ops_rev, excluded.ops_rev)`

// AdmitWaiting implements store.Admissions. It uses several transactions and admits a few runs in each one, so that no
// transaction holds the lock of the lanes for long.
func (s *Store) AdmitWaiting(ctx context.Context, terms func(tenantID, projectID string) store.Terms,
	limit int) (store.Admitted, error) {
	return admission.AdmitInRounds(pageSize(limit), func() (bool, time.Duration, error) { return s.outlook(ctx) },
		func(n int) ([]store.QueueRow, bool, error) { return s.admitSome(ctx, terms, n) })
}

func (s *Store) outlook(ctx context.Context) (ready bool, next time.Duration, err error) {
	err = s.do(ctx, "admission", func(ctx context.Context, c *pgx.Conn) error {
		var at, now time.Time
		if err := c.QueryRow(ctx, outlookSQL).Scan(&ready, utc{&at}, utc{&now}); err != nil || at.IsZero() {
			return err
		}
		next = max(time.Millisecond, at.Sub(now))
		ready = ready || !at.After(now)
		return nil
	})
	return ready, next, err
}

// pick is the row of pickSQL.
type pick struct {
	rows            admission.Rows
	tenant, project string
	run             string // "": other transactions lock all runs of the lane
	pace            float64
}

func (p *pick) scan(row pgx.Row) error {
	r := &p.rows
	return row.Scan(utc{&r.Now}, &r.Installation.Active, &r.Installation.Turn, &p.tenant, &r.Tenant.Active, &r.Tenant.Pass,
		&r.Tenant.Turn,
		&p.project, &r.Project.Active, &r.Project.Pass, &p.pace, utc{&r.Project.AdmittedAt}, utc{&r.TenantFull},
		utc{&r.ProjectFull}, &p.run)
}

// admitSome admits up to limit runs in one transaction. full reports that the installation has no free slot.
func (s *Store) admitSome(ctx context.Context, terms func(string, string) store.Terms,
	limit int) (rows []store.QueueRow, full bool, err error) {
	err = s.do(ctx, "admit", func(ctx context.Context, c *pgx.Conn) error {
		rows, full = nil, false
		t := &tx{conn: c, alerts: &s.alertRoom}
		queueBegin(&t.batch)
		t.batch.Queue(lockLanesSQL)
		t.batch.Queue(wakeSQL, maxWakes)
		var ids []string
		for range maxPicks {
			p := &pick{}
			t.batch.Queue(pickSQL).Query(func(found pgx.Rows) error {
				defer found.Close()
				if found.Next() {
					if err := p.scan(found); err != nil {
						return err
					}
				}
				return found.Err()
			})
			if err := t.flush(ctx); err != nil {
				return err
			}
			if p.tenant == "" {
				break
			}
			p.rows.Project.Pace = milli(p.pace)
			if p.project == "" { // no project of the tenant is ready
				t.batch.Queue(deferLaneSQL, p.tenant, "", nil)
				continue
			}
			of := terms(p.tenant, p.project)
			v := admission.Admit(of, p.project, p.rows)
			if v.Lacks == admission.OfInstallation {
				full = true
				break
			}
			t.applyVerdict(p, of, v, &rows)
			if v.Admitted && p.run != "" {
				if ids = append(ids, p.run); len(ids) == limit {
					break
				}
			}
		}
		if len(ids) > 0 {
			t.batch.Queue(markAdmittedSQL, ids)
		}
		t.batch.Queue(`commit`)
		return t.flush(ctx)
	})
	return rows, full, err
}

// lockedLaneDelay is the delay before a lane is picked again whose runs are all locked by other transactions. These
// most likely end the runs.
const lockedLaneDelay = 50 * time.Millisecond

// applyVerdict queues the statements of a verdict. When it admits a run, it appends the queue row to rows.
func (t *tx) applyVerdict(p *pick, of store.Terms, v admission.Verdict, rows *[]store.QueueRow) {
	r := &p.rows
	switch {
	case v.Admitted && p.run == "":
		t.batch.Queue(deferLaneSQL, p.tenant, p.project, r.Now.Add(lockedLaneDelay))
	case v.Admitted:
		queueToken(&t.batch, p.tenant, v.Token)
		t.batch.Queue(admitSQL, p.run, r.Now).QueryRow(func(row pgx.Row) error {
			q, err := scanQueue(row)
			*rows = append(*rows, q)
			return err
		})
		tenantPass, turn := admission.Turn(r.Tenant.Pass, r.Installation.Turn, of.Tenant.Weight)
		projectPass, turnOfTenant := admission.Turn(r.Project.Pass, r.Tenant.Turn, of.Project.Weight)
		l := admission.LaneAfterAdmission(r.Project, r.Now)
		t.batch.Queue(turnSQL, p.tenant, p.project, turn, tenantPass, turnOfTenant, projectPass,
			float64(l.Pace)/float64(time.Millisecond), l.AdmittedAt)
	case v.Lacks == admission.OfTenant:
		t.batch.Queue(deferLaneSQL, p.tenant, "", v.AskedAt)
	default:
		t.batch.Queue(deferLaneSQL, p.tenant, p.project, v.AskedAt)
	}
}

const (
	makeBucketSQL = `INSERT INTO bucket (tenant_id, project_id, action, full_at) VALUES ($1, $2, $3, 'epoch') ON CONFLICT DO NOTHING`
	// lockBucketSQL reads the clock after it has the lock, as lockSQL does.
	lockBucketSQL = `SELECT b.full_at, clock_timestamp() FROM (
  SELECT full_at FROM bucket WHERE tenant_id = $1 AND project_id = $2 AND action = $3 FOR UPDATE) b`
	fillBucketSQL = `UPDATE bucket SET full_at = $4 WHERE tenant_id = $1 AND project_id = $2 AND action = $3`
)

// take locks a bucket and takes one token. It returns 0 if it took a token, otherwise the wait until the bucket has
// one. Transactions lock buckets after heads, so that they cannot deadlock.
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

// recentSignalsSQL reads the time of the ($3+1)-th newest signal within the span. The index signal_recent serves it, so
// it reads at most $3+1 entries.
const recentSignalsSQL = `SELECT received_at FROM signal WHERE run_id = $1 AND rejection <> 'FORBIDDEN' AND received_at > $2 ORDER BY received_at DESC OFFSET $3 LIMIT 1`

// RecentSignals implements store.QuotaTx.
func (r runTx) RecentSignals(ctx context.Context, limit int, span time.Duration) (wait time.Duration, err error) {
	now := r.t.at()
	r.t.batch.Queue(recentSignalsSQL, r.t.id.RunID, now.Add(-span), max(0, limit-1)).Query(func(rows pgx.Rows) error {
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
