package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
	"github.com/dvt-engine/dvt/store/authority"
)

// farFuture is the not_before of a waiting row. Servers of the previous schema version do not know the column waiting,
// so the far date keeps them from starting the run.
const farFuture = `'9999-01-01 00:00:00+00'`

// lockLanesSQL locks all lanes and the buckets of starts. A transaction that changes one of them must hold the row of
// the installation. It locks that row after heads of runs, so that transactions cannot deadlock.
const lockLanesSQL = `SELECT FROM lane WHERE tenant_id = '' AND project_id = '' FOR NO KEY UPDATE`

// arrivalSQL reads the rows that decide whether a new run of project $2 is admitted.
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

// arrival is a new run that needs a slot.
type arrival struct {
	id      run.Identity
	enqueue store.Enqueue
	at      time.Time // the store's clock under the lock, unique among the runs of a transaction
	rows    admission.Rows
	verdict admission.Verdict
	answer  store.Admission
}

// queueArrivals queues the lock of the lanes and the read of the rows that decide the admissions. The reads are
// separate statements, so that they see everything that was committed before the lock was taken.
func queueArrivals(b *pgx.Batch, list []*arrival, crowd *admission.ArrivalBatch) {
	b.Queue(lockLanesSQL)
	type lane struct{ tenant, project string }
	read := map[lane]bool{}
	for _, a := range list {
		l := lane{a.id.TenantID, a.id.ProjectID}
		if read[l] {
			continue
		}
		read[l] = true
		b.Queue(arrivalSQL, l.tenant, l.project).QueryRow(func(row pgx.Row) error {
			var r admission.Rows
			var pace float64
			err := row.Scan(utc{&r.Now}, &r.Installation.Active, &r.Installation.Waiting, &r.Tenant.Active, &r.Tenant.Waiting,
				&r.Project.Active, &r.Project.Waiting, &pace, utc{&r.TenantFull}, utc{&r.ProjectFull}, &r.OthersOfInstallation,
				&r.OthersOfTenant)
			r.Project.Pace = milli(pace)
			crowd.Add(l.tenant, l.project, r)
			return err
		})
	}
}

