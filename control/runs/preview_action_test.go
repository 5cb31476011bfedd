package runs_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// tell returns the parts of a preview as one line each.
func tell(p runs.ActionPreview) []string {
	out := []string{strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Outcome, p.Code, p.Status))}
	for _, c := range p.Changes {
		out = append(out, fmt.Sprintf("%s %s %s>%s", c.Kind, c.StepID, c.From, c.To))
	}
	if len(p.Blocked) > 0 {
		out = append(out, "blocked "+strings.Join(p.Blocked, " "))
	}
	for _, w := range p.Warnings {
		out = append(out, "! "+w)
	}
	return out
}

func (w *world) preview(p authz.Principal, in runs.PreviewAction) runs.ActionPreview {
	w.T.Helper()
	return controltest.Must[runs.ActionPreview](w.T)(w.PreviewAction(w.T.Context(), p, in))
}

// previews compares the preview of a signal with want.
func (w *world) previews(in runs.SignalRun, want ...string) {
	w.T.Helper()
	p := w.preview(w.Principal("dev-admin"), runs.PreviewAction{Signal: &in})
	if d := cmp.Diff(want, tell(p)); d != "" {
		w.T.Errorf("%s %s (-want +got):\n%s", in.Signal.Type, in.Signal.StepID, d)
	}
	if p.Reason == "" {
		w.T.Errorf("%s gives no reason", in.Signal.Type)
	}
	if p.Outcome != "REFUSED" && p.BasedOnSeq != w.StateOf(in.RunID).Seq {
		w.T.Errorf("the preview of %s is based on seq %d, want the head", in.Signal.Type, p.BasedOnSeq)
	}
}

func about(runID string, t run.SignalType, stepID string) runs.SignalRun {
	in := controltest.SignalOf(runID, "", t)
	in.Signal.StepID = stepID
	var payload controltest.M
	if json.Unmarshal(in.Payload, &payload) == nil && payload["stepId"] != nil {
		payload["stepId"] = stepID
		in.Payload = runtest.JSON(payload)
	}
	return in
}

// cancellable returns a document whose steps are cancellable, also by a pause.
func cancellable(steps ...string) []byte {
	var doc controltest.M
	_ = json.Unmarshal(controltest.Document(nil, steps...), &doc)
	for _, s := range doc["steps"].([]any) {
		s := s.(controltest.M)
		if id := s["stepId"].(string); strings.HasPrefix(id, "c") {
			s["dispatch"] = controltest.M{"cancellable": true, "allowCancelOnPause": strings.HasPrefix(id, "cp")}
		}
	}
	return runtest.JSON(doc)
}

// A pause cannot be taken back while steps run on, so its preview says until about when they do.
func TestPreview_PauseSaysWhenItsStepsFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("r1", cancellable("a", "c1"))
	w.BeginStep(id, "a", 1)
	w.BeginStep(id, "c1", 1)
	began := *w.StateOf(id).Steps[0].Attempts[0].StartedAt
	medians := map[string]time.Duration{"a": 24 * time.Hour, "c1": time.Minute}
	w.UseMedians(func(context.Context, authz.Principal, run.Header) (map[string]time.Duration, error) {
		return medians, nil
	})
	w.previews(about(id, run.Pause, ""), "APPLY  PAUSED",
		"! Still running, will finish by about "+began.Add(24*time.Hour).UTC().Format("15:04")+" UTC: a, c1.")
	delete(medians, "c1")
	w.previews(about(id, run.Pause, ""), "APPLY  PAUSED", "! Still running, will finish: a, c1.")
}

