package runs_test

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
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// contract: T201
func TestManualKeys_SayWhatIsWrongAndNeverTheSecret(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{
		{"k1"}, {":" + controltest.SecretOf("a")}, {"k 1:" + controltest.SecretOf("a")}, {"k1:" +
			base64.StdEncoding.EncodeToString([]byte("short"))},
		{"k1:%%%"},
		{"k1:" + controltest.SecretOf("a"), "k1:" + controltest.SecretOf("b")},
	} {
		if _, err := runs.ParseManualKeys(list); err == nil || strings.Contains(err.Error(), controltest.SecretOf("a")) {
			t.Errorf("ParseManualKeys of %v returned %v, want an error without the secret", list, err)
		}
	}
	keys := controltest.Must[[]runs.ManualKey](t)(runs.ParseManualKeys([]string{"k1:" + controltest.SecretOf("s")}))
	raw := strings.Repeat("s", 32)
	for _, text := range []string{fmt.Sprint(keys[0]), fmt.Sprintf("%+v", keys), fmt.Sprintf("%#v", keys),
		keys[0].LogValue().String()} {
		if strings.Contains(text, controltest.SecretOf("s")) || strings.Contains(text, raw) || strings.Contains(text,
			"115, 115") ||
			strings.Contains(text, "0x73, 0x73") {
			t.Errorf("the secret is printed: %s", text)
		}
	}
}

// contract: T85, T201
func TestManualTasks_OnlyThoseWhoMayCompleteGetTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check", "sign-any")
	for token, want := range map[string]string{
		"dev-admin":    "APPLY APPLY",
		"dev-engineer": "REFUSED SOD_VIOLATION APPLY", // who asked for the run
		"dev-operator": "REFUSED FORBIDDEN REFUSED FORBIDDEN",
		"dev-viewer":   "REFUSED FORBIDDEN REFUSED FORBIDDEN",
	} {
		var got []string
		for _, step := range []string{"check", "sign-any"} {
			task := w.TaskOf(w.Principal(token), id, step, 1)
			got = append(got, strings.TrimSpace(task.Action.Outcome+" "+string(task.Action.Code)))
			could := map[string][]string{"check": {"dev-admin"}, "sign-any": {"dev-admin", "dev-engineer"}}[step]
			if task.Action.Code != "" && !slices.Equal(task.Action.WhoCould, could) {
				t.Errorf("%s of %s: %v could complete it, want %v", step, token, task.Action.WhoCould, could)
			}
			if says := "You started the run"; (task.Action.Code == run.CodeSOD) != strings.HasPrefix(task.Action.Reason, says) {
				t.Errorf("%s of %s: reason %q, want a sentence that begins with %q exactly for who started the run", step, token,
					task.Action.Reason, says)
			}
			if (task.Token != "") != (task.Action.Outcome == "APPLY") {
				t.Errorf("%s of %s has the token %q, want one exactly for APPLY", step, token, task.Token)
			}
			if task.Instructions != "look at "+step || string(task.Evidence) != `["ticket"]` || task.Since.IsZero() ||
				task.StepName != "Step "+step || task.Action.Reason == "" {
				t.Errorf("the task is %+v, want all of its facts", task)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", token, diff)
		}
	}
	if n := len(w.ListTasks(w.ForeignPrincipal(), "").Tasks); n != 0 {
		t.Errorf("another tenant sees %d tasks, want none", n)
	}
	for _, p := range []authz.Principal{w.ForeignPrincipal(), w.Principal("nobody")} {
		_, err := w.ManualTasks(t.Context(), p, runs.ManualTasksQuery{RunID: id})
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	if n := len(w.ListTasks(w.Principal("nobody"), "").Tasks); n != 0 {
		t.Errorf("a principal without a grant sees %d tasks, want none", n)
	}
	log := fmt.Sprint(w.EventLog(id), w.AuditRows("acme"))
	if task := w.TaskOf(w.Principal("dev-admin"), id, "check", 1); strings.Contains(log, task.Token) {
		t.Error("the token is in the log")
	}
}

func TestManualTasks_PagesByTheLongestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	var want, got []string
	for i := range 5 {
		id := w.CreateManual(fmt.Sprint("r", i), "b", "a")
		want = append(want, id+"/b", id+"/a")
	}
	controltest.Eventually(t, "ten tasks", func() bool { return len(w.ListTasks(w.Engineer(), "").Tasks) == 10 })
	q := runs.ManualTasksQuery{First: 3}
	for {
		page := controltest.Must[runs.ManualTasksPage](t)(w.ManualTasks(t.Context(), w.Engineer(), q))
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
		_, err := w.ManualTasks(t.Context(), w.Engineer(), runs.ManualTasksQuery{After: after})
		controltest.Refusal(t, err, run.CodeCursorInvalid)
	}
	_, err := w.ManualTasks(t.Context(), w.Engineer(), runs.ManualTasksQuery{First: 201})
	controltest.Refusal(t, err, run.CodeBadInput)
}

