package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// silencedSQL is the end of the longest silence that covers an alert now.
const silencedSQL = `(SELECT max(x.until) FROM alert_silence x WHERE x.tenant_id = s.tenant_id
  AND x.until > clock_timestamp() AND x.code IN ('', s.code) AND x.project_id IN ('', s.project_id)
  AND x.run_id IN ('', s.run_id) AND x.plan_id IN ('', s.plan_id))`

const alertColumns = `a.id::text, a.at, a.tenant_id, a.project_id, a.run_id, a.step_id, a.signal_id, s.level, a.code,
  s.subject, s.shared, s.note, a.actor, s.environment_id, s.plan_id, s.count, s.last_seen, s.resolved_at, s.resolution,
  s.acknowledged_at, s.acknowledged_by, s.ack_note, ` + silencedSQL

const (
	fromAlerts = ` FROM alert_state s JOIN alert a USING (pos) `
	alertSQL   = `SELECT ` + alertColumns + fromAlerts + `WHERE a.id = $1::uuid`
)

func scanAlert(row pgx.CollectableRow) (a store.AlertState, err error) {
	return a, row.Scan(&a.ID, utc{&a.At}, &a.TenantID, &a.ProjectID, &a.RunID, &a.StepID, &a.SignalID, &a.Level, &a.Code,
		&a.Subject, &a.Shared, &a.Note, &a.Actor, &a.EnvironmentID, &a.PlanID, &a.Count, utc{&a.LastSeen},
		utcOrNil{&a.ResolvedAt}, &a.Resolution, utcOrNil{&a.AcknowledgedAt}, &a.AcknowledgedBy, &a.AckNote,
		utcOrNil{&a.SilencedUntil})
}

// inAlerts runs f in a transaction. f returns whether it changed an alert or a silence, so that AlertsRev grows.
func (s *Store) inAlerts(ctx context.Context, what string, audit []store.AuditRow,
	f func(context.Context, *pgx.Conn) (changed bool, err error)) error {
	return s.inTx(ctx, what, func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		changed, err := f(ctx, c)
		if err != nil {
			return err
		}
		queueAudit(last, audit)
		if changed {
			last.Queue(alertsMovedSQL)
		}
		return nil
	})
}

const (
	alertsMovedSQL = `UPDATE alert_rev SET n = n + 1`
	// lockAlertsSQL serialises the changes of a tenant's alerts, so that two calls at once neither open a state twice nor
	// pass the limit.
	lockAlertsSQL = `SELECT pg_advisory_xact_lock(hashtextextended('alerts/' || $1, 0))`
	bumpAlertSQL  = `UPDATE alert_state SET count = count + 1, last_seen = clock_timestamp(), level = $2, note = $3
  WHERE fingerprint = $1 AND resolved_at IS NULL RETURNING pos`
	knownAlertSQL = `SELECT pos FROM alert WHERE id = $1::uuid`
	openAlertsSQL = `SELECT count(*), coalesce(max(pos), 0) FROM (SELECT pos FROM alert_state
  WHERE tenant_id = $1 AND resolved_at IS NULL ORDER BY pos DESC LIMIT $2) o`
	// insertAlertSQL returns no row when $12 alerts or more are open above the position $11.
	insertAlertSQL = `WITH o AS MATERIALIZED (SELECT count(*)::int AS n FROM (SELECT FROM alert_state
    WHERE tenant_id = $2::text AND resolved_at IS NULL AND pos > $11::bigint LIMIT $12::int) s)
  INSERT INTO alert (id, tenant_id, project_id, run_id, step_id, signal_id, level, code, note, actor)
  SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::text
    FROM o WHERE n < $12::int RETURNING pos, (SELECT n FROM o)`
	insertAlertStateSQL = `INSERT INTO alert_state (pos, tenant_id, project_id, environment_id, plan_id, run_id, code, subject,
    shared, fingerprint, level, note, last_seen)
  SELECT a.pos, a.tenant_id, a.project_id, coalesce(r.environment_id, ''), coalesce(r.plan_id, ''), a.run_id, a.code, $2,
    $3, $4, a.level, a.note, a.at FROM alert a LEFT JOIN run r ON r.run_id = a.run_id WHERE a.pos = $1`
)

