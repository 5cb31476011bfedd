package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/store"
)

const incidentColumns = `i.id, i.tenant_id, i.project_id, i.environment_id, i.run_id, i.code, i.severity, i.title,
	i.opened_at, i.acknowledged_at, i.acknowledged_by, i.closed_at, i.closed_by,
	(SELECT count(*) FROM incident_alert x WHERE x.incident = i.pos),
	(SELECT count(*) FROM incident_alert x JOIN alert_state s ON s.pos = x.alert AND s.resolved_at IS NULL
		WHERE x.incident = i.pos),
	(SELECT count(DISTINCT s.fingerprint) FROM incident_alert x JOIN alert_state s ON s.pos = x.alert
		WHERE x.incident = i.pos)`

func scanIncident(row scanner) (i store.Incident, err error) {
	var opened int64
	var acknowledged, closed sql.NullInt64
	err = row.Scan(&i.ID, &i.TenantID, &i.ProjectID, &i.EnvironmentID, &i.RunID, &i.Code, &i.Severity, &i.Title, &opened,
		&acknowledged, &i.AcknowledgedBy, &closed, &i.ClosedBy, &i.Alerts, &i.OpenAlerts,
		&i.Affected)
	i.OpenedAt, i.AcknowledgedAt, i.ClosedAt = instant(opened), instantOrNil(acknowledged), instantOrNil(closed)
	return i, err
}

func scanIncidentNote(row scanner) (n store.IncidentNote, err error) {
	var at int64
	var act string
	err = row.Scan(&at, &n.Actor, &act, &n.Text)
	n.At = instant(at)
	n.SetActColumn(act)
	return n, err
}

// alertAt is an alert with its position.
type alertAt struct {
	store.AlertState
	pos int64
}

const newAlertsSQL = `SELECT s.pos, ` + alertColumns + fromAlerts + `WHERE s.level = 'HIGH'
	AND s.pos > (SELECT max(from_alert, alert - ?2) FROM incident_cursor)
	AND NOT EXISTS (SELECT 1 FROM incident_alert x WHERE x.alert = s.pos) ORDER BY s.pos LIMIT ?3`

// OpenIncidents implements store.Incidents.
func (s *Store) OpenIncidents(ctx context.Context, limit int,
	severity func(store.AlertState) store.Severity) (out []store.Incident, err error) {
	scan := func(row scanner) (a alertAt, err error) {
		a.AlertState, err = scanAlert(prefixed{row, []any{&a.pos}})
		return a, err
	}
	found, err := readAll(ctx, s, "alerts without an incident", scan, newAlertsSQL, micros(s.now()),
		store.IncidentOverlap, clamp(limit, store.MaxPage))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	err = s.write(ctx, func(c *conn) error {
		out = nil
		for _, a := range found {
			opened, err := openIncident(ctx, c, micros(s.now()), a, severity(a.AlertState))
			if err != nil {
				return err
			}
			out = append(out, opened...)
		}
		_, err := c.exec(ctx, "incident cursor", `UPDATE incident_cursor SET alert = max(alert, ?)`, found[len(found)-1].pos)
		return err
	})
	return out, err
}