// contract: O10
func TestPreview_SignalsOfARunningRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("r1", cancellable("a", "b<a", "c1", "cp", "d<cp"))
	w.BeginStep(id, "a", 1)
	w.BeginStep(id, "c1", 1)
	w.BeginStep(id, "cp", 1)
	w.previews(about(id, run.Pause, ""), "APPLY  PAUSED", "CANCEL cp RUNNING>FAILED", "blocked b d",
		"! Still running, will finish: a, c1.")
	w.previews(about(id, run.Resume, ""), "NOOP ALREADY_IN_STATE RUNNING")
	w.previews(about(id, run.Cancel, ""), "APPLY  CANCELLED", "CANCEL a RUNNING>FAILED", "CANCEL c1 RUNNING>FAILED",
		"CANCEL cp RUNNING>FAILED", "! The run stays running until its active steps have stopped.",
		"! May not stop at once: a.")
	stop := about(id, run.EmergencyStop, "")
	stop.Signal.Force = true
	w.previews(stop, "APPLY  CANCELLED", "CANCEL a RUNNING>FAILED", "CANCEL c1 RUNNING>FAILED",
		"CANCEL cp RUNNING>FAILED",
		"! Running attempts are cut off. Their programs may continue outside dvt for a while.")
	w.previews(about(id, run.SkipStep, "b"), "APPLY  RUNNING", "SKIP b PENDING>SKIPPED")
	w.previews(about(id, run.SkipStep, "a"), "REFUSED STEP_NOT_SKIPPABLE")
	w.previews(about(id, run.RetryStep, "a"), "REFUSED STEP_NOT_FAILED")
	w.previews(about(id, run.RetryStep, "zz"), "REFUSED STEP_NOT_FOUND")
	w.previews(about(id, run.UpdateParams, ""), "APPLY  RUNNING", "CHANGE a RUNNING>RUNNING", "CHANGE b PENDING>PENDING",
		"CHANGE c1 RUNNING>RUNNING", "CHANGE cp RUNNING>RUNNING", "CHANGE d PENDING>PENDING")
	w.previews(about(id, run.EscalateAlert, ""), "REFUSED FORBIDDEN")
}

// contract: O10
func TestPreview_ARunThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("r1", "a", "b<a", "c", "d<c")
	w.BeginStep(id, "a", 1)
	w.BeginStep(id, "c", 1)
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "a", 1))
	w.previews(about(id, run.RetryStep, "a"), "APPLY  RUNNING", "RERUN a FAILED>RUNNING")
	w.previews(about(id, run.SkipStep, "a"), "APPLY  RUNNING", "SKIP a FAILED>SKIPPED", "SCHEDULE b PENDING>RUNNING",
		"! Steps that depend on it start without its outputs: b.")
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "c", 1))
	w.previews(about(id, run.RetryStep, "c"), "APPLY  RUNNING", "RERUN c FAILED>RUNNING", "blocked b")
	params := about(id, run.UpdateParams, "")
	params.Signal.StepID, params.Payload = "c", runtest.JSON(controltest.M{"stepId": "c",
		"newParams": controltest.M{"day": "x"}})
	w.previews(params, "APPLY  RUNNING", "CHANGE c FAILED>FAILED", "blocked b d")
	w.previews(about(id, run.Cancel, ""), "APPLY  CANCELLED")
	w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
	w.previews(about(id, run.RetryStep, "a"), "REFUSED RUN_TERMINAL")
}

// contract: O10
func TestPreview_AppliesPendingSignalsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("r1", "a", "b", "c<a")
	w.BeginStep(id, "a", 1)
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "a", 1))
	w.Send(w.Engineer(), named(about(id, run.Pause, ""), "p1"))
	w.previews(about(id, run.Pause, ""), "NOOP ALREADY_IN_STATE PAUSED", "blocked b c",
		"! 1 signal is on the way and counted in.")
	w.previews(about(id, run.RetryStep, "a"), "APPLY  PAUSED", "blocked b c", "! 1 signal is on the way and counted in.",
		"! It takes effect when the run is resumed.")
	w.ApplySignal(id, "p1", runtest.Draft(run.RunPaused, "", 1, controltest.M{"signalId": "p1"}))
	w.Send(w.Engineer(), named(about(id, run.RetryStep, "a"), "p2"))
	w.previews(about(id, run.RetryStep, "a"), "NOOP SUPERSEDED PAUSED", "blocked b c",
		"! 1 signal is on the way and counted in.")
	w.previews(about(id, run.Resume, ""), "APPLY  RUNNING", "RERUN a FAILED>RUNNING", "SCHEDULE b PENDING>RUNNING",
		"! 1 signal is on the way and counted in.")
}

