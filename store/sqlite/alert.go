package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// silencedSQL is the end of the longest silence that covers an alert at the time ?1.
const silencedSQL = `(SELECT max(x.until) FROM alert_silence x WHERE x.tenant_id = s.tenant_id
	AND x.until > ?1 AND x.code IN ('', s.code) AND x.project_id IN ('', s.project_id)
	AND x.run_id IN ('', s.run_id) AND x.plan_id IN ('', s.plan_id))`

const alertColumns = `a.id, a.at, a.tenant_id, a.project_id, a.run_id, a.step_id, a.signal_id, s.level, a.code,
	s.subject, s.shared, s.note, a.actor, s.environment_id, s.plan_id, s.count, s.last_seen, s.resolved_at, s.resolution,
	s.acknowledged_at, s.acknowledged_by, s.ack_note, ` + silencedSQL

const fromAlerts = ` FROM alert_state s JOIN alert a ON a.pos = s.pos `

func scanAlert(row scanner) (a store.AlertState, err error) {
	var at, seen int64
	var resolved, acknowledged, silenced sql.NullInt64
	err = row.Scan(&a.ID, &at, &a.TenantID, &a.ProjectID, &a.RunID, &a.StepID, &a.SignalID, &a.Level, &a.Code, &a.Subject,
		&a.Shared, &a.Note, &a.Actor, &a.EnvironmentID, &a.PlanID, &a.Count, &seen, &resolved, &a.Resolution, &acknowledged,
		&a.AcknowledgedBy, &a.AckNote, &silenced)
	a.At, a.LastSeen, a.ResolvedAt = instant(at), instant(seen), instantOrNil(resolved)
	a.AcknowledgedAt, a.SilencedUntil = instantOrNil(acknowledged), instantOrNil(silenced)
	return a, err
}

func alertsMoved(ctx context.Context, c *conn) error {
	_, err := c.exec(ctx, "alerts rev", `UPDATE alert_rev SET n = n + 1`)
	return err
}

// RaiseAlert implements store.Alerts.
func (s *Store) RaiseAlert(ctx context.Context, a store.Alert) (out store.AlertRaised, err error) {
	err = s.write(ctx, func(c *conn) error {
		now := s.now()
		pos, opened, err := raiseAlert(ctx, c, now, a)
		if err != nil {
			return err
		}
		out.Opened = opened
		out.State, err = collectOne(ctx, c, "alert", scanAlert, `SELECT `+alertColumns+fromAlerts+`WHERE s.pos = ?2`,
			micros(now), pos)
		return err
	})
	return out, err
}

// Raise implements store.AlertTx.
func (t *runTx) Raise(ctx context.Context, a store.Alert) error {
	_, _, err := raiseAlert(ctx, t.conn, t.at, a)
	return err
}

// raiseAlert opens or updates an alert within the write transaction.
func raiseAlert(ctx context.Context, c *conn, at time.Time, a store.Alert) (pos int64, opened bool, err error) {
	a = a.Fit()
	if a.ID == "" {
		a.ID = uuid.NewString()
	} else {
		pos, err = collectOne(ctx, c, "known alert", value[int64], `SELECT pos FROM alert WHERE id = ?`, a.ID)
		if !errors.Is(err, store.ErrNotFound) {
			return pos, false, err
		}
	}
	if err := alertsMoved(ctx, c); err != nil {
		return 0, false, err
	}
	pos, err = collectOne(ctx, c, "open alert", value[int64], `UPDATE alert_state SET count = count + 1, last_seen = ?2, level = ?3, note = ?4
		WHERE fingerprint = ?1 AND resolved_at IS NULL RETURNING pos`, a.Fingerprint(), micros(at), string(a.Level), a.Note)
	if !errors.Is(err, store.ErrNotFound) {
		return pos, false, err
	}
	open, err := collectOne(ctx, c, "count open alerts", value[int], `SELECT count(*) FROM
		(SELECT 1 FROM alert_state WHERE tenant_id = ? AND resolved_at IS NULL LIMIT ?)`, a.TenantID, store.MaxOpenAlerts)
	if err != nil {
		return 0, false, err
	}
	if open >= store.MaxOpenAlerts && a.Code != run.CodeAlertsOverflow {
		return raiseAlert(ctx, c, at, store.OverflowAlert(a))
	}
	pos, err = collectOne(ctx, c, "raise alert", value[int64], `INSERT INTO alert (id, at, tenant_id, project_id, run_id, step_id, signal_id, level, code, note, actor)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING pos`,
		a.ID, micros(at), a.TenantID, a.ProjectID, a.RunID, a.StepID, a.SignalID, string(a.Level), string(a.Code), a.Note,
		a.Actor)
	if err != nil {
		return 0, false, err
	}
	_, err = c.exec(ctx, "state of an alert", `INSERT INTO alert_state (pos, tenant_id, project_id, environment_id, plan_id, run_id,
		code, subject, shared, fingerprint, level, note, last_seen)
		SELECT a.pos, a.tenant_id, a.project_id, coalesce(r.environment_id, ''), coalesce(r.plan_id, ''), a.run_id, a.code,
		?2, ?3, ?4, a.level, a.note, a.at FROM alert a LEFT JOIN run r ON r.run_id = a.run_id WHERE a.pos = ?1`,
		pos, a.Subject, a.Shared, a.Fingerprint())
	return pos, true, err
}

