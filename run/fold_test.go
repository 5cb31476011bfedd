package run_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// Short names for the events of the tests; n is the logical attempt.
func stepStarted(step string, n int) run.Draft { return runtest.Draft(run.StepStartedEvent, step, n) }
func stepCompleted(step string, n int) run.Draft {
	return runtest.Draft(run.StepCompletedEvent, step, n)
}
func stepSkipped(step string, n int) run.Draft { return runtest.Draft(run.StepSkippedEvent, step, n) }
func runPaused(epoch int) run.Draft            { return runtest.Draft(run.RunPaused, "u1", epoch) }
func runResumed(epoch int) run.Draft           { return runtest.Draft(run.RunResumed, "u2", epoch) }
func stepWaits(step string, n int) run.Draft {
	return runtest.Draft(run.StepAwaitingManualCompletion, step, n)
}
func ofRun(t run.EventType) run.Draft    { return runtest.Draft(t, "", 1) }
func signalAccepted(id string) run.Draft { return runtest.Draft(run.SignalAccepted, id, 1) }

func stepFailed(step string, n int, code string) run.Draft {
	return runtest.Draft(run.StepFailedEvent, step, n, runtest.M{"errorCode": code})
}

func project(t *testing.T, drafts ...run.Draft) (run.State, []run.Anomaly) {
	t.Helper()
	s, _, anomalies := run.Fold(empty(), runtest.Log(drafts...))
	for _, a := range anomalies {
		if a.Code != run.CodeCausalViolation || a.Detail == "" || a.Seq < 1 {
			t.Errorf("anomaly %+v, want a seq, a detail and the code %s", a, run.CodeCausalViolation)
		}
	}
	return s, anomalies
}

func step(t *testing.T, s run.State, id string) *run.Step {
	t.Helper()
	got, ok := s.Step(id)
	if !ok {
		t.Fatalf("the state has no step %q", id)
	}
	return got
}

// contract: A01
func TestFold_LinearRunCompletes(t *testing.T) {
	t.Parallel()
	s, anomalies := project(t, ofRun(run.RunApproved), runtest.Start("s1", "s2<s1", "s3<s2"),
		stepStarted("s1", 1), stepCompleted("s1", 1), stepStarted("s2", 1), stepCompleted("s2", 1), stepStarted("s3", 1),
		stepCompleted("s3", 1),
		ofRun(run.RunCompleted))
	want := run.StepCounts{Total: 3, Success: 3}
	if s.Status != run.Completed || s.Seq != 9 || s.StatusSeq != 9 || s.Counts != want || s.FailedSteps() != 0 ||
		len(anomalies) > 0 {
		t.Errorf("header %+v, anomalies %v, want COMPLETED at 9 with 3 successes and no anomaly", s.Header, anomalies)
	}
	if !s.CreatedAt.Equal(runtest.Epoch.Add(time.Second+time.Millisecond)) || !s.StartedAt.Equal(runtest.Epoch) ||
		!s.CompletedAt.Equal(runtest.Epoch.Add(9*time.Second)) {
		t.Errorf("created %v, started %v, completed %v, want the times of the events", s.CreatedAt, s.StartedAt,
			s.CompletedAt)
	}
	if s.TriggeredBy != "ola" || s.PlanRef.PlanID != "plan-3" || s.Engine.Provider != "mock" ||
		s.Policy.MaxParallelSteps != 100 {
		t.Errorf("header %+v, want the plan, engine and policy of RunStarted", s.Header)
	}
	for i, got := range s.Steps {
		if got.Status != run.StepSuccess || got.LogicalAttempt != 1 || got.Attempts[0].DurationMS != 1000 {
			t.Errorf("step %d: %+v, want one successful attempt of 1000 ms", i, got)
		}
	}
}

