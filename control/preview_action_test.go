package control_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
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
	w.t.Helper()
	return must[runs.ActionPreview](w.t)(w.PreviewAction(w.t.Context(), p, in))
}

// previews compares the preview of a signal with want.
func (w *world) previews(in runs.SignalRun, want ...string) {
	w.t.Helper()
	p := w.preview(w.who("dev-admin"), runs.PreviewAction{Signal: &in})
	if d := cmp.Diff(want, tell(p)); d != "" {
		w.t.Errorf("%s %s (-want +got):\n%s", in.Signal.Type, in.Signal.StepID, d)
	}
	if p.Reason == "" {
		w.t.Errorf("%s gives no reason", in.Signal.Type)
	}
	if p.Outcome != "REFUSED" && p.BasedOnSeq != w.state(in.RunID).Seq {
		w.t.Errorf("the preview of %s is based on seq %d, want the head", in.Signal.Type, p.BasedOnSeq)
	}
}

func about(runID string, t run.SignalType, stepID string) runs.SignalRun {
	in := signal(runID, "", t)
	in.Signal.StepID = stepID
	var payload M
	if json.Unmarshal(in.Payload, &payload) == nil && payload["stepId"] != nil {
		payload["stepId"] = stepID
		in.Payload = runtest.JSON(payload)
	}
	return in
}

// cancellable returns a document whose steps are cancellable, also by a pause.
func cancellable(steps ...string) []byte {
	var doc M
	_ = json.Unmarshal(document(nil, steps...), &doc)
	for _, s := range doc["steps"].([]any) {
		s := s.(M)
		if id := s["stepId"].(string); strings.HasPrefix(id, "c") {
			s["dispatch"] = M{"cancellable": true, "allowCancelOnPause": strings.HasPrefix(id, "cp")}
		}
	}
	return runtest.JSON(doc)
}

func (w *world) runningPlan(requestID string, doc []byte) string {
	w.t.Helper()
	id := must[runs.StartedRun](w.t)(w.StartRun(w.t.Context(), w.eng(), startOf(requestID, doc))).View.Run.RunID
	w.handOver()
	w.append(id, runtest.Start())
	return id
}

// A pause cannot be taken back while steps run on, so its preview says until about when they do.
func TestPreview_PauseSaysWhenItsStepsFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.runningPlan("r1", cancellable("a", "c1"))
	w.begin(id, "a", 1)
	w.begin(id, "c1", 1)
	began := *w.state(id).Steps[0].Attempts[0].StartedAt
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
	id := w.runningPlan("r1", cancellable("a", "b<a", "c1", "cp", "d<cp"))
	w.begin(id, "a", 1)
	w.begin(id, "c1", 1)
	w.begin(id, "cp", 1)
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
	id := w.running("r1", "a", "b<a", "c", "d<c")
	w.begin(id, "a", 1)
	w.begin(id, "c", 1)
	w.append(id, runtest.Draft(run.StepFailedEvent, "a", 1))
	w.previews(about(id, run.RetryStep, "a"), "APPLY  RUNNING", "RERUN a FAILED>RUNNING")
	w.previews(about(id, run.SkipStep, "a"), "APPLY  RUNNING", "SKIP a FAILED>SKIPPED", "SCHEDULE b PENDING>RUNNING",
		"! Steps that depend on it start without its outputs: b.")
	w.append(id, runtest.Draft(run.StepFailedEvent, "c", 1))
	w.previews(about(id, run.RetryStep, "c"), "APPLY  RUNNING", "RERUN c FAILED>RUNNING", "blocked b")
	params := about(id, run.UpdateParams, "")
	params.Signal.StepID, params.Payload = "c", runtest.JSON(M{"stepId": "c", "newParams": M{"day": "x"}})
	w.previews(params, "APPLY  RUNNING", "CHANGE c FAILED>FAILED", "blocked b d")
	w.previews(about(id, run.Cancel, ""), "APPLY  CANCELLED")
	w.append(id, runtest.Draft(run.RunFailed, "", 1))
	w.previews(about(id, run.RetryStep, "a"), "REFUSED RUN_TERMINAL")
}

