package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/store"
)

const expiredWaitingSQL = `SELECT ` + queueColumns + ` FROM run_queue WHERE waiting = 1 AND expires_at > 0 AND expires_at <= ?
	ORDER BY expires_at, run_id LIMIT ?`

// ListExpiredWaits implements store.Admissions.
func (s *Store) ListExpiredWaits(ctx context.Context, limit int) ([]store.QueueRow, error) {
	return readAll(ctx, s, "expired waiting", scanQueue, expiredWaitingSQL, micros(s.now()), clamp(limit, store.MaxPage))
}

// waitingRunsSQL counts the runs before the first row of each lane. WaitingRuns numbers the other rows from there, so
// that each lane is counted once.
const waitingRunsSQL = `SELECT ` + queueColumns + `, CASE WHEN row_number() OVER w = 1 THEN (SELECT count(*) FROM run_queue b
		WHERE b.waiting = 1 AND b.tenant_id = q.tenant_id AND b.project_id = q.project_id AND (b.priority > q.priority
			OR (b.priority = q.priority AND (b.created_at, b.run_id) < (q.created_at, q.run_id)))) ELSE 0 END, environment_id, plan_id, plan_version, triggered_by
FROM (SELECT * FROM run_queue WHERE waiting = 1 AND tenant_id = ?1 AND (?2 IS NULL OR project_id IN (SELECT value FROM json_each(?2)))
		AND (?3 = '' OR run_id = ?3) AND (?4 = '' OR project_id > ?5 OR (project_id = ?5 AND (priority < ?6
			OR (priority = ?6 AND (created_at, run_id) > (?7, ?4)))))
	ORDER BY project_id, priority DESC, created_at, run_id LIMIT ?8) q
JOIN (SELECT run_id AS of, environment_id, plan_id, plan_version, triggered_by FROM run) ON of = q.run_id
WINDOW w AS (PARTITION BY project_id ORDER BY priority DESC, created_at, run_id)
ORDER BY project_id, priority DESC, created_at, run_id`

// WaitingRuns implements store.Admissions.
func (s *Store) WaitingRuns(ctx context.Context, f store.WaitingFilter) ([]store.WaitingRun, error) {
	var after store.QueueRow
	if f.After != "" {
		var err error
		if after, err = s.QueueRow(ctx, f.After); err != nil {
			return nil, err
		}
		if !after.Waiting || after.TenantID != f.TenantID {
			return nil, notFound("waiting run")
		}
	}
	var projects any
	if f.ProjectIDs != nil {
		doc, err := json.Marshal(f.ProjectIDs)
		if err != nil {
			return nil, err
		}
		projects = string(doc)
	}
	out, err := readAll(ctx, s, "waiting runs", func(row scanner) (w store.WaitingRun, err error) {
		before := 0
		w.QueueRow, err = scanQueueAnd(row, &before, &w.EnvironmentID, &w.PlanID, &w.PlanVersion, &w.TriggeredBy)
		w.Position = before + 1
		return w, err
	}, waitingRunsSQL, f.TenantID, projects, f.RunID, f.After, after.ProjectID, after.Priority, micros(after.CreatedAt),
		clamp(f.Limit, store.MaxPage))
	for i := 1; i < len(out); i++ {
		if out[i].ProjectID == out[i-1].ProjectID {
			out[i].Position = out[i-1].Position + 1
		}
	}
	return out, err
}

const usageSQL = `SELECT project_id, active, waiting, CAST(pace_ms * 1000 AS INTEGER), '', 0 FROM lane WHERE tenant_id = ?1
	UNION ALL SELECT project_id, 0, 0, 0, action, full_at FROM bucket WHERE tenant_id = ?1`

// Usage implements store.Admissions.
func (s *Store) Usage(ctx context.Context, tenantID string) (store.Usage, error) {
	u := store.Usage{Now: s.now(), Projects: map[string]store.LaneUsage{}}
	err := s.read(ctx, func(c *conn) error {
		return c.query(ctx, "usage", usageSQL, []any{tenantID}, func(row row) error {
			var project string
			var action store.BucketAction
			var active, waiting, pace, full int64
			if err := row.Scan(&project, &active, &waiting, &pace, &action, &full); err != nil {
				return err
			}
			l := u.Projects[project]
			if action == "" {
				l.Active, l.Waiting, l.Pace = active, waiting, time.Duration(pace)*time.Microsecond
			} else {
				if l.Full == nil {
					l.Full = map[store.BucketAction]time.Time{}
				}
				l.Full[action] = instant(full)
			}
			u.Projects[project] = l
			return nil
		})
	})
	u.Tenant = u.Projects[""]
	delete(u.Projects, "")
	return u, err
}

// ActiveRuns implements store.Admissions.
func (s *Store) ActiveRuns(ctx context.Context) (int64, error) {
	return readOne(ctx, s, "active runs", value[int64], `SELECT active FROM lane WHERE tenant_id = '' AND project_id = ''`)
}

// DueStarts implements store.Admissions.
func (s *Store) DueStarts(ctx context.Context) (int64, error) {
	return readOne(ctx, s, "due starts", value[int64], `SELECT count(*) FROM run_queue
		WHERE waiting = 0 AND status IN ('PENDING', 'LOCKED') AND not_before <= ?`, micros(s.now()))
}