// RaiseAlert implements store.Alerts.
func (s *Store) RaiseAlert(ctx context.Context, a store.Alert) (out store.AlertRaised, err error) {
	err = s.inAlerts(ctx, "raise alert", nil, func(ctx context.Context, c *pgx.Conn) (bool, error) {
		pos, opened, err := raiseAlert(ctx, c, &s.alertRoom, a)
		if err != nil {
			return false, err
		}
		out.Opened = opened
		out.State, err = one(ctx, c, scanAlert, `SELECT `+alertColumns+fromAlerts+`WHERE s.pos = $1`, pos)
		return true, err
	})
	return out, err
}

// raiseAlert opens or updates an alert within the transaction of c.
func raiseAlert(ctx context.Context, c *pgx.Conn, room *store.AlertRoom, a store.Alert) (pos int64, opened bool,
	err error) {
	a = a.Fit()
	if _, err := c.Exec(ctx, lockAlertsSQL, a.TenantID); err != nil {
		return 0, false, err
	}
	if a.ID == "" {
		a.ID = uuid.NewString()
	} else if pos, err = one(ctx, c, pgx.RowTo[int64], knownAlertSQL, a.ID); !errors.Is(err, pgx.ErrNoRows) {
		return pos, false, err
	}
	pos, err = one(ctx, c, pgx.RowTo[int64], bumpAlertSQL, a.Fingerprint(), a.Level, a.Note)
	if !errors.Is(err, pgx.ErrNoRows) {
		return pos, false, err
	}
	pos, err = insertAlert(ctx, c, room, a)
	if errors.Is(err, errAlertsFull) {
		return raiseAlert(ctx, c, room, store.OverflowAlert(a))
	} else if err != nil {
		return 0, false, err
	}
	_, err = c.Exec(ctx, insertAlertStateSQL, pos, a.Subject, a.Shared, a.Fingerprint())
	return pos, true, err
}

// errAlertsFull says that a tenant has as many open alerts as it may.
var errAlertsFull = errors.New("too many open alerts")

// insertAlert inserts the row of an alert while the lock of the tenant's alerts is held.
func insertAlert(ctx context.Context, c *pgx.Conn, room *store.AlertRoom, a store.Alert) (int64, error) {
	type inserted struct {
		Pos    int64
		Others int
	}
	insert := func(after int64, most int) (int64, error) {
		got, err := one(ctx, c, pgx.RowToStructByPos[inserted], insertAlertSQL, a.ID, a.TenantID, a.ProjectID, a.RunID,
			a.StepID, a.SignalID, a.Level, a.Code, a.Note, a.Actor, after, most)
		if err == nil {
			room.Opened(a.TenantID, got.Others, got.Pos)
		}
		return got.Pos, err
	}
	if a.Code == run.CodeAlertsOverflow {
		return insert(math.MaxInt64, 1)
	}
	if left, after := room.Left(a.TenantID, time.Now()); left > 0 {
		if pos, err := insert(after, left); !errors.Is(err, pgx.ErrNoRows) {
			return pos, err
		}
	}
	type count struct {
		Open int
		Last int64
	}
	all, err := one(ctx, c, pgx.RowToStructByPos[count], openAlertsSQL, a.TenantID, store.MaxOpenAlerts)
	if err != nil {
		return 0, err
	}
	if all.Open >= store.MaxOpenAlerts {
		return 0, errAlertsFull
	}
	room.Counted(a.TenantID, all.Open, all.Last, time.Now())
	return insert(all.Last, store.MaxOpenAlerts-all.Open)
}

