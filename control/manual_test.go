package control_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

func secret(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

func manualKeys(t testing.TB, list ...string) func(*usecases.Config) {
	keys := must[[]runs.ManualKey](t)(runs.ParseManualKeys(list))
	return func(c *usecases.Config) { c.ManualKeys = keys }
}

// manualPlan returns a plan with steps that wait for a person. sod of a step is false when its id ends with "-any".
func manualPlan(steps ...string) []byte {
	var list []M
	for _, id := range steps {
		step := M{"stepId": id, "type": "MANUAL", "timeout": "1m", "inputs": M{"instructions": "look at " + id,
			"evidence": []string{"ticket"}}}
		if strings.HasSuffix(id, "-any") {
			step["manual"] = M{"sod": false}
		}
		list = append(list, step)
	}
	return document(M{"steps": list})
}

// manual makes a run whose steps wait for a person.
func (w *world) manual(requestID string, steps ...string) string {
	w.t.Helper()
	id := must[runs.StartedRun](w.t)(
		w.StartRun(w.t.Context(), w.eng(), startOf(requestID, manualPlan(steps...)))).View.Run.RunID
	w.append(id, runtest.Start(steps...))
	for _, step := range steps {
		w.wait(id, step, 1)
	}
	return id
}

// wait writes the events of the interpreter when a MANUAL step starts.
func (w *world) wait(runID, stepID string, logicalAttempt int) {
	w.t.Helper()
	w.append(runID, runtest.Draft(run.StepStartedEvent, stepID, logicalAttempt), runtest.Draft(
		run.StepAwaitingManualCompletion, stepID, logicalAttempt))
}

func (w *world) tasks(p authz.Principal, runID string) runs.ManualTasksPage {
	w.t.Helper()
	return must[runs.ManualTasksPage](w.t)(w.ManualTasks(w.t.Context(), p, runs.ManualTasksQuery{RunID: runID}))
}

// task returns the only task of a step, once the projector has seen it.
func (w *world) task(p authz.Principal, runID, stepID string, logicalAttempt int) (out runs.ManualTask) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("task of %s/%d", stepID, logicalAttempt), func() bool {
		for _, task := range w.tasks(p, runID).Tasks {
			if task.StepID == stepID && task.LogicalAttempt == logicalAttempt {
				out = task
				return true
			}
		}
		return false
	})
	return out
}

func (w *world) complete(p authz.Principal, task runs.ManualTask, outcome run.ManualOutcome,
	change ...func(*runs.CompleteManualStep)) (runs.SignalReceipt, error) {
	in := runs.CompleteManualStep{RunID: task.Identity.RunID, StepID: task.StepID, Token: task.Token, Outcome: outcome}
	for _, f := range change {
		f(&in)
	}
	return w.CompleteManualStep(w.t.Context(), p, in)
}

// foreign returns an admin of another tenant.
func (w *world) foreign() authz.Principal {
	p := w.who("dev-admin")
	p.TenantID = "globex"
	return p
}

// applyCompletion writes the events of the interpreter for an accepted completion.
func (w *world) applyCompletion(r runs.SignalReceipt, t run.EventType) {
	w.t.Helper()
	d := runtest.Draft(t, r.Signal.StepID, r.Signal.ExpectedAttempt,
		M{"manual": M{"signalId": r.Signal.ID, "outcome": outcome(w.t, r)}})
	w.applied(r.RunID, r.Signal.ID, d)
}

func outcome(t testing.TB, r runs.SignalReceipt) (out run.ManualOutcome) {
	t.Helper()
	var p struct{ Outcome run.ManualOutcome }
	if err := json.Unmarshal(r.Payload, &p); err != nil {
		t.Fatal(err)
	}
	return p.Outcome
}