// contract: O10
func TestPreview_AppliesPendingSignalsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("r1", "a", "b", "c<a")
	w.begin(id, "a", 1)
	w.append(id, runtest.Draft(run.StepFailedEvent, "a", 1))
	w.send(w.eng(), named(about(id, run.Pause, ""), "p1"))
	w.previews(about(id, run.Pause, ""), "NOOP ALREADY_IN_STATE PAUSED", "blocked b c",
		"! 1 signal is on the way and counted in.")
	w.previews(about(id, run.RetryStep, "a"), "APPLY  PAUSED", "blocked b c", "! 1 signal is on the way and counted in.",
		"! It takes effect when the run is resumed.")
	w.applied(id, "p1", runtest.Draft(run.RunPaused, "", 1, M{"signalId": "p1"}))
	w.send(w.eng(), named(about(id, run.RetryStep, "a"), "p2"))
	w.previews(about(id, run.RetryStep, "a"), "NOOP SUPERSEDED PAUSED", "blocked b c",
		"! 1 signal is on the way and counted in.")
	w.previews(about(id, run.Resume, ""), "APPLY  RUNNING", "RERUN a FAILED>RUNNING", "SCHEDULE b PENDING>RUNNING",
		"! 1 signal is on the way and counted in.")
}

// contract: T46
func TestPreview_ResumeWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("r1", "a", "b<a")
	w.begin(id, "a", 1)
	w.send(w.eng(), named(about(id, run.Pause, ""), "p1"))
	w.applied(id, "p1", runtest.Draft(run.RunPaused, "", 1, M{"signalId": "p1"}))
	w.previews(about(id, run.Resume, ""), "APPLY  RUNNING", "blocked b",
		"! The run stays paused until these steps have ended: a.")
	w.previews(about(id, run.Cancel, ""), "APPLY  CANCELLED", "CANCEL a RUNNING>FAILED",
		"! The run stays paused until its active steps have stopped.", "! May not stop at once: a.")
}

// contract: O10
func TestPreview_ARunThatHasNotStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.queued("r1", "a", "b<a")
	w.previews(about(id, run.Cancel, ""), "APPLY  CANCELLED")
	w.previews(about(id, run.Pause, ""), "REFUSED INVALID_RUN_STATE")
	w.previews(about(id, run.UpdateParams, ""), "APPLY  APPROVED", "CHANGE a PENDING>PENDING", "CHANGE b PENDING>PENDING")
}

// contract: O10
func TestPreview_CompletionOfAManualStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("s")))
	doc := document(M{"steps": []M{
		{"stepId": "gate", "type": "MANUAL", "timeout": "1m", "inputs": M{"instructions": "look"}},
		{"stepId": "after", "type": "NOOP", "timeout": "1m", "inputs": M{}, "dependsOn": []string{"gate"}},
	}})
	id := w.runningPlan("r1", doc)
	w.wait(id, "gate", 1)
	other := w.who("dev-admin")
	task := w.task(other, id, "gate", 1)
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
	ask(w.who("dev-viewer"), "REFUSED FORBIDDEN")
	in.Token = "other"
	ask(other, "REFUSED MANUAL_TOKEN_INVALID")
	in.Token = task.Token
	must[runs.SignalReceipt](t)(w.complete(other, task, run.ManualSucceeded))
	ask(other, "NOOP SUPERSEDED RUNNING")
}

// contract: O10
func TestPreview_StartSchedulesTheFirstSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := startOf("r1", document(nil, "a", "b<a", "c"))
	p := w.preview(w.eng(), runs.PreviewAction{Start: &start})
	if d := cmp.Diff([]string{"APPLY  RUNNING", "SCHEDULE a PENDING>RUNNING", "SCHEDULE c PENDING>RUNNING"},
		tell(p)); d != "" {
		t.Error(d)
	}
	start.Inline = document(nil, "a", "b<zz")
	_, err := w.PreviewAction(t.Context(), w.eng(), runs.PreviewAction{Start: &start})
	refusal(t, err, run.CodePlanInvalid)
}

