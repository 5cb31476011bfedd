package runs_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

const nodesManifest = `{"metadata":{"project_name":"p","dbt_version":"1.11.16"},"nodes":{
	"model.p.a":{},"model.p.b":{},"model.p.c":{"depends_on":{"nodes":["model.p.b"]}},
	"test.p.a1":{"depends_on":{"nodes":["model.p.a"]}},"test.p.a2":{"depends_on":{"nodes":["model.p.a"]}}}}`

// reportNodes appends a batch of nodes, written "id STATUS [skippedBy]".
func (w *world) reportNodes(runID string, logical, engineAttempt, batch, base int, nodes ...string) {
	w.T.Helper()
	list := []controltest.M{}
	for _, text := range nodes {
		words := append(strings.Fields(text), "")
		kind, _, _ := strings.Cut(words[0], ".")
		list = append(list, controltest.M{"id": words[0], "type": kind, "status": words[1], "at": runtest.Epoch,
			"skippedBy": words[2]})
	}
	d := runtest.Draft(run.StepNodesReported, "s1", logical, controltest.M{"batch": batch, "nodes": list, "base": base,
		"counts": controltest.M{"total": 6}})
	d.EngineAttempt = engineAttempt
	w.AppendEvents(runID, d)
}

// createFailedDBT makes a run whose dbt step s1 failed, with its nodes and the manifest; without one for "".
func (w *world) createFailedDBT(requestID, manifest string) string {
	w.T.Helper()
	id := w.CreateSteps(requestID, "DBT_RUN s1")
	w.BeginStep(id, "s1", 1)
	w.reportNodes(id, 1, 1, 1, 0, "model.p.a SUCCESS", "model.p.b FAILED", "model.p.c SKIPPED model.p.b",
		"test.p.a1 FAILED", "test.p.a2 SUCCESS", "operation.p.end SUCCESS")
	end := controltest.M{}
	if manifest != "" {
		name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}, 1,
			"manifest.json")
		uri, sum, size, err := w.Artifacts.Put(w.T.Context(), name, strings.NewReader(manifest))
		if err != nil {
			w.T.Fatal(err)
		}
		end["artifactRefs"] = []controltest.M{{"uri": uri, "kind": "dbt-manifest", "sha256": sum, "sizeBytes": size}}
	}
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "s1", 1, end))
	return id
}

// retryOf returns a RETRY_STEP of s1 for nodes.
func retryOf(runID, signalID string, nodes controltest.M) runs.SignalRun {
	in := controltest.SignalOf(runID, signalID, run.RetryStep)
	in.Payload = runtest.JSON(controltest.M{"stepId": "s1", "nodes": nodes})
	return in
}

func previewed(p runs.ActionPreview) (out []string) {
	if p.Nodes == nil {
		return nil
	}
	for _, n := range p.Nodes.Nodes {
		out = append(out, strings.TrimSpace(n.ID+" "+string(n.Why)+" "+n.Of))
	}
	return out
}

