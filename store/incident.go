package store

import (
	"context"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Severity is how bad an incident is. SEV_0 is the worst.
type Severity string

// Severities of incidents.
const (
	Sev0 Severity = "SEV_0" // an escape, a leak that is confirmed, a breach between tenants
	Sev1 Severity = "SEV_1" // dvt is down, or data may be wrong
	Sev2 Severity = "SEV_2" // a part is down, or runs stand still
	Sev3 Severity = "SEV_3" // dvt is slow or full
)

// Limits of incidents.
const (
	MaxIncidentNotes  = 200 // notes of one incident
	MaxIncidentAlerts = 100 // alerts of one incident that a read returns
	// IncidentOverlap is the number of alerts before the newest one that OpenIncidents looks at again, because
	// transactions commit in another order than they take their positions.
	IncidentOverlap = 1000
)

// Incident is trouble that people look after until one of them closes it. It groups the alerts of one code in one
// project and environment, or of one tenant when they are not about a run.
type Incident struct {
	ID             string // UUID
	TenantID       string // "" for an incident of the installation
	ProjectID      string
	EnvironmentID  string
	RunID          string // of the first alert, "" without one
	Code           run.Code
	Severity       Severity
	Title          string // the note of the first alert
	OpenedAt       time.Time
	AcknowledgedAt *time.Time // nil until somebody has taken it on
	AcknowledgedBy string
	ClosedAt       *time.Time // nil while it is open
	ClosedBy       string
	Alerts         int // alerts that belong to it
	OpenAlerts     int // those of them that are not resolved
	Affected       int // different things that its alerts are about, such as attempts or queues
	Notes          []IncidentNote
}

// IncidentNote is what somebody did or found out.
type IncidentNote struct {
	At       time.Time
	Actor    string
	Act      IncidentAct
	Severity Severity // that IncidentSetSeverity set, "" for other acts
	Text     string
}

// ActColumn returns the act as stores write it. IncidentSetSeverity is written as its severity, so that one column
// holds both.
func (n IncidentNote) ActColumn() string {
	if n.Act == IncidentSetSeverity {
		return string(n.Severity)
	}
	return string(n.Act)
}

// SetActColumn sets the act, and the severity that it set, from what ActColumn returned.
func (n *IncidentNote) SetActColumn(column string) {
	switch s := Severity(column); s {
	case Sev0, Sev1, Sev2, Sev3:
		n.Act, n.Severity = IncidentSetSeverity, s
	default:
		n.Act = IncidentAct(column)
	}
}

// IncidentAct is what a person does to an incident.
type IncidentAct string

// Acts on incidents.
const (
	IncidentAcknowledge IncidentAct = "ACKNOWLEDGE"
	IncidentAddNote     IncidentAct = "NOTE"
	IncidentClose       IncidentAct = "CLOSE"
	IncidentSetSeverity IncidentAct = "SEVERITY"
)

// Incidents stores incidents.
type Incidents interface {
	// OpenIncidents opens an incident for each alert of level HIGH that none has, at most limit (≤ MaxPage) in one call,
	// or adds the alert to the open incident of its group. severity decides how bad an alert is. An alert that is worse
	// than its incident raises the severity, also one that a person lowered, with a note by SeverityActor. It returns the
	// opened incidents, and the raised ones with this note. Several callers at once open each incident once.
	OpenIncidents(ctx context.Context, limit int, severity func(AlertState) Severity) ([]Incident, error)
	// ActOnIncident records what a person did, with the audit rows in the same transaction. ErrNotFound for an unknown
	// incident, ErrConflict for a closed one, ErrTooMany when it has MaxIncidentNotes; it can be closed then.
	ActOnIncident(ctx context.Context, id string, note IncidentNote, audit ...AuditRow) (Incident, error)
	// GetIncident reads an incident of any tenant without its notes; ErrNotFound. It is one statement, so that its time
	// does not tell a stranger whether the incident exists.
	GetIncident(ctx context.Context, id string) (Incident, error)
	// IncidentNotes lists the notes of an incident, oldest first.
	IncidentNotes(ctx context.Context, id string) ([]IncidentNote, error)
	// ListIncidents lists incidents without their notes, the newest first.
	ListIncidents(ctx context.Context, f IncidentFilter) ([]Incident, error)
	// IncidentAlerts lists the newest alerts of an incident, at most MaxIncidentAlerts.
	IncidentAlerts(ctx context.Context, id string) ([]AlertState, error)
}

// IncidentFilter selects incidents of one tenant. Empty fields do not restrict.
type IncidentFilter struct {
	TenantID     string
	Installation bool   // adds the incidents of the installation
	Scopes       Scopes // nil: every scope
	OpenOnly     bool
	RunID        string // only those with an alert about this run
	Before       string // id of an incident: only those opened before it
	Limit        int    // 1..MaxPage
}

// IncidentGroup names the group of an alert: an open incident takes all alerts of its group. An escalation by a person
// is a group of its own run. Alerts about different things that runs share, such as queues and dependencies, are
// different groups, because different people mend them. Alerts about runs are one group, whatever their number.
func IncidentGroup(a AlertState) string {
	parts := []string{a.TenantID, a.ProjectID, a.EnvironmentID, string(a.Code), ""}
	switch {
	case a.Code == "":
		parts[4] = a.RunID
	case (a.Shared || a.RunID == "") && a.Subject != "" && a.Subject != a.RunID:
		parts = append(parts, a.Subject)
	}
	return strings.Join(parts, "\n")
}

// SeverityActor is the actor of the notes of incidents that dvt itself writes.
const SeverityActor = "dvt"

// Worse reports whether a severity is worse than another one.
func (s Severity) Worse(than Severity) bool { return s < than }

// RaisedNote is the note about an alert that raised the severity of its incident.
func RaisedNote(at time.Time, a AlertState, before, severity Severity) IncidentNote {
	return IncidentNote{At: at, Actor: SeverityActor, Act: IncidentSetSeverity, Severity: severity,
		Text: "A further alert is worse than " + string(before) + ": " + a.Note}
}
