package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
)

// farFuture is the not_before of a waiting row. Programs of the previous schema version do not know the column waiting,
// so the far date keeps them from starting the run.
const farFuture = math.MaxInt64

const arrivalSQL = `SELECT i.active, i.waiting, coalesce(t.active, 0), coalesce(t.waiting, 0),
	coalesce(p.active, 0), coalesce(p.waiting, 0), coalesce(CAST(p.pace_ms * 1000 AS INTEGER), 0),
	coalesce((SELECT full_at FROM bucket WHERE tenant_id = ?1 AND project_id = '' AND action = 'START_RUN'), 0),
	coalesce((SELECT full_at FROM bucket WHERE tenant_id = ?1 AND project_id = ?2 AND action = 'START_RUN'), 0),
	CASE WHEN i.waiting > 0 THEN
		EXISTS (SELECT 1 FROM lane WHERE project_id IS '' AND tenant_id <> '' AND waiting > 0 AND ready = 1)
		OR coalesce((SELECT ready_at FROM lane WHERE waiting > 0 AND ready = 0 ORDER BY ready_at LIMIT 1) <= ?3, 0)
	ELSE 0 END,
	CASE WHEN coalesce(t.waiting, 0) > 0 THEN
		EXISTS (SELECT 1 FROM lane WHERE tenant_id = ?1 AND project_id NOT IN ('', ?2) AND waiting > 0 AND (ready = 1 OR ready_at <= ?3))
	ELSE 0 END, p.tenant_id IS NULL
FROM lane i LEFT JOIN lane t ON t.tenant_id = ?1 AND t.project_id = '' LEFT JOIN lane p ON p.tenant_id = ?1 AND p.project_id = ?2
WHERE i.tenant_id = '' AND i.project_id = ''`

// makeLanesSQL creates the lanes of the tenant and of the project of its first run.
const makeLanesSQL = `INSERT INTO lane (tenant_id, project_id) VALUES (?1, ''), (?1, ?2) ON CONFLICT DO NOTHING`

// rankSQL counts the runs that go before a new run, up to ?4, and the other projects of its tenant in which runs wait.
const rankSQL = `SELECT (SELECT count(*) FROM (SELECT 1 FROM run_queue WHERE waiting = 1 AND tenant_id = ?1 AND project_id = ?2 AND priority >= ?3 LIMIT ?4)),
	(SELECT count(*) FROM lane WHERE tenant_id = ?1 AND project_id NOT IN ('', ?2) AND waiting > 0)`

// maxRanked is the most runs that rankSQL counts. A run further back gets the last position of its lane instead.
const maxRanked = 1000

const enqueueSQL = `INSERT INTO run_queue (` + queueColumns + `, slot, token_taken)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'PENDING', '', 0, 0, ?8, ?9, 0, '', NOT ?4, NOT ?4)`

const fillStartSQL = `INSERT INTO bucket (tenant_id, project_id, action, full_at) VALUES (?, ?, 'START_RUN', ?)
	ON CONFLICT DO UPDATE SET full_at = excluded.full_at`

// Enqueue implements store.QuotaTx.
func (t *runTx) Enqueue(ctx context.Context, e store.Enqueue) (a store.Admission, err error) {
	r, first := admission.Rows{Now: t.s.now()}, false
	err = t.conn.query(ctx, "lanes of a run", arrivalSQL, []any{t.id.TenantID, t.id.ProjectID, micros(r.Now)},
		func(row row) error {
			var pace, tenantFull, projectFull int64
			err := row.Scan(&r.Installation.Active, &r.Installation.Waiting, &r.Tenant.Active, &r.Tenant.Waiting,
				&r.Project.Active, &r.Project.Waiting, &pace, &tenantFull, &projectFull, &r.OthersOfInstallation, &r.OthersOfTenant,
				&first)
			r.Project.Pace, r.TenantFull, r.ProjectFull = time.Duration(pace)*time.Microsecond, instant(tenantFull),
				instant(projectFull)
			return err
		})
	if err != nil {
		return a, err
	}
	v, err := admission.Arrive(e.Terms, t.id.ProjectID, r)
	if err == nil && first {
		_, err = t.conn.exec(ctx, "make lanes", makeLanesSQL, t.id.TenantID, t.id.ProjectID)
	}
	if err != nil {
		return a, err
	}
	notBefore, expires := micros(r.Now), time.Time{}
	if v.Admitted {
		if !v.NotBefore.IsZero() {
			a.NotBefore, a.Estimate, notBefore = v.NotBefore, v.NotBefore.Sub(r.Now), micros(v.NotBefore)
		}
		if err := takeStart(ctx, t.conn, t.id.TenantID, v.Token); err != nil {
			return a, err
		}
	} else {
		a.Waiting, a.Why, notBefore = true, v.Why, farFuture
		if err := t.rank(ctx, e, r, &a); err != nil {
			return a, err
		}
		if e.Terms.TTL > 0 {
			expires = r.Now.Add(e.Terms.TTL)
		}
	}
	if _, err := t.conn.exec(ctx, "insert queue row", enqueueSQL, t.id.RunID, t.id.TenantID, t.id.ProjectID, a.Waiting,
		e.Priority,
		micros(expires), a.Estimate.Milliseconds(), notBefore, micros(r.Now)); err != nil {
		return a, err
	}
	t.bumpOpsRev()
	return a, nil
}

// rank sets the position and the estimated wait of a run that waits.
func (t *runTx) rank(ctx context.Context, e store.Enqueue, r admission.Rows, a *store.Admission) error {
	projects := 0
	err := t.conn.query(ctx, "position", rankSQL, []any{t.id.TenantID, t.id.ProjectID, e.Priority, maxRanked},
		func(row row) error {
			return row.Scan(&a.Position, &projects)
		})
	if a.Position++; a.Position > maxRanked {
		a.Position = int(r.Project.Waiting) + 1
	}
	if a.Why != store.WaitHold {
		a.Estimate = admission.Estimate(e.Terms, r, a.Position, projects)
	}
	return err
}

// takeStart writes the new level of a bucket of starts.
func takeStart(ctx context.Context, c *conn, tenantID string, token *admission.Token) error {
	if token == nil {
		return nil
	}
	_, err := c.exec(ctx, "bucket", fillStartSQL, tenantID, token.ProjectID, micros(token.FullAt))
	return err
}