func milli(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// rankSQL counts the runs that go before a new run, up to $4, and the other projects of its tenant in which runs wait.
const rankSQL = `SELECT (SELECT count(*) FROM (SELECT FROM run_queue WHERE waiting AND tenant_id = $1 AND project_id = $2 AND priority >= $3 LIMIT $4) q),
  (SELECT count(*) FROM lane WHERE tenant_id = $1 AND project_id NOT IN ('', $2) AND waiting > 0)`

// maxRanked is the most runs that rankSQL counts. A run further back gets the last position of its lane instead.
const maxRanked = 1000

const enqueueSQL = `INSERT INTO run_queue (run_id, tenant_id, project_id, waiting, slot, token_taken, priority, created_at, not_before, expires_at, estimate_ms)
SELECT run, tenant, project, waits, NOT waits, NOT waits, priority, at, coalesce(not_before, ` + farFuture + `),
  coalesce(expires, 'infinity'), estimate
FROM unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::int[], $6::timestamptz[], $7::timestamptz[], $8::timestamptz[], $9::bigint[])
  u (run, tenant, project, waits, priority, at, not_before, expires, estimate)`

const fillStartSQL = `INSERT INTO bucket (tenant_id, project_id, action, full_at) VALUES ($1, $2, 'START_RUN', $3)
  ON CONFLICT (tenant_id, project_id, action) DO UPDATE SET full_at = excluded.full_at`

// judge decides about a as the n-th run of the transaction. It returns a *store.RefusedError if the run is not
// accepted.
func (a *arrival) judge(crowd *admission.ArrivalBatch, n int) (err error) {
	if a.verdict, a.rows, err = crowd.Arrive(a.id.TenantID, a.id.ProjectID, a.enqueue.Terms); err != nil {
		return err
	}
	a.at, a.answer = a.rows.Now.Add(time.Duration(n)*authority.Precision), store.Admission{}
	switch v := a.verdict; {
	case !v.Admitted:
		a.answer.Waiting, a.answer.Why = true, v.Why
	case !v.NotBefore.IsZero():
		a.answer.NotBefore, a.answer.Estimate = v.NotBefore, v.NotBefore.Sub(a.rows.Now)
	}
	return nil
}

// queueRanks queues the read of the positions of the waiting runs. It reports whether there are any.
func queueRanks(b *pgx.Batch, list []*arrival) (some bool) {
	for i, a := range list {
		if !a.answer.Waiting {
			continue
		}
		some = true
		b.Queue(rankSQL, a.id.TenantID, a.id.ProjectID, a.enqueue.Priority, maxRanked).QueryRow(func(row pgx.Row) error {
			projects := 0
			if err := row.Scan(&a.answer.Position, &projects); err != nil {
				return err
			}
			a.rank(list[:i], projects)
			return nil
		})
	}
	return some
}

// rank adds the waiting runs of the same transaction to the counts of the table, and estimates the wait.
func (a *arrival) rank(before []*arrival, projects int) {
	for _, o := range before {
		switch {
		case !o.answer.Waiting || o.id.TenantID != a.id.TenantID:
		case o.id.ProjectID != a.id.ProjectID:
			if o.rows.Project.Waiting == 0 { // the first run of a lane, which the table does not have yet
				projects++
			}
		case o.enqueue.Priority >= a.enqueue.Priority:
			a.answer.Position++
		}
	}
	if a.answer.Position++; a.answer.Position > maxRanked {
		a.answer.Position = int(a.rows.Project.Waiting) + 1
	}
	if a.answer.Why != store.WaitHold {
		a.answer.Estimate = admission.Estimate(a.enqueue.Terms, a.rows, a.answer.Position, projects)
	}
}

// row returns the queue row of a.
func (a *arrival) row() store.QueueRow {
	q := store.QueueRow{
		RunID: a.id.RunID, TenantID: a.id.TenantID, ProjectID: a.id.ProjectID, Waiting: a.answer.Waiting,
		Priority: a.enqueue.Priority,
		Estimate: a.answer.Estimate.Truncate(time.Millisecond), Status: store.QueuePending, LeaseUntil: time.Unix(0, 0).UTC(),
		CreatedAt: a.at,
	}
	if !q.Waiting {
		q.NotBefore = a.at
		if !a.answer.NotBefore.IsZero() {
			q.NotBefore = a.answer.NotBefore
		}
	} else if ttl := a.enqueue.Terms.TTL; ttl > 0 {
		q.ExpiresAt = a.rows.Now.Add(ttl)
	}
	return q
}

// nilIfZero returns nil for the zero time, otherwise a pointer to t.
func nilIfZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// queueRows queues the queue rows of a transaction and the new levels of the buckets.
func queueRows(b *pgx.Batch, list []*arrival) {
	if len(list) == 0 {
		return
	}
	var (
		ids, tenants, projects []string
		waits                  []bool
		priorities             []int32
		at                     []time.Time
		notBefore, expires     []*time.Time
		estimates              []int64
	)
	for _, a := range list {
		q := a.row()
		ids, tenants, projects = append(ids, q.RunID), append(tenants, q.TenantID), append(projects, q.ProjectID)
		waits, priorities, at = append(waits, q.Waiting), append(priorities, int32(q.Priority)), append(at, q.CreatedAt)
		estimates = append(estimates, q.Estimate.Milliseconds())
		notBefore, expires = append(notBefore, nilIfZero(q.NotBefore)), append(expires, nilIfZero(q.ExpiresAt))
		queueToken(b, a.id.TenantID, a.verdict.Token)
	}
	b.Queue(enqueueSQL, ids, tenants, projects, waits, priorities, at, notBefore, expires, estimates)
}

// queueToken queues the new level of a bucket of starts.
func queueToken(b *pgx.Batch, tenantID string, token *admission.Token) {
	if token != nil {
		b.Queue(fillStartSQL, tenantID, token.ProjectID, token.FullAt)
	}
}

// Enqueue implements store.QuotaTx.
func (r runTx) Enqueue(ctx context.Context, e store.Enqueue) (store.Admission, error) {
	list := []*arrival{{id: r.t.id, enqueue: e}}
	err := r.t.arrive(ctx, list)
	if err == nil {
		err = r.t.flush(ctx) // so that an existing row is reported to its caller as a conflict
	}
	return list[0].answer, translate(ctx, err)
}

func (t *tx) arrive(ctx context.Context, list []*arrival) error {
	var crowd admission.ArrivalBatch
	queueArrivals(&t.batch, list, &crowd)
	if err := t.flush(ctx); err != nil {
		return err
	}
	for i, a := range list {
		if err := a.judge(&crowd, i); err != nil {
			return err
		}
	}
	if queueRanks(&t.batch, list) {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	queueRows(&t.batch, list)
	t.ops = true
	return nil
}