// The events are a second apart. Steps run from 3 to 4, from 7 to 8 and from 9 to 10. The run waits in between.
func TestFold_WorkLeavesOutWaits(t *testing.T) {
	t.Parallel()
	s, _ := project(t, ofRun(run.RunApproved), runtest.Start("s1", "s2<s1"), stepStarted("s1", 1),
		stepFailed("s1", 1, "EXIT_STATUS"),
		ofRun(run.RunPaused), ofRun(run.RunResumed), stepStarted("s1", 2), stepCompleted("s1", 2), stepStarted("s2", 1),
		runtest.Draft(run.StepAwaitingManualCompletion, "s2", 1), ofRun(run.RunPaused), ofRun(run.RunResumed),
		stepCompleted("s2", 1), ofRun(run.RunCompleted))
	if took, work := *s.Duration(), *s.Work(); took != 14*time.Second || work != 3*time.Second || s.WorkSince != nil {
		t.Errorf("the run took %v with %v of work (since %v), want 14s with 3s and no open work", took, work, s.WorkSince)
	}
	s.Rev = 4 // it did not count work
	if work := *s.Work(); work != 14*time.Second {
		t.Errorf("work by an older revision is %v, want the whole duration, 14s", work)
	}
	open, _ := project(t, ofRun(run.RunApproved), runtest.Start("s1"), stepStarted("s1", 1))
	if open.Work() != nil || open.WorkSince == nil {
		t.Errorf("work of a running run is %v since %v, want none yet and a time", open.Work(), open.WorkSince)
	}
	cut, _ := project(t, ofRun(run.RunApproved), runtest.Start("s1"), stepStarted("s1", 1), ofRun(run.RunCancelled))
	if work := *cut.Work(); work != time.Second {
		t.Errorf("work of a run that was cancelled is %v, want 1s", work)
	}
}

// An attempt whose worker tried several times keeps the time of its last try beside that of all of them.
func TestFold_LastTry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		tries int
		want  int64
	}{{"one try", 1, 0}, {"the third try", 3, 700}} {
		end := runtest.Draft(run.StepFailedEvent, "s1", 1, runtest.M{"errorCode": "EXIT_STATUS", "durationMs": 700})
		end.EngineAttempt = c.tries
		s, _ := project(t, ofRun(run.RunApproved), runtest.Start("s1"), stepStarted("s1", 1), end)
		if got := s.Steps[0].Attempts[0]; got.LastTryMS != c.want || got.DurationMS != 1_000 {
			t.Errorf("%s: the last try took %d ms of %d, want %d of 1000", c.name, got.LastTryMS, got.DurationMS, c.want)
		}
	}
}

// contract: T182
func TestFold_EmptyLogIsPendingAndLogMayBeginLate(t *testing.T) {
	t.Parallel()
	s := run.Project(runtest.ID, nil)
	if s.Status != run.Pending || s.Seq != 0 || s.Rev != run.ReducerRev || s.Identity != runtest.ID {
		t.Errorf("empty log: header %+v, want PENDING at 0", s.Header)
	}
	s = run.Project(runtest.ID, []run.Event{runtest.Event(7, runtest.Draft(run.SignalRejected, "u1", 1))})
	if s.Status != run.Pending || s.Seq != 7 || s.CreatedAt.IsZero() {
		t.Errorf("log that begins at 7: header %+v, want PENDING at 7", s.Header)
	}
}

// contract: P04
func TestFold_UnknownTypeChangesOnlySeq(t *testing.T) {
	t.Parallel()
	evs := runtest.Log(runtest.Start("s1"), stepStarted("s1", 1), stepCompleted("s1", 1), ofRun(run.RunCompleted))
	before := run.Project(runtest.ID, evs[:3])
	evs[3].Type = "FutureThing"
	after, changes, anomalies := run.Fold(before, evs[3:])
	want := before
	want.Seq = 4
	if !reflect.DeepEqual(after, want) || len(anomalies) > 0 || len(changes.Steps) > 0 || !changes.Header {
		t.Errorf("an event of an unknown type changed more than Seq (-want +got):\n%s\nchanges %v, anomalies %v",
			cmp.Diff(want, after), changes, anomalies)
	}
}

