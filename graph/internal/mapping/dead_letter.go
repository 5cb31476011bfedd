package mapping

import (
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// DeadLetter maps a dead letter.
func DeadLetter(d reads.DeadLetter) *model.DeadLetter {
	return &model.DeadLetter{
		ID: nodeID(DeadLetterNode, d.ID), ProjectID: d.ProjectID, RunID: d.RunID, FromSeq: d.From, ToSeq: d.To,
		Attempts: d.Attempts, Cause: d.Cause, BuriedAt: d.CreatedAt, RedrivenAt: d.RedrivenAt,
	}
}

// DeadLetters maps a page of dead letters. after is the cursor of the request; "" is the first page.
func DeadLetters(page reads.DeadLettersPage, after string) *model.DeadLetterConnection {
	edges := MapSlice(page.Letters, func(d reads.DeadLetter) model.DeadLetterEdge {
		return model.DeadLetterEdge{Cursor: EncodeCursor(d.ID), Node: DeadLetter(d)}
	})
	return &model.DeadLetterConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.DeadLetterEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}

// DeadLetterID returns the id of a dead letter from its node id, or "" when the node id names something else.
func DeadLetterID(id string) string {
	if kind, parts := ParseNodeID(id); kind == DeadLetterNode && len(parts) == 1 {
		return parts[0]
	}
	return ""
}

// RedrivePayload maps the results of a redrive. If asked is not empty, each result gets the id that the caller sent, in
// the same order.
func RedrivePayload(out reads.RedrivenDeadLetters, asked []string) *model.RedriveDeadLettersPayload {
	p := &model.RedriveDeadLettersPayload{Results: MapSlice(out.Results, mapRedrive), More: out.More}
	for i := range asked {
		p.Results[i].ID = asked[i]
	}
	return p
}

func mapRedrive(r reads.RedriveResult) model.RedriveResult {
	m := model.RedriveResult{ID: nodeID(DeadLetterNode, r.ID), Outcome: model.RedriveOutcomeRedriven}
	if r.Letter != nil {
		m.Letter = DeadLetter(*r.Letter)
	}
	switch {
	case r.Failed != nil:
		m.Outcome, m.Code, m.Message = model.RedriveOutcomeFailed, Text(r.Failed.Code), Text(r.Failed.Message)
	case r.Already:
		m.Outcome = model.RedriveOutcomeAlreadyRedriven
	}
	return m
}
