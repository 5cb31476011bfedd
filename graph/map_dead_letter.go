package graph

import (
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapDeadLetter(d reads.DeadLetter) *model.DeadLetter {
	return &model.DeadLetter{
		ID: nodeID(deadLetterNode, d.ID), ProjectID: d.ProjectID, RunID: d.RunID, FromSeq: d.From, ToSeq: d.To,
		Attempts: d.Attempts, Cause: d.Cause, BuriedAt: d.CreatedAt, RedrivenAt: d.RedrivenAt,
	}
}

func mapDeadLetters(page reads.DeadLettersPage, after string) *model.DeadLetterConnection {
	edges := each(page.Letters, func(d reads.DeadLetter) model.DeadLetterEdge {
		return model.DeadLetterEdge{Cursor: encodeCursor(d.ID), Node: mapDeadLetter(d)}
	})
	return &model.DeadLetterConnection{
		Edges:    edges,
		PageInfo: pageInfo(edges, func(e model.DeadLetterEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}

// deadLetterID is what a node id names; one that names something else names no letter.
func deadLetterID(id string) string {
	if kind, parts := parseNodeID(id); kind == deadLetterNode && len(parts) == 1 {
		return parts[0]
	}
	return ""
}

// mapRedriven gives results the ids that were asked for, if any were.
func mapRedriven(out reads.RedrivenDeadLetters, asked []string) *model.RedriveDeadLettersPayload {
	p := &model.RedriveDeadLettersPayload{Results: each(out.Results, mapRedrive), More: out.More}
	for i := range asked {
		p.Results[i].ID = asked[i]
	}
	return p
}

func mapRedrive(r reads.RedriveResult) model.RedriveResult {
	m := model.RedriveResult{ID: nodeID(deadLetterNode, r.ID), Outcome: model.RedriveOutcomeRedriven}
	if r.Letter != nil {
		m.Letter = mapDeadLetter(*r.Letter)
	}
	switch {
	case r.Failed != nil:
		m.Outcome, m.Code, m.Message = model.RedriveOutcomeFailed, text(r.Failed.Code), text(r.Failed.Message)
	case r.Already:
		m.Outcome = model.RedriveOutcomeAlreadyRedriven
	}
	return m
}