// contract: P06
func TestFold_EachPauseHasAnEpoch(t *testing.T) {
	t.Parallel()
	drafts := []run.Draft{ofRun(run.RunApproved), runtest.Start("s1", "s2<s1", "s3<s2"),
		stepStarted("s1", 1), signalAccepted("A"), runPaused(1), stepCompleted("s1", 1), signalAccepted("B"), runResumed(1),
		stepStarted("s2", 1), signalAccepted("C"), runPaused(2), stepCompleted("s2", 1), signalAccepted("D"), runResumed(2),
		stepStarted("s3", 1), stepCompleted("s3", 1), ofRun(run.RunCompleted)}
	evs := runtest.Log(drafts...)
	if evs[4].Key == evs[10].Key {
		t.Error("both pauses have the same key")
	}
	for at, want := range map[int]run.Status{5: run.Paused, 8: run.Running, 11: run.Paused, 13: run.Paused,
		14: run.Running, 17: run.Completed} {
		s := run.Project(runtest.ID, evs[:at])
		if s.Status != want || (s.Pause != nil) != (want == run.Paused) {
			t.Errorf("after event %d: %s, pause %v, want %s", at, s.Status, s.Pause, want)
		}
	}
	pause := run.Project(runtest.ID, evs[:11]).Pause
	if pause.SignalID != "u1" || pause.RequestedBy != "ola" || pause.Seq != 11 || !pause.Since.Equal(evs[10].EmittedAt) {
		t.Errorf("pause %+v, want that of event 11", pause)
	}
}

// contract: P07, T53
func TestFold_LatePauseDoesNotPause(t *testing.T) {
	t.Parallel()
	s, anomalies := project(t, runtest.Start("s1"), runResumed(1), runPaused(1))
	if s.Status != run.Running || s.Pause != nil || s.Seq != 3 || len(anomalies) != 1 {
		t.Errorf("%s, pause %v, anomalies %v, want RUNNING and one anomaly", s.Status, s.Pause, anomalies)
	}
	s, anomalies = project(t, runtest.Start("s1"), runPaused(1), runPaused(2), runResumed(1))
	if s.Status != run.Paused || s.Pause.Seq != 3 || len(anomalies) != 0 {
		t.Errorf("%s, pause %+v, want PAUSED by the second pause", s.Status, s.Pause)
	}
}

// contract: P08, T42
func TestFold_LateStepStartedSuppliesTheStart(t *testing.T) {
	t.Parallel()
	s, anomalies := project(t, runtest.Start("s1", "s2"), stepStarted("s2", 1), stepCompleted("s1", 1), stepStarted("s1",
		1))
	got := step(t, s, "s1")
	a := got.Attempts[0]
	if got.Status != run.StepSuccess || a.StartedAt == nil || a.StartedSeq != 4 || a.DurationMS != 0 || s.Seq != 4 ||
		len(anomalies) != 1 {
		t.Errorf("step %+v, attempt %+v, anomalies %v, want SUCCESS with a start at 4 and one anomaly", got, a, anomalies)
	}
	again, _, _ := run.Fold(s, []run.Event{runtest.Event(5, stepStarted("s1", 1))})
	if step(t, again, "s1") != got {
		t.Error("a second StepStarted changed the step")
	}
}

// contract: P09, T35, T39
func TestFold_LateApprovalAndQueueingChangeNothing(t *testing.T) {
	t.Parallel()
	s, _ := project(t, runtest.Start("s1"), ofRun(run.RunApproved), ofRun(run.RunQueued))
	if s.Status != run.Running || s.Queued || s.Seq != 3 || s.StatusSeq != 1 {
		t.Errorf("header %+v, want RUNNING since 1 and not queued", s.Header)
	}
}