// contract: M01
func TestCompleteManual_TheLogSaysWhoWhenAndWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check")
	admin := w.Principal("dev-admin")
	task := w.TaskOf(admin, id, "check", 1)
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	r, err := w.CompleteTask(admin, task, run.ManualSucceeded, func(c *runs.CompleteManualStep) {
		c.Notes, c.EvidenceRefs, c.CompletedAt, c.Actor = "fine", []string{"https://tickets.example/7"}, at, "dev-admin"
	})
	if err != nil || r.Rejected || r.Duplicate || r.No != 1 || r.Signal.Type != run.CompleteManual ||
		r.Application != run.SignalPending {
		t.Fatalf("the receipt is %+v with the error %v, want PENDING", r, err)
	}
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "test") })
	controltest.Eventually(t, "delivered", func() bool { return len(w.Engine.SignalsTo(id)) == 1 })
	if s := w.Engine.SignalsTo(id)[0]; s.Outcome != run.ManualSucceeded || s.LogicalAttempt != 1 || s.StepID != "check" ||
		s.Type != run.CompleteManual {
		t.Errorf("the delivered signal is %+v, want COMPLETE_MANUAL", s)
	}
	if s := controltest.Must[[]engine.Signal](t)(w.Journal.Signals(t.Context(), id, 0)); len(s) != 1 ||
		s[0].Outcome != run.ManualSucceeded {
		t.Errorf("the fetched signals are %+v, want the outcome SUCCEEDED", s)
	}
	w.ApplyCompletion(r, run.StepCompletedEvent)
	evs := controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 0, 100))
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
	if !w.HasAuditRow("acme", "dev-admin COMPLETE_MANUAL_STEP ACCEPTED  "+id) {
		t.Errorf("the audit has no row of the completion: %v", w.AuditRows("acme"))
	}
}

// contract: M02
func TestCompleteManual_RefusesInTheOrderOfItsChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check", "other", "late")
	admin := w.Principal("dev-admin")
	check, other, late := w.TaskOf(admin, id, "check", 1), w.TaskOf(admin, id, "other", 1), w.TaskOf(admin, id, "late", 1)
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "late", 1)) // it timed out
	before := w.EventLog(id)
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
		who := w.ForeignPrincipal()
		if c.who != "globex" {
			who = w.Principal(c.who)
		}
		_, err := w.CompleteTask(who, c.task, run.ManualSucceeded, with)
		t.Log(name)
		controltest.Refusal(t, err, c.code)
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
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
		if !w.HasAuditRow("acme", row) {
			t.Errorf("no audit row %q in %v", row, w.AuditRows("acme"))
		}
	}
	_, err := w.CompleteTask(admin, check, "MAYBE", func(c *runs.CompleteManualStep) {
		c.Token, c.EvidenceRefs, c.CompletedAt = "", append(make([]string, 50), "x"), time.Now().Add(time.Hour)
	})
	var paths []string
	for _, v := range controltest.Refusal(t, err, run.CodeBadInput).Violations {
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
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check-any")
	admin := w.Principal("dev-admin")
	task := w.TaskOf(admin, id, "check-any", 1)
	var all sync.WaitGroup
	receipts := make([]runs.SignalReceipt, 8)
	for i := range receipts {
		all.Go(func() {
			receipts[i] = controltest.Must[runs.SignalReceipt](t)(
				w.CompleteTask(admin, task, []run.ManualOutcome{run.ManualSucceeded, run.ManualFailed}[i%2]))
		})
	}
	all.Wait()
	first := 0
	for _, r := range receipts {
		if !r.Duplicate {
			first++
		}
		if r.Signal.ID != receipts[0].Signal.ID || controltest.Outcome(t, r) != controltest.Outcome(t, receipts[0]) {
			t.Errorf("the receipt is %+v, want that of the first completion", r)
		}
	}
	if first != 1 || w.CountEvents(id, run.SignalAccepted) != 1 {
		t.Errorf("%d completions were the first, want 1; the log is %v", first, w.EventLog(id))
	}
	// The first outcome stands for another person, after it was applied, and after the end of the run.
	w.ApplyCompletion(receipts[0], run.StepCompletedEvent)
	w.AppendEvents(id, runtest.Draft(run.RunCompleted, "", 1))
	again, err := w.CompleteTask(w.Engineer(), task, run.ManualCancelled)
	if err != nil || !again.Duplicate || controltest.Outcome(t, again) != controltest.Outcome(t, receipts[0]) ||
		again.Application != run.SignalApplied {
		t.Errorf("the repeated completion is %+v with the error %v, want the first receipt, APPLIED", again, err)
	}
}