// contract: T46
func TestPreview_ResumeWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("r1", "a", "b<a")
	w.BeginStep(id, "a", 1)
	w.Send(w.Engineer(), named(about(id, run.Pause, ""), "p1"))
	w.ApplySignal(id, "p1", runtest.Draft(run.RunPaused, "", 1, controltest.M{"signalId": "p1"}))
	w.previews(about(id, run.Resume, ""), "APPLY  RUNNING", "blocked b",
		"! The run stays paused until these steps have ended: a.")
	w.previews(about(id, run.Cancel, ""), "APPLY  CANCELLED", "CANCEL a RUNNING>FAILED",
		"! The run stays paused until its active steps have stopped.", "! May not stop at once: a.")
}

// contract: O10
func TestPreview_ARunThatHasNotStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r1", "a", "b<a")
	w.previews(about(id, run.Cancel, ""), "APPLY  CANCELLED")
	w.previews(about(id, run.Pause, ""), "REFUSED INVALID_RUN_STATE")
	w.previews(about(id, run.UpdateParams, ""), "APPLY  APPROVED", "CHANGE a PENDING>PENDING", "CHANGE b PENDING>PENDING")
}

// contract: O10
func TestPreview_CompletionOfAManualStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("s")))
	doc := controltest.Document(controltest.M{"steps": []controltest.M{
		{"stepId": "gate", "type": "MANUAL", "timeout": "1m", "inputs": controltest.M{"instructions": "look"}},
		{"stepId": "after", "type": "NOOP", "timeout": "1m", "inputs": controltest.M{}, "dependsOn": []string{"gate"}},
	}})
	id := w.CreateRunningPlan("r1", doc)
	w.WaitForPerson(id, "gate", 1)
	other := w.Principal("dev-admin")
	task := w.TaskOf(other, id, "gate", 1)
	in := runs.CompleteManualStep{RunID: id, StepID: "gate", Token: task.Token, Outcome: run.ManualSucceeded}
	ask := func(who authz.Principal, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, tell(w.preview(who, runs.PreviewAction{CompleteManual: &in}))); d != "" {
			t.Errorf("%s (-want +got):\n%s", in.Outcome, d)
		}
	}
	ask(other, "APPLY  RUNNING", "SCHEDULE after PENDING>RUNNING", "CHANGE gate RUNNING>SUCCESS")
	in.Outcome = run.ManualFailed
	ask(other, "APPLY  RUNNING", "CHANGE gate RUNNING>FAILED", "blocked after")
	ask(w.Principal("dev-viewer"), "REFUSED FORBIDDEN")
	in.Token = "other"
	ask(other, "REFUSED MANUAL_TOKEN_INVALID")
	in.Token = task.Token
	controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(other, task, run.ManualSucceeded))
	ask(other, "NOOP SUPERSEDED RUNNING")
}

// contract: O10
func TestPreview_StartSchedulesTheFirstSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := controltest.StartOf("r1", controltest.Document(nil, "a", "b<a", "c"))
	p := w.preview(w.Engineer(), runs.PreviewAction{Start: &start})
	if d := cmp.Diff([]string{"APPLY  RUNNING", "SCHEDULE a PENDING>RUNNING", "SCHEDULE c PENDING>RUNNING"},
		tell(p)); d != "" {
		t.Error(d)
	}
	start.Inline = controltest.Document(nil, "a", "b<zz")
	_, err := w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{Start: &start})
	controltest.Refusal(t, err, run.CodePlanInvalid)
}

