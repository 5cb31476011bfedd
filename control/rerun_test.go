package control_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// failedRun makes a run of a, b<a, c<b, d in which b failed, c never ran, and d succeeded.
func (w *world) failedRun(requestID string) string {
	w.t.Helper()
	steps := []string{"a", "b<a", "c<b", "d"}
	id := w.running(requestID, steps...)
	w.finish(id, "a", 1, run.StepCompletedEvent, M{"result": M{"rows": 7},
		"artifactRefs": []M{{"uri": "artifact:acme/" + id + "/a/1/1/f", "kind": "log"}}})
	w.finish(id, "d", 1, run.StepCompletedEvent)
	w.finish(id, "b", 1, run.StepFailedEvent)
	w.append(id, runtest.Draft(run.StepSkippedEvent, "c", 1, M{"reasonCode": "DEPENDENCY_FAILED"}),
		runtest.Draft(run.RunFailed, "", 1))
	return id
}

func (w *world) rerun(in runs.Rerun) runs.StartedRun {
	w.t.Helper()
	return must[runs.StartedRun](w.t)(w.Rerun(w.t.Context(), w.eng(), in))
}

// reused returns the steps whose results a run takes over, as the skeleton names them.
func (w *world) reused(runID string) string {
	w.t.Helper()
	sk := must[engine.Skeleton](w.t)(w.journal.Skeleton(w.t.Context(), runID))
	var out []string
	for _, o := range sk.Reused {
		out = append(out, []string{"a", "b", "c", "d"}[o])
	}
	return strings.Join(out, " ")
}

// contract: O2, T209
func TestRerun_RunsAgainWhatDependsOnTheChosenSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.failedRun("r1")
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
		s := w.rerun(c.in)
		r := must[store.Run](t)(w.raw.Get(t.Context(), s.View.Run.RunID))
		parent := must[store.Run](t)(w.raw.Get(t.Context(), id))
		if got := w.reused(r.RunID); got != c.want || s.Deduplicated {
			t.Errorf("%s takes over %q, want %q (%t)", name, got, c.want, s.Deduplicated)
		}
		if r.ParentRunID != id || r.PlanRef != parent.PlanRef || string(r.Params) != string(parent.Params) ||
			r.TriggeredBy != "dev-engineer" {
			t.Errorf("%s: the run is %+v, want the plan and scope of its parent", name, r)
		}
		if q := must[store.QueueRow](t)(w.raw.QueueRow(t.Context(), r.RunID)); q.Status != store.QueuePending {
			t.Errorf("%s: the queue row is %+v, want PENDING", name, q)
		}
		if !w.audited("acme", "dev-engineer RERUN ACCEPTED  "+r.RunID+" {") {
			t.Errorf("the audit has no row of the rerun: %v", w.audit("acme"))
		}
	}
}

// contract: T209
func TestRerun_TheLogSaysWhereTheOutputsCameFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	parent := w.failedRun("r1")
	id := w.rerun(runs.Rerun{RunID: parent, RequestID: "again", Failed: true}).View.Run.RunID
	w.append(id, runtest.Start())
	reuse := M{"reused": M{"runId": "", "runSeq": 0}, "result": nil, "durationMs": nil}
	w.append(id, runtest.Draft(run.StepStartedEvent, "a", 1), runtest.Draft(run.StepCompletedEvent, "a", 1, reuse),
		runtest.Draft(run.StepStartedEvent, "d", 1), runtest.Draft(run.StepCompletedEvent, "d", 1, reuse))
	evs := must[[]run.Event](t)(w.raw.Events(t.Context(), id, 0, 100))
	var seq run.Seq
	for _, e := range must[[]run.Event](t)(w.raw.Events(t.Context(), parent, 0, 100)) {
		if e.Type == run.StepCompletedEvent && e.StepID == "a" {
			seq = e.Seq
		}
	}
	p := must[run.StepCompletedPayload](t)(run.PayloadOf[run.StepCompletedPayload](evs[3].Payload))
	want := run.StepCompletedPayload{
		Result: json.RawMessage(`{"rows":7}`), Reused: &run.Reused{RunID: parent, Seq: seq},
		ArtifactRefs: []run.ArtifactRef{{URI: "artifact:acme/" + parent + "/a/1/1/f", Kind: "log"}},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
	if st := w.state(id); st.Counts.Success != 2 || st.Counts.Pending != 2 {
		t.Errorf("the counts are %+v, want 2 successes and 2 pending steps", st.Counts)
	}
	// A rerun of a rerun takes over the results that the first rerun took over.
	w.finish(id, "b", 1, run.StepFailedEvent)
	w.append(id, runtest.Draft(run.RunFailed, "", 1))
	third := w.rerun(runs.Rerun{RunID: id, RequestID: "and-again", Failed: true}).View.Run.RunID
	if got := w.reused(third); got != "a d" {
		t.Errorf("the third run takes over %q, want what the second one took over", got)
	}
	w.append(third, runtest.Start())
	w.append(third, runtest.Draft(run.StepStartedEvent, "a", 1), runtest.Draft(run.StepCompletedEvent, "a", 1, reuse))
	step, _ := w.state(third).Step("a")
	if got := step.Attempts[0]; string(got.Result) != `{"rows":7}` {
		t.Errorf("the attempt is %+v, want the result of the first run", got)
	}
}

