package mapping

import (
	"github.com/dvt-engine/dvt/control/secrets"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// SecretAccess maps a page of reads of secrets that begins after cursor.
func SecretAccess(page secrets.AccessPage, cursor string) *model.SecretAccessConnection {
	edges := MapSlice(page.Reads, func(r secrets.Access) model.SecretAccessEdge {
		return model.SecretAccessEdge{Cursor: EncodeCursor(secrets.AccessCursor(r)), Node: &model.SecretAccess{
			At: r.At, RunID: r.RunID, StepID: r.StepID, LogicalAttemptID: r.LogicalAttempt, EngineAttemptID: r.EngineAttempt,
			Account: r.Account, Worker: r.Worker, Provider: r.Provider, Key: r.Key, Version: Text(r.Version),
			AnsweredVersion: Text(r.Answered), As: r.As, Cached: r.Cached, Code: Text(r.Code),
		}}
	})
	return &model.SecretAccessConnection{Edges: edges, PageInfo: PageInfo(edges,
		func(e model.SecretAccessEdge) string { return e.Cursor }, page.HasNext, cursor != "")}
}

// StepSecret maps a secret that a step names.
func StepSecret(s secrets.StepSecret) model.StepSecret {
	out := model.StepSecret{Provider: s.Provider, Key: s.Key, Version: Text(s.Version), As: s.As.String(),
		Resolved: s.Resolved()}
	if r := s.Read; r != nil {
		out.ReadAt, out.Attempt, out.Cached = &r.At, &r.LogicalAttempt, &r.Cached
		out.AnsweredVersion, out.Code = Text(r.Answered), Text(r.Code)
		if r.Code == "" {
			out.AnsweredBy = &out.Provider
		}
	}
	return out
}

// SecretCheck maps what a worker said about a secret of a plan.
func SecretCheck(c secrets.CheckedSecret) model.SecretCheck {
	return model.SecretCheck{Provider: c.Provider, Key: c.Key, Version: Text(c.Version),
		Steps: append([]string{}, c.Steps...), Queue: c.Queue, Worker: Text(c.Worker), Ok: c.CanRead(),
		AnsweredVersion: Text(c.Answered), Code: Text(c.Code), Message: Text(c.Message)}
}