// The preview names the nodes; the signal writes them; the Journal hands them to the worker, without those that an
// earlier try ended well; and the nodes of the step are those of both attempts.
func TestRetryNodes_FromThePreviewToTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.createFailedDBT("nodes", nodesManifest)
	mode := func(m string) controltest.M { return controltest.M{"mode": m} }
	for _, c := range []struct {
		name  string
		nodes controltest.M
		want  []string
	}{
		{"failed", mode("FAILED"), []string{"model.p.b FAILED", "model.p.c SKIPPED model.p.b", "test.p.a1 FAILED"}},
		{"with tested parents", mode("FAILED_AND_THEIR_TESTED_PARENTS"), []string{"model.p.a TESTED_BY test.p.a1",
			"model.p.b FAILED", "model.p.c SKIPPED model.p.b", "test.p.a1 FAILED", "test.p.a2 TEST_OF model.p.a"}},
		{"listed", controltest.M{"uniqueIds": []string{"model.p.a"}}, []string{"model.p.a LISTED"}},
	} {
		in := retryOf(id, "", c.nodes)
		p, err := w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{Signal: &in})
		if err != nil || p.Outcome != "APPLY" || p.Nodes == nil || p.Nodes.Attempt != 1 {
			t.Fatalf("%s: the preview is %+v with the error %v", c.name, p, err)
		}
		if diff := cmp.Diff(c.want, previewed(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	before := len(w.EventLog(id))
	in := retryOf(id, "retry", mode("FAILED"))
	if r := w.Send(w.Engineer(), in); r.Rejected || r.Signal.ExpectedAttempt != 1 {
		t.Fatalf("the retry is answered %+v", r)
	}
	events := controltest.Must[[]run.Event](t)(w.Store.Events(t.Context(), id, run.Seq(before), 1))
	p, err := run.PayloadOf[run.SignalPayload](events[0].Payload)
	if err != nil || p.Nodes == nil || p.Nodes.Count != 3 || p.Nodes.Mode != "FAILED" || p.Nodes.Attempt != 1 ||
		!cmp.Equal(p.Nodes.IDs, []string{"model.p.b", "model.p.c", "test.p.a1"}) || p.Nodes.Set.SHA256 == "" {
		t.Fatalf("the event has %+v with the error %v, want the three nodes of attempt 1", p.Nodes, err)
	}
	if !w.HasAuditRow("acme", "dev-engineer RETRY_STEP ACCEPTED  "+id) ||
		w.CountAuditRows(`detail LIKE '%"nodes":"FAILED","nodeCount":3%'`) != 1 {
		t.Errorf("the audit does not name the mode and the count: %v", w.AuditRows("acme"))
	}
	if again := w.Send(w.Engineer(), in); !again.Duplicate {
		t.Errorf("the repeated retry is answered %+v, want its receipt", again)
	}

	d := w.DispatchOf(id, "s1", 2)
	d.SignalID = "retry"
	old := w.BeginBy(d, 1)
	if _, err := w.Journal.StartAttempt(t.Context(), old); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("a worker of an earlier version gets %v, want ErrDenied", err)
	}
	begin := func(engineAttempt int) *engine.NodeSelection {
		t.Helper()
		b := w.BeginBy(d, engineAttempt)
		b.SelectsNodes = true
		return controltest.Must[engine.AttemptStarted](t)(w.Journal.StartAttempt(t.Context(), b)).Nodes
	}
	first := &engine.NodeSelection{Base: 1, Chosen: 3, DBTVersion: "1.11.16",
		Counts: run.NodeCounts{Total: 6, Success: 3, Failed: 2, Skipped: 1},
		Hooks:  map[string]run.NodeStatus{"operation.p.end": run.NodeSuccess},
		Nodes: []engine.SelectedNode{{ID: "model.p.b", Was: run.NodeFailed}, {ID: "model.p.c", Was: run.NodeSkipped},
			{ID: "test.p.a1", Was: run.NodeFailed}}}
	if diff := cmp.Diff(first, begin(1)); diff != "" {
		t.Errorf("the first try (-want +got):\n%s", diff)
	}
	w.reportNodes(id, 2, 1, 1, 1)
	w.reportNodes(id, 2, 1, 2, 1, "model.p.b RUNNING")
	w.reportNodes(id, 2, 1, 3, 1, "model.p.b SUCCESS", "model.p.c RUNNING")
	d.SignalID = "" // a restored workflow does not know the signal any more
	second := begin(2)
	if got := second.Nodes; len(got) != 2 || got[0].ID != "model.p.c" || got[0].Was != run.NodeRunning ||
		got[1].ID != "test.p.a1" || second.Counts != (run.NodeCounts{Total: 6, Success: 4, Failed: 1, Running: 1}) {
		t.Errorf("the second try executes %+v, want what the first did not end well", second)
	}
	w.reportNodes(id, 2, 2, 1, 1, "model.p.c SUCCESS", "test.p.a1 SUCCESS")
	page, ok, err := w.StepNodes(t.Context(), w.Engineer(), reads.StepNodesQuery{RunID: id, StepID: "s1"})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	from := map[string]int{}
	for _, n := range page.Nodes {
		if from[n.ID] = n.Attempt; n.Status != run.NodeSuccess {
			t.Errorf("%s is %s after the retry", n.ID, n.Status)
		}
	}
	if diff := cmp.Diff(map[string]int{"model.p.a": 1, "model.p.b": 2, "model.p.c": 2, "test.p.a1": 2, "test.p.a2": 1,
		"operation.p.end": 1}, from); diff != "" {
		t.Errorf("the attempts of the results (-want +got):\n%s", diff)
	}
	if a, _ := w.StateOf(id).Step("s1"); a.Attempts[1].Nodes.Base != 1 {
		t.Errorf("the state has the nodes %+v, want base 1", a.Attempts[1].Nodes)
	}
}