// contract: T201
func TestManualKeys_SayWhatIsWrongAndNeverTheSecret(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{
		{"k1"}, {":" + secret("a")}, {"k 1:" + secret("a")}, {"k1:" + base64.StdEncoding.EncodeToString([]byte("short"))},
		{"k1:%%%"},
		{"k1:" + secret("a"), "k1:" + secret("b")},
	} {
		if _, err := runs.ParseManualKeys(list); err == nil || strings.Contains(err.Error(), secret("a")) {
			t.Errorf("ParseManualKeys of %v returned %v, want an error without the secret", list, err)
		}
	}
	keys := must[[]runs.ManualKey](t)(runs.ParseManualKeys([]string{"k1:" + secret("s")}))
	raw := strings.Repeat("s", 32)
	for _, text := range []string{fmt.Sprint(keys[0]), fmt.Sprintf("%+v", keys), fmt.Sprintf("%#v", keys),
		keys[0].LogValue().String()} {
		if strings.Contains(text, secret("s")) || strings.Contains(text, raw) || strings.Contains(text, "115, 115") ||
			strings.Contains(text, "0x73, 0x73") {
			t.Errorf("the secret is printed: %s", text)
		}
	}
}

// contract: T85, T201
func TestManualTasks_OnlyThoseWhoMayCompleteGetTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check", "sign-any")
	for token, want := range map[string]string{
		"dev-admin":    "APPLY APPLY",
		"dev-engineer": "REFUSED SOD_VIOLATION APPLY", // who asked for the run
		"dev-operator": "REFUSED FORBIDDEN REFUSED FORBIDDEN",
		"dev-viewer":   "REFUSED FORBIDDEN REFUSED FORBIDDEN",
	} {
		var got []string
		for _, step := range []string{"check", "sign-any"} {
			task := w.task(w.who(token), id, step, 1)
			got = append(got, strings.TrimSpace(task.Action.Outcome+" "+string(task.Action.Code)))
			could := map[string][]string{"check": {"dev-admin"}, "sign-any": {"dev-admin", "dev-engineer"}}[step]
			if task.Action.Code != "" && !slices.Equal(task.Action.WhoCould, could) {
				t.Errorf("%s of %s: %v could complete it, want %v", step, token, task.Action.WhoCould, could)
			}
			if (task.Token != "") != (task.Action.Outcome == "APPLY") {
				t.Errorf("%s of %s has the token %q, want one exactly for APPLY", step, token, task.Token)
			}
			if task.Instructions != "look at "+step || string(task.Evidence) != `["ticket"]` || task.Since.IsZero() ||
				task.Action.Reason == "" {
				t.Errorf("the task is %+v, want all of its facts", task)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", token, diff)
		}
	}
	if n := len(w.tasks(w.foreign(), "").Tasks); n != 0 {
		t.Errorf("another tenant sees %d tasks, want none", n)
	}
	for _, p := range []authz.Principal{w.foreign(), w.who("nobody")} {
		_, err := w.ManualTasks(t.Context(), p, runs.ManualTasksQuery{RunID: id})
		refusal(t, err, run.CodeNotFound)
	}
	if n := len(w.tasks(w.who("nobody"), "").Tasks); n != 0 {
		t.Errorf("a principal without a grant sees %d tasks, want none", n)
	}
	log := fmt.Sprint(w.log(id), w.audit("acme"))
	if task := w.task(w.who("dev-admin"), id, "check", 1); strings.Contains(log, task.Token) {
		t.Error("the token is in the log")
	}
}

