package runs_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// Approvals reads each run of the list once and does not read it again for each row.
func TestApprovals_ReadEachRunOnce(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1)
	id := w.CreateQueued("r1", "s1")
	w.CreateQueued("r2", "s1")
	counted := &controltest.ReadCounter{Store: w.Config.Store}
	w.Config.Store = counted
	page := controltest.Must[control.RunsPage](t)(usecases.New(w.Config).Approvals(t.Context(), w.Engineer(), 0, ""))
	if more := counted.QueueRowReads.Load() + counted.ApprovalReads.Load(); len(page.Runs) != 2 || more != 0 {
		t.Errorf("the page has %d runs after %d further reads, want 2 runs and no further read", len(page.Runs), more)
	}
	alone := controltest.Must[control.RunView](t)(w.Run(t.Context(), w.Engineer(), id, nil))
	if diff := cmp.Diff(alone, page.Runs[0], cmpopts.IgnoreFields(control.RunView{}, "AsOf"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a row is not the run (-alone +row):\n%s", diff)
	}
}

// A person finds their decisions again, with what became of each run, also after it is decided; others do not see them,
// and neither does somebody who may no longer read the run.
func TestMyDecisions_SayWhatBecameOfEach(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 2)
	first, second := w.CreateQueued("r1", "s1"), w.CreateQueued("r2", "s1")
	planner := w.Principal("dev-planner")
	for _, id := range []string{first, second} {
		controltest.Must[control.RunView](t)(w.ApproveRun(t.Context(), planner, controltest.ApprovalOf(id, "a"+id)))
	}
	controltest.Must[control.RunView](t)(w.ApproveRun(t.Context(), w.Principal("dev-admin"),
		controltest.ApprovalOf(second, "b"+second)))
	type decided struct {
		run       string
		decisions int
		open      bool
	}
	list := func(who string, limit int) (out []decided) {
		for _, a := range controltest.Must[[]runs.Approval](t)(w.MyDecisions(t.Context(), w.Principal(who), limit)) {
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
	w := newWithApprovals(t, 1)
	id := w.StartOneStep("r1", func(in *runs.StartRun) {
		in.Inline, in.Params = controltest.Document(nil, "s1", "s2"),
			json.RawMessage(`{"day":"2026-11-21","token":"hunter2"}`)
	}).View.Run.RunID
	got := controltest.Must[runs.RunRequest](t)(w.RunRequest(t.Context(), w.Principal("dev-viewer"), id))
	want := runs.RunRequest{Steps: 2, Params: json.RawMessage(`{"day":"2026-11-21","token":"***"}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err := w.RunRequest(t.Context(), w.Principal("dev-mallory"), id)
	controltest.Refusal(t, err, run.CodeNotFound)
}