// contract: P10
func TestFold_StartBeforeItsDependencyIsAnAnomaly(t *testing.T) {
	t.Parallel()
	s, anomalies := project(t, runtest.Start("a<init", "b<init", "final<a,b", "init"), stepStarted("init", 1),
		stepCompleted("init", 1),
		stepStarted("a", 1), stepStarted("b", 1), stepCompleted("a", 1), stepStarted("final", 1), stepCompleted("b", 1))
	if step(t, s, "final").Status != run.StepRunning || len(anomalies) != 1 || anomalies[0].Seq != 7 {
		t.Errorf("final is %s, anomalies %v, want RUNNING and one anomaly at 7", step(t, s, "final").Status, anomalies)
	}
}

// contract: P11, T60
func TestFold_StepMirrorsItsLatestAttempt(t *testing.T) {
	t.Parallel()
	s, _ := project(t, runtest.Start("s2"), stepStarted("s2", 1), stepFailed("s2", 1, "E1"), stepStarted("s2", 2),
		stepCompleted("s2", 2))
	got := step(t, s, "s2")
	if got.Status != run.StepSuccess || got.LogicalAttempt != 2 || len(got.Attempts) != 2 || s.FailedSteps() != 0 ||
		s.RootCause != nil {
		t.Fatalf("step %+v of %+v, want SUCCESS in attempt 2 and no failed step", got, s.Header)
	}
	if first := got.Attempts[0]; first.Status != run.StepFailed || first.Error.Code != "E1" || !first.Error.Retryable ||
		got.Attempts[1].Error != nil {
		t.Errorf("first attempt %+v, want FAILED with E1", first)
	}
	after, changes, anomalies := run.Fold(s, []run.Event{runtest.Event(6, stepFailed("s2", 1, "E9")),
		runtest.Event(7, stepCompleted("s2", 1))})
	if step(t, after, "s2") != got || len(changes.Steps) > 0 || len(anomalies) != 2 || after.Seq != 7 {
		t.Errorf("late ends of attempt 1 changed %v, anomalies %v, want no change and two anomalies", changes, anomalies)
	}

	s, _ = project(t, runtest.Start("s2"), stepStarted("s2", 2), stepFailed("s2", 1, "E1"))
	got = step(t, s, "s2")
	if got.Status != run.StepRunning || got.LogicalAttempt != 2 || got.Attempts[0].Error.Code != "E1" ||
		s.Counts.Running != 1 || s.FailedSteps() != 0 {
		t.Errorf("step with a late first attempt: %+v, want RUNNING in attempt 2", got)
	}
}

func TestFold_CountsStoppedAndKeptSteps(t *testing.T) {
	t.Parallel()
	reused := runtest.Draft(run.StepCompletedEvent, "s1", 1, runtest.M{"reused": runtest.M{"runId": "r0", "runSeq": 4}})
	s, _ := project(t, runtest.Start("s1", "s2", "s3"), stepStarted("s1", 1), reused, stepStarted("s2", 1),
		stepStarted("s3", 1), stepFailed("s2", 1, "E1"), stepFailed("s3", 1, string(run.CodeCancelled)))
	if want := (run.StepCounts{Total: 3, Success: 1, Failed: 2, Stopped: 1, Kept: 1}); s.Counts != want {
		t.Errorf("counts %+v, want %+v", s.Counts, want)
	}
	if s.RootCause.StepID != "s2" || s.RootCause.Name != "" {
		t.Errorf("root cause %+v, want s2 without a name", s.RootCause)
	}
	if got := step(t, s, "s1").Attempts[0].Reused; got == nil || got.RunID != "r0" {
		t.Errorf("the kept step is reused from %+v, want r0", got)
	}
	// A retry of the stopped step takes it out of the count.
	s, _, _ = run.Fold(s, []run.Event{runtest.Event(s.Seq+1, stepStarted("s3", 2))})
	if s.Counts.Stopped != 0 || s.Counts.Failed != 1 {
		t.Errorf("counts after a retry %+v, want none stopped and 1 failed", s.Counts)
	}
}