func TestManualTasks_PagesByTheLongestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	var want, got []string
	for i := range 5 {
		id := w.manual(fmt.Sprint("r", i), "b", "a")
		want = append(want, id+"/b", id+"/a")
	}
	eventually(t, "ten tasks", func() bool { return len(w.tasks(w.eng(), "").Tasks) == 10 })
	q := runs.ManualTasksQuery{First: 3}
	for {
		page := must[runs.ManualTasksPage](t)(w.ManualTasks(t.Context(), w.eng(), q))
		for _, task := range page.Tasks {
			got = append(got, task.Identity.RunID+"/"+task.StepID)
		}
		if !page.HasNext {
			break
		}
		q.After = page.Cursors[len(page.Cursors)-1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	for _, after := range []string{"x", "2026-01-01T00:00:00Z run", "then run step"} {
		_, err := w.ManualTasks(t.Context(), w.eng(), runs.ManualTasksQuery{After: after})
		refusal(t, err, run.CodeCursorInvalid)
	}
	_, err := w.ManualTasks(t.Context(), w.eng(), runs.ManualTasksQuery{First: 201})
	refusal(t, err, run.CodeBadInput)
}

// contract: M01
func TestCompleteManual_TheLogSaysWhoWhenAndWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check")
	admin := w.who("dev-admin")
	task := w.task(admin, id, "check", 1)
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	r, err := w.complete(admin, task, run.ManualSucceeded, func(c *runs.CompleteManualStep) {
		c.Notes, c.EvidenceRefs, c.CompletedAt, c.Actor = "fine", []string{"https://tickets.example/7"}, at, "dev-admin"
	})
	if err != nil || r.Rejected || r.Duplicate || r.No != 1 || r.Signal.Type != run.CompleteManual ||
		r.Application != run.SignalPending {
		t.Fatalf("the receipt is %+v with the error %v, want PENDING", r, err)
	}
	w.spawn(func(ctx context.Context) error { return w.Deliver(ctx, "test") })
	eventually(t, "delivered", func() bool { return len(w.engine.delivered(id)) == 1 })
	if s := w.engine.delivered(id)[0]; s.Outcome != run.ManualSucceeded || s.LogicalAttempt != 1 || s.StepID != "check" ||
		s.Type != run.CompleteManual {
		t.Errorf("the delivered signal is %+v, want COMPLETE_MANUAL", s)
	}
	if s := must[[]engine.Signal](t)(w.journal.Signals(t.Context(), id, 0)); len(s) != 1 ||
		s[0].Outcome != run.ManualSucceeded {
		t.Errorf("the fetched signals are %+v, want the outcome SUCCEEDED", s)
	}
	w.applyCompletion(r, run.StepCompletedEvent)
	evs := must[[]run.Event](t)(w.raw.Events(t.Context(), id, 0, 100))
	var p struct {
		Manual           run.ManualEnd `json:"manual"`
		SourceOccurredAt time.Time     `json:"sourceOccurredAt"`
	}
	if err := json.Unmarshal(evs[len(evs)-1].Payload, &p); err != nil {
		t.Fatal(err)
	}
	want := run.ManualEnd{SignalID: r.Signal.ID, Outcome: run.ManualSucceeded, Actor: "dev-admin", Notes: "fine",
		EvidenceRefs: []string{"https://tickets.example/7"}}
	if diff := cmp.Diff(want, p.Manual); diff != "" || !p.SourceOccurredAt.Equal(at) {
		t.Errorf("payload at %v (-want +got):\n%s", p.SourceOccurredAt, diff)
	}
	if !w.audited("acme", "dev-admin COMPLETE_MANUAL_STEP ACCEPTED  "+id) {
		t.Errorf("the audit has no row of the completion: %v", w.audit("acme"))
	}
}

