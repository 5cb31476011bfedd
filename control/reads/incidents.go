package reads

import (
	"context"
	"errors"
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// IncidentDesk reads incidents and records what people do about them. It is safe for concurrent use.
type IncidentDesk struct {
	rights *control.Rights
	store  store.Incidents
	alerts *AlertDesk
}

// NewIncidentDesk makes an IncidentDesk.
func NewIncidentDesk(rights *control.Rights, store store.Incidents, alerts *AlertDesk) *IncidentDesk {
	return &IncidentDesk{rights: rights, store: store, alerts: alerts}
}

type (
	// Incident is an incident, for callers that do not know the store.
	Incident = store.Incident
	// IncidentAct is what a person does to an incident.
	IncidentAct = store.IncidentAct
	// Severity is how bad an incident is.
	Severity = store.Severity
)

// IncidentsQuery asks for a page of incidents, the newest first.
type IncidentsQuery struct {
	OpenOnly bool
	RunID    string // only those with an alert about this run
	First    int
	After    string // id of the last incident of the page before
}

// IncidentsPage is a page of incidents.
type IncidentsPage struct {
	Incidents []Incident
	HasNext   bool
}

// ActOnIncident asks to record what a person did. All acts but IncidentAcknowledge need a note.
type ActOnIncident struct {
	ID, RequestID, Note string
	Act                 IncidentAct
	Severity            Severity // that IncidentSetSeverity sets
}

// ChangedIncident is the incident and the receipt of the change.
type ChangedIncident struct {
	Incident Incident
	Change   control.Change
}

// ListIncidents reads a page of the incidents that p may read: those of alerts that p may read. Errors: BAD_USER_INPUT,
// CURSOR_INVALID.
func (s *IncidentDesk) ListIncidents(ctx context.Context, p authz.Principal, q IncidentsQuery) (IncidentsPage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return IncidentsPage{}, err
	}
	if q.After != "" {
		if _, err := s.readable(ctx, p, q.After); err != nil {
			if isNotFound(err) {
				err = control.CursorInvalid()
			}
			return IncidentsPage{}, err
		}
	}
	scope := s.alerts.AlertScope(p)
	rows, err := s.store.ListIncidents(ctx, store.IncidentFilter{TenantID: scope.TenantID, Scopes: scope.Scopes,
		Installation: scope.Installation, OpenOnly: q.OpenOnly, RunID: q.RunID, Before: q.After, Limit: n + 1})
	if err != nil {
		return IncidentsPage{}, control.Translate(err)
	}
	return IncidentsPage{Incidents: rows[:min(n, len(rows))], HasNext: len(rows) > n}, nil
}

// GetIncident reads one incident with its notes. Error: NOT_FOUND, also for an incident of another tenant.
func (s *IncidentDesk) GetIncident(ctx context.Context, p authz.Principal, id string) (Incident, error) {
	i, err := s.readable(ctx, p, id)
	if err != nil {
		return Incident{}, err
	}
	i.Notes, err = s.store.IncidentNotes(ctx, id)
	return i, control.Translate(err)
}

// Runbook returns the name of the page in docs/runbooks that says what to do about an incident.
func Runbook(i Incident) string {
	if i.Severity == store.Sev0 {
		return "sev-0-escape"
	}
	switch i.Code {
	case run.CodeDependencyDown:
		if i.Severity == store.Sev3 { // the bus
			return "outbox-backlog"
		}
	case run.CodeStoreRegressed, run.CodeCausalViolation, run.CodeAuditUnlinked, run.CodeAuditHeads:
		return "data-corruption"
	case run.CodeStepStuck, run.CodeEngineLost, run.CodeRecoveryFailed, run.CodePauseDrain, run.CodeNoWorker:
		return "stuck-run"
	case run.CodeDeliveryFailed:
		return "outbox-backlog"
	}
	return map[Severity]string{store.Sev1: "sev-1-outage", store.Sev2: "sev-2-partial",
		store.Sev3: "sev-3-performance"}[i.Severity]
}

// readable reads an incident that p may read, without its notes.
func (s *IncidentDesk) readable(ctx context.Context, p authz.Principal, id string) (Incident, error) {
	i, err := s.store.GetIncident(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return i, control.Translate(err)
	}
	scope := s.alerts.AlertScope(p)
	ofTenant := i.TenantID == scope.TenantID && scope.Scopes.Contains(i.ProjectID, i.EnvironmentID)
	if err == nil && (ofTenant || i.TenantID == "" && scope.Installation) {
		return i, nil
	}
	return Incident{}, control.Refuse(run.CodeNotFound, "There is no such incident, or it is not yours.")
}