// contract: M03
func TestCompleteManual_ARetryMakesTheTokenVoid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check")
	admin := w.Principal("dev-admin")
	old := w.TaskOf(admin, id, "check", 1)
	r := controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(admin, old, run.ManualFailed))
	w.ApplyCompletion(r, run.StepFailedEvent)
	if again := controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(admin, old,
		run.ManualSucceeded)); !again.Duplicate {
		t.Errorf("the repetition before the retry is %+v, want a duplicate", again)
	}
	if n := len(w.ListTasks(admin, id).Tasks); n != 0 {
		t.Errorf("%d tasks are open after the completion, want none", n)
	}
	w.WaitForPerson(id, "check", 2)
	fresh := w.TaskOf(admin, id, "check", 2)
	if fresh.Token == old.Token || fresh.Token == "" {
		t.Errorf("the tokens are %q and %q, want different ones", old.Token, fresh.Token)
	}
	_, err := w.CompleteTask(admin, old, run.ManualSucceeded)
	controltest.Refusal(t, err, run.CodeManualToken)
	second := controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(admin, fresh, run.ManualSucceeded))
	if second.Duplicate || second.Signal.ID == r.Signal.ID || second.Signal.ExpectedAttempt != 2 {
		t.Errorf("the completion of the second attempt is %+v, want a new receipt for attempt 2", second)
	}
}

// contract: M03
func TestCompleteManual_IsAcceptedWhileTheRunIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check")
	w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
	admin := w.Principal("dev-admin")
	if r := controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(admin, w.TaskOf(admin, id, "check", 1),
		run.ManualSucceeded)); r.Rejected {
		t.Errorf("the receipt is %+v, want an accepted completion", r)
	}
}

// contract: T201
func TestCompleteManual_OldKeysVerifyAfterARotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check", "b")
	admin := w.Principal("dev-admin")
	task, b := w.TaskOf(admin, id, "check", 1), w.TaskOf(admin, id, "b", 1)
	with := func(keys ...string) *usecases.UseCases {
		cfg := w.Config
		cfg.Metrics = nil
		controltest.ManualKeys(t, keys...)(&cfg)
		return usecases.New(cfg)
	}
	complete := func(s *usecases.UseCases, task runs.ManualTask) error {
		_, err := s.CompleteManualStep(t.Context(), admin, runs.CompleteManualStep{
			RunID: id, StepID: task.StepID, Token: task.Token, Outcome: run.ManualSucceeded,
		})
		return err
	}
	controltest.Refusal(t, complete(with("k2:"+controltest.SecretOf("b")), task), run.CodeManualToken)
	// the id alone is nothing
	controltest.Refusal(t, complete(with("k1:"+controltest.SecretOf("b")), task), run.CodeManualToken)
	controltest.Refusal(t, complete(with(), task), run.CodeNotSupported)
	if err := complete(with("k2:"+controltest.SecretOf("b"), "k1:"+controltest.SecretOf("a")), task); err != nil {
		t.Error(err)
	}
	page := controltest.Must[runs.ManualTasksPage](t)(with("k2:"+controltest.SecretOf("b"),
		"k1:"+controltest.SecretOf("a")).ManualTasks(t.Context(), admin,
		runs.ManualTasksQuery{RunID: id}))
	for _, task := range page.Tasks {
		if task.StepID == "b" && (!strings.HasPrefix(task.Token, "k2.") || task.Token == b.Token) {
			t.Errorf("the token is %s, want one of the new key", task.Token)
		}
	}
	page = controltest.Must[runs.ManualTasksPage](t)(with().ManualTasks(t.Context(), admin,
		runs.ManualTasksQuery{RunID: id}))
	if len(page.Tasks) == 0 || page.Tasks[0].Token != "" || page.Tasks[0].Action.Outcome != "UNSUPPORTED" {
		t.Errorf("without keys the tasks are %+v, want UNSUPPORTED without a token", page.Tasks)
	}
}

// contract: T86
func TestSignalRun_IDsOfCompletionsAreReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("a")))
	id := w.CreateManual("r1", "check")
	_, err := w.SignalRun(t.Context(), w.Engineer(), controltest.SignalOf(id, "manual.1", run.Pause))
	controltest.Refusal(t, err, run.CodeBadInput)
	if n := len(controltest.Must[[]run.SignalReceipt](t)(w.Raw.Receipts(t.Context(), id, "", 10))); n != 0 {
		t.Errorf("the run has %d receipts, want none", n)
	}
}