// contract: M02
func TestCompleteManual_RefusesInTheOrderOfItsChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check", "other", "late")
	admin := w.who("dev-admin")
	check, other, late := w.task(admin, id, "check", 1), w.task(admin, id, "other", 1), w.task(admin, id, "late", 1)
	w.append(id, runtest.Draft(run.StepFailedEvent, "late", 1)) // it timed out
	before := w.log(id)
	seq := run.Seq(1)
	for name, c := range map[string]struct {
		who  string
		task runs.ManualTask
		code run.Code
		with func(*runs.CompleteManualStep)
	}{
		"wrong token": {"dev-admin", check, run.CodeManualToken,
			func(c *runs.CompleteManualStep) { c.Token = other.Token }},
		"broken token": {"dev-admin", check, run.CodeManualToken,
			func(c *runs.CompleteManualStep) { c.Token = c.Token[:len(c.Token)-1] }},
		"not waiting": {"dev-admin", late, run.CodeManualNotWaiting, nil},
		"no such step": {"dev-admin", check, run.CodeStepNotFound,
			func(c *runs.CompleteManualStep) { c.StepID = "ghost" }},
		"sod": {"dev-engineer", check, run.CodeSOD, nil},
		"spoof": {"dev-admin", check, run.CodeForbidden,
			func(c *runs.CompleteManualStep) { c.Actor = "dev-engineer" }},
		"role":           {"dev-operator", check, run.CodeForbidden, nil},
		"another tenant": {"globex", check, run.CodeNotFound, nil},
		"moved": {"dev-admin", check, run.CodeRunMoved,
			func(c *runs.CompleteManualStep) { c.ExpectedRunSeq = &seq }},
		"spoof and wrong": {"dev-admin", check, run.CodeForbidden, func(c *runs.CompleteManualStep) {
			c.Actor,
				c.Token = "x", "x"
		}},
		"sod and wrong": {"dev-engineer", check, run.CodeManualToken,
			func(c *runs.CompleteManualStep) { c.Token = "x" }},
		"moved, yet first": {"dev-engineer", check, run.CodeSOD,
			func(c *runs.CompleteManualStep) { c.ExpectedRunSeq = &seq }},
	} {
		with := c.with
		if with == nil {
			with = func(*runs.CompleteManualStep) {}
		}
		who := w.foreign()
		if c.who != "globex" {
			who = w.who(c.who)
		}
		_, err := w.complete(who, c.task, run.ManualSucceeded, with)
		t.Log(name)
		refusal(t, err, c.code)
	}
	if diff := cmp.Diff(before, w.log(id)); diff != "" {
		t.Errorf("refusals are in the log (-before +after):\n%s", diff)
	}
	for _, row := range []string{
		"dev-admin COMPLETE_MANUAL_STEP DENIED MANUAL_TOKEN_INVALID " + id,
		"dev-admin COMPLETE_MANUAL_STEP REJECTED MANUAL_NOT_WAITING " + id,
		"dev-engineer COMPLETE_MANUAL_STEP REJECTED SOD_VIOLATION " +
			id, "dev-admin COMPLETE_MANUAL_STEP DENIED FORBIDDEN " +
			id,
		"dev-operator COMPLETE_MANUAL_STEP DENIED FORBIDDEN " + id, "dev-admin COMPLETE_MANUAL_STEP REJECTED RUN_MOVED " +
			id,
	} {
		if !w.audited("acme", row) {
			t.Errorf("no audit row %q in %v", row, w.audit("acme"))
		}
	}
	_, err := w.complete(admin, check, "MAYBE", func(c *runs.CompleteManualStep) {
		c.Token, c.EvidenceRefs, c.CompletedAt = "", append(make([]string, 50), "x"), time.Now().Add(time.Hour)
	})
	var paths []string
	for _, v := range refusal(t, err, run.CodeBadInput).Violations {
		paths = append(paths, v.Path)
	}
	if got := strings.Join(paths, " "); !strings.HasPrefix(got, "token outcome evidenceRefs evidenceRefs[0]") ||
		!strings.HasSuffix(got, "completedAt") {
		t.Errorf("the violations are %s, want all of them", got)
	}
}

// contract: M02, T86
func TestCompleteManual_TheFirstOutcomeStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check-any")
	admin := w.who("dev-admin")
	task := w.task(admin, id, "check-any", 1)
	var all sync.WaitGroup
	receipts := make([]runs.SignalReceipt, 8)
	for i := range receipts {
		all.Go(func() {
			receipts[i] = must[runs.SignalReceipt](t)(
				w.complete(admin, task, []run.ManualOutcome{run.ManualSucceeded, run.ManualFailed}[i%2]))
		})
	}
	all.Wait()
	first := 0
	for _, r := range receipts {
		if !r.Duplicate {
			first++
		}
		if r.Signal.ID != receipts[0].Signal.ID || outcome(t, r) != outcome(t, receipts[0]) {
			t.Errorf("the receipt is %+v, want that of the first completion", r)
		}
	}
	if first != 1 || w.count(id, run.SignalAccepted) != 1 {
		t.Errorf("%d completions were the first, want 1; the log is %v", first, w.log(id))
	}
	// The first outcome stands for another person, after it was applied, and after the end of the run.
	w.applyCompletion(receipts[0], run.StepCompletedEvent)
	w.append(id, runtest.Draft(run.RunCompleted, "", 1))
	again, err := w.complete(w.eng(), task, run.ManualCancelled)
	if err != nil || !again.Duplicate || outcome(t, again) != outcome(t, receipts[0]) ||
		again.Application != run.SignalApplied {
		t.Errorf("the repeated completion is %+v with the error %v, want the first receipt, APPLIED", again, err)
	}
}

