package reads_test

import (
	"fmt"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// printed makes a run with steps whose first attempts print texts.
func (w *world) printed(requestID string, texts map[string][]string) string {
	w.T.Helper()
	id := w.CreateRunning(requestID, "a", "b", "c")
	for _, step := range []string{"a", "b", "c"} {
		w.BeginStep(id, step, 1)
		var out []artifact.Line
		for _, text := range texts[step] {
			out = append(out, artifact.Line{At: runtest.Epoch, Stream: "stdout", Text: text})
		}
		log := artifact.AttemptID{TenantID: "acme", RunID: id, StepID: step, LogicalAttempt: 1}
		if err := w.Artifacts.Append(w.T.Context(), log, 1, 1, out); err != nil {
			w.T.Fatal(err)
		}
	}
	return id
}

// found describes the logs of a page: step, matches and numbers of lines.
func found(p reads.LogSearchPage) (out []string) {
	for _, log := range p.Logs {
		text := fmt.Sprintf("%s/%d %d:", log.StepID, log.Attempt, log.Total)
		for _, line := range log.Lines {
			text += fmt.Sprintf(" %d", line.No)
		}
		out = append(out, text)
	}
	return out
}

func TestSearchLogs_OfARunIsPagedAndBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Searching.Logs = 2 })
	needles := []string{"needle 1", "hay", "needle 2", "needle 3", "needle 4", "needle 5", "needle 6"}
	id := w.printed("search", map[string][]string{"a": needles, "b": {"hay"}, "c": {"one needle"}})
	viewer := w.Principal("dev-viewer")
	first := controltest.Must[reads.LogSearchPage](t)(w.SearchLogs(t.Context(), viewer, reads.LogSearchQuery{RunID: id,
		Find: "needle"}))
	if got := fmt.Sprint(found(first)); got != "[a/1 6: 1 3 4 5 6]" || !first.HasNext || first.Searched != 2 {
		t.Errorf("first page %s, next %t, %d logs; want the first 5 of 6 lines of a, a next page, 2 logs", got,
			first.HasNext, first.Searched)
	}
	rest := controltest.Must[reads.LogSearchPage](t)(w.SearchLogs(t.Context(), viewer, reads.LogSearchQuery{RunID: id,
		Find: "needle", After: first.End}))
	if got := fmt.Sprint(found(rest)); got != "[c/1 1: 1]" || rest.HasNext {
		t.Errorf("second page %s, next %t; want c alone and no next page", got, rest.HasNext)
	}
	one := controltest.Must[reads.LogSearchPage](t)(w.SearchLogs(t.Context(), viewer, reads.LogSearchQuery{RunID: id,
		Find: "needle", First: 1}))
	if len(one.Logs) != 1 || !one.HasNext {
		t.Errorf("a page of one log has %v, next %t; want a and a next page", found(one), one.HasNext)
	}
	for name, c := range map[string]struct {
		q    reads.LogSearchQuery
		code run.Code
	}{
		"without a text":             {reads.LogSearchQuery{RunID: id}, run.CodeBadInput},
		"with a page of 51":          {reads.LogSearchQuery{RunID: id, Find: "x", First: 51}, run.CodeBadInput},
		"with 21 runs":               {reads.LogSearchQuery{RunID: id, Find: "x", Newest: 21}, run.CodeBadInput},
		"with another list's cursor": {reads.LogSearchQuery{RunID: id, Find: "x", After: "bm8"}, run.CodeCursorInvalid},
		"of an unknown run":          {reads.LogSearchQuery{RunID: "nothing", Find: "x"}, run.CodeNotFound},
		"of any plan": {reads.LogSearchQuery{Find: "x", Plan: &reads.SearchedPlan{ProjectID: "shop",
			EnvironmentID: "dev"}}, run.CodeBadInput},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.SearchLogs(t.Context(), viewer, c.q)
			controltest.Refusal(t, err, c.code)
		})
	}
}

// A log larger than the bytes that are left begins the next page, and is searched as far as the bytes of a page allow.
func TestSearchLogs_BytesOfAPageAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Searching.Bytes = 150 })
	id := w.printed("search-bytes", map[string][]string{"a": {"needle"}, "b": {"needle"}, "c": {"needle"}})
	pages, after := 0, ""
	for {
		p := controltest.Must[reads.LogSearchPage](t)(w.SearchLogs(t.Context(), w.Engineer(), reads.LogSearchQuery{RunID: id,
			Find:  "needle",
			After: after}))
		if len(p.Logs) != 1 {
			t.Fatalf("page %d has %v, want one log", pages, found(p))
		}
		if pages++; !p.HasNext {
			break
		}
		after = p.End
	}
	if pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
}

func TestSearchLogs_OfTheNewestRunsOfAPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	texts := map[string][]string{"a": {"needle"}}
	old, middle := w.printed("search-1", texts), w.printed("search-2", texts)
	newest := w.printed("search-3", texts)
	r := controltest.Must[reads.LogSearchPage](t)(w.SearchLogs(t.Context(), w.Engineer(),
		reads.LogSearchQuery{RunID: newest,
			Find: "needle"}))
	if len(r.Logs) != 1 || r.Logs[0].RunID != newest {
		t.Fatalf("the search in one run found %v, want its own log", found(r))
	}
	state := w.StateOf(newest)
	plan := &reads.SearchedPlan{PlanID: state.PlanID, ProjectID: state.ProjectID, EnvironmentID: state.EnvironmentID}
	var ids []string
	for after := ""; ; {
		p := controltest.Must[reads.LogSearchPage](t)(w.SearchLogs(t.Context(), w.Engineer(),
			reads.LogSearchQuery{Plan: plan, Newest: 2,
				Find: "needle", First: 1, After: after}))
		for _, log := range p.Logs {
			ids = append(ids, log.RunID)
		}
		if !p.HasNext {
			break
		}
		after = p.End
	}
	if got, want := fmt.Sprint(ids), fmt.Sprint([]string{newest, middle}); got != want {
		t.Errorf("found the runs %s, want the newest two, %s, without %s", got, want, old)
	}
}

func TestSearchLogs_OfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.printed("search-foreign", map[string][]string{"a": {"needle"}})
	mine := controltest.Must[reads.LogSearchPage](t)(w.SearchLogs(t.Context(), w.Engineer(),
		reads.LogSearchQuery{RunID: id,
			Find: "needle"}))
	state := w.StateOf(id)
	plan := &reads.SearchedPlan{PlanID: state.PlanID, ProjectID: state.ProjectID, EnvironmentID: state.EnvironmentID}
	foreign, nobody := w.ForeignPrincipal(), w.Principal("nobody")
	_, err := w.SearchLogs(t.Context(), foreign, reads.LogSearchQuery{RunID: id, Find: "needle"})
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = w.SearchLogs(t.Context(), nobody, reads.LogSearchQuery{Plan: plan, Find: "needle"})
	controltest.Refusal(t, err, run.CodeNotFound)
	// The same names in another tenant are other runs, and a cursor of theirs does not open a run.
	p, err := w.SearchLogs(t.Context(), foreign, reads.LogSearchQuery{Plan: plan, Find: "needle"})
	if err != nil {
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	if len(p.Logs) != 0 {
		t.Errorf("another tenant found %v, want nothing", found(p))
	}
	_, err = w.SearchLogs(t.Context(), foreign, reads.LogSearchQuery{Plan: plan, Find: "needle", After: mine.End})
	controltest.Refusal(t, err, run.CodeNotFound)
}