// IncidentAlerts reads the newest alerts of an incident, at most store.MaxIncidentAlerts. They are all in the scope of
// the incident. Error: NOT_FOUND.
func (s *IncidentDesk) IncidentAlerts(ctx context.Context, p authz.Principal, id string) ([]Alert, error) {
	if _, err := s.readable(ctx, p, id); err != nil {
		return nil, err
	}
	rows, err := s.store.IncidentAlerts(ctx, id)
	out := make([]Alert, len(rows))
	for n, a := range rows {
		out[n] = Alert{AlertState: a, WhoCould: s.alerts.whoCould(a)}
	}
	return out, control.Translate(err)
}

// ActOnIncident records what p did. It takes ANNOTATE in the scope of the incident; for one of the installation the
// right to see it is enough. It is audited as ACKNOWLEDGE_INCIDENT, NOTE_INCIDENT, SEVERITY_INCIDENT or CLOSE_INCIDENT.
// Errors: NOT_FOUND, FORBIDDEN, BAD_USER_INPUT (also for the severity that it has), INCIDENT_CLOSED, TOO_MANY_NOTES.
func (s *IncidentDesk) ActOnIncident(ctx context.Context, p authz.Principal,
	in ActOnIncident) (ChangedIncident, error) {
	i, err := s.readable(ctx, p, in.ID)
	if err != nil {
		return ChangedIncident{}, err
	}
	row := store.AuditRow{Action: string(in.Act) + "_INCIDENT", RunID: i.RunID, RequestID: in.RequestID,
		Reason: control.Clip(in.Note)}
	if i.TenantID != "" {
		o := objectOfAlert(store.AlertState{Alert: store.Alert{TenantID: i.TenantID, ProjectID: i.ProjectID},
			EnvironmentID: i.EnvironmentID})
		if err := s.rights.MayOperateAs(ctx, p, authz.Annotate, row, o); err != nil {
			return ChangedIncident{}, err
		}
	}
	vs := control.CheckText(control.CheckID(nil, "requestId", in.RequestID), "note", in.Note)
	if len(in.Note) > MaxAlertNote {
		vs = append(vs, plan.Violation{Path: "note", Code: plan.CodeRange,
			Message: fmt.Sprintf("must have at most %d bytes", MaxAlertNote)})
	}
	if in.Note == "" && in.Act != store.IncidentAcknowledge {
		vs = append(vs, plan.Violation{Path: "note", Code: "REQUIRED", Message: "must say what was found or done"})
	}
	facts := map[string]string{"incident": i.ID, "code": string(i.Code), "note": in.Note}
	if in.Act == store.IncidentSetSeverity {
		facts["severity"], facts["severityBefore"] = string(in.Severity), string(i.Severity)
		if in.Severity == i.Severity && i.ClosedAt == nil {
			vs = append(vs, plan.Violation{Path: "severity", Code: plan.CodeInvalid,
				Message: "must differ from the present one"})
		}
	}
	if len(vs) > 0 {
		return ChangedIncident{}, control.BadInput(vs)
	}
	if err := s.alerts.stamp(p, &row, facts); err != nil {
		return ChangedIncident{}, err
	}
	i, err = s.store.ActOnIncident(ctx, in.ID, store.IncidentNote{Actor: p.ID, Act: in.Act, Severity: in.Severity,
		Text: in.Note}, row)
	switch {
	case errors.Is(err, store.ErrConflict):
		return ChangedIncident{}, control.Refuse(run.CodeIncidentClosed,
			"The incident is closed. Trouble that comes back opens another one.")
	case errors.Is(err, store.ErrTooMany):
		return ChangedIncident{}, control.Refuse(run.CodeTooManyNotes,
			"The incident has %d notes, which is the limit. Close it, or keep notes elsewhere.", store.MaxIncidentNotes)
	case err != nil:
		return ChangedIncident{}, control.Translate(err)
	}
	return ChangedIncident{Incident: i, Change: control.Change{Action: row.Action, RequestID: in.RequestID, Actor: p.ID,
		At: i.Notes[len(i.Notes)-1].At}}, nil
}
