package mapping

import (
	"net/url"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// AlertsQuery maps a filter of alerts, which may be nil.
func AlertsQuery(f *model.AlertFilter) (q reads.AlertsQuery) {
	if f == nil {
		return q
	}
	for _, level := range f.Levels {
		q.Levels = append(q.Levels, reads.AlertLevel(level))
	}
	for _, stage := range f.Stages {
		q.Stages = append(q.Stages, reads.AlertStage(stage))
	}
	q.Code, q.ProjectID, q.RunID = run.Code(OrZero(f.Code)), OrZero(f.ProjectID), OrZero(f.RunID)
	q.Since = OrZero(f.Since)
	return q
}

// Alerts maps a page of alerts that begins after the id of an alert, "" for the first page.
func Alerts(page reads.AlertsPage, after string) *model.AlertConnection {
	edges := MapSlice(page.Alerts, func(a reads.Alert) model.AlertEdge {
		return model.AlertEdge{Cursor: EncodeCursor(a.ID), Node: new(Alert(a))}
	})
	return &model.AlertConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.AlertEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}

// Alert maps an alert with the sentences of its code.
func Alert(a reads.Alert) model.Alert {
	out := model.Alert{
		ID: a.ID, Level: model.AlertLevel(a.Level), Stage: model.AlertStage(a.Stage()), Code: Text(string(a.Code)),
		Note: a.Note, Installation: a.TenantID == "", ProjectID: Text(a.ProjectID), EnvironmentID: Text(a.EnvironmentID),
		PlanID: Text(a.PlanID), RunID: Text(a.RunID), StepID: Text(a.StepID), SignalID: Text(a.SignalID),
		Subject: Text(a.Subject), Shared: a.Shared, Actor: a.Actor, Count: int(a.Count), RaisedAt: a.At,
		LastSeenAt: a.LastSeen, ResolvedAt: a.ResolvedAt, Resolution: Text(a.Resolution),
		AcknowledgedAt: a.AcknowledgedAt, AcknowledgedBy: Text(a.AcknowledgedBy), Acknowledgement: Text(a.AckNote),
		SilencedUntil: a.SilencedUntil, WhoCould: append([]string{}, a.WhoCould...), Page: pageOfAlert(a),
	}
	if info, known := a.Code.Info(); known {
		out.Meaning, out.WhatToDo = Text(info.Meaning), Text(info.WhatToDo)
	}
	return out
}

// pageOfAlert returns the path of the page that shows more about an alert.
func pageOfAlert(a reads.Alert) string {
	switch {
	case a.Code == run.CodeDeliveryFailed:
		return "/dlq"
	case a.Code == run.CodeDestinationFailing:
		return "/deliveries/" + url.PathEscape(a.Subject)
	case a.Code == run.CodeDestinationsInvalid:
		return "/deliveries"
	case a.Shared && a.Code == run.CodeEngineUnavailable, a.Code == run.CodeQueueFull:
		return "/queue"
	case a.Code == run.CodeAuditHeads, a.Code == run.CodeAuditUnlinked:
		return "/audit"
	case a.RunID == "":
		return "/health"
	case a.StepID != "":
		return "/runs/" + url.PathEscape(a.RunID) + "?step=" + url.QueryEscape(a.StepID)
	}
	return "/runs/" + url.PathEscape(a.RunID)
}

// Silence maps a silence.
func Silence(x reads.AlertSilence) model.AlertSilence {
	return model.AlertSilence{ID: x.ID, Code: Text(string(x.Code)), ProjectID: Text(x.ProjectID), RunID: Text(x.RunID),
		PlanID: Text(x.PlanID), Actor: x.Actor, Reason: x.Reason, At: x.At, Until: x.Until}
}