// contract: P12
func TestFold_EndedRunDoesNotChange(t *testing.T) {
	t.Parallel()
	s, _ := project(t, runtest.Start("s1"), stepStarted("s1", 1), stepCompleted("s1", 1), ofRun(run.RunCompleted))
	late := []run.Event{runtest.Event(5, runPaused(1)), runtest.Event(6, ofRun(run.RunFailed)),
		runtest.Event(7, stepStarted("s1", 2)),
		runtest.Event(8, ofRun(run.RunCompensationStarted)), runtest.Event(9, signalAccepted("u9"))}
	after, changes, anomalies := run.Fold(s, late)
	want := s
	want.Seq = 9
	if !reflect.DeepEqual(after, want) || len(anomalies) != 4 || len(changes.Steps) > 0 {
		t.Errorf("events after the end changed more than Seq (-want +got):\n%s\nanomalies %v, want 4", cmp.Diff(want, after),
			anomalies)
	}
}

// contract: P13
func TestFold_CountsAFailedStepOnce(t *testing.T) {
	t.Parallel()
	s, _ := project(t, runtest.Start("s1"), stepStarted("s1", 1), stepFailed("s1", 1, "E"), stepFailed("s1", 1, "E"),
		stepFailed("s1", 1, "E"))
	if s.FailedSteps() != 1 || s.Seq != 5 {
		t.Errorf("%d failed steps at %d, want 1 at 5", s.FailedSteps(), s.Seq)
	}
}

// contract: P14, T150
func TestFold_ListsArtifactsOnceInOrder(t *testing.T) {
	t.Parallel()
	refs := func(step string, uris ...string) run.Draft {
		var list []runtest.M
		for _, uri := range uris {
			list = append(list, runtest.M{"uri": uri, "kind": "data"})
		}
		return runtest.Draft(run.StepCompletedEvent, step, 1, runtest.M{"artifactRefs": list})
	}
	s, _ := project(t, runtest.Start("a", "b"), refs("b", "z", "m", "z"), refs("a", "a", "m"), refs("a", "late"),
		ofRun(run.RunCompleted))
	var uris []string
	for _, ref := range s.Artifacts {
		uris = append(uris, ref.URI)
	}
	if diff := cmp.Diff([]string{"z", "m", "a"}, uris); diff != "" {
		t.Errorf("artifacts of the run (-want +got):\n%s", diff)
	}
	if got := len(step(t, s, "a").Attempts[0].Artifacts); got != 2 {
		t.Errorf("step a has %d artifacts, want its own 2", got)
	}
}

// contract: P16, T25
func TestFold_ToleratesHolesBetweenSeqs(t *testing.T) {
	t.Parallel()
	evs := runtest.Log(runtest.Start("s1"), stepStarted("s1", 1))
	evs[0].Seq, evs[1].Seq = 10, 12
	s, _, anomalies := run.Fold(empty(), evs)
	if s.Seq != 12 || step(t, s, "s1").Status != run.StepRunning || len(anomalies) > 0 {
		t.Errorf("header %+v, anomalies %v, want s1 RUNNING at 12 and no anomaly", s.Header, anomalies)
	}
}

// contract: T145, T156
func TestFold_KeepsStepsThatStartBeforeTheirAnnouncement(t *testing.T) {
	t.Parallel()
	s, _ := project(t, stepStarted("stranger", 1), stepStarted("b", 1), runtest.Start("z", "b", "a"), stepCompleted("b",
		1))
	var order []string
	for i, got := range s.Steps {
		order = append(order, got.StepID)
		if got.Ord != run.Ord(i) || got.ChangedSeq < 3 {
			t.Errorf("step %d has ord %d and changed at %d, want ord %d and a change at 3 or later", i, got.Ord,
				got.ChangedSeq, i)
		}
	}
	if diff := cmp.Diff([]string{"z", "b", "a", "stranger"}, order); diff != "" {
		t.Errorf("order of the steps (-want +got):\n%s", diff)
	}
	want := run.StepCounts{Total: 4, Pending: 2, Running: 1, Success: 1}
	if s.Counts != want || step(t, s, "b").Attempts[0].StartedSeq != 2 || step(t, s, "b").Type != "NOOP" {
		t.Errorf("counts %+v, want %+v; step b %+v, want a NOOP started at 2", s.Counts, want, step(t, s, "b"))
	}
}