func TestRerun_RefusesEachInvalidRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.failedRun("r1")
	running := w.running("r2", "a")
	done := w.running("r3", "a")
	w.finish(done, "a", 1, run.StepCompletedEvent)
	w.append(done, runtest.Draft(run.RunCompleted, "", 1))
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
	} {
		_, err := w.Rerun(t.Context(), w.eng(), c.in)
		t.Log(name)
		var paths []string
		for _, v := range refusal(t, err, c.code).Violations {
			paths = append(paths, v.Path)
		}
		if !slices.Equal(paths, c.list) {
			t.Errorf("%s: violations %v, want %v", name, paths, c.list)
		}
	}
	for _, who := range []string{"dev-operator", "dev-viewer"} {
		_, err := w.Rerun(t.Context(), w.who(who), runs.Rerun{RunID: id, RequestID: "x", Start: true})
		refusal(t, err, run.CodeForbidden)
		if !w.audited("acme", who+" RERUN DENIED FORBIDDEN "+id) {
			t.Errorf("the audit has no row of the refusal: %v", w.audit("acme"))
		}
	}
	_, err := w.Rerun(t.Context(), w.foreign(), runs.Rerun{RunID: id, RequestID: "x", Start: true})
	refusal(t, err, run.CodeNotFound)
	if n := w.runs("acme"); n != 3 {
		t.Errorf("there are %d runs, want 3", n)
	}
}

func TestRerun_IsSafeToRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.failedRun("r1")
	in := runs.Rerun{RunID: id, RequestID: "again", Steps: []string{"b", "a"}}
	var all sync.WaitGroup
	started := make([]runs.StartedRun, 6)
	for i := range started {
		all.Go(func() { started[i] = w.rerun(in) })
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
	if made != 1 || w.runs("acme") != 2 {
		t.Errorf("%d runs were created and there are %d runs, want 1 and 2", made, w.runs("acme"))
	}
	if same := w.rerun(runs.Rerun{RunID: id, RequestID: "again", Steps: []string{"a", "b", "a"}}); !same.Deduplicated {
		t.Errorf("the same steps in another order are answered %+v, want a duplicate", same)
	}
	for _, other := range []runs.Rerun{{RunID: id, RequestID: "again", Failed: true},
		{RunID: id, RequestID: "r1", Start: true}} {
		_, err := w.Rerun(t.Context(), w.eng(), other)
		refusal(t, err, run.CodeRequestConflict)
	}
	_, err := w.StartRun(t.Context(), w.eng(), startOf("again", document(nil, "a", "b<a", "c<b", "d")))
	refusal(t, err, run.CodeRequestConflict)
}

// contract: T209
func TestRerun_OperatorSkipsRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("r1", "a", "b<a", "c<b", "d")
	w.append(id, runtest.Draft(run.StepSkippedEvent, "a", 1, M{"reasonCode": "OPERATOR_SKIP"}))
	w.finish(id, "b", 1, run.StepCompletedEvent)
	w.finish(id, "c", 1, run.StepCompletedEvent)
	w.finish(id, "d", 1, run.StepCompletedEvent)
	w.append(id, runtest.Draft(run.RunCompleted, "", 1))
	if got := w.reused(w.rerun(runs.Rerun{RunID: id, RequestID: "again", Failed: true}).View.Run.RunID); got != "d" {
		t.Errorf("it takes over %q, want d: b and c stand on a step that did not succeed", got)
	}
}
