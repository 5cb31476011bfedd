package graph

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// IncidentService reads incidents and records what people do about them.
type IncidentService interface {
	ListIncidents(ctx context.Context, p authz.Principal, q reads.IncidentsQuery) (reads.IncidentsPage, error)
	GetIncident(ctx context.Context, p authz.Principal, id string) (reads.Incident, error)
	IncidentAlerts(ctx context.Context, p authz.Principal, id string) ([]reads.Alert, error)
	ActOnIncident(ctx context.Context, p authz.Principal, in reads.ActOnIncident) (reads.ChangedIncident, error)
	SetRecovery(ctx context.Context, p authz.Principal, in admission.SetRecovery) (admission.ModeChange, error)
}

func (q queries) Incidents(ctx context.Context, openOnly *bool, runID *string, first *int,
	after *string) (*model.IncidentConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.ListIncidents(ctx, principal(ctx), reads.IncidentsQuery{OpenOnly: mapping.OrZero(openOnly),
		RunID: mapping.OrZero(runID), First: mapping.OrZero(first), After: cursor})
	if err != nil {
		return nil, err
	}
	return mapping.Incidents(page, cursor), nil
}

func (q queries) Incident(ctx context.Context, id string) (*model.Incident, error) {
	i, err := q.control.GetIncident(ctx, principal(ctx), id)
	if err != nil {
		return nullIfNotFound[model.Incident](err)
	}
	return new(mapping.Incident(i)), nil
}

func (q queries) IncidentAlerts(ctx context.Context, id string) ([]model.Alert, error) {
	all, err := q.control.IncidentAlerts(ctx, principal(ctx), id)
	out := make([]model.Alert, len(all))
	for n, a := range all {
		out[n] = mapping.Alert(a)
	}
	return out, err
}

func (m mutations) AcknowledgeIncident(ctx context.Context,
	in model.IncidentNoteInput) (*model.IncidentPayload, error) {
	return m.noteOnIncident(ctx, in, model.IncidentActAcknowledge)
}

func (m mutations) NoteIncident(ctx context.Context, in model.IncidentNoteInput) (*model.IncidentPayload, error) {
	return m.noteOnIncident(ctx, in, model.IncidentActNote)
}

func (m mutations) CloseIncident(ctx context.Context, in model.IncidentNoteInput) (*model.IncidentPayload, error) {
	return m.noteOnIncident(ctx, in, model.IncidentActClose)
}

func (m mutations) SetIncidentSeverity(ctx context.Context,
	in model.IncidentSeverityInput) (*model.IncidentPayload, error) {
	return m.actOnIncident(ctx, reads.ActOnIncident{ID: in.ID, RequestID: in.RequestID, Note: in.Note,
		Act: reads.IncidentAct(model.IncidentActSeverity), Severity: reads.Severity(in.Severity)})
}

func (m mutations) noteOnIncident(ctx context.Context, in model.IncidentNoteInput,
	act model.IncidentAct) (*model.IncidentPayload, error) {
	return m.actOnIncident(ctx, reads.ActOnIncident{ID: in.ID, RequestID: in.RequestID, Note: mapping.OrZero(in.Note),
		Act: reads.IncidentAct(act)})
}

func (m mutations) actOnIncident(ctx context.Context, in reads.ActOnIncident) (*model.IncidentPayload, error) {
	out, err := m.control.ActOnIncident(ctx, principal(ctx), in)
	if err != nil {
		return nil, err
	}
	return &model.IncidentPayload{Incident: new(mapping.Incident(out.Incident)), Change: mapping.Change(out.Change)}, nil
}

func (m mutations) SetRecovery(ctx context.Context, in model.SetRecoveryInput) (*model.ServicePayload, error) {
	s, err := m.control.SetRecovery(ctx, principal(ctx), admission.SetRecovery{
		RequestID: in.RequestID, Mode: admission.RecoveryMode(mapping.OrZero(in.Mode)), Reason: in.Reason,
	})
	return servicePayload(s, err)
}