// contract: T19
func TestFold_DurationUsesSourceTimesAndIsNeverNegative(t *testing.T) {
	t.Parallel()
	at := func(d run.Draft, seconds int) run.Draft {
		p := runtest.M{"sourceOccurredAt": runtest.Epoch.Add(time.Duration(seconds) * time.Second)}
		return runtest.Draft(d.Type, d.StepID, d.LogicalAttempt, p)
	}
	s, _ := project(t, runtest.Start("a", "b"), at(stepStarted("a", 1), 10), at(stepCompleted("a", 1), 14),
		at(stepStarted("b", 1), 10), at(stepCompleted("b", 1), 4))
	if a, b := step(t, s, "a").Attempts[0], step(t, s, "b").Attempts[0]; a.DurationMS != 4000 || b.DurationMS != 0 {
		t.Errorf("durations %d and %d, want 4000 and 0", a.DurationMS, b.DurationMS)
	}
}

// contract: T214
func TestFold_RootCauseIsTheFirstFailedStep(t *testing.T) {
	t.Parallel()
	s, _ := project(t, runtest.Start("a", "b"), stepStarted("a", 1), stepStarted("b", 1), stepFailed("a", 1, "A1"),
		stepFailed("b", 1, "B1"), stepStarted("a", 2), stepFailed("a", 2, "A2"))
	if c := s.RootCause; c.StepID != "b" || c.LogicalAttempt != 1 || c.Seq != 5 || c.Error == nil || c.Error.Code != "B1" {
		t.Errorf("root cause %+v, want attempt 1 of b at 5 with B1", c)
	}
	s, _, _ = run.Fold(s, []run.Event{runtest.Event(8, runtest.Draft(run.RunFailed, "", 1))})
	if c := s.Failure.RootCause; c == nil || c.StepID != "b" || c.ErrorCode != "B1" || s.Failure.Seq != 8 ||
		s.Status != run.Failed {
		t.Errorf("failure %+v at %s, want that of b with B1 at 8", s.Failure, s.Status)
	}
	named := runtest.Draft(
		run.RunFailed, "", 1, runtest.M{"errorCode": "A2", "rootCause": runtest.M{"stepId": "a", "logicalAttemptId": 2,
			"errorCode": "A2"}})
	s, _ = project(t, runtest.Start("a"), stepFailed("a", 2, "A2"), named)
	if c := s.Failure.RootCause; c.StepID != "a" || c.LogicalAttempt != 2 || s.Failure.Code != "A2" {
		t.Errorf("failure %+v, want the root cause that RunFailed names", s.Failure)
	}
}