// openIncident adds an alert to the open incident of its group, or opens one. It returns the incident if it opened it
// or raised its severity.
func openIncident(ctx context.Context, c *conn, at int64, a alertAt,
	severity store.Severity) (opened []store.Incident, err error) {
	known, err := collectOne(ctx, c, "known alert", value[int], `SELECT count(*) FROM incident_alert WHERE alert = ?`,
		a.pos)
	if err != nil || known > 0 {
		return nil, err
	}
	group := store.IncidentGroup(a.AlertState)
	pos, err := collectOne(ctx, c, "open incident", value[int64], `SELECT pos FROM incident
		WHERE grouped_by = ? AND closed_at IS NULL`, group)
	isNew := errors.Is(err, store.ErrNotFound)
	if isNew {
		pos, err = collectOne(ctx, c, "insert incident", value[int64], `INSERT INTO incident (id, tenant_id, project_id,
			environment_id, run_id, code, grouped_by, severity, title, opened_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING pos`, uuid.NewString(), a.TenantID, a.ProjectID, a.EnvironmentID,
			a.RunID, string(a.Code), group, string(severity), a.Note, at)
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.exec(ctx, "alert of an incident", `INSERT INTO incident_alert (alert, incident) VALUES (?, ?)`,
		a.pos, pos); err != nil {
		return nil, err
	}
	i, err := collectOne(ctx, c, "incident", scanIncident, `SELECT `+incidentColumns+` FROM incident i WHERE i.pos = ?`,
		pos)
	switch {
	case err != nil:
		return nil, err
	case isNew:
		return []store.Incident{i}, nil
	case !severity.Worse(i.Severity):
		return nil, nil
	}
	note := store.RaisedNote(instant(at), a.AlertState, i.Severity, severity)
	i.Severity, i.Notes = severity, []store.IncidentNote{note}
	if _, err := c.exec(ctx, "raise an incident", `UPDATE incident SET severity = ? WHERE pos = ?`, string(severity),
		pos); err != nil {
		return nil, err
	}
	_, err = c.exec(ctx, "note of a raised incident", `INSERT INTO incident_note (incident, n, at, actor, act, text)
		SELECT ?1, count(*) + 1, ?2, ?3, ?4, ?5 FROM incident_note WHERE incident = ?1 HAVING count(*) < ?6`, pos, at,
		note.Actor, note.ActColumn(), note.Text, store.MaxIncidentNotes)
	return []store.Incident{i}, err
}

// ActOnIncident implements store.Incidents.
func (s *Store) ActOnIncident(ctx context.Context, id string, note store.IncidentNote,
	rows ...store.AuditRow) (out store.Incident, err error) {
	err = s.write(ctx, func(c *conn) error {
		now := s.now()
		pos, err := collectOne(ctx, c, "incident "+id, value[int64], `SELECT pos FROM incident WHERE id = ?`, id)
		if err != nil {
			return err
		}
		n, err := collectOne(ctx, c, "count notes", value[int], `SELECT count(*) FROM incident_note WHERE incident = ?`, pos)
		if err != nil {
			return err
		}
		if n >= store.MaxIncidentNotes && note.Act != store.IncidentClose {
			return store.ErrTooMany
		}
		change := map[store.IncidentAct]string{
			store.IncidentAcknowledge: `acknowledged_at = ?2, acknowledged_by = ?3`,
			store.IncidentAddNote:     `severity = severity`,
			store.IncidentClose:       `closed_at = ?2, closed_by = ?3`,
			store.IncidentSetSeverity: `severity = ?4`,
		}[note.Act]
		changed, err := c.exec(ctx, "act on incident", `UPDATE incident SET `+change+`
			WHERE pos = ?1 AND closed_at IS NULL AND ?2 > 0 AND ?3 <> '' AND ?4 IS NOT NULL`, pos, micros(now), note.Actor,
			string(note.Severity))
		if err != nil {
			return err
		}
		if changed == 0 {
			return store.ErrConflict
		}
		if _, err := c.exec(ctx, "note of an incident", `INSERT INTO incident_note (incident, n, at, actor, act, text)
			VALUES (?, ?, ?, ?, ?, ?)`, pos, n+1, micros(now), note.Actor, note.ActColumn(), note.Text); err != nil {
			return err
		}
		if err := audit(ctx, c, now, rows); err != nil {
			return err
		}
		out, err = collectOne(ctx, c, "incident", scanIncident, `SELECT `+incidentColumns+` FROM incident i WHERE i.pos = ?`,
			pos)
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
	return readAll(ctx, s, "notes of an incident", scanIncidentNote, `SELECT n.at, n.actor, n.act, n.text
		FROM incident_note n JOIN incident i ON i.pos = n.incident WHERE i.id = ? ORDER BY n.n`, id)
}

// GetIncident implements store.Incidents.
func (s *Store) GetIncident(ctx context.Context, id string) (store.Incident, error) {
	return readOne(ctx, s, "incident "+id, scanIncident, `SELECT `+incidentColumns+` FROM incident i WHERE i.id = ?`, id)
}

// ListIncidents implements store.Incidents.
func (s *Store) ListIncidents(ctx context.Context, f store.IncidentFilter) ([]store.Incident, error) {
	w := &where{}
	tenant, args := "i.tenant_id = ?", []any{f.TenantID}
	if term, more := inScopes("i.", f.Scopes); term != "" {
		tenant, args = "("+tenant+" AND "+term+")", append(args, more...)
	}
	if f.Installation {
		tenant = "(" + tenant + " OR i.tenant_id = '')"
	}
	w.add(tenant, args...)
	if f.OpenOnly {
		w.add("i.closed_at IS NULL")
	}
	if f.RunID != "" {
		w.add(`i.pos IN (SELECT x.incident FROM incident_alert x JOIN alert_state s ON s.pos = x.alert
			WHERE s.run_id = ?)`, f.RunID)
	}
	if f.Before != "" {
		w.add("i.pos < (SELECT pos FROM incident WHERE id = ?)", f.Before)
	}
	return readAll(ctx, s, "incidents", scanIncident, `SELECT `+incidentColumns+` FROM incident i WHERE `+w.String()+
		` ORDER BY i.pos DESC LIMIT ?`, append(w.args, clamp(f.Limit, store.MaxPage))...)
}

// IncidentAlerts implements store.Incidents.
func (s *Store) IncidentAlerts(ctx context.Context, id string) ([]store.AlertState, error) {
	return readAll(ctx, s, "alerts of an incident", scanAlert, `SELECT `+alertColumns+fromAlerts+
		`JOIN incident_alert x ON x.alert = s.pos JOIN incident i ON i.pos = x.incident WHERE i.id = ?2
		ORDER BY s.pos DESC LIMIT ?3`, micros(s.now()), id, store.MaxIncidentAlerts)
}
