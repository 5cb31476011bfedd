package graph

import (
	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapStepLog(l control.StepLog) *model.StepLog {
	return &model.StepLog{
		RunID: l.RunID, StepID: l.StepID, Attempt: l.Attempt, Lines: mapLines(l.Page), TotalLines: int(l.Total), Missing: mapMissing(l.Missing),
		Matches: each(l.Matches, func(no int64) int { return int(no) }), TotalMatches: int(l.TotalMatches),
		ErrorLine: optional(int(l.ErrorLine)),
	}
}

func mapStepLogFrame(f control.StepLogFrame) *model.StepLogUpdate {
	return &model.StepLogUpdate{
		Attempt: f.Attempt, Lines: mapLines(f.Page), TotalLines: int(f.Total), Missing: mapMissing(f.Missing), Complete: f.Complete, AsOf: f.AsOf,
	}
}

func mapMissing(m artifact.Missing) *model.MissingLines {
	if m == (artifact.Missing{}) {
		return nil
	}
	return &model.MissingLines{From: int(m.From), To: int(m.To)}
}

func mapLines(p artifact.Page) []model.LogLine {
	out := make([]model.LogLine, len(p.Lines))
	for i, l := range p.Lines {
		out[i] = model.LogLine{No: int(l.No), At: l.At, Stream: l.Stream, EngineAttemptID: l.EngineAttempt, Text: l.Text}
	}
	return out
}
