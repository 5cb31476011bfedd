package control_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// Approvals reads each run of the list once and does not read it again for each row.
func TestApprovals_ReadEachRunOnce(t *testing.T) {
	t.Parallel()
	w := asking(t, 1)
	id := w.queued("r1", "s1")
	w.queued("r2", "s1")
	counted := &readCounter{Store: w.config.Store}
	w.config.Store = counted
	page := must[control.RunsPage](t)(usecases.New(w.config).Approvals(t.Context(), w.eng(), 0, ""))
	if more := counted.queueRows.Load() + counted.approvals.Load(); len(page.Runs) != 2 || more != 0 {
		t.Errorf("the page has %d runs after %d further reads, want 2 runs and no further read", len(page.Runs), more)
	}
	alone := must[control.RunView](t)(w.Run(t.Context(), w.eng(), id, nil))
	if diff := cmp.Diff(alone, page.Runs[0], cmpopts.IgnoreFields(control.RunView{}, "AsOf"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a row is not the run (-alone +row):\n%s", diff)
	}
}

// A person finds their decisions again, with what became of each run, also after it is decided; others do not see them,
// and neither does somebody who may no longer read the run.
func TestMyDecisions_SayWhatBecameOfEach(t *testing.T) {
	t.Parallel()
	w := asking(t, 2)
	first, second := w.queued("r1", "s1"), w.queued("r2", "s1")
	planner := w.who("dev-planner")
	for _, id := range []string{first, second} {
		must[control.RunView](t)(w.ApproveRun(t.Context(), planner, approval(id, "a"+id)))
	}
	must[control.RunView](t)(w.ApproveRun(t.Context(), w.who("dev-admin"), approval(second, "b"+second)))
	type decided struct {
		run       string
		decisions int
		open      bool
	}
	list := func(who string, limit int) (out []decided) {
		for _, a := range must[[]runs.Approval](t)(w.MyDecisions(t.Context(), w.who(who), limit)) {
			out = append(out, decided{a.RunID, len(a.Decisions), a.Open})
		}
		return out
	}
	want := []decided{{second, 2, false}, {first, 1, true}}
	if diff := cmp.Diff(want, list("dev-planner", 20), cmp.AllowUnexported(decided{})); diff != "" {
		t.Errorf("decisions of the planner (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:1], list("dev-planner", 0), cmp.AllowUnexported(decided{})); diff != "" {
		t.Errorf("the newest decision of the planner (-want +got):\n%s", diff)
	}
	if got := list("dev-viewer", 20); got != nil {
		t.Errorf("a viewer who decided nothing sees %v, want nothing", got)
	}
}

// contract: T101
func TestRunRequest_HasTheStepsAndHidesSecrets(t *testing.T) {
	t.Parallel()
	w := asking(t, 1)
	id := w.startRun("r1", func(in *runs.StartRun) {
		in.Inline, in.Params = document(nil, "s1", "s2"), json.RawMessage(`{"day":"2026-11-21","token":"hunter2"}`)
	}).View.Run.RunID
	got := must[runs.RunRequest](t)(w.RunRequest(t.Context(), w.who("dev-viewer"), id))
	want := runs.RunRequest{Steps: 2, Params: json.RawMessage(`{"day":"2026-11-21","token":"***"}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err := w.RunRequest(t.Context(), w.who("dev-mallory"), id)
	refusal(t, err, run.CodeNotFound)
}

func TestPreviewAction_NamesWhoCouldStartTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := startOf("r1", document(nil, "s1"))
	p := must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.who("dev-viewer"), runs.PreviewAction{Start: &in}))
	if p.Code != run.CodeForbidden || !slices.Contains(p.WhoCould, "dev-engineer") {
		t.Errorf("the preview is %+v, want FORBIDDEN with dev-engineer among those who could", p)
	}
}