// ResolveAlerts implements store.Alerts.
func (s *Store) ResolveAlerts(ctx context.Context, fingerprints []string, why string) ([]store.AlertState, error) {
	return s.resolve(ctx, why, `SELECT pos FROM alert_state WHERE resolved_at IS NULL
		AND fingerprint IN (SELECT value FROM json_each(?)) ORDER BY pos LIMIT ?`, array(fingerprints), store.MaxPage)
}

// ResolveEndedAlerts implements store.Alerts.
func (s *Store) ResolveEndedAlerts(ctx context.Context, why string) ([]store.AlertState, error) {
	return s.resolve(ctx, why, `SELECT s.pos FROM alert_state s JOIN run_head h ON h.run_id = s.run_id AND h.terminal
		WHERE s.resolved_at IS NULL AND NOT s.shared ORDER BY s.pos LIMIT ?`, store.MaxPage)
}

func (s *Store) resolve(ctx context.Context, why, find string, args ...any) (out []store.AlertState, err error) {
	found, err := readAll(ctx, s, "alerts to resolve", value[int64], find, args...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	err = s.write(ctx, func(c *conn) error {
		out = nil
		now := micros(s.now())
		for _, pos := range found {
			n, err := c.exec(ctx, "resolve alert", `UPDATE alert_state SET resolved_at = ?2, resolution = ?3
				WHERE pos = ?1 AND resolved_at IS NULL`, pos, now, why)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			a, err := collectOne(ctx, c, "alert", scanAlert, `SELECT `+alertColumns+fromAlerts+`WHERE s.pos = ?2`, now, pos)
			if err != nil {
				return err
			}
			out = append(out, a)
		}
		return alertsMoved(ctx, c)
	})
	return out, err
}

// AcknowledgeAlert implements store.Alerts.
func (s *Store) AcknowledgeAlert(ctx context.Context, id, by, note string,
	rows ...store.AuditRow) (out store.AlertState, err error) {
	err = s.write(ctx, func(c *conn) error {
		now := s.now()
		n, err := c.exec(ctx, "acknowledge alert", `UPDATE alert_state SET acknowledged_at = ?2, acknowledged_by = ?3, ack_note = ?4
			WHERE pos = (SELECT pos FROM alert WHERE id = ?1) AND resolved_at IS NULL`, id, micros(now), by, note)
		if err != nil {
			return err
		}
		out, err = collectOne(ctx, c, "alert "+id, scanAlert, `SELECT `+alertColumns+fromAlerts+`WHERE a.id = ?2`,
			micros(now), id)
		if err == nil && n == 0 {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
		if err := alertsMoved(ctx, c); err != nil {
			return err
		}
		return audit(ctx, c, now, rows)
	})
	return out, err
}

// GetAlert implements store.Alerts.
func (s *Store) GetAlert(ctx context.Context, id string) (store.AlertState, error) {
	return readOne(ctx, s, "alert "+id, scanAlert, `SELECT `+alertColumns+fromAlerts+`WHERE a.id = ?2`,
		micros(s.now()), id)
}

// alertTerms returns the conditions of f and their arguments. The first argument is the time.
func (s *Store) alertTerms(f store.AlertFilter) *where {
	w := &where{args: []any{micros(s.now())}}
	tenant, args := "s.tenant_id = ?", []any{f.TenantID}
	if term, more := inScopes("s.", f.Scopes); term != "" {
		tenant, args = "("+tenant+" AND "+term+")", append(args, more...)
	}
	if f.Installation {
		tenant = "(" + tenant + " OR s.tenant_id = '')"
	}
	w.add(tenant, args...)
	if f.ProjectID != "" {
		w.add("s.project_id = ?", f.ProjectID)
	}
	if f.RunID != "" {
		w.add("s.run_id = ?", f.RunID)
	}
	if len(f.Levels) > 0 {
		w.in("s.level", len(f.Levels), func(i int) any { return string(f.Levels[i]) })
	}
	if f.Code != "" {
		w.add("s.code = ?", string(f.Code))
	}
	if f.States != nil {
		w.in("CASE WHEN s.resolved_at IS NOT NULL THEN 'RESOLVED' WHEN s.acknowledged_at IS NOT NULL THEN 'ACKNOWLEDGED' "+
			"ELSE 'OPEN' END", len(f.States), func(i int) any { return string(f.States[i]) })
	}
	if f.OnlyUnresolved() { // lets SQLite use the index of open alerts
		w.add("s.resolved_at IS NULL")
	}
	if f.Unsilenced {
		w.add(silencedSQL + " IS NULL")
	}
	if !f.Since.IsZero() {
		w.add("a.at >= ?", micros(f.Since))
	}
	if f.Before != "" {
		w.add("s.pos < (SELECT pos FROM alert WHERE id = ?)", f.Before)
	}
	return w
}

// numbered replaces the bare question marks of a query, after the first parameter, by numbered ones: SQLite counts a
// bare one from the largest number before it, and ?1 stands in several places.
func numbered(query string) string {
	parts := strings.Split(query, "?")
	var out strings.Builder
	out.WriteString(parts[0])
	next := 2
	for _, p := range parts[1:] {
		out.WriteByte('?')
		if p == "" || p[0] < '0' || p[0] > '9' {
			out.WriteString(strconv.Itoa(next))
			next++
		}
		out.WriteString(p)
	}
	return out.String()
}

// ListAlerts implements store.Alerts.
func (s *Store) ListAlerts(ctx context.Context, f store.AlertFilter) ([]store.AlertState, error) {
	w := s.alertTerms(f)
	return readAll(ctx, s, "alerts", scanAlert, numbered(`SELECT `+alertColumns+fromAlerts+`WHERE `+w.String()+
		` ORDER BY s.pos DESC LIMIT ?`), append(w.args, clamp(f.Limit, store.MaxPage))...)
}

// CountAlerts implements store.Alerts.
func (s *Store) CountAlerts(ctx context.Context, f store.AlertFilter) (int, error) {
	w := s.alertTerms(f)
	return readOne(ctx, s, "count alerts", value[int], numbered(`SELECT count(*) FROM (SELECT 1`+
		fromAlerts+`WHERE ?1 > 0 AND `+
		w.String()+` LIMIT ?)`), append(w.args, clamp(f.Limit, store.MaxPage))...)
}

// ListOpenAlerts implements store.Alerts.
func (s *Store) ListOpenAlerts(ctx context.Context, codes []run.Code, limit int) ([]store.AlertState, error) {
	names := make([]string, len(codes))
	for i, c := range codes {
		names[i] = string(c)
	}
	return readAll(ctx, s, "open alerts", scanAlert, `SELECT `+alertColumns+fromAlerts+
		`WHERE s.resolved_at IS NULL AND s.code IN (SELECT value FROM json_each(?2)) ORDER BY s.last_seen, s.pos LIMIT ?3`,
		micros(s.now()), array(names), clamp(limit, store.MaxPage))
}

// AlertsRev implements store.Alerts.
func (s *Store) AlertsRev(ctx context.Context) (int64, error) {
	return readOne(ctx, s, "alerts rev", value[int64], `SELECT n FROM alert_rev`)
}

const silenceColumns = `id, tenant_id, code, project_id, run_id, plan_id, actor, reason, at, until`

func scanSilence(row scanner) (x store.AlertSilence, err error) {
	var at, until int64
	err = row.Scan(&x.ID, &x.TenantID, &x.Code, &x.ProjectID, &x.RunID, &x.PlanID, &x.Actor, &x.Reason, &at, &until)
	x.At, x.Until = instant(at), instant(until)
	return x, err
}

// Silence implements store.Alerts.
func (s *Store) Silence(ctx context.Context, x store.AlertSilence,
	rows ...store.AuditRow) (out store.AlertSilence, err error) {
	err = s.write(ctx, func(c *conn) error {
		now := s.now()
		out, err = collectOne(ctx, c, "silence", scanSilence, `SELECT `+silenceColumns+` FROM alert_silence
			WHERE id = ? AND tenant_id = ?`, x.ID, x.TenantID)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if _, err := c.exec(ctx, "drop ended silences", `DELETE FROM alert_silence WHERE tenant_id = ? AND until <= ?`,
			x.TenantID, micros(now)); err != nil {
			return err
		}
		n, err := collectOne(ctx, c, "count silences", value[int], `SELECT count(*) FROM alert_silence WHERE tenant_id = ?`,
			x.TenantID)
		if err != nil {
			return err
		}
		if n >= store.MaxSilences {
			return store.ErrTooMany
		}
		out, err = collectOne(ctx, c, "put silence", scanSilence, `INSERT INTO alert_silence (`+silenceColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING `+silenceColumns, x.ID, x.TenantID, string(x.Code), x.ProjectID,
			x.RunID, x.PlanID, x.Actor, x.Reason, micros(now), micros(x.Until))
		if err != nil {
			return err
		}
		if err := alertsMoved(ctx, c); err != nil {
			return err
		}
		return audit(ctx, c, now, rows)
	})
	return out, err
}

// EndSilence implements store.Alerts.
func (s *Store) EndSilence(ctx context.Context, tenantID, id string, rows ...store.AuditRow) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "end silence", `DELETE FROM alert_silence WHERE tenant_id = ? AND id = ?`, tenantID, id)
		if err == nil && n == 0 {
			err = notFound("silence " + id)
		}
		if err != nil {
			return err
		}
		if err := alertsMoved(ctx, c); err != nil {
			return err
		}
		return audit(ctx, c, s.now(), rows)
	})
}

// ListSilences implements store.Alerts.
func (s *Store) ListSilences(ctx context.Context, tenantID string) ([]store.AlertSilence, error) {
	return readAll(ctx, s, "silences", scanSilence, `SELECT `+silenceColumns+` FROM alert_silence
		WHERE tenant_id = ? AND until > ? ORDER BY at DESC, id LIMIT ?`, tenantID, micros(s.now()), store.MaxSilences)
}

// Beat implements store.Heartbeats.
func (s *Store) Beat(ctx context.Context, process string, duties []string) error {
	return s.write(ctx, func(c *conn) error {
		now := s.now()
		for _, d := range duties {
			if _, err := c.exec(ctx, "beat", `INSERT INTO duty_heartbeat (process, duty, at) VALUES (?, ?, ?)
				ON CONFLICT (process, duty) DO UPDATE SET at = excluded.at`, process, d, micros(now)); err != nil {
				return err
			}
		}
		if _, err := c.exec(ctx, "drop old heartbeats", `DELETE FROM duty_heartbeat WHERE at < ?`,
			micros(now.Add(-store.HeartbeatLife))); err != nil {
			return err
		}
		_, err := c.exec(ctx, "bound heartbeats", `DELETE FROM duty_heartbeat WHERE at <
			(SELECT at FROM duty_heartbeat ORDER BY at DESC LIMIT 1 OFFSET ?)`, store.MaxHeartbeats)
		return err
	})
}

// Heartbeats implements store.Heartbeats.
func (s *Store) Heartbeats(ctx context.Context) ([]store.Heartbeat, error) {
	now := s.now()
	return readAll(ctx, s, "heartbeats", func(row scanner) (h store.Heartbeat, err error) {
		var at int64
		err = row.Scan(&h.Duty, &h.Process, &at)
		h.At, h.Age = instant(at), now.Sub(instant(at))
		return h, err
	}, `SELECT duty, process, at FROM (SELECT *, row_number() OVER (PARTITION BY duty ORDER BY at DESC, process) AS n
		FROM duty_heartbeat) WHERE n = 1 ORDER BY duty`)
}

const overdueSQL = `SELECT
	(SELECT since FROM run_dirty WHERE not_before <= ?1 ORDER BY since LIMIT 1),
	(SELECT max(CASE status WHEN 'PENDING' THEN not_before ELSE lease_until END, created_at) FROM run_queue
		WHERE waiting = 0 AND status IN ('PENDING', 'LOCKED')
		AND CASE status WHEN 'PENDING' THEN not_before ELSE lease_until END <= ?1 ORDER BY created_at, run_id LIMIT 1),
	(SELECT max(due_at, lease_until) FROM delivery WHERE delivered_no < up_to AND due_at <= ?1 AND lease_until <= ?1
		ORDER BY due_at LIMIT 1),
	EXISTS (SELECT 1 FROM run_head h JOIN run_queue q USING (run_id) WHERE h.terminal = 0 AND q.status = 'STARTED')`

// OverdueWork implements store.Heartbeats.
func (s *Store) OverdueWork(ctx context.Context) (store.OverdueWork, error) {
	now := s.now()
	return readOne(ctx, s, "overdue work", func(row scanner) (w store.OverdueWork, err error) {
		var since [3]sql.NullInt64
		err = row.Scan(&since[0], &since[1], &since[2], &w.OpenRuns)
		for i, to := range [...]*time.Duration{&w.Project, &w.Dispatch, &w.Deliver} {
			if since[i].Valid {
				*to = max(0, now.Sub(instant(since[i].Int64)))
			}
		}
		return w, err
	}, overdueSQL, micros(now))
}