// contract: T221
func TestFold_OpensAndClosesTheRetryWindow(t *testing.T) {
	t.Parallel()
	deadline := runtest.Epoch.Add(time.Hour)
	opens := func(d run.Draft) run.Draft {
		return runtest.Draft(d.Type, d.StepID, d.LogicalAttempt, runtest.M{"retryDeadline": deadline})
	}
	open := []run.Draft{runtest.Start("a", "b"), stepStarted("a", 1), opens(stepFailed("a", 1, "E"))}
	tests := []struct {
		name  string
		after []run.Draft
		open  bool
	}{
		{"open", nil, true},
		{"signals leave it open", []run.Draft{signalAccepted("u1")}, true},
		{"a pause closes it", []run.Draft{runPaused(1)}, false},
		{"a resume opens another one", []run.Draft{runPaused(1), opens(runResumed(1))}, true},
		{"a failure during a pause does not open it", []run.Draft{runPaused(1), opens(stepFailed("b", 1, "E"))}, false},
		{"a retry closes it", []run.Draft{stepStarted("a", 2)}, false},
		{"a late start leaves it open", []run.Draft{stepCompleted("b", 1), stepStarted("b", 1)}, true},
		{"a success opens it again", []run.Draft{stepStarted("b", 1), opens(stepCompleted("b", 1))}, true},
		{"a skip closes it", []run.Draft{stepSkipped("a", 2)}, false},
		{"compensation closes it", []run.Draft{ofRun(run.RunCompensationStarted)}, false},
		{"the end closes it", []run.Draft{ofRun(run.RunCancelled)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := project(t, append(append([]run.Draft{}, open...), tt.after...)...)
			if (s.RetryDeadline != nil) != tt.open || s.RetryDeadline != nil && !s.RetryDeadline.Equal(deadline) {
				t.Errorf("deadline %v, want open: %v", s.RetryDeadline, tt.open)
			}
			if (s.Substatus() == run.AwaitingOperator) != tt.open {
				t.Errorf("substatus %q, want AWAITING_OPERATOR: %v", s.Substatus(), tt.open)
			}
		})
	}
}

// contract: T82
func TestFold_RecordsTheWaitForAPerson(t *testing.T) {
	t.Parallel()
	since, deadline := runtest.Epoch.Add(time.Minute), runtest.Epoch.Add(time.Hour)
	wait := runtest.Draft(run.StepAwaitingManualCompletion, "m", 1, runtest.M{"sinceIso": since, "deadline": deadline})
	s, _ := project(t, runtest.Start("m"), stepStarted("m", 1), wait, wait)
	a := step(t, s, "m").Attempts[0]
	if a.Status != run.StepRunning || a.Substatus != run.WaitingManual || !a.WaitingSince.Equal(since) ||
		!a.WaitDeadline.Equal(deadline) || a.Manual != nil {
		t.Fatalf("attempt %+v, want a wait from %v to %v", a, since, deadline)
	}
	if v, ok := s.FindStep("m"); !ok || !v.WaitsForPerson {
		t.Errorf("FindStep() = %+v, %v, want a step that waits for a person", v, ok)
	}
	who := run.ManualEnd{SignalID: "u1", Outcome: run.ManualFailed, Actor: "pat", Notes: "no",
		EvidenceRefs: []string{"s3://b/k"}}
	end := runtest.Draft(run.StepFailedEvent, "m", 1, runtest.M{"manual": who})
	again := runtest.Draft(run.StepAwaitingManualCompletion, "m", 2, runtest.M{"sinceIso": nil})
	s, _ = project(t, runtest.Start("m"), stepStarted("m", 1), wait, end, stepStarted("m", 2), again)
	a = step(t, s, "m").Attempts[0]
	if diff := cmp.Diff(&who, a.Manual); diff != "" || a.Substatus != "" || !a.WaitingSince.Equal(since) {
		t.Errorf("attempt %+v, want an ended wait; its end (-want +got):\n%s", a, diff)
	}
	a = step(t, s, "m").Attempts[1]
	if !a.WaitingSince.Equal(runtest.Epoch.Add(6*time.Second)) || a.WaitDeadline != nil || a.Manual != nil {
		t.Errorf("next attempt %+v, want a wait since its event, without a deadline", a)
	}
	s, _ = project(t, runtest.Start("m"), stepStarted("m", 1), wait, runtest.Draft(run.StepCompletedEvent, "m", 1,
		runtest.M{"manual": who}))
	if diff := cmp.Diff(&who, step(t, s, "m").Attempts[0].Manual); diff != "" {
		t.Errorf("manual end of the completed step (-want +got):\n%s", diff)
	}
	wantEqual(t, "stored", 0, s, stored(t, s))
}

