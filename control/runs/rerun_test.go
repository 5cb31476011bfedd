package runs_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// contract: O2, T209
func TestRerun_RunsAgainWhatDependsOnTheChosenSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateFailed("r1")
	for name, c := range map[string]struct {
		in   runs.Rerun
		want string
	}{
		"start":         {runs.Rerun{Start: true}, ""},
		"failed":        {runs.Rerun{Failed: true}, "a d"},
		"d too":         {runs.Rerun{Steps: []string{"d"}}, "a"},
		"a and all of":  {runs.Rerun{Steps: []string{"a", "a"}}, "d"},
		"failed anyway": {runs.Rerun{Steps: []string{"c"}}, "a d"},
	} {
		c.in.RunID, c.in.RequestID, c.in.Reason = id, "again-"+strings.ReplaceAll(name, " ", "-"), "because"
		s := w.RequestRerun(c.in)
		r := controltest.Must[store.Run](t)(w.Raw.Get(t.Context(), s.View.Run.RunID))
		parent := controltest.Must[store.Run](t)(w.Raw.Get(t.Context(), id))
		if got := w.ReusedSteps(r.RunID); got != c.want || s.Deduplicated {
			t.Errorf("%s takes over %q, want %q (%t)", name, got, c.want, s.Deduplicated)
		}
		if r.ParentRunID != id || !cmp.Equal(r.PlanRef, parent.PlanRef) || string(r.Params) != string(parent.Params) ||
			r.TriggeredBy != "dev-engineer" {
			t.Errorf("%s: the run is %+v, want the plan and scope of its parent", name, r)
		}
		if q := controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), r.RunID)); q.Status != store.QueuePending {
			t.Errorf("%s: the queue row is %+v, want PENDING", name, q)
		}
		if !w.HasAuditRow("acme", "dev-engineer RERUN ACCEPTED  "+r.RunID+" {") {
			t.Errorf("the audit has no row of the rerun: %v", w.AuditRows("acme"))
		}
	}
}

// contract: T209
func TestRerun_TheLogSaysWhereTheOutputsCameFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent := w.CreateFailed("r1")
	id := w.RequestRerun(runs.Rerun{RunID: parent, RequestID: "again", Failed: true}).View.Run.RunID
	w.AppendEvents(id, runtest.Start())
	reuse := controltest.M{"reused": controltest.M{"runId": "", "runSeq": 0}, "result": nil, "durationMs": nil}
	w.AppendEvents(id, runtest.Draft(run.StepStartedEvent, "a", 1), runtest.Draft(run.StepCompletedEvent, "a", 1, reuse),
		runtest.Draft(run.StepStartedEvent, "d", 1), runtest.Draft(run.StepCompletedEvent, "d", 1, reuse))
	evs := controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 0, 100))
	var seq run.Seq
	for _, e := range controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), parent, 0, 100)) {
		if e.Type == run.StepCompletedEvent && e.StepID == "a" {
			seq = e.Seq
		}
	}
	p := controltest.Must[run.StepCompletedPayload](t)(run.PayloadOf[run.StepCompletedPayload](evs[3].Payload))
	want := run.StepCompletedPayload{
		Result: json.RawMessage(`{"rows":7}`), Reused: &run.Reused{RunID: parent, Seq: seq},
		ArtifactRefs: []run.ArtifactRef{{URI: "artifact:acme/" + parent + "/a/1/1/f", Kind: "log"}},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
	if st := w.StateOf(id); st.Counts.Success != 2 || st.Counts.Pending != 2 {
		t.Errorf("the counts are %+v, want 2 successes and 2 pending steps", st.Counts)
	}
	// A rerun of a rerun takes over the results that the first rerun took over.
	w.FinishStep(id, "b", 1, run.StepFailedEvent)
	w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
	third := w.RequestRerun(runs.Rerun{RunID: id, RequestID: "and-again", Failed: true}).View.Run.RunID
	if got := w.ReusedSteps(third); got != "a d" {
		t.Errorf("the third run takes over %q, want what the second one took over", got)
	}
	w.AppendEvents(third, runtest.Start())
	w.AppendEvents(third, runtest.Draft(run.StepStartedEvent, "a", 1), runtest.Draft(run.StepCompletedEvent, "a", 1,
		reuse))
	step, _ := w.StateOf(third).Step("a")
	if got := step.Attempts[0]; string(got.Result) != `{"rows":7}` {
		t.Errorf("the attempt is %+v, want the result of the first run", got)
	}
}