// one reads the only row of a statement; pgx.ErrNoRows without one.
func one[T any](ctx context.Context, c *pgx.Conn, scan pgx.RowToFunc[T], sql string, args ...any) (out T, err error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return out, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

// Raise implements store.AlertTx.
func (r runTx) Raise(ctx context.Context, a store.Alert) error {
	err := r.t.flush(ctx)
	if err == nil {
		_, _, err = raiseAlert(ctx, r.t.conn, r.t.alerts, a)
	}
	r.t.batch.Queue(alertsMovedSQL)
	return translate(ctx, err)
}

// ResolveAlerts implements store.Alerts.
func (s *Store) ResolveAlerts(ctx context.Context, fingerprints []string, why string) ([]store.AlertState, error) {
	return s.resolve(ctx, why, `SELECT pos FROM alert_state WHERE resolved_at IS NULL AND fingerprint = ANY($1)
		ORDER BY pos LIMIT $2 FOR UPDATE`, fingerprints, store.MaxPage)
}

// ResolveEndedAlerts implements store.Alerts.
func (s *Store) ResolveEndedAlerts(ctx context.Context, why string) ([]store.AlertState, error) {
	return s.resolve(ctx, why, `SELECT s.pos FROM alert_state s JOIN run_head h ON h.run_id = s.run_id AND h.terminal
		WHERE s.resolved_at IS NULL AND NOT s.shared ORDER BY s.pos LIMIT $1 FOR UPDATE OF s`, store.MaxPage)
}

func (s *Store) resolve(ctx context.Context, why, find string, args ...any) (out []store.AlertState, err error) {
	err = s.inAlerts(ctx, "resolve alerts", nil, func(ctx context.Context, c *pgx.Conn) (bool, error) {
		out = nil
		rows, err := c.Query(ctx, find, args...)
		if err != nil {
			return false, err
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(found) == 0 {
			return false, err
		}
		if _, err := c.Exec(ctx, `UPDATE alert_state SET resolved_at = clock_timestamp(), resolution = $2 WHERE pos = ANY($1)`,
			found, why); err != nil {
			return false, err
		}
		if rows, err = c.Query(ctx, `SELECT `+alertColumns+fromAlerts+`WHERE s.pos = ANY($1) ORDER BY s.pos`,
			found); err != nil {
			return false, err
		}
		out, err = pgx.CollectRows(rows, scanAlert)
		return true, err
	})
	return out, err
}

// AcknowledgeAlert implements store.Alerts.
func (s *Store) AcknowledgeAlert(ctx context.Context, id, by, note string,
	audit ...store.AuditRow) (out store.AlertState, err error) {
	err = s.inAlerts(ctx, "acknowledge alert", audit, func(ctx context.Context, c *pgx.Conn) (bool, error) {
		tag, err := c.Exec(ctx, `UPDATE alert_state s SET acknowledged_at = clock_timestamp(), acknowledged_by = $2, ack_note = $3
			FROM alert a WHERE a.pos = s.pos AND a.id = $1::uuid AND s.resolved_at IS NULL`, uuidOrNil(id), by, note)
		if err != nil {
			return false, err
		}
		out, err = one(ctx, c, scanAlert, alertSQL, uuidOrNil(id))
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return false, store.ErrNotFound
		case err == nil && tag.RowsAffected() == 0:
			return false, store.ErrConflict
		}
		return true, err
	})
	return out, err
}

// uuidOrNil returns an id as the column has it, so that the index finds it; nil, which equals no id, for another text.
func uuidOrNil(id string) any {
	if known, err := uuid.Parse(id); err != nil || known.String() != id {
		return nil
	}
	return id
}

// GetAlert implements store.Alerts.
func (s *Store) GetAlert(ctx context.Context, id string) (store.AlertState, error) {
	out, err := collect(ctx, s, "alert", scanAlert, alertSQL, uuidOrNil(id))
	if err != nil || len(out) == 1 {
		return append(out, store.AlertState{})[0], err
	}
	return store.AlertState{}, store.ErrNotFound
}

func alertTerms(af store.AlertFilter) *filter {
	f := new(filter)
	tenant := new(filter)
	tenant.args = f.args
	if environments, projects, pairs, all := af.Scopes.Split(); all {
		tenant.add("s.tenant_id = ?", af.TenantID)
	} else {
		tenant.add("s.tenant_id = ? AND (s.environment_id = ANY(?) OR s.project_id = ANY(?) OR "+
			"s.project_id || '/' || s.environment_id = ANY(?))", af.TenantID, environments, projects, pairs)
	}
	f.args = tenant.args
	term := "(" + tenant.String() + ")"
	if af.Installation {
		term = "(" + term + " OR s.tenant_id = '')"
	}
	f.where = append(f.where, term)
	if af.ProjectID != "" {
		f.add("s.project_id = ?", af.ProjectID)
	}
	if af.RunID != "" {
		f.add("s.run_id = ?", af.RunID)
	}
	if len(af.Levels) > 0 {
		f.add("s.level = ANY(?)", af.Levels)
	}
	if af.Code != "" {
		f.add("s.code = ?", af.Code)
	}
	if af.States != nil {
		f.add("CASE WHEN s.resolved_at IS NOT NULL THEN 'RESOLVED' WHEN s.acknowledged_at IS NOT NULL THEN 'ACKNOWLEDGED' "+
			"ELSE 'OPEN' END = ANY(?)", af.States)
	}
	if af.OnlyUnresolved() { // lets the planner use the index of open alerts
		f.add("s.resolved_at IS NULL")
	}
	if af.Unsilenced {
		f.add(silencedSQL + " IS NULL")
	}
	if !af.Since.IsZero() {
		f.add("a.at >= ?", af.Since)
	}
	if af.Before != "" {
		f.add("s.pos < (SELECT pos FROM alert WHERE id = ?::uuid)", uuidOrNil(af.Before))
	}
	return f
}

// ListAlerts implements store.Alerts.
func (s *Store) ListAlerts(ctx context.Context, af store.AlertFilter) ([]store.AlertState, error) {
	f := alertTerms(af)
	query := `SELECT ` + alertColumns + fromAlerts + `WHERE ` + f.String() +
		f.bind(` ORDER BY s.pos DESC LIMIT ?`, pageSize(af.Limit))
	return collect(ctx, s, "alerts", scanAlert, query, f.args...)
}

// CountAlerts implements store.Alerts.
func (s *Store) CountAlerts(ctx context.Context, af store.AlertFilter) (int, error) {
	f := alertTerms(af)
	from := ` FROM alert_state s `
	if !af.Since.IsZero() { // else the rows of their openings are not needed
		from = fromAlerts
	}
	query := `SELECT count(*) FROM (SELECT` + from + `WHERE ` + f.String() +
		f.bind(` LIMIT ?`, pageSize(af.Limit)) + `) c`
	n, err := collect(ctx, s, "count alerts", pgx.RowTo[int], query, f.args...)
	return append(n, 0)[0], err
}

// ListOpenAlerts implements store.Alerts.
func (s *Store) ListOpenAlerts(ctx context.Context, codes []run.Code, limit int) ([]store.AlertState, error) {
	return collect(ctx, s, "open alerts", scanAlert, `SELECT `+alertColumns+fromAlerts+
		`WHERE s.resolved_at IS NULL AND s.code = ANY($1) ORDER BY s.last_seen, s.pos LIMIT $2`, codes, pageSize(limit))
}

// AlertsRev implements store.Alerts.
func (s *Store) AlertsRev(ctx context.Context) (int64, error) {
	n, err := collect(ctx, s, "alerts rev", pgx.RowTo[int64], `SELECT n FROM alert_rev`)
	return append(n, 0)[0], err
}

const silenceColumns = `id::text, tenant_id, code, project_id, run_id, plan_id, actor, reason, at, until`

func scanSilence(row pgx.CollectableRow) (x store.AlertSilence, err error) {
	return x, row.Scan(&x.ID, &x.TenantID, &x.Code, &x.ProjectID, &x.RunID, &x.PlanID, &x.Actor, &x.Reason, utc{&x.At},
		utc{&x.Until})
}

// Silence implements store.Alerts.
func (s *Store) Silence(ctx context.Context, x store.AlertSilence,
	audit ...store.AuditRow) (out store.AlertSilence, err error) {
	err = s.inAlerts(ctx, "silence alerts", audit, func(ctx context.Context, c *pgx.Conn) (bool, error) {
		if _, err := c.Exec(ctx, lockAlertsSQL, x.TenantID); err != nil {
			return false, err
		}
		out, err = one(ctx, c, scanSilence, `SELECT `+silenceColumns+` FROM alert_silence WHERE id::text = $1 AND tenant_id = $2`,
			x.ID, x.TenantID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return false, err
		}
		if _, err := c.Exec(ctx, `DELETE FROM alert_silence WHERE tenant_id = $1 AND until <= clock_timestamp()`,
			x.TenantID); err != nil {
			return false, err
		}
		n, err := one(ctx, c, pgx.RowTo[int], `SELECT count(*) FROM alert_silence WHERE tenant_id = $1`, x.TenantID)
		if err != nil {
			return false, err
		}
		if n >= store.MaxSilences {
			return false, store.ErrTooMany
		}
		out, err = one(ctx, c, scanSilence, `INSERT INTO alert_silence (id, tenant_id, code, project_id, run_id, plan_id, actor,
			reason, at, until) VALUES ($1::uuid, $2, $3, $4, $5, $6, $7, $8, clock_timestamp(), $9) RETURNING `+silenceColumns,
			x.ID, x.TenantID, x.Code, x.ProjectID, x.RunID, x.PlanID, x.Actor, x.Reason, x.Until)
		return true, err
	})
	return out, err
}

// EndSilence implements store.Alerts.
func (s *Store) EndSilence(ctx context.Context, tenantID, id string, audit ...store.AuditRow) error {
	return s.inAlerts(ctx, "end silence", audit, func(ctx context.Context, c *pgx.Conn) (bool, error) {
		tag, err := c.Exec(ctx, `DELETE FROM alert_silence WHERE tenant_id = $1 AND id::text = $2`, tenantID, id)
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrNotFound
		}
		return true, err
	})
}