// contract: T83
func TestPreview_StartWarnsOfAWaitWithoutALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := controltest.StartOf("r1", controltest.Document(nil, "a", "ask<a"))
	plain := string(start.Inline)
	for _, c := range []struct {
		name, manual string
		want         bool
	}{{"no limit", "", true}, {"a limit", `"manual":{"timeout":"1h"},`, false}} {
		start.Inline = []byte(strings.Replace(plain, `"stepId":"ask","timeout":"1m","type":"NOOP"`,
			c.manual+`"stepId":"ask","timeout":"1m","type":"MANUAL"`, 1))
		if string(start.Inline) == plain {
			t.Fatalf("the document has no step to make manual: %s", plain)
		}
		p := w.preview(w.Engineer(), runs.PreviewAction{Start: &start})
		got := strings.Contains(strings.Join(p.Warnings, " "), "Waits for a person without a limit: ask.")
		if got != c.want {
			t.Errorf("%s: warned %t, want %t: %q", c.name, got, c.want, p.Warnings)
		}
	}
}

// contract: O10
func TestPreview_RerunSaysWhatItTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateFailed("r1")
	p := w.preview(w.Engineer(), runs.PreviewAction{Rerun: &runs.Rerun{RunID: id, RequestID: "r2", Failed: true}})
	want := []string{"APPLY  RUNNING", "REUSE a SUCCESS>SUCCESS", "RERUN b FAILED>RUNNING", "RERUN c SKIPPED>PENDING",
		"REUSE d SUCCESS>SUCCESS"}
	if d := cmp.Diff(want, tell(p)); d != "" {
		t.Error(d)
	}
	other := w.CreateRunning("r3", "a")
	p = w.preview(w.Engineer(), runs.PreviewAction{Rerun: &runs.Rerun{RunID: other, RequestID: "r4", Start: true}})
	if d := cmp.Diff([]string{"REFUSED INVALID_RUN_STATE"}, tell(p)); d != "" {
		t.Error(d)
	}
}

// contract: T193
func TestPreview_SaysRunMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("r1", "a")
	before := w.StateOf(id).Seq - 1
	in := about(id, run.Pause, "")
	in.ExpectedRunSeq = &before
	w.previews(in, "REFUSED RUN_MOVED")
}

// contract: T101
func TestPreview_ADenialIsAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("r1", "a")
	in := about(id, run.Pause, "")
	p := w.preview(w.Principal("dev-viewer"), runs.PreviewAction{Signal: &in})
	if d := cmp.Diff([]string{"REFUSED FORBIDDEN"}, tell(p)); d != "" || p.BasedOnSeq != 0 {
		t.Errorf("%s%+v", d, p)
	}
	for _, runID := range []string{id, "nosuch"} {
		in.RunID = runID
		_, err := w.PreviewAction(t.Context(), w.Principal("nobody"), runs.PreviewAction{Signal: &in})
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	in = about(id, run.RetryStep, "no/step")
	_, err := w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{Signal: &in})
	controltest.Refusal(t, err, run.CodeBadInput)
}

// The test compares every table except the checkpoints, which the projector writes at any time.
// contract: O10
func TestPreview_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("r1", "a", "b<a")
	ended := w.CreateFailed("r2")
	controltest.Eventually(t, "the log of the run that ended is sealed", func() bool {
		return controltest.Must[store.LogSeal](t)(w.Raw.LastLogSeal(t.Context(), "acme", ended, 1000)).Seq > 0
	})
	before := w.tables()
	for _, who := range []authz.Principal{w.Principal("dev-admin"), w.Principal("dev-viewer")} {
		for _, s := range []run.SignalType{
			run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride, run.EscalateAlert,
			run.UpdateTarget, run.EmergencyStop, run.Cancel,
		} {
			in := about(id, s, "")
			if in.Payload != nil && strings.Contains(string(in.Payload), "stepId") {
				in = about(id, s, "a")
			}
			_, _ = w.PreviewAction(t.Context(), who, runs.PreviewAction{Signal: &in})
		}
		start := controltest.StartOf("r9", controltest.Document(nil, "a"))
		w.preview(who, runs.PreviewAction{Start: &start})
		w.preview(who, runs.PreviewAction{Rerun: &runs.Rerun{RunID: ended, RequestID: "r9", Failed: true}})
	}
	if d := cmp.Diff(before, w.tables()); d != "" {
		t.Errorf("a preview changed (-before +after):\n%s", d)
	}
}

