package reads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Actions in audit rows about alerts.
const (
	ActionAcknowledgeAlert = "ACKNOWLEDGE_ALERT"
	ActionSilenceAlerts    = "SILENCE_ALERTS"
	ActionEndSilence       = "END_SILENCE"
)

const (
	// MaxAlertNote bounds the note of an acknowledgement, in bytes.
	MaxAlertNote = 1000
	// MaxAlertCount is the highest count of alerts that ask for somebody. It means "this many or more".
	MaxAlertCount = 100
)

// AlertDesk reads, acknowledges and silences alerts. It is safe for concurrent use.
type AlertDesk struct {
	rights *control.Rights
	store  store.Alerts
}

// NewAlertDesk makes an AlertDesk.
func NewAlertDesk(rights *control.Rights, store store.Alerts) *AlertDesk {
	return &AlertDesk{rights: rights, store: store}
}

type (
	// AlertSilence is a silence, for callers that do not know the store.
	AlertSilence = store.AlertSilence
	// AlertLevel is how urgent an alert is.
	AlertLevel = store.AlertLevel
	// AlertStage is what has become of an alert.
	AlertStage = store.AlertStage
)

// Alert is an alert as p may see it.
type Alert struct {
	store.AlertState
	WhoCould []string // principals who could take it on, at most authz.MaxWhoCould
}

// AlertsQuery asks for a page of alerts, the newest first. Empty fields do not restrict.
type AlertsQuery struct {
	Levels    []store.AlertLevel
	Stages    []store.AlertStage
	Code      run.Code
	ProjectID string
	RunID     string
	Since     time.Time
	First     int
	After     string // id of the last alert of the page before
}

// AlertsPage is a page of alerts.
type AlertsPage struct {
	Alerts  []Alert
	HasNext bool
}

// AlertScope returns the filter of the alerts that p may read: those about runs that p may READ, those of the whole
// tenant for who may READ all of it, and those about the installation for who may see its health in detail. It does no
// I/O.
func (s *AlertDesk) AlertScope(p authz.Principal) store.AlertFilter {
	return store.AlertFilter{TenantID: p.TenantID, Scopes: s.rights.ReadableScopes(p),
		Installation: s.rights.CanSeeInstallation(p)}
}

// ListAlerts reads a page of the alerts that p may read. Errors: BAD_USER_INPUT, CURSOR_INVALID.
func (s *AlertDesk) ListAlerts(ctx context.Context, p authz.Principal, q AlertsQuery) (AlertsPage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return AlertsPage{}, err
	}
	f := s.AlertScope(p)
	f.Levels, f.States, f.Code, f.ProjectID, f.RunID = q.Levels, q.Stages, q.Code, q.ProjectID, q.RunID
	f.Since, f.Before, f.Limit = q.Since, q.After, n+1
	if q.After != "" {
		if _, err := s.readable(ctx, p, q.After); err != nil {
			if isNotFound(err) {
				err = control.CursorInvalid()
			}
			return AlertsPage{}, err
		}
	}
	rows, err := s.store.ListAlerts(ctx, f)
	if err != nil {
		return AlertsPage{}, control.Translate(err)
	}
	out := AlertsPage{HasNext: len(rows) > n}
	who := map[authz.Object][]string{}
	for _, a := range rows[:min(n, len(rows))] {
		o := objectOfAlert(a)
		if _, known := who[o]; !known {
			who[o] = s.whoCould(a)
		}
		out.Alerts = append(out.Alerts, Alert{AlertState: a, WhoCould: who[o]})
	}
	return out, nil
}

func isNotFound(err error) bool {
	var own *control.Error
	return errors.As(err, &own) && own.Code == run.CodeNotFound
}

// GetAlert reads one alert. Error: NOT_FOUND, also for an alert of another tenant.
func (s *AlertDesk) GetAlert(ctx context.Context, p authz.Principal, id string) (Alert, error) {
	a, err := s.readable(ctx, p, id)
	if err != nil {
		return Alert{}, err
	}
	return Alert{AlertState: a, WhoCould: s.whoCould(a)}, nil
}

// readable reads an alert that p may read.
func (s *AlertDesk) readable(ctx context.Context, p authz.Principal, id string) (store.AlertState, error) {
	a, err := s.store.GetAlert(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return a, control.Translate(err)
	}
	f := s.AlertScope(p)
	ofTenant := a.TenantID == f.TenantID && f.Scopes.Contains(a.ProjectID, a.EnvironmentID)
	if err == nil && (ofTenant || a.TenantID == "" && f.Installation) {
		return a, nil
	}
	return store.AlertState{}, control.Refuse(run.CodeNotFound, "There is no such alert, or it is not yours.")
}

