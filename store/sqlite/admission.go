package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
	"github.com/dvt-engine/dvt/store/authority"
)

// One transaction of AdmitWaiting picks at most maxPicks lanes and wakes at most maxWakes, because it keeps all other
// writers waiting.
const (
	maxPicks = 32
	maxWakes = 256
)

// outlookSQL reads whether a run can be admitted now, and the time at which the next lane becomes ready.
const outlookSQL = `SELECT (SELECT waiting FROM lane WHERE tenant_id = '' AND project_id = '') > 0
		AND EXISTS (SELECT 1 FROM lane WHERE project_id IS '' AND tenant_id <> '' AND waiting > 0 AND ready = 1),
	coalesce((SELECT ready_at FROM lane WHERE waiting > 0 AND ready = 0 ORDER BY ready_at LIMIT 1), 0)`

// wakeSQL marks the lanes whose ready_at has passed as ready.
const wakeSQL = `UPDATE lane SET ready = 1 WHERE (tenant_id, project_id) IN
	(SELECT tenant_id, project_id FROM lane WHERE waiting > 0 AND ready = 0 AND ready_at <= ? ORDER BY ready_at LIMIT ?)`

// pickSQL selects the ready tenant with the lowest pass, its ready project with the lowest pass, and the first run of
// that project.
const pickSQL = `WITH t AS MATERIALIZED (SELECT tenant_id, active, pass, turn FROM lane
	WHERE project_id IS '' AND tenant_id <> '' AND waiting > 0 AND ready = 1 ORDER BY pass, tenant_id LIMIT 1
), p AS MATERIALIZED (SELECT project_id, active, pass, pace_ms, admitted_at FROM lane
	WHERE tenant_id = (SELECT tenant_id FROM t) AND project_id <> '' AND waiting > 0 AND ready = 1 ORDER BY pass,
		project_id LIMIT 1)
SELECT i.active, i.turn, t.tenant_id, t.active, t.pass, t.turn, coalesce(p.project_id, ''), coalesce(p.active, 0),
	coalesce(p.pass, 0.0),
	coalesce(CAST(p.pace_ms * 1000 AS INTEGER), 0), coalesce(p.admitted_at, 0),
	coalesce((SELECT full_at FROM bucket b WHERE b.tenant_id = t.tenant_id AND b.project_id = '' AND b.action = 'START_RUN'), 0),
	coalesce((SELECT full_at FROM bucket b WHERE b.tenant_id = t.tenant_id AND b.project_id = p.project_id AND b.action = 'START_RUN'), 0),
	coalesce((SELECT q.run_id FROM run_queue q WHERE q.waiting = 1 AND q.tenant_id = t.tenant_id AND q.project_id = p.project_id
		ORDER BY q.priority DESC, q.created_at, q.run_id LIMIT 1), '')
FROM t JOIN lane i ON i.tenant_id = '' AND i.project_id = '' LEFT JOIN p ON true`

// deferLaneSQL marks a lane as not ready until ready_at.
const deferLaneSQL = `UPDATE lane SET ready = 0, ready_at = ?3 WHERE tenant_id = ?1 AND project_id = ?2`

// deferTenantSQL marks the lane of a tenant as not ready until the earliest ready_at of its projects.
const deferTenantSQL = `UPDATE lane SET ready = 0, ready_at = coalesce((SELECT min(ready_at) FROM lane b
	WHERE b.tenant_id = ?1 AND b.project_id <> '' AND b.waiting > 0), 0) WHERE tenant_id = ?1 AND project_id = ''`

const admitSQL = `UPDATE run_queue SET waiting = 0, slot = 1, token_taken = 1, not_before = ? WHERE run_id = ? RETURNING ` + queueColumns

const turnSQL = `UPDATE lane SET pass = ?, turn = ? WHERE tenant_id = ? AND project_id = ?`

const paceSQL = `UPDATE lane SET pass = ?, pace_ms = ?, admitted_at = ? WHERE tenant_id = ? AND project_id = ?`

// AdmitWaiting implements store.Admissions. It uses several transactions and admits a few runs in each one, so that
// other writers need not wait for long.
func (s *Store) AdmitWaiting(ctx context.Context, terms func(tenantID, projectID string) store.Terms,
	limit int) (store.Admitted, error) {
	return admission.AdmitInRounds(clamp(limit, store.MaxPage), func() (bool, time.Duration,
		error) {
		return s.outlook(ctx)
	},
		func(n int) ([]store.QueueRow, bool, error) { return s.admitSome(ctx, terms, n) })
}

func (s *Store) outlook(ctx context.Context) (ready bool, next time.Duration, err error) {
	var at time.Time
	_, err = readOne(ctx, s, "admission", func(row scanner) (struct{}, error) {
		var us int64
		err := row.Scan(&ready, &us)
		at = instant(us)
		return struct{}{}, err
	}, outlookSQL)
	if err == nil && !at.IsZero() {
		now := s.now()
		next = max(time.Millisecond, at.Sub(now))
		ready = ready || !at.After(now)
	}
	return ready, next, err
}

// pick is the row of pickSQL.
type pick struct {
	rows            admission.Rows
	tenant, project string
	run             string
}