// ListSilences implements store.Alerts.
func (s *Store) ListSilences(ctx context.Context, tenantID string) ([]store.AlertSilence, error) {
	return collect(ctx, s, "silences", scanSilence, `SELECT `+silenceColumns+` FROM alert_silence
		WHERE tenant_id = $1 AND until > clock_timestamp() ORDER BY at DESC, id LIMIT $2`, tenantID, store.MaxSilences)
}

// Beat implements store.Heartbeats.
func (s *Store) Beat(ctx context.Context, process string, duties []string) error {
	return s.do(ctx, "beat", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		queueBegin(&b)
		b.Queue(`INSERT INTO duty_heartbeat (process, duty, at) SELECT $1, u, clock_timestamp() FROM unnest($2::text[]) u ORDER BY u
			ON CONFLICT (process, duty) DO UPDATE SET at = excluded.at`, process, duties)
		b.Queue(`DELETE FROM duty_heartbeat WHERE (process, duty) IN (SELECT process, duty FROM duty_heartbeat
			WHERE at < clock_timestamp() - $1::interval ORDER BY process, duty FOR UPDATE SKIP LOCKED)`, store.HeartbeatLife)
		b.Queue(`DELETE FROM duty_heartbeat WHERE (process, duty) IN (SELECT process, duty FROM duty_heartbeat
			WHERE at < (SELECT at FROM duty_heartbeat ORDER BY at DESC OFFSET $1 LIMIT 1) ORDER BY process, duty
			FOR UPDATE SKIP LOCKED)`, store.MaxHeartbeats)
		b.Queue(`commit`)
		return c.SendBatch(ctx, &b).Close()
	})
}