// objectOfAlert returns what the right to take an alert on is decided about.
func objectOfAlert(a store.AlertState) authz.Object {
	return authz.Object{TenantID: a.TenantID, ProjectID: cmp.Or(a.ProjectID, "*"),
		EnvironmentID: cmp.Or(a.EnvironmentID, "*")}
}

func (s *AlertDesk) whoCould(a store.AlertState) []string {
	o := objectOfAlert(a)
	if a.TenantID == "" {
		if s.rights.Operators == "" {
			return nil
		}
		o.TenantID = s.rights.Operators
		return s.rights.Authz.WhoCould(authz.Debug, o)
	}
	return s.rights.Authz.WhoCould(authz.Annotate, o)
}

// CountOpenAlerts counts the alerts that p may read and that still ask for somebody: neither resolved nor acknowledged
// nor silenced, up to MaxAlertCount.
func (s *AlertDesk) CountOpenAlerts(ctx context.Context, p authz.Principal) (int, error) {
	n, err := s.CountIn(ctx, s.AlertScope(p))
	return n, control.Translate(err)
}

// CountIn is CountOpenAlerts for a scope of AlertScope.
func (s *AlertDesk) CountIn(ctx context.Context, f store.AlertFilter) (int, error) {
	f.States, f.Unsilenced, f.Limit = []store.AlertStage{store.AlertOpen}, true, MaxAlertCount
	return s.store.CountAlerts(ctx, f)
}

// AcknowledgeAlert asks to take an alert on.
type AcknowledgeAlert struct{ ID, RequestID, Note string }

// AcknowledgedAlert is the alert and the receipt of its acknowledgement.
type AcknowledgedAlert struct {
	Alert  Alert
	Change control.Change // zero when p had acknowledged it with the same note before
}

// AcknowledgeAlert records that p takes an alert on. It takes ANNOTATE in the scope of the alert; for an alert about
// the installation the right to see it is enough. It is audited. Errors: NOT_FOUND, also for an alert of another
// tenant; FORBIDDEN, BAD_USER_INPUT, ALERT_RESOLVED.
func (s *AlertDesk) AcknowledgeAlert(ctx context.Context, p authz.Principal, in AcknowledgeAlert) (AcknowledgedAlert,
	error) {
	a, err := s.readable(ctx, p, in.ID)
	if err != nil {
		return AcknowledgedAlert{}, err
	}
	row := store.AuditRow{Action: string(authz.Annotate), RunID: a.RunID, RequestID: in.RequestID}
	if a.TenantID != "" {
		if err := s.mayActOn(ctx, p, row, objectOfAlert(a)); err != nil {
			return AcknowledgedAlert{}, err
		}
	}
	vs := control.CheckText(control.CheckID(nil, "requestId", in.RequestID), "note", in.Note)
	if len(in.Note) > MaxAlertNote {
		vs = append(vs, plan.Violation{Path: "note", Code: plan.CodeRange,
			Message: fmt.Sprintf("must have at most %d bytes", MaxAlertNote)})
	}
	if len(vs) > 0 {
		return AcknowledgedAlert{}, control.BadInput(vs)
	}
	if a.Stage() == store.AlertAcknowledged && a.AcknowledgedBy == p.ID && a.AckNote == in.Note {
		return AcknowledgedAlert{Alert: Alert{AlertState: a, WhoCould: s.whoCould(a)}}, nil
	}
	row.Action, row.Reason = ActionAcknowledgeAlert, control.Clip(in.Note)
	if err := s.stamp(p, &row, map[string]string{"alert": a.ID, "code": string(a.Code), "note": in.Note}); err != nil {
		return AcknowledgedAlert{}, err
	}
	a, err = s.store.AcknowledgeAlert(ctx, in.ID, p.ID, in.Note, row)
	if errors.Is(err, store.ErrConflict) {
		return AcknowledgedAlert{}, control.Refuse(run.CodeAlertResolved, "The alert is resolved: its state is over.")
	}
	if err != nil {
		return AcknowledgedAlert{}, control.Translate(err)
	}
	return AcknowledgedAlert{Alert: Alert{AlertState: a, WhoCould: s.whoCould(a)}, Change: control.Change{
		Action: row.Action, RequestID: in.RequestID, Actor: p.ID, At: *a.AcknowledgedAt}}, nil
}

