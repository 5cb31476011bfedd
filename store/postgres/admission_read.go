package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const expiredWaitingSQL = `SELECT ` + queueColumns + ` FROM run_queue q
  WHERE q.waiting AND q.expires_at <= clock_timestamp() ORDER BY q.expires_at, q.run_id LIMIT $1`

// ListExpiredWaits implements store.Admissions.
func (s *Store) ListExpiredWaits(ctx context.Context, limit int) ([]store.QueueRow, error) {
	return collect(ctx, s, "expired waiting", func(row pgx.CollectableRow) (store.QueueRow,
		error) {
		return scanQueue(row)
	},
		expiredWaitingSQL, pageSize(limit))
}

// waitingRunsSQL counts the runs before the first row of each lane. WaitingRuns numbers the other rows from there, so
// that each lane is counted once.
const waitingRunsSQL = `SELECT ` + queueColumns + `, CASE WHEN row_number() OVER w = 1 THEN (SELECT count(*) FROM run_queue b
    WHERE b.waiting AND b.tenant_id = q.tenant_id AND b.project_id = q.project_id AND (b.priority > q.priority
      OR (b.priority = q.priority AND (b.created_at, b.run_id) < (q.created_at, q.run_id)))) ELSE 0 END, r.environment_id, r.plan_id, r.plan_version, r.triggered_by
FROM (SELECT * FROM run_queue q WHERE q.waiting AND q.tenant_id = $1 AND ($2::text[] IS NULL OR q.project_id = ANY ($2))
    AND ($3 = '' OR q.run_id = $3) AND ($4 = '' OR q.project_id >= $5) AND ($4 = '' OR q.project_id > $5 OR q.priority < $6
      OR (q.priority = $6 AND (q.created_at, q.run_id) > ($7::timestamptz, $4 COLLATE "C")))
  ORDER BY q.project_id, q.priority DESC, q.created_at, q.run_id LIMIT $8) q
JOIN run r ON r.run_id = q.run_id
WINDOW w AS (PARTITION BY q.project_id ORDER BY q.priority DESC, q.created_at, q.run_id)
ORDER BY q.project_id, q.priority DESC, q.created_at, q.run_id`

// WaitingRuns implements store.Admissions.
func (s *Store) WaitingRuns(ctx context.Context, f store.WaitingFilter) (out []store.WaitingRun, err error) {
	err = s.do(ctx, "waiting runs", func(ctx context.Context, c *pgx.Conn) error {
		var after store.QueueRow
		if f.After != "" {
			if after, err = scanQueue(c.QueryRow(ctx, queueSQL, f.After)); err != nil {
				return err
			}
			if !after.Waiting || after.TenantID != f.TenantID {
				return store.ErrNotFound
			}
		}
		rows, err := c.Query(ctx, waitingRunsSQL, f.TenantID, f.ProjectIDs, f.RunID, f.After, after.ProjectID, after.Priority,
			after.CreatedAt, pageSize(f.Limit))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (w store.WaitingRun, err error) {
			before := 0
			w.QueueRow, err = scanQueue(row, &before, &w.EnvironmentID, &w.PlanID, &w.PlanVersion, &w.TriggeredBy)
			w.Position = before + 1
			return w, err
		})
		for i := 1; i < len(out); i++ {
			if out[i].ProjectID == out[i-1].ProjectID {
				out[i].Position = out[i-1].Position + 1
			}
		}
		return err
	})
	return out, err
}

const usageSQL = `SELECT clock_timestamp(), coalesce(l.project_id, b.project_id), coalesce(l.active, 0), coalesce(l.waiting, 0), coalesce(l.pace_ms, 0),
  coalesce(b.action, ''), b.full_at
FROM (SELECT * FROM lane WHERE tenant_id = $1) l FULL JOIN (SELECT * FROM bucket WHERE tenant_id = $1) b USING (project_id)
UNION ALL SELECT clock_timestamp(), '', 0, 0, 0, '', NULL`

// Usage implements store.Admissions.
func (s *Store) Usage(ctx context.Context, tenantID string) (u store.Usage, err error) {
	err = s.do(ctx, "usage", func(ctx context.Context, c *pgx.Conn) error {
		u = store.Usage{Projects: map[string]store.LaneUsage{}}
		rows, err := c.Query(ctx, usageSQL, tenantID)
		if err != nil {
			return err
		}
		var project string
		var action store.BucketAction
		var active, waiting int64
		var pace float64
		var full *time.Time
		_, err = pgx.ForEachRow(rows, []any{utc{&u.Now}, &project, &active, &waiting, &pace, &action, utcOrNil{&full}},
			func() error {
				l := u.Projects[project]
				l.Active, l.Waiting, l.Pace = max(l.Active, active), max(l.Waiting, waiting), max(l.Pace, milli(pace))
				if full != nil {
					if l.Full == nil {
						l.Full = map[store.BucketAction]time.Time{}
					}
					l.Full[action] = *full
				}
				u.Projects[project], full = l, nil
				return nil
			})
		u.Tenant = u.Projects[""]
		delete(u.Projects, "")
		return err
	})
	return u, err
}

// ActiveRuns implements store.Admissions.
func (s *Store) ActiveRuns(ctx context.Context) (n int64, err error) {
	err = s.do(ctx, "active runs", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT active FROM lane WHERE tenant_id = '' AND project_id = ''`).Scan(&n)
	})
	return n, err
}

// DueStarts implements store.Admissions.
func (s *Store) DueStarts(ctx context.Context) (n int64, err error) {
	err = s.do(ctx, "due starts", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*) FROM run_queue WHERE NOT waiting AND status IN ('PENDING', 'LOCKED')
			AND not_before <= clock_timestamp()`).Scan(&n)
	})
	return n, err
}
