package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
)

// farAway is when a waiting row is due: never, for a server of the schema before.
const farAway = `'9999-01-01 00:00:00+00'`

// lockLanesSQL locks all lanes and the buckets of starts: who changes one of them
// holds the row of the installation, after heads of runs.
const lockLanesSQL = `SELECT FROM lane WHERE tenant_id = '' AND project_id = '' FOR NO KEY UPDATE`

// arrivalSQL reads what a run of a project is judged by.
const arrivalSQL = `SELECT clock_timestamp(), i.active, i.waiting, coalesce(t.active, 0), coalesce(t.waiting, 0),
  coalesce(p.active, 0), coalesce(p.waiting, 0), coalesce(p.pace_ms, 0),
  (SELECT full_at FROM bucket WHERE tenant_id = $1 AND project_id = '' AND action = 'START_RUN'),
  (SELECT full_at FROM bucket WHERE tenant_id = $1 AND project_id = $2 AND action = 'START_RUN'),
  CASE WHEN i.waiting > 0 THEN
    (SELECT true FROM lane WHERE project_id = '' AND tenant_id <> '' AND waiting > 0 AND ready ORDER BY pass, tenant_id LIMIT 1) IS NOT NULL
    OR coalesce((SELECT ready_at FROM lane WHERE waiting > 0 AND NOT ready ORDER BY ready_at LIMIT 1) <= clock_timestamp(), false)
  ELSE false END,
  CASE WHEN coalesce(t.waiting, 0) > 0 THEN
    EXISTS (SELECT FROM lane WHERE tenant_id = $1 AND project_id NOT IN ('', $2) AND waiting > 0 AND (ready OR ready_at <= clock_timestamp()))
  ELSE false END
FROM lane i LEFT JOIN lane t ON t.tenant_id = $1 AND t.project_id = ''
  LEFT JOIN lane p ON p.tenant_id = $1 AND p.project_id = $2
WHERE i.tenant_id = '' AND i.project_id = ''`

// queueArrival queues the lock of the lanes and the reading of what a run of the
// project is judged by, in a statement of its own, which sees what was committed before the lock.
func (t *tx) queueArrival(r *admission.Rows) {
	t.batch.Queue(lockLanesSQL)
	t.batch.Queue(arrivalSQL, t.id.TenantID, t.id.ProjectID).QueryRow(func(row pgx.Row) error {
		var pace float64
		err := row.Scan(utc{&r.Now}, &r.Installation.Active, &r.Installation.Waiting, &r.Tenant.Active, &r.Tenant.Waiting,
			&r.Project.Active, &r.Project.Waiting, &pace, utc{&r.TenantFull}, utc{&r.ProjectFull}, &r.OthersOfInstallation, &r.OthersOfTenant)
		r.Project.Pace = milli(pace)
		return err
	})
}

func milli(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// rankSQL counts those that go before a run that arrives, as far as it matters, and the other
// projects of its tenant in which runs wait.
const rankSQL = `SELECT (SELECT count(*) FROM (SELECT FROM run_queue WHERE waiting AND tenant_id = $1 AND project_id = $2 AND priority >= $3 LIMIT $4) q),
  (SELECT count(*) FROM lane WHERE tenant_id = $1 AND project_id NOT IN ('', $2) AND waiting > 0)`

// maxRanked is how many runs are counted for a position; further back it is that of the last one.
const maxRanked = 1000

const enqueueSQL = `INSERT INTO run_queue (run_id, tenant_id, project_id, waiting, place, token_taken, priority, created_at, not_before, expires_at, estimate_ms)
VALUES ($1, $2, $3, $4, NOT $4, NOT $4, $5, $6::timestamptz, CASE WHEN $4 THEN ` + farAway + ` ELSE coalesce($7::timestamptz, $6) END,
  coalesce($8::timestamptz, 'infinity'), $9)`

const fillStartSQL = `INSERT INTO bucket (tenant_id, project_id, action, full_at) VALUES ($1, $2, 'START_RUN', $3)
  ON CONFLICT (tenant_id, project_id, action) DO UPDATE SET full_at = excluded.full_at`

// arrive decides by what queueArrival read, and queues the queue row.
func (t *tx) arrive(ctx context.Context, e store.Enqueue, r admission.Rows) (a store.Admission, err error) {
	v, err := admission.Arrive(e.Terms, t.id.ProjectID, r)
	if err != nil {
		return store.Admission{}, err
	}
	var notBefore, expires *time.Time
	if v.Admitted {
		if !v.NotBefore.IsZero() {
			a.NotBefore, notBefore = v.NotBefore, &v.NotBefore
			a.Estimate = v.NotBefore.Sub(r.Now)
		}
		t.takeStart(v.Token)
	} else {
		a.Waiting, a.Why = true, v.Why
		projects := 0
		t.batch.Queue(rankSQL, t.id.TenantID, t.id.ProjectID, e.Priority, maxRanked).QueryRow(func(row pgx.Row) error {
			return row.Scan(&a.Position, &projects)
		})
		if err := t.flush(ctx); err != nil {
			return store.Admission{}, err
		}
		if a.Position++; a.Position > maxRanked {
			a.Position = int(r.Project.Waiting) + 1
		}
		if v.Why != store.WaitHold {
			a.Estimate = admission.Estimate(e.Terms, r, a.Position, projects)
		}
		if e.Terms.TTL > 0 {
			at := r.Now.Add(e.Terms.TTL)
			expires = &at
		}
	}
	t.batch.Queue(enqueueSQL, t.id.RunID, t.id.TenantID, t.id.ProjectID, a.Waiting, e.Priority, r.Now, notBefore, expires, a.Estimate.Milliseconds())
	t.ops = true
	return a, nil
}

// takeStart queues what is left of a bucket of starts.
func (t *tx) takeStart(token *admission.Token) {
	if token != nil {
		t.batch.Queue(fillStartSQL, t.id.TenantID, token.ProjectID, token.FullAt)
	}
}

// Enqueue implements store.QuotaTx.
func (r runTx) Enqueue(ctx context.Context, e store.Enqueue) (store.Admission, error) {
	var rows admission.Rows
	r.t.queueArrival(&rows)
	if err := r.t.flush(ctx); err != nil {
		return store.Admission{}, translate(ctx, err)
	}
	a, err := r.t.arrive(ctx, e, rows)
	if err == nil {
		err = r.t.flush(ctx) // a row that is there already is its caller's conflict
	}
	return a, translate(ctx, err)
}