func TestRetryNodes_RefusalsSayWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failed := controltest.M{"mode": "FAILED"}
	plain := w.CreateSteps("plain", "COMMAND s1")
	w.FinishStep(plain, "s1", 1, run.StepFailedEvent)
	silent := w.CreateSteps("silent", "DBT_RUN s1")
	w.FinishStep(silent, "s1", 1, run.StepFailedEvent)
	gone := w.createFailedDBT("gone", nodesManifest+" ")
	name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: gone, StepID: "s1", LogicalAttempt: 1}, 1,
		"manifest.json")
	if err := w.Artifacts.RemoveArtifact(t.Context(), artifact.URI(name)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, id string
		code     run.Code
	}{
		{"no dbt step", plain, run.CodeNodesNotDBT},
		{"an attempt without nodes", silent, run.CodeNodesNoManifest},
		{"an attempt without a manifest", w.createFailedDBT("none", ""), run.CodeNodesNoManifest},
		{"a manifest that is no JSON", w.createFailedDBT("text", "[1"), run.CodeNodesNoManifest},
		{"a manifest that expired", gone, run.CodeNodesGone},
		{"another project's manifest", w.createFailedDBT("other", `{"nodes":{"model.x.a":{}}}`), run.CodeNodesOther},
	} {
		in := retryOf(c.id, "s-"+c.id, failed)
		p, err := w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{Signal: &in})
		if err != nil || p.Outcome != "REFUSED" || p.Code != c.code || p.Reason == "" {
			t.Errorf("%s: the preview is %+v with the error %v, want %s", c.name, p, err, c.code)
		}
		r := w.Send(w.Engineer(), in)
		if !r.Rejected || r.Rejection != c.code || r.RejectText != p.Reason {
			t.Errorf("%s is answered %+v, want %s with the reason of the preview", c.name, r, c.code)
		}
		if !w.HasAuditRow("acme", "dev-engineer RETRY_STEP REJECTED "+string(c.code)+" "+c.id) {
			t.Errorf("%s left no audit row", c.name)
		}
	}

	id := w.createFailedDBT("unknown", nodesManifest)
	before := w.EventLog(id)
	for _, c := range []struct {
		name  string
		nodes controltest.M
		want  int
	}{
		{"unknown ids", controltest.M{"uniqueIds": []string{"model.p.nope", "model.p.a", "operation.p.end"}}, 2},
		{"no ids", controltest.M{"uniqueIds": []string{}}, 1},
		{"an unknown mode", controltest.M{"mode": "ALL"}, 1},
		{"too many ids", controltest.M{"uniqueIds": strings.Fields(string(bytes.Repeat([]byte("x "), 1001)))}, 1},
	} {
		in := retryOf(id, "u", c.nodes)
		_, err := w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{Signal: &in})
		if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != c.want {
			t.Errorf("%s: the preview has the violations %v, want %d", c.name, e.Violations, c.want)
		}
		_, err = w.SignalRun(t.Context(), w.Engineer(), in)
		if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != c.want {
			t.Errorf("%s: the signal has the violations %v, want %d", c.name, e.Violations, c.want)
		}
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log changed:\n%s", diff)
	}
	in := retryOf(id, "", failed)
	_, err := w.PreviewAction(t.Context(), w.Principal("dev-mallory"), runs.PreviewAction{Signal: &in})
	controltest.Refusal(t, err, run.CodeNotFound)
	p, err := w.PreviewAction(t.Context(), w.Principal("dev-viewer"), runs.PreviewAction{Signal: &in})
	if err != nil || p.Outcome != "REFUSED" || p.Code != run.CodeForbidden || p.Nodes != nil {
		t.Errorf("the preview of a viewer is %+v with the error %v, want FORBIDDEN without nodes", p, err)
	}
}