func (s *AlertDesk) stamp(p authz.Principal, row *store.AuditRow, detail any) error {
	doc, err := json.Marshal(detail)
	if err != nil {
		return control.Translate(err)
	}
	s.rights.Stamp(p, row, "ACCEPTED", string(doc))
	return nil
}

// SilenceAlerts asks that alerts do not ask for people until a time. At least one matcher must be set.
type SilenceAlerts struct {
	RequestID string
	Code      run.Code
	ProjectID string
	RunID     string
	PlanID    string
	Until     time.Time
	Reason    string
}

// SilencedAlerts is a silence and the receipt of its creation.
type SilencedAlerts struct {
	Silence AlertSilence
	Change  control.Change
}

// SilenceAlerts makes a silence for alerts of the tenant of p, at most for store.MaxSilence. It takes ANNOTATE in the
// scope that it names: of the run, in every environment of the project, or in the whole tenant. A repetition with the
// same requestId returns the first one. It is audited. Errors: NOT_FOUND, FORBIDDEN, BAD_USER_INPUT, TOO_MANY_SILENCES,
// REQUEST_ID_CONFLICT.
func (s *AlertDesk) SilenceAlerts(ctx context.Context, p authz.Principal, in SilenceAlerts) (SilencedAlerts, error) {
	row := store.AuditRow{Action: string(authz.Annotate), RunID: in.RunID, RequestID: in.RequestID}
	object := authz.Object{TenantID: p.TenantID, ProjectID: cmp.Or(in.ProjectID, "*"), EnvironmentID: "*"}
	if in.RunID != "" {
		r, err := s.rights.GetVisible(ctx, p, authz.Annotate, in.RunID)
		if err != nil {
			return SilencedAlerts{}, err
		}
		object, in.ProjectID = control.ObjectOf(r.Identity), r.ProjectID
	}
	if err := s.mayActOn(ctx, p, row, object); err != nil {
		return SilencedAlerts{}, err
	}
	if vs := s.checkSilence(in); len(vs) > 0 {
		return SilencedAlerts{}, control.BadInput(vs)
	}
	x := store.AlertSilence{TenantID: p.TenantID, Code: in.Code, ProjectID: in.ProjectID, RunID: in.RunID,
		PlanID: in.PlanID, Actor: p.ID, Reason: in.Reason, Until: in.Until.UTC(),
		ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt silence|%s|%s|%s", p.TenantID, p.ID,
			in.RequestID)).String()}
	row.Action, row.Reason = ActionSilenceAlerts, control.Clip(in.Reason)
	if err := s.stamp(p, &row, map[string]any{"silence": x.ID, "code": x.Code, "projectId": x.ProjectID,
		"planId": x.PlanID, "until": x.Until, "reason": x.Reason}); err != nil {
		return SilencedAlerts{}, err
	}
	asked := x
	x, err := s.store.Silence(ctx, x, row)
	if errors.Is(err, store.ErrTooMany) {
		return SilencedAlerts{}, control.Refuse(run.CodeTooManySilences,
			"The tenant has %d silences, which is the limit. End one that is no longer needed.", store.MaxSilences)
	}
	if err == nil && !isSameSilence(x, asked) {
		return SilencedAlerts{}, control.Refuse(run.CodeRequestConflict,
			"This requestId was used for another silence. Use a new request id.")
	}
	return SilencedAlerts{Silence: x, Change: control.Change{Action: row.Action, RequestID: in.RequestID, Actor: x.Actor,
		At: x.At}}, control.Translate(err)
}

// isSameSilence reports whether the silence of an earlier request is the one that is asked for now. The stores keep
// times with microseconds.
func isSameSilence(made, asked AlertSilence) bool {
	return made.Code == asked.Code && made.ProjectID == asked.ProjectID && made.RunID == asked.RunID &&
		made.PlanID == asked.PlanID && made.Reason == asked.Reason &&
		made.Until.Truncate(time.Microsecond).Equal(asked.Until.Truncate(time.Microsecond))
}

