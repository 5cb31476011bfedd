package interp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// A RETRY_STEP that came before the pause has taken effect: its step is ready and
// waits for the gate. One that came after it is latched.
// contract: O10
func TestRestore_RetriedBeforeThePause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), calm).start()
	w.begin("a", "b")
	w.fail("a", "BROKEN")
	w.signal(run.RetryStep, "A", "a")
	w.signal(run.Pause, "B", "")
	w.arrive(w.flight("a")) // the gate sends it back
	w.record()
	in := interp.Inbox{Pending: w.signals[:1], PauseNo: 2}
	sig := engine.Signal{ID: "C", Type: run.EscalateAlert}
	p := interp.PreviewSignal(w.sk, w.who, w.state, in, sig, w.now)
	if d := cmp.Diff([]run.Ord{0}, p.Blocked); d != "" || p.Status != run.Paused {
		t.Errorf("%s %s", p.Status, d)
	}
	in.PauseNo = 0 // as if it had come after it
	if p := interp.PreviewSignal(w.sk, w.who, w.state, in, sig, w.now); len(p.Blocked) != 0 {
		t.Errorf("blocked %v", p.Blocked)
	}
}

// A RETRY_STEP that waited for a resume has disarmed fail-fast when its step waits for a slot. A preview must not let
// the step, which waits for a person and needs no slot, begin ahead of the steps before it.
// contract: O10
func TestRestore_RetryThatWaitedForAResumeStandsInLine(t *testing.T) {
	t.Parallel()
	one := with(calm, func(p *run.Policy) { p.MaxParallelSteps = 1 })
	w := newWorld(t, asking(steps("a", "b<a", "c<a", "ask"), 0, "ask"), one).start()
	w.begin("a")
	w.expectWaits("ask")
	w.signal(run.Pause, "P", "")
	w.complete("D", "ask", run.ManualFailed)
	w.succeed("a")
	w.signal(run.RetryStep, "R", "ask")
	w.signal(run.Resume, "S", "")
	w.begin("b")
	in := interp.Inbox{Pending: []engine.Signal{w.signals[2]}}
	p := interp.PreviewSignal(w.sk, w.who, w.state, in, engine.Signal{ID: "E", Type: run.EscalateAlert}, w.now)
	if d := cmp.Diff(w.m.Blocked(), p.Blocked); d != "" {
		t.Errorf("blocked steps of the run and of the preview (-run +preview):\n%s", d)
	}
	if len(p.Changes) > 0 {
		t.Errorf("the preview says that an alert changes steps: %+v", p.Changes)
	}
	want := interp.PreviewSignal(w.sk, w.who, w.state, in, engine.Signal{ID: "E", Type: run.Pause}, w.now)
	w.signal(run.Pause, "E", "")
	if d := cmp.Diff(w.m.Blocked(), want.Blocked); d != "" {
		t.Errorf("blocked steps after the pause and in its preview (-run +preview):\n%s", d)
	}
}

// contract: O10
func TestPreviewStart_FirstWave(t *testing.T) {
	t.Parallel()
	sk := steps("a", "b<a", "c", "d")
	sk.Steps[3].Type = plan.Manual
	p := interp.PreviewStart(sk, interp.Config{Identity: testIdentity, Policy: run.Policy{MaxParallelSteps: 1}}, epoch)
	want := []interp.Change{{Ord: 0, Kind: interp.ChangeStart, LogicalAttempt: 1}}
	if d := cmp.Diff(want, p.Changes); d != "" || p.Status != run.Running {
		t.Errorf("%s %s", p.Status, d)
	}
	p = interp.PreviewStart(sk, interp.Config{Identity: testIdentity, Policy: calm, Reused: []run.Ord{0}}, epoch)
	want = []interp.Change{{Ord: 1, Kind: interp.ChangeStart, LogicalAttempt: 1}, {Ord: 2, Kind: interp.ChangeStart,
		LogicalAttempt: 1},
		{Ord: 3, Kind: interp.ChangeStart, LogicalAttempt: 1}}
	if d := cmp.Diff(want, p.Changes); d != "" {
		t.Error(d)
	}
}