func TestRerun_RefusesEachInvalidRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateFailed("r1")
	running := w.CreateRunning("r2", "a")
	done := w.CreateRunning("r3", "a")
	w.FinishStep(done, "a", 1, run.StepCompletedEvent)
	w.AppendEvents(done, runtest.Draft(run.RunCompleted, "", 1))
	for name, c := range map[string]struct {
		in   runs.Rerun
		code run.Code
		list []string
	}{
		"not ended":      {runs.Rerun{RunID: running, RequestID: "x", Start: true}, run.CodeInvalidRunState, nil},
		"nothing failed": {runs.Rerun{RunID: done, RequestID: "x", Failed: true}, run.CodeInvalidRunState, nil},
		"no such run":    {runs.Rerun{RunID: "nobody", RequestID: "x", Start: true}, run.CodeNotFound, nil},
		"unknown steps": {runs.Rerun{RunID: id, RequestID: "x", Steps: []string{"y", "a", "x"}}, run.CodeStepNotFound,
			[]string{"from.steps[1]", "from.steps[2]"}},
		"nothing and more": {runs.Rerun{RunID: id, RequestID: " ", Reason: strings.Repeat("r", 5000)}, run.CodeBadInput,
			[]string{"runRequestId", "from", "reason"}},
		"two": {runs.Rerun{RunID: id, RequestID: "x", Start: true, Steps: []string{"a"}}, run.CodeBadInput,
			[]string{"from"}},
		"placeholders of hidden values": {runs.Rerun{RunID: id, RequestID: " ", Start: true, Params: json.RawMessage(
			`{"api_token":"***","b":{"password":"***"},"note":"***","token":"x","webhook":"https://hooks.test/***"}`)},
			run.CodeBadInput, []string{"runRequestId", "params.api_token", "params.b.password", "params.webhook"}},
	} {
		_, err := w.Rerun(t.Context(), w.Engineer(), c.in)
		t.Log(name)
		var paths []string
		for _, v := range controltest.Refusal(t, err, c.code).Violations {
			paths = append(paths, v.Path)
		}
		if !slices.Equal(paths, c.list) {
			t.Errorf("%s: violations %v, want %v", name, paths, c.list)
		}
	}
	for _, who := range []string{"dev-operator", "dev-viewer"} {
		_, err := w.Rerun(t.Context(), w.Principal(who), runs.Rerun{RunID: id, RequestID: "x", Start: true})
		controltest.Refusal(t, err, run.CodeForbidden)
		if !w.HasAuditRow("acme", who+" RERUN DENIED FORBIDDEN "+id) {
			t.Errorf("the audit has no row of the refusal: %v", w.AuditRows("acme"))
		}
	}
	_, err := w.Rerun(t.Context(), w.ForeignPrincipal(), runs.Rerun{RunID: id, RequestID: "x", Start: true})
	controltest.Refusal(t, err, run.CodeNotFound)
	if n := w.CountTenantRuns("acme"); n != 3 {
		t.Errorf("there are %d runs, want 3", n)
	}
}

