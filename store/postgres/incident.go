package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const incidentColumns = `i.id::text, i.tenant_id, i.project_id, i.environment_id, i.run_id, i.code, i.severity, i.title,
  i.opened_at, i.acknowledged_at, i.acknowledged_by, i.closed_at, i.closed_by,
  (SELECT count(*) FROM incident_alert x WHERE x.incident = i.pos),
  (SELECT count(*) FROM incident_alert x JOIN alert_state s ON s.pos = x.alert AND s.resolved_at IS NULL
    WHERE x.incident = i.pos),
  (SELECT count(DISTINCT s.fingerprint) FROM incident_alert x JOIN alert_state s ON s.pos = x.alert
    WHERE x.incident = i.pos)`

func scanIncident(row pgx.CollectableRow) (i store.Incident, err error) {
	return i, row.Scan(&i.ID, &i.TenantID, &i.ProjectID, &i.EnvironmentID, &i.RunID, &i.Code, &i.Severity, &i.Title,
		utc{&i.OpenedAt}, utcOrNil{&i.AcknowledgedAt}, &i.AcknowledgedBy, utcOrNil{&i.ClosedAt}, &i.ClosedBy, &i.Alerts,
		&i.OpenAlerts, &i.Affected)
}

func scanIncidentNote(row pgx.CollectableRow) (n store.IncidentNote, err error) {
	var act string
	err = row.Scan(utc{&n.At}, &n.Actor, &act, &n.Text)
	n.SetActColumn(act)
	return n, err
}

// newAlertsSQL lists the positions first, so that the lock of the cursor serialises the callers.
const newAlertsSQL = `SELECT s.pos, a.id::text FROM alert_state s JOIN alert a USING (pos) WHERE s.level = 'HIGH'
  AND s.pos > (SELECT greatest(from_alert, alert - $1) FROM incident_cursor)
  AND NOT EXISTS (SELECT FROM incident_alert x WHERE x.alert = s.pos) ORDER BY s.pos LIMIT $2`

// foundAlert is an alert without an incident.
type foundAlert struct {
	Pos int64
	ID  string
}

// OpenIncidents implements store.Incidents.
func (s *Store) OpenIncidents(ctx context.Context, limit int,
	severity func(store.AlertState) store.Severity) (out []store.Incident, err error) {
	found, err := collect(ctx, s, "alerts without an incident", pgx.RowToStructByPos[foundAlert], newAlertsSQL,
		store.IncidentOverlap, pageSize(limit))
	if err != nil || len(found) == 0 {
		return nil, err // most calls end here, without a lock
	}
	err = s.inTx(ctx, "open incidents", func(ctx context.Context, c *pgx.Conn, _ *pgx.Batch) error {
		out = nil
		if _, err := c.Exec(ctx, `SELECT FROM incident_cursor FOR UPDATE`); err != nil {
			return err
		}
		for _, x := range found {
			a, err := one(ctx, c, scanAlert, `SELECT `+alertColumns+fromAlerts+`WHERE s.pos = $1`, x.Pos)
			if err != nil {
				return err
			}
			opened, err := openIncident(ctx, c, x.Pos, a, severity(a))
			if err != nil {
				return err
			}
			out = append(out, opened...)
		}
		_, err := c.Exec(ctx, `UPDATE incident_cursor SET alert = greatest(alert, $1)`, found[len(found)-1].Pos)
		return err
	})
	return out, err
}

// openIncident adds an alert to the open incident of its group, or opens one. It returns the incident if it opened it
// or raised its severity. It does nothing when another caller has dealt with the alert.
func openIncident(ctx context.Context, c *pgx.Conn, alert int64, a store.AlertState,
	severity store.Severity) ([]store.Incident, error) {
	n, err := one(ctx, c, pgx.RowTo[int], `SELECT count(*) FROM incident_alert WHERE alert = $1`, alert)
	if err != nil || n > 0 {
		return nil, err
	}
	group := store.IncidentGroup(a)
	pos, err := one(ctx, c, pgx.RowTo[int64], `SELECT pos FROM incident WHERE grouped_by = $1 AND closed_at IS NULL`, group)
	isNew := errors.Is(err, pgx.ErrNoRows)
	if isNew {
		pos, err = one(ctx, c, pgx.RowTo[int64], `INSERT INTO incident (id, tenant_id, project_id, environment_id, run_id, code,
			grouped_by, severity, title) VALUES ($1::uuid, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING pos`, uuid.NewString(),
			a.TenantID, a.ProjectID, a.EnvironmentID, a.RunID, a.Code, group, severity, a.Note)
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, `INSERT INTO incident_alert (alert, incident) VALUES ($1, $2)`, alert, pos); err != nil {
		return nil, err
	}
	i, err := one(ctx, c, scanIncident, `SELECT `+incidentColumns+` FROM incident i WHERE i.pos = $1`, pos)
	switch {
	case err != nil:
		return nil, err
	case isNew:
		return []store.Incident{i}, nil
	case !severity.Worse(i.Severity):
		return nil, nil
	}
	note := store.RaisedNote(a.LastSeen, a, i.Severity, severity)
	i.Severity, i.Notes = severity, []store.IncidentNote{note}
	_, err = c.Exec(ctx, `WITH raised AS (UPDATE incident SET severity = $2 WHERE pos = $1)
		INSERT INTO incident_note (incident, n, actor, act, text)
		SELECT $1, count(*) + 1, $3, $4, $5 FROM incident_note WHERE incident = $1 HAVING count(*) < $6`, pos,
		string(severity), note.Actor, note.ActColumn(), note.Text, store.MaxIncidentNotes)
	return []store.Incident{i}, err
}