// tables counts the rows of the tables and the changes of operational state.
func (w *world) tables() map[string]int {
	w.T.Helper()
	db := controltest.Must[*sql.DB](w.T)(sql.Open("sqlite", filepath.Join(w.Dir, "dvt.db")))
	defer db.Close()
	//nolint:rowserrcheck // it is, below
	names := controltest.Must[*sql.Rows](w.T)(db.QueryContext(w.T.Context(),
		`SELECT name FROM sqlite_master WHERE type = 'table'`))
	defer names.Close()
	out := map[string]int{}
	for names.Next() {
		var name string
		if err := names.Scan(&name); err != nil {
			w.T.Fatal(err)
		}
		if strings.Contains(name, "state") || strings.Contains(name, "dirty") || strings.HasPrefix(name, "sqlite") {
			continue
		}
		out[name] = 0
	}
	if err := names.Err(); err != nil {
		w.T.Fatal(err)
	}
	for name := range out {
		var n int
		if err := db.QueryRowContext(w.T.Context(), `SELECT count(*) FROM `+name).Scan(&n); err != nil {
			w.T.Fatal(err)
		}
		out[name] = n
	}
	var revs int
	if err := db.QueryRowContext(w.T.Context(), `SELECT sum(ops_rev + last_seq) FROM run_head`).Scan(&revs); err != nil {
		w.T.Fatal(err)
	}
	out["ops_rev + last_seq"] = revs
	return out
}

func named(in runs.SignalRun, id string) runs.SignalRun {
	in.Signal.ID = id
	return in
}

func TestPreviewAction_NamesWhoCouldStartTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := controltest.StartOf("r1", controltest.Document(nil, "s1"))
	p := controltest.Must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.Principal("dev-viewer"),
		runs.PreviewAction{Start: &in}))
	if p.Code != run.CodeForbidden || !slices.Contains(p.WhoCould, "dev-engineer") {
		t.Errorf("the preview is %+v, want FORBIDDEN with dev-engineer among those who could", p)
	}
}

// A preview says that the run would wait in the queue, as the start then does: nothing starts at once.
func TestPreview_OfAStartThatQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()))
	ask := func() runs.ActionPreview {
		return controltest.Must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{
			Start: new(controltest.StartOf("s1", controltest.Document(nil, "a", "b<a")))}))
	}
	if p := ask(); p.Status != run.Running || len(p.Warnings) > 0 {
		t.Errorf("with a token left the preview is %s with %q, want RUNNING without a warning", p.Status, p.Warnings)
	}
	for _, request := range []string{"r1", "r2", "r3"} { // two tokens a minute: the third run waits
		w.StartOneStep(request)
	}
	p := ask()
	if diff := cmp.Diff([]runs.StepChange{{StepID: "a", Kind: "SCHEDULE", From: run.StepPending, To: run.StepPending,
		Why: "Starts when the run leaves the queue."}}, p.Changes); diff != "" || p.Status != run.Pending {
		t.Errorf("%s: changes (-want +got):\n%s", p.Status, diff)
	}
	said := strings.Join(p.Warnings, " ")
	for _, want := range []string{"number 2 in the queue of project shop", "It fails at ",
		" UTC if it still waits then."} {
		if !strings.Contains(said, want) {
			t.Errorf("the warnings are %q, want %q", said, want)
		}
	}
}

// A preview of a run that waits for approval does not say that steps start.
func TestPreview_OfARunThatWaitsForApprovalStartsNoStep(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 2)
	p := controltest.Must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{
		Start: new(controltest.StartOf("s1", controltest.Document(nil, "a", "b<a")))}))
	if diff := cmp.Diff([]runs.StepChange{{StepID: "a", Kind: "SCHEDULE", From: run.StepPending, To: run.StepPending,
		Why: "Starts when the run is approved."}}, p.Changes); diff != "" || p.Status != run.Pending {
		t.Errorf("%s: changes (-want +got):\n%s", p.Status, diff)
	}
	if diff := cmp.Diff([]string{"The run waits for 2 approvals. Nothing starts before."}, p.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
