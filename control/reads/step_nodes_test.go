package reads_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// report appends a batch of nodes of step s1, given as "id STATUS" pairs.
func (w *world) report(runID string, logical, engineAttempt, batch int, nodes ...string) {
	w.T.Helper()
	list := []controltest.M{}
	for _, text := range nodes {
		var id, status string
		if _, err := fmt.Sscan(text, &id, &status); err != nil {
			w.T.Fatal(err)
		}
		list = append(list, controltest.M{"id": id, "type": "model", "status": status, "at": runtest.Epoch})
	}
	d := runtest.Draft(run.StepNodesReported, "s1", logical, controltest.M{"batch": batch,
		"counts": controltest.M{"total": 3}, "nodes": list})
	d.EngineAttempt = engineAttempt
	w.AppendEvents(runID, d)
}

func nodeTexts(p reads.StepNodesPage) (out []string) {
	for _, n := range p.Nodes {
		out = append(out, n.ID+" "+string(n.Status))
	}
	return out
}

func TestStepNodes_FollowTheLogAndShowWhatChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("nodes", "s1")
	read := func(q reads.StepNodesQuery) reads.StepNodesPage {
		t.Helper()
		q.RunID, q.StepID = id, "s1"
		page, ok, err := w.StepNodes(t.Context(), w.Principal("dev-viewer"), q)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return page
	}
	want := func(name string, page reads.StepNodesPage, texts ...string) {
		t.Helper()
		if diff := cmp.Diff(texts, nodeTexts(page)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, ok, err := w.StepNodes(t.Context(), w.Engineer(), reads.StepNodesQuery{RunID: id, StepID: "s1"})
	if ok || err != nil {
		t.Fatalf("nodes before the first report: %t %v, want none", ok, err)
	}
	w.BeginStep(id, "s1", 1)
	w.report(id, 1, 1, 1, "a RUNNING", "b RUNNING")
	first := read(reads.StepNodesQuery{})
	want("one batch", first, "a RUNNING", "b RUNNING")
	w.report(id, 1, 1, 2, "a SUCCESS", "c RUNNING")
	want("the changes", read(reads.StepNodesQuery{ChangedAfter: first.Seq}), "a SUCCESS", "c RUNNING")
	want("all", read(reads.StepNodesQuery{}), "a SUCCESS", "b RUNNING", "c RUNNING")
	want("by status", read(reads.StepNodesQuery{Statuses: []run.NodeStatus{run.NodeSuccess}}), "a SUCCESS")
	want("the past", read(reads.StepNodesQuery{UpTo: first.Seq}), "a RUNNING", "b RUNNING")
	page := read(reads.StepNodesQuery{First: 2})
	if !page.HasNext || page.Total != 3 {
		t.Errorf("the first page of 2 has %+v, want 3 in total and a next page", page)
	}
	want("the next page", read(reads.StepNodesQuery{First: 2, After: page.Cursors[1]}), "c RUNNING")

	// A second engine attempt of the same attempt begins again.
	w.report(id, 1, 2, 1, "b FAILED", "c RUNNING")
	want("the second try", read(reads.StepNodesQuery{}), "b FAILED", "c RUNNING")
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "s1", 1))
	want("after the end", read(reads.StepNodesQuery{}), "b FAILED", "c UNFINISHED")
	w.report(id, 1, 2, 2, "c SUCCESS") // a worker that others gave up
	want("after a late report", read(reads.StepNodesQuery{}), "b FAILED", "c UNFINISHED")

	// Another attempt has nodes of its own, and the first keeps its nodes.
	w.BeginStep(id, "s1", 2)
	w.report(id, 2, 1, 1, "a RUNNING")
	want("the second attempt", read(reads.StepNodesQuery{}), "a RUNNING")
	want("the first attempt", read(reads.StepNodesQuery{Attempt: 1}), "b FAILED", "c UNFINISHED")

	_, _, err = w.StepNodes(t.Context(), w.ForeignPrincipal(), reads.StepNodesQuery{RunID: id, StepID: "s1"})
	controltest.Refusal(t, err, run.CodeNotFound)
	_, _, err = w.StepNodes(t.Context(), w.Engineer(), reads.StepNodesQuery{RunID: id, StepID: "s1", After: "x"})
	controltest.Refusal(t, err, run.CodeCursorInvalid)
	_, _, err = w.StepNodes(t.Context(), w.Engineer(), reads.StepNodesQuery{RunID: id, StepID: "zz"})
	controltest.Refusal(t, err, run.CodeNotFound)
	if _, ok, err := w.StepNodes(t.Context(), w.Engineer(), reads.StepNodesQuery{RunID: id, StepID: "s1",
		Attempt: 9}); ok || err != nil {
		t.Errorf("an attempt that does not exist: %t %v, want none", ok, err)
	}
}

// Every node is on one page, whatever the number of pages.
func TestStepNodes_3000NodesInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("many", "s1")
	w.BeginStep(id, "s1", 1)
	batch := 0
	for i := 0; i < 3_000; i += 100 {
		var texts []string
		for k := range 100 {
			texts = append(texts, fmt.Sprintf("model.s.m%d SUCCESS", i+k))
		}
		batch++
		w.report(id, 1, 1, batch, texts...)
	}
	var ids []string
	for after := ""; ; {
		page, _, err := w.StepNodes(t.Context(), w.Engineer(), reads.StepNodesQuery{RunID: id, StepID: "s1", First: 200,
			After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range page.Nodes {
			ids = append(ids, n.ID)
		}
		if !page.HasNext {
			break
		}
		after = page.Cursors[len(page.Cursors)-1]
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 3_000 {
		t.Errorf("the pages have %d nodes, want 3,000", n)
	}
}