func (s *AlertDesk) checkSilence(in SilenceAlerts) []plan.Violation {
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.Code == "" && in.ProjectID == "" && in.RunID == "" && in.PlanID == "" {
		vs = append(vs, plan.Violation{Path: "matcher", Code: "INVALID",
			Message: "must name a code, a project, a run or a plan, so that it does not silence everything"})
	}
	if why := whyNotSilenced(in.Code); why != "" {
		vs = append(vs, plan.Violation{Path: "code", Code: "INVALID", Message: why})
	}
	for _, x := range [...][2]string{{"projectId", in.ProjectID}, {"planId", in.PlanID}} {
		if x[1] != "" {
			vs = control.CheckID(vs, x[0], x[1])
		}
	}
	if left := in.Until.Sub(s.rights.Now()); left <= 0 || left > store.MaxSilence {
		vs = append(vs, plan.Violation{Path: "until", Code: plan.CodeRange,
			Message: "must be in the future, at most 30 days from now"})
	}
	return vs
}

// whyNotSilenced returns why no silence can name a code, or "".
func whyNotSilenced(code run.Code) string {
	switch code {
	case "":
		return ""
	case run.CodeProjectorAbsent, run.CodeDispatcherAbsent, run.CodeDelivererAbsent, run.CodeReconcilerAbsent,
		run.CodeWorkerAbsent, run.CodeDependencyDown, run.CodeWorkerDenied, run.CodeLagHigh, run.CodeDestinationFailing,
		run.CodeDestinationsInvalid:
		return "belongs to alerts about the installation, which cannot be silenced"
	case run.Code(authz.EscalateAlert):
		return "is a signal: alerts that people raise have no code; name their run, project or plan"
	}
	if _, known := code.Info(); !known {
		return "is no code of dvt"
	}
	return ""
}

// mayActOn is Rights.MayOperateOn for the right to ANNOTATE; its refusal names what people ask of alerts.
func (s *AlertDesk) mayActOn(ctx context.Context, p authz.Principal, row store.AuditRow, o authz.Object) error {
	err := s.rights.MayOperateOn(ctx, p, row, o)
	var own *control.Error
	if errors.As(err, &own) && own.Code == run.CodeForbidden {
		own.Message = strings.Replace(own.Message, authz.Annotate.Words(), "take on or silence an alert", 1)
	}
	return err
}

// Silences lists the silences of the tenant that have not ended and that p may see: its own, and those of projects that
// p may read in every environment.
func (s *AlertDesk) Silences(ctx context.Context, p authz.Principal) ([]AlertSilence, error) {
	all, err := s.store.ListSilences(ctx, p.TenantID)
	return slices.DeleteFunc(all, func(x store.AlertSilence) bool {
		return x.Actor != p.ID && !s.rights.MayRead(p, cmp.Or(x.ProjectID, "*"), "*")
	}), control.Translate(err)
}

// EndSilence ends a silence and returns the receipt. It takes the right to make it, unless it is one's own. Errors:
// NOT_FOUND, FORBIDDEN, BAD_USER_INPUT.
func (s *AlertDesk) EndSilence(ctx context.Context, p authz.Principal, id, requestID string) (control.Change, error) {
	all, err := s.Silences(ctx, p)
	if err != nil {
		return control.Change{}, err
	}
	at := slices.IndexFunc(all, func(x store.AlertSilence) bool { return x.ID == id })
	if at < 0 {
		return control.Change{}, control.Refuse(run.CodeNotFound, "There is no such silence, or it is not yours.")
	}
	x := all[at]
	row := store.AuditRow{Action: string(authz.Annotate), RunID: x.RunID, RequestID: requestID}
	if x.Actor != p.ID { // everybody may end their own
		if err := s.mayActOn(ctx, p, row, authz.Object{TenantID: p.TenantID,
			ProjectID: cmp.Or(x.ProjectID, "*"), EnvironmentID: "*"}); err != nil {
			return control.Change{}, err
		}
	}
	if vs := control.CheckID(nil, "requestId", requestID); len(vs) > 0 {
		return control.Change{}, control.BadInput(vs)
	}
	row.Action = ActionEndSilence
	if err := s.stamp(p, &row, map[string]string{"silence": x.ID, "code": string(x.Code), "projectId": x.ProjectID,
		"planId": x.PlanID}); err != nil {
		return control.Change{}, err
	}
	err = s.store.EndSilence(ctx, p.TenantID, id, row)
	if errors.Is(err, store.ErrNotFound) {
		return control.Change{}, control.Refuse(run.CodeNotFound, "The silence has ended already.")
	}
	if err != nil {
		return control.Change{}, control.Translate(err)
	}
	return control.Change{Action: row.Action, RequestID: requestID, Actor: p.ID, At: s.rights.Now()}, nil
}