// contract: M03
func TestCompleteManual_ARetryMakesTheTokenVoid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check")
	admin := w.who("dev-admin")
	old := w.task(admin, id, "check", 1)
	r := must[runs.SignalReceipt](t)(w.complete(admin, old, run.ManualFailed))
	w.applyCompletion(r, run.StepFailedEvent)
	if again := must[runs.SignalReceipt](t)(w.complete(admin, old, run.ManualSucceeded)); !again.Duplicate {
		t.Errorf("the repetition before the retry is %+v, want a duplicate", again)
	}
	if n := len(w.tasks(admin, id).Tasks); n != 0 {
		t.Errorf("%d tasks are open after the completion, want none", n)
	}
	w.wait(id, "check", 2)
	fresh := w.task(admin, id, "check", 2)
	if fresh.Token == old.Token || fresh.Token == "" {
		t.Errorf("the tokens are %q and %q, want different ones", old.Token, fresh.Token)
	}
	_, err := w.complete(admin, old, run.ManualSucceeded)
	refusal(t, err, run.CodeManualToken)
	second := must[runs.SignalReceipt](t)(w.complete(admin, fresh, run.ManualSucceeded))
	if second.Duplicate || second.Signal.ID == r.Signal.ID || second.Signal.ExpectedAttempt != 2 {
		t.Errorf("the completion of the second attempt is %+v, want a new receipt for attempt 2", second)
	}
}

// contract: M03
func TestCompleteManual_IsAcceptedWhileTheRunIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check")
	w.append(id, runtest.Draft(run.RunPaused, "", 1))
	admin := w.who("dev-admin")
	if r := must[runs.SignalReceipt](t)(w.complete(admin, w.task(admin, id, "check", 1),
		run.ManualSucceeded)); r.Rejected {
		t.Errorf("the receipt is %+v, want an accepted completion", r)
	}
}

// contract: T201
func TestCompleteManual_OldKeysVerifyAfterARotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check", "b")
	admin := w.who("dev-admin")
	task, b := w.task(admin, id, "check", 1), w.task(admin, id, "b", 1)
	with := func(keys ...string) *usecases.UseCases {
		cfg := w.config
		cfg.Metrics = nil
		manualKeys(t, keys...)(&cfg)
		return usecases.New(cfg)
	}
	complete := func(s *usecases.UseCases, task runs.ManualTask) error {
		_, err := s.CompleteManualStep(t.Context(), admin, runs.CompleteManualStep{
			RunID: id, StepID: task.StepID, Token: task.Token, Outcome: run.ManualSucceeded,
		})
		return err
	}
	refusal(t, complete(with("k2:"+secret("b")), task), run.CodeManualToken)
	refusal(t, complete(with("k1:"+secret("b")), task), run.CodeManualToken) // the id alone is nothing
	refusal(t, complete(with(), task), run.CodeNotSupported)
	if err := complete(with("k2:"+secret("b"), "k1:"+secret("a")), task); err != nil {
		t.Error(err)
	}
	page := must[runs.ManualTasksPage](t)(with("k2:"+secret("b"), "k1:"+secret("a")).ManualTasks(t.Context(), admin,
		runs.ManualTasksQuery{RunID: id}))
	for _, task := range page.Tasks {
		if task.StepID == "b" && (!strings.HasPrefix(task.Token, "k2.") || task.Token == b.Token) {
			t.Errorf("the token is %s, want one of the new key", task.Token)
		}
	}
	page = must[runs.ManualTasksPage](t)(with().ManualTasks(t.Context(), admin, runs.ManualTasksQuery{RunID: id}))
	if len(page.Tasks) == 0 || page.Tasks[0].Token != "" || page.Tasks[0].Action.Outcome != "UNSUPPORTED" {
		t.Errorf("without keys the tasks are %+v, want UNSUPPORTED without a token", page.Tasks)
	}
}

// contract: T86
func TestSignalRun_IDsOfCompletionsAreReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("a")))
	id := w.manual("r1", "check")
	_, err := w.SignalRun(t.Context(), w.eng(), signal(id, "manual.1", run.Pause))
	refusal(t, err, run.CodeBadInput)
	if n := len(must[[]run.SignalReceipt](t)(w.raw.Receipts(t.Context(), id, "", 10))); n != 0 {
		t.Errorf("the run has %d receipts, want none", n)
	}
}