// ActOnIncident implements store.Incidents.
func (s *Store) ActOnIncident(ctx context.Context, id string, note store.IncidentNote,
	audit ...store.AuditRow) (out store.Incident, err error) {
	err = s.inTx(ctx, "act on incident", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		queueAudit(last, audit)
		change := map[store.IncidentAct]string{
			store.IncidentAcknowledge: `acknowledged_at = clock_timestamp(), acknowledged_by = $2`,
			store.IncidentAddNote:     `severity = severity`,
			store.IncidentClose:       `closed_at = clock_timestamp(), closed_by = $2`,
			store.IncidentSetSeverity: `severity = $3`,
		}[note.Act]
		pos, err := one(ctx, c, pgx.RowTo[int64], `UPDATE incident SET `+change+`
			WHERE id::text = $1 AND closed_at IS NULL AND $2 <> '' AND $3::text IS NOT NULL RETURNING pos`, id, note.Actor,
			note.Severity)
		if errors.Is(err, pgx.ErrNoRows) {
			n, err := one(ctx, c, pgx.RowTo[int], `SELECT count(*) FROM incident WHERE id::text = $1`, id)
			if err == nil && n == 0 {
				return store.ErrNotFound
			}
			return errors.Join(err, store.ErrConflict)
		}
		if err != nil {
			return err
		}
		n, err := one(ctx, c, pgx.RowTo[int], `SELECT count(*) FROM incident_note WHERE incident = $1`, pos)
		if err != nil {
			return err
		}
		if n >= store.MaxIncidentNotes && note.Act != store.IncidentClose {
			return store.ErrTooMany
		}
		if _, err := c.Exec(ctx, `INSERT INTO incident_note (incident, n, actor, act, text) VALUES ($1, $2, $3, $4, $5)`, pos,
			n+1, note.Actor, note.ActColumn(), note.Text); err != nil {
			return err
		}
		out, err = one(ctx, c, scanIncident, `SELECT `+incidentColumns+` FROM incident i WHERE i.pos = $1`, pos)
		return err
	})
	if err != nil {
		return store.Incident{}, err
	}
	out.Notes, err = s.IncidentNotes(ctx, id)
	return out, err
}

// IncidentNotes implements store.Incidents.
func (s *Store) IncidentNotes(ctx context.Context, id string) ([]store.IncidentNote, error) {
	return collect(ctx, s, "notes of an incident", scanIncidentNote, `SELECT n.at, n.actor, n.act, n.text
		FROM incident_note n JOIN incident i ON i.pos = n.incident WHERE i.id::text = $1 ORDER BY n.n`, id)
}

// GetIncident implements store.Incidents.
func (s *Store) GetIncident(ctx context.Context, id string) (store.Incident, error) {
	out, err := collect(ctx, s, "incident", scanIncident, `SELECT `+incidentColumns+`
		FROM incident i WHERE i.id::text = $1`, id)
	if err != nil {
		return store.Incident{}, err
	}
	if len(out) == 0 {
		return store.Incident{}, store.ErrNotFound
	}
	return out[0], nil
}

// ListIncidents implements store.Incidents.
func (s *Store) ListIncidents(ctx context.Context, f store.IncidentFilter) ([]store.Incident, error) {
	w := new(filter)
	if environments, projects, pairs, all := f.Scopes.Split(); all {
		w.add("i.tenant_id = ?", f.TenantID)
	} else {
		w.add("i.tenant_id = ? AND (i.environment_id = ANY(?) OR i.project_id = ANY(?) OR "+
			"i.project_id || '/' || i.environment_id = ANY(?))", f.TenantID, environments, projects, pairs)
	}
	term := "(" + w.String() + ")"
	if f.Installation {
		term = "(" + term + " OR i.tenant_id = '')"
	}
	w.where = []string{term}
	if f.OpenOnly {
		w.add("i.closed_at IS NULL")
	}
	if f.RunID != "" {
		w.add(`i.pos IN (SELECT x.incident FROM incident_alert x JOIN alert_state s ON s.pos = x.alert
			WHERE s.run_id = ?)`, f.RunID)
	}
	if f.Before != "" {
		w.add("i.pos < (SELECT pos FROM incident WHERE id::text = ?)", f.Before)
	}
	query := `SELECT ` + incidentColumns + ` FROM incident i WHERE ` + w.String() +
		w.bind(` ORDER BY i.pos DESC LIMIT ?`, pageSize(f.Limit))
	return collect(ctx, s, "incidents", scanIncident, query, w.args...)
}

// IncidentAlerts implements store.Incidents.
func (s *Store) IncidentAlerts(ctx context.Context, id string) ([]store.AlertState, error) {
	return collect(ctx, s, "alerts of an incident", scanAlert, `SELECT `+alertColumns+fromAlerts+
		`JOIN incident_alert x ON x.alert = s.pos JOIN incident i ON i.pos = x.incident WHERE i.id::text = $1
		ORDER BY s.pos DESC LIMIT $2`, id, store.MaxIncidentAlerts)
}