func TestRerun_IsSafeToRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateFailed("r1")
	in := runs.Rerun{RunID: id, RequestID: "again", Steps: []string{"b", "a"}}
	var all sync.WaitGroup
	started := make([]runs.StartedRun, 6)
	for i := range started {
		all.Go(func() { started[i] = w.RequestRerun(in) })
	}
	all.Wait()
	made := 0
	for _, s := range started {
		if !s.Deduplicated {
			made++
		}
		if s.View.Run.RunID != started[0].View.Run.RunID {
			t.Errorf("the repeated request made another run: %s", s.View.Run.RunID)
		}
	}
	if made != 1 || w.CountTenantRuns("acme") != 2 {
		t.Errorf("%d runs were created and there are %d runs, want 1 and 2", made, w.CountTenantRuns("acme"))
	}
	if same := w.RequestRerun(runs.Rerun{RunID: id, RequestID: "again",
		Steps: []string{"a", "b", "a"}}); !same.Deduplicated {
		t.Errorf("the same steps in another order are answered %+v, want a duplicate", same)
	}
	for _, other := range []runs.Rerun{{RunID: id, RequestID: "again", Failed: true},
		{RunID: id, RequestID: "r1", Start: true}} {
		_, err := w.Rerun(t.Context(), w.Engineer(), other)
		controltest.Refusal(t, err, run.CodeRequestConflict)
	}
	_, err := w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("again", controltest.Document(nil, "a", "b<a",
		"c<b", "d")))
	controltest.Refusal(t, err, run.CodeRequestConflict)
}

// contract: T209
func TestRerun_OperatorSkipsRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("r1", "a", "b<a", "c<b", "d")
	w.AppendEvents(id, runtest.Draft(run.StepSkippedEvent, "a", 1, controltest.M{"reasonCode": "OPERATOR_SKIP"}))
	w.FinishStep(id, "b", 1, run.StepCompletedEvent)
	w.FinishStep(id, "c", 1, run.StepCompletedEvent)
	w.FinishStep(id, "d", 1, run.StepCompletedEvent)
	w.AppendEvents(id, runtest.Draft(run.RunCompleted, "", 1))
	if got := w.ReusedSteps(w.RequestRerun(runs.Rerun{RunID: id, RequestID: "again",
		Failed: true}).View.Run.RunID); got != "d" {
		t.Errorf("it takes over %q, want d: b and c stand on a step that did not succeed", got)
	}
}

func TestRerun_WithOtherParams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateFailed("r1")
	in := runs.Rerun{RunID: id, RequestID: "again", Failed: true, Params: json.RawMessage(`{"day":"2026-02-17","x":1}`)}
	made := w.RequestRerun(in).View.Run
	if string(made.Params) != string(in.Params) {
		t.Errorf("the new run has the params %s, want %s", made.Params, in.Params)
	}
	if !w.HasAuditRow("acme", "dev-engineer RERUN ACCEPTED  "+made.RunID+" {") ||
		!strings.Contains(strings.Join(w.AuditRows("acme"), "\n"), `"changedParams":["day","x"]`) {
		t.Errorf("the audit does not name the params that changed: %v", w.AuditRows("acme"))
	}
	if again := w.RequestRerun(in); !again.Deduplicated || again.View.Run.RunID != made.RunID {
		t.Errorf("the repeated rerun gives %s, want %s", again.View.Run.RunID, made.RunID)
	}
	other := in
	other.Params = nil
	_, err := w.Rerun(t.Context(), w.Engineer(), other)
	controltest.Refusal(t, err, run.CodeRequestConflict)
	in.RequestID, in.Params = "large", json.RawMessage(`"`+string(make([]byte, 70_000))+`"`)
	_, err = w.Rerun(t.Context(), w.Engineer(), in)
	if e := controltest.Refusal(t, err, run.CodeBadInput); e.Violations[0].Path != "params" {
		t.Errorf("the violations are %+v, want one of params", e.Violations)
	}
	in.RequestID, in.Params = store.BulkSignalID("x", 1), nil
	_, err = w.Rerun(t.Context(), w.Engineer(), in)
	controltest.Refusal(t, err, run.CodeBadInput)
	p := controltest.Must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.Engineer(),
		runs.PreviewAction{Rerun: &runs.Rerun{
			RunID: id, RequestID: "p", Failed: true, Params: json.RawMessage(`{"day":"2026-02-18"}`)}}))
	if len(p.Warnings) == 0 || !strings.HasPrefix(p.Warnings[0], "Already rerun as ") {
		t.Fatalf("the warnings are %q, want first that the run was already rerun", p.Warnings)
	}
	kept := []string{"The kept results were computed with the earlier parameters."}
	if diff := cmp.Diff(kept, p.Warnings[1:]); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