func scanPick(row scanner) (*pick, error) {
	p := &pick{}
	r := &p.rows
	var pace, admittedAt, tenantFull, projectFull int64
	err := row.Scan(&r.Installation.Active, number{&r.Installation.Turn}, &p.tenant, &r.Tenant.Active,
		number{&r.Tenant.Pass}, number{&r.Tenant.Turn},
		&p.project, &r.Project.Active, number{&r.Project.Pass}, &pace, &admittedAt, &tenantFull, &projectFull, &p.run)
	r.Project.Pace, r.Project.AdmittedAt = time.Duration(pace)*time.Microsecond, instant(admittedAt)
	r.TenantFull, r.ProjectFull = instant(tenantFull), instant(projectFull)
	return p, err
}

// number scans a REAL, which assign does not handle.
type number struct{ f *float64 }

// Scan implements sql.Scanner.
func (n number) Scan(v any) error {
	f, ok := v.(float64)
	if !ok {
		return errors.New("the column is not a REAL")
	}
	*n.f = f
	return nil
}

// admitSome admits up to limit runs in one transaction. full reports that the installation has no free slot.
func (s *Store) admitSome(ctx context.Context, terms func(string, string) store.Terms,
	limit int) (rows []store.QueueRow, full bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		rows, full = nil, false
		if _, err := c.exec(ctx, "wake lanes", wakeSQL, micros(s.now()), maxWakes); err != nil {
			return err
		}
		for asked := 0; asked < maxPicks && len(rows) < limit; asked++ {
			p, err := collectOne(ctx, c, "pick", scanPick, pickSQL)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			if p.project == "" { // no project of the tenant is ready
				if _, err := c.exec(ctx, "defer tenant", deferTenantSQL, p.tenant); err != nil {
					return err
				}
				continue
			}
			p.rows.Now = s.now()
			of := terms(p.tenant, p.project)
			v := admission.Admit(of, p.project, p.rows)
			if v.Lacks == admission.OfInstallation {
				full = true
				return nil
			}
			row, err := s.applyVerdict(ctx, c, p, of, v)
			if err != nil {
				return err
			}
			rows = append(rows, row...)
		}
		return nil
	})
	return rows, full, err
}

// applyVerdict writes the consequences of a verdict. When it admits a run, it returns the queue row.
func (s *Store) applyVerdict(ctx context.Context, c *conn, p *pick, of store.Terms,
	v admission.Verdict) ([]store.QueueRow, error) {
	r := &p.rows
	if !v.Admitted {
		project := p.project
		if v.Lacks == admission.OfTenant {
			project = ""
		}
		_, err := c.exec(ctx, "defer lane", deferLaneSQL, p.tenant, project, micros(v.AskedAt))
		return nil, err
	}
	if err := takeStart(ctx, c, p.tenant, v.Token); err != nil {
		return nil, err
	}
	row, err := collectOne(ctx, c, "admit", scanQueue, admitSQL, micros(r.Now), p.run)
	if err != nil {
		return nil, err
	}
	tenantPass, turn := admission.Turn(r.Tenant.Pass, r.Installation.Turn, of.Tenant.Weight)
	projectPass, turnOfTenant := admission.Turn(r.Project.Pass, r.Tenant.Turn, of.Project.Weight)
	l := admission.LaneAfterAdmission(r.Project, r.Now)
	if _, err := c.exec(ctx, "turn", turnSQL, 0.0, turn, "", ""); err != nil {
		return nil, err
	}
	if _, err := c.exec(ctx, "turn", turnSQL, tenantPass, turnOfTenant, p.tenant, ""); err != nil {
		return nil, err
	}
	if _, err := c.exec(ctx, "turn", paceSQL, projectPass, float64(l.Pace)/float64(time.Millisecond), micros(l.AdmittedAt),
		p.tenant, p.project); err != nil {
		return nil, err
	}
	return []store.QueueRow{row}, s.touch(ctx, c, p.run)
}

// take takes one token in the write transaction of c. It returns 0 if it took a token, otherwise the wait until the
// bucket has one.
func (s *Store) take(ctx context.Context, c *conn, b store.Bucket) (time.Duration, error) {
	var fullAt time.Time
	if b.PerMinute > 0 {
		at, err := collectOne(ctx, c, "bucket", value[int64],
			`SELECT full_at FROM bucket WHERE tenant_id = ? AND project_id = ? AND action = ?`,
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

// takeHeavyToken takes a token from b if p inserts a StepStarted. It returns the wait until the bucket has a token, or
// 0. A plan that inserts nothing needs no token.
func (t *runTx) takeHeavyToken(ctx context.Context, b *store.Bucket, p authority.Plan) (time.Duration, error) {
	if b == nil || len(p.Insert) == 0 {
		return 0, nil
	}
	return t.s.take(ctx, t.conn, *b)
}

// Take implements store.QuotaTx.
func (t *runTx) Take(ctx context.Context, b store.Bucket) (time.Duration, error) {
	return t.s.take(ctx, t.conn, b)
}

// RecentSignals implements store.QuotaTx. The index signal_recent serves it, so it reads at most as many entries as the
// limit.
func (t *runTx) RecentSignals(ctx context.Context, limit int, span time.Duration) (time.Duration, error) {
	at, err := collectOne(ctx, t.conn, "recent signals", value[int64],
		`SELECT received_at FROM signal WHERE run_id = ? AND rejection <> 'FORBIDDEN' AND received_at > ?
		ORDER BY received_at DESC LIMIT 1 OFFSET ?`, t.id.RunID, micros(t.at.Add(-span)), max(0, limit-1))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return instant(at).Add(span).Sub(t.at), nil
}