// Heartbeats implements store.Heartbeats.
func (s *Store) Heartbeats(ctx context.Context) ([]store.Heartbeat, error) {
	return collect(ctx, s, "heartbeats", func(row pgx.CollectableRow) (h store.Heartbeat, err error) {
		return h, row.Scan(&h.Duty, &h.Process, utc{&h.At}, &h.Age)
	}, `SELECT DISTINCT ON (duty) duty, process, at, clock_timestamp() - at FROM duty_heartbeat ORDER BY duty, at DESC, process`)
}

const overdueSQL = `SELECT
  coalesce((SELECT clock_timestamp() - since FROM run_dirty WHERE not_before <= clock_timestamp()
    ORDER BY since LIMIT 1), '0'),
  coalesce((SELECT clock_timestamp() - greatest(CASE status WHEN 'PENDING' THEN not_before ELSE lease_until END, created_at)
    FROM run_queue WHERE NOT waiting AND status IN ('PENDING', 'LOCKED')
    AND CASE status WHEN 'PENDING' THEN not_before ELSE lease_until END <= clock_timestamp()
    ORDER BY created_at, run_id LIMIT 1), '0'),
  coalesce((SELECT clock_timestamp() - greatest(due_at, lease_until) FROM delivery WHERE delivered_no < up_to
    AND due_at <= clock_timestamp() AND lease_until <= clock_timestamp() ORDER BY due_at LIMIT 1), '0'),
  EXISTS (SELECT FROM run_head h JOIN run_queue q USING (run_id) WHERE NOT h.terminal AND q.status = 'STARTED')`

// OverdueWork implements store.Heartbeats.
func (s *Store) OverdueWork(ctx context.Context) (store.OverdueWork, error) {
	out, err := collect(ctx, s, "overdue work", func(row pgx.CollectableRow) (w store.OverdueWork, err error) {
		var project, dispatch, deliver time.Duration
		err = row.Scan(&project, &dispatch, &deliver, &w.OpenRuns)
		w.Project, w.Dispatch, w.Deliver = max(0, project), max(0, dispatch), max(0, deliver)
		return w, err
	}, overdueSQL)
	return append(out, store.OverdueWork{})[0], err
}
