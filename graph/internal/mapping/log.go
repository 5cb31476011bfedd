package mapping

import (
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// StepLog maps a part of the log of a step.
func StepLog(l reads.StepLog) *model.StepLog {
	return &model.StepLog{
		RunID: l.RunID, StepID: l.StepID, Attempt: l.Attempt, Lines: mapLines(watch.StepLogFrame{Page: l.Page}),
		TotalLines: int(l.Total), Missing: mapMissing(l.Missing.From, l.Missing.To),
		Matches: MapSlice(l.Matches, func(no int64) int { return int(no) }), TotalMatches: int(l.TotalMatches),
		ErrorLine: Optional(int(l.ErrorLine)),
	}
}

// StepLogFrame maps a frame of the stream of the log of a step.
func StepLogFrame(f watch.StepLogFrame) *model.StepLogUpdate {
	return &model.StepLogUpdate{
		Attempt: f.Attempt, Lines: mapLines(f), TotalLines: int(f.Total), Missing: mapMissing(f.Missing.From, f.Missing.To),
		Complete: f.Complete, AsOf: f.AsOf,
	}
}

func mapMissing(from, to int64) *model.MissingLines {
	if to == 0 {
		return nil
	}
	return &model.MissingLines{From: int(from), To: int(to)}
}

func mapLines(f watch.StepLogFrame) []model.LogLine {
	out := make([]model.LogLine, len(f.Lines))
	for i, l := range f.Lines {
		out[i] = model.LogLine{No: int(l.No), At: l.At, Stream: l.Stream, EngineAttemptID: l.EngineAttempt, Text: l.Text}
	}
	return out
}

// LogSearch maps a page of a search in logs. after is the cursor of the request; "" is the first page. The end of the
// page is the last log that was read, which may have no edge.
func LogSearch(page reads.LogSearchPage, after string) *model.LogSearchConnection {
	edges := MapSlice(page.Logs, func(l reads.FoundLog) model.LogSearchEdge {
		var lines watch.StepLogFrame
		lines.Lines = l.Lines
		return model.LogSearchEdge{Cursor: l.Cursor, Node: &model.FoundLog{
			RunID: l.RunID, RunCreatedAt: l.CreatedAt, StepID: l.StepID, StepName: Text(l.StepName), Attempt: l.Attempt,
			TotalMatches: int(l.Total), Lines: mapLines(lines), Partial: !l.Whole,
		}}
	})
	info := PageInfo(edges, func(e model.LogSearchEdge) string { return e.Cursor }, page.HasNext, after != "")
	info.EndCursor = Text(page.End)
	return &model.LogSearchConnection{Edges: edges, PageInfo: info, SearchedLogs: page.Searched}
}