// contract: O10
func TestPreview_RerunSaysWhatItTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.failedRun("r1")
	p := w.preview(w.eng(), runs.PreviewAction{Rerun: &runs.Rerun{RunID: id, RequestID: "r2", Failed: true}})
	want := []string{"APPLY  RUNNING", "REUSE a SUCCESS>SUCCESS", "RERUN b FAILED>RUNNING", "RERUN c SKIPPED>PENDING",
		"REUSE d SUCCESS>SUCCESS"}
	if d := cmp.Diff(want, tell(p)); d != "" {
		t.Error(d)
	}
	other := w.running("r3", "a")
	p = w.preview(w.eng(), runs.PreviewAction{Rerun: &runs.Rerun{RunID: other, RequestID: "r4", Start: true}})
	if d := cmp.Diff([]string{"REFUSED INVALID_RUN_STATE"}, tell(p)); d != "" {
		t.Error(d)
	}
}

// contract: T193
func TestPreview_SaysRunMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("r1", "a")
	before := w.state(id).Seq - 1
	in := about(id, run.Pause, "")
	in.ExpectedRunSeq = &before
	w.previews(in, "REFUSED RUN_MOVED")
}

// contract: T101
func TestPreview_ADenialIsAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("r1", "a")
	in := about(id, run.Pause, "")
	p := w.preview(w.who("dev-viewer"), runs.PreviewAction{Signal: &in})
	if d := cmp.Diff([]string{"REFUSED FORBIDDEN"}, tell(p)); d != "" || p.BasedOnSeq != 0 {
		t.Errorf("%s%+v", d, p)
	}
	for _, runID := range []string{id, "nosuch"} {
		in.RunID = runID
		_, err := w.PreviewAction(t.Context(), w.who("nobody"), runs.PreviewAction{Signal: &in})
		refusal(t, err, run.CodeNotFound)
	}
	in = about(id, run.RetryStep, "no/step")
	_, err := w.PreviewAction(t.Context(), w.eng(), runs.PreviewAction{Signal: &in})
	refusal(t, err, run.CodeBadInput)
}

// The test compares every table except the checkpoints, which the projector writes at any time.
// contract: O10
func TestPreview_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("r1", "a", "b<a")
	ended := w.failedRun("r2")
	eventually(t, "the log of the run that ended is sealed", func() bool {
		return must[store.LogSeal](t)(w.raw.LastLogSeal(t.Context(), "acme", ended, 1000)).Seq > 0
	})
	before := w.tables()
	for _, who := range []authz.Principal{w.who("dev-admin"), w.who("dev-viewer")} {
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
		start := startOf("r9", document(nil, "a"))
		w.preview(who, runs.PreviewAction{Start: &start})
		w.preview(who, runs.PreviewAction{Rerun: &runs.Rerun{RunID: ended, RequestID: "r9", Failed: true}})
	}
	if d := cmp.Diff(before, w.tables()); d != "" {
		t.Errorf("a preview changed (-before +after):\n%s", d)
	}
}

// tables counts the rows of the tables and the changes of operational state.
func (w *world) tables() map[string]int {
	w.t.Helper()
	db := must[*sql.DB](w.t)(sql.Open("sqlite", filepath.Join(w.dir, "dvt.db")))
	defer db.Close()
	//nolint:rowserrcheck // it is, below
	names := must[*sql.Rows](w.t)(db.QueryContext(w.t.Context(), `SELECT name FROM sqlite_master WHERE type = 'table'`))
	defer names.Close()
	out := map[string]int{}
	for names.Next() {
		var name string
		if err := names.Scan(&name); err != nil {
			w.t.Fatal(err)
		}
		if strings.Contains(name, "state") || strings.Contains(name, "dirty") || strings.HasPrefix(name, "sqlite") {
			continue
		}
		out[name] = 0
	}
	if err := names.Err(); err != nil {
		w.t.Fatal(err)
	}
	for name := range out {
		var n int
		if err := db.QueryRowContext(w.t.Context(), `SELECT count(*) FROM `+name).Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		out[name] = n
	}
	var revs int
	if err := db.QueryRowContext(w.t.Context(), `SELECT sum(ops_rev + last_seq) FROM run_head`).Scan(&revs); err != nil {
		w.t.Fatal(err)
	}
	out["ops_rev + last_seq"] = revs
	return out
}

func named(in runs.SignalRun, id string) runs.SignalRun {
	in.Signal.ID = id
	return in
}
