package interp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// A RETRY_STEP before the pause has taken effect: its step is ready and waits for the gate. One after the pause waits
// for the resume.
//
// contract: O10
func TestRestore_ARetryBeforeThePauseHasTakenEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), basePolicy).start()
	w.begin("a", "b")
	w.fail("a", "BROKEN")
	w.signal(run.RetryStep, "A", "a")
	w.signal(run.Pause, "B", "")
	w.arrive(w.flight("a")) // it meets the closed gate
	w.record()
	in := interp.Inbox{Pending: w.signals[:1], PauseNo: 2}
	sig := engine.Signal{ID: "C", Type: run.EscalateAlert}
	p := interp.PreviewSignal(w.sk, w.cfg, w.state, in, sig, w.now)
	if d := cmp.Diff([]run.Ord{0}, p.Blocked); d != "" || p.Status != run.Paused {
		t.Errorf("the run is %s, want PAUSED; blocked steps (-want +got):\n%s", p.Status, d)
	}
	in.PauseNo = 0 // as if the retry had come after the pause
	if p := interp.PreviewSignal(w.sk, w.cfg, w.state, in, sig, w.now); len(p.Blocked) != 0 {
		t.Errorf("the steps %v are blocked, want none", p.Blocked)
	}
}

// The fold of a log does not name the signal of a retry that is running. The step passes fail-fast all the same, and
// the StepStarted of a dispatch has a signal id that the log accepts, or none.
func TestRestore_ARunningRetryHasNoInventedSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), basePolicy).start()
	w.begin("a", "b")
	w.fail("a", "BROKEN")
	w.signal(run.RetryStep, "A", "a")
	w.begin("a")
	m := interp.Restore(w.sk, w.cfg, w.state, interp.Inbox{}, w.now)
	x := m.Redispatch(0)
	if !w.m.PassesLike(m) || !x.PassFailing {
		t.Errorf("the restored machine does not let the retry pass fail-fast: %+v", x)
	}
	d := runtest.Draft(run.StepStartedEvent, "a", x.LogicalAttempt, runtest.M{"signalId": x.SignalID})
	if x.SignalID == "" {
		d = runtest.Draft(run.StepStartedEvent, "a", x.LogicalAttempt)
	}
	if err := d.Validate(runtest.ID); err != nil {
		t.Errorf("the log refuses the start with the signal %q: %v", x.SignalID, err)
	}
}

// A RETRY_STEP that waited for the resume has disarmed fail-fast, and its step is ready. A preview must not let the
// step start before the steps ahead of it, although it waits for a person and needs no slot.
//
// contract: O10
func TestRestore_ARetryThatWaitedForAResumeKeepsItsTurn(t *testing.T) {
	t.Parallel()
	one := with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 1 })
	w := newWorld(t, asManual(steps("a", "b<a", "c<a", "ask"), 0, "ask"), one).start()
	w.begin("a")
	w.expectWaits("ask")
	w.signal(run.Pause, "P", "")
	w.complete("D", "ask", run.ManualFailed)
	w.succeed("a")
	w.signal(run.RetryStep, "R", "ask")
	w.signal(run.Resume, "S", "")
	w.begin("b")
	in := interp.Inbox{Pending: []engine.Signal{w.signals[2]}}
	p := interp.PreviewSignal(w.sk, w.cfg, w.state, in, engine.Signal{ID: "E", Type: run.EscalateAlert}, w.now)
	if d := cmp.Diff(w.m.BlockedSteps(), p.Blocked); d != "" {
		t.Errorf("blocked steps of the run and of the preview (-run +preview):\n%s", d)
	}
	if len(p.Changes) > 0 {
		t.Errorf("the preview of an alert has the changes %+v, want none", p.Changes)
	}
	want := interp.PreviewSignal(w.sk, w.cfg, w.state, in, engine.Signal{ID: "E", Type: run.Pause}, w.now)
	w.signal(run.Pause, "E", "")
	if d := cmp.Diff(w.m.BlockedSteps(), want.Blocked); d != "" {
		t.Errorf("blocked steps after the pause and in its preview (-run +preview):\n%s", d)
	}
}

// contract: O10
func TestPreviewStart_HasTheFirstSteps(t *testing.T) {
	t.Parallel()
	sk := steps("a", "b<a", "c", "d")
	sk.Steps[3].Type = plan.Manual
	p := interp.PreviewStart(sk, interp.Config{Identity: testIdentity, Policy: run.Policy{MaxParallelSteps: 1}}, epoch)
	want := []interp.Change{{Ord: 0, Kind: interp.ChangeStart, LogicalAttempt: 1}}
	if d := cmp.Diff(want, p.Changes); d != "" || p.Status != run.Running {
		t.Errorf("the run is %s, want RUNNING; changes (-want +got):\n%s", p.Status, d)
	}
	p = interp.PreviewStart(sk, interp.Config{Identity: testIdentity, Policy: basePolicy, Reused: []run.Ord{0}}, epoch)
	want = []interp.Change{{Ord: 1, Kind: interp.ChangeStart, LogicalAttempt: 1}, {Ord: 2, Kind: interp.ChangeStart,
		LogicalAttempt: 1},
		{Ord: 3, Kind: interp.ChangeStart, LogicalAttempt: 1}}
	if d := cmp.Diff(want, p.Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}
