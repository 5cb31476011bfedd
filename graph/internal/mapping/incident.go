package mapping

import (
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// runbooks is the address of the runbooks.
const runbooks = "https://github.com/dvt-engine/dvt/blob/main/docs/runbooks/"

// Incidents maps a page of incidents that follows the cursor after.
func Incidents(page reads.IncidentsPage, after string) *model.IncidentConnection {
	edges := MapSlice(page.Incidents, func(i reads.Incident) model.IncidentEdge {
		return model.IncidentEdge{Cursor: EncodeCursor(i.ID), Node: new(Incident(i))}
	})
	return &model.IncidentConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.IncidentEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}

// Incident maps an incident with what people should do about its code.
func Incident(i reads.Incident) model.Incident {
	out := model.Incident{
		ID: i.ID, Severity: model.IncidentSeverity(i.Severity), Code: Text(string(i.Code)), Title: incidentTitle(i),
		Installation: i.TenantID == "", ProjectID: Text(i.ProjectID), EnvironmentID: Text(i.EnvironmentID),
		RunID: Text(i.RunID), OpenedAt: i.OpenedAt, AcknowledgedAt: i.AcknowledgedAt, AcknowledgedBy: Text(i.AcknowledgedBy),
		ClosedAt: i.ClosedAt, ClosedBy: Text(i.ClosedBy), Alerts: i.Alerts, OpenAlerts: i.OpenAlerts,
		Runbook: runbooks + reads.Runbook(i) + ".md", Notes: []model.IncidentNote{},
	}
	table := run.CodeTable()
	if at := slices.IndexFunc(table, func(c run.CodeInfo) bool { return c.Code == i.Code }); at >= 0 {
		out.WhatToDo = Text(table[at].WhatToDo)
	}
	for _, n := range i.Notes {
		note := model.IncidentNote{At: n.At, Actor: n.Actor, Act: model.IncidentAct(n.Act), Text: n.Text}
		if n.Severity != "" {
			note.Severity = new(model.IncidentSeverity(n.Severity))
		}
		out.Notes = append(out.Notes, note)
	}
	return out
}

// incidentTitle is what the first alert said, and whether the others are about the same thing. A person who mends what
// the title names must know that more is affected.
func incidentTitle(i reads.Incident) string {
	switch others := i.Affected - 1; {
	case i.Code == "" || others < 1:
		return i.Title
	case others == 1:
		return i.Title + " One more thing is affected; see its alerts."
	default:
		return fmt.Sprintf("%s %d more things are affected; see its alerts.", i.Title, others)
	}
}