// contract: T50, T47, G11
func TestSubstatus_RefinesTheStatus(t *testing.T) {
	t.Parallel()
	two := []run.Draft{runtest.Start("a", "b", "m"), stepStarted("a", 1), stepStarted("b", 1)}
	manual := []run.Draft{runtest.Start("a", "b", "m"), stepStarted("m", 1),
		runtest.Draft(run.StepAwaitingManualCompletion, "m", 1)}
	on := func(base []run.Draft, more ...run.Draft) []run.Draft {
		return append(append([]run.Draft{}, base...), more...)
	}
	tests := []struct {
		name    string
		log     []run.Draft
		want    run.Substatus
		message string
	}{
		{"two in flight", on(two, runPaused(1)), run.Draining, "Workflow paused. Waiting for 2 in-flight tasks to complete."},
		{"one in flight", on(two, runPaused(1), stepCompleted("a", 1)), run.Draining,
			"Workflow paused. Waiting for 1 in-flight tasks to complete."},
		{"drained", on(two, runPaused(1), stepCompleted("a", 1), stepCompleted("b", 1)), "", ""},
		{"running", two, "", ""},
		{"manual", manual, run.WaitingManual, ""},
		{"manual and another", on(manual, stepStarted("a", 1)), "", ""},
		{"manual in a pause drains at once", on(manual, runPaused(1)), "", ""},
		{"manual done", on(manual, stepCompleted("m", 1)), "", ""},
		{"queued", []run.Draft{ofRun(run.RunQueued)}, run.Queued, ""},
		{"queued and approved", []run.Draft{ofRun(run.RunApproved), ofRun(run.RunQueued)}, run.Queued, ""},
		{"queued and cancelled", []run.Draft{ofRun(run.RunQueued), ofRun(run.RunCancelled)}, "", ""},
		{"compensating", []run.Draft{runtest.Start("a"), ofRun(run.RunCompensationStarted)}, run.Compensating, ""},
		{"ended", on(two, ofRun(run.RunCancelled)), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := project(t, tt.log...)
			if s.Substatus() != tt.want || s.Message() != tt.message {
				t.Errorf("substatus %q, message %q, want %q and %q", s.Substatus(), s.Message(), tt.want, tt.message)
			}
		})
	}
}

// Two folds that continue the same state do not affect each other, although the states share steps.
// contract: P01
func TestFold_ContinuationsOfOneStateAreIndependent(t *testing.T) {
	t.Parallel()
	s, _ := project(t, runtest.Start("a", "b", "c", "d", "e"), stepCompleted("a", 1), stepCompleted("b", 1),
		stepCompleted("c", 1))
	left := fold(s, []run.Event{runtest.Event(5, stepCompleted("d", 1))})
	was := stored(t, left)
	right := fold(s, []run.Event{runtest.Event(5, stepCompleted("e", 1))})
	wantEqual(t, "left after right", 0, was, left)
	if right.Artifacts[3].URI == left.Artifacts[3].URI {
		t.Errorf("both states list %s, want different artifacts", right.Artifacts[3].URI)
	}
}

// A state that is loaded from a checkpoint equals the folded one, also when the producer did not write compact JSON.
// contract: P03
func TestFold_StoredResultEqualsTheFoldedOne(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{"result": {"html": "<b>&</b>", "n" : 1.0}, "artifactRefs": []}`,
		`{"result": null}`,
		`{"result": "a\u2028b", "retryDeadline": "2026-02-16T13:00:00+02:00"}`,
	} {
		e := runtest.Event(2, stepCompleted("a", 1))
		e.Payload = []byte(payload)
		start := runtest.Draft(
			run.RunStarted, "", 1, runtest.M{"steps": []runtest.M{{"stepId": "a", "type": "NOOP", "dependsOn": []string{}}}})
		s := fold(run.Project(runtest.ID, runtest.Log(start)), []run.Event{e})
		wantEqual(t, payload, 0, s, stored(t, s))
	}
}
