package interp_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// The test previews random signals of every type in random states of random runs, sends them, and compares the preview
// with the effect. It skips states that do not follow from the log: when a step completed or a wait started, the
// machine had not observed a failure, so that other steps pass fail-fast.
//
// contract: O10
func TestPreview_EqualsTheEffect(t *testing.T) {
	t.Parallel()
	var compared, skipped atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d previews compared, %d states skipped", compared.Load(), skipped.Load())
		if skipped.Load()*20 > compared.Load() {
			t.Errorf("%d of %d states were skipped, want less than 5 %%", skipped.Load(), compared.Load()+skipped.Load())
		}
	})
	for i := range 6 {
		t.Run("shard "+strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) { checkPreviews(rt, &compared, &skipped) })
		})
	}
}

func checkPreviews(rt *rapid.T, compared, skipped *atomic.Int64) {
	w := newWorld(rt, drawPlan(rt), drawPolicy(rt))
	p := &player{w: w, rt: rt, steady: true, honest: true}
	w.feed(interp.Init{At: w.now})
	for range rapid.IntRange(1, 25).Draw(rt, "signals") {
		for range rapid.IntRange(0, 25).Draw(rt, "moves") {
			p.move()
		}
		p.quiesce()
		if w.m.Done() || w.state.Status.Terminal() {
			return
		}
		if in := p.inbox(); w.m.PassesLike(interp.Restore(w.sk, w.cfg, w.state, in, w.now)) {
			compared.Add(1)
			p.checkFailureHold(in)
			p.preview(in)
		} else {
			skipped.Add(1)
		}
	}
}

// quiesce records and delivers all events and signals, and lets workers receive every dispatch, until the machine waits
// only for ends.
func (p *player) quiesce() {
	w := p.w
	for !w.m.Done() {
		unbegun := slices.IndexFunc(w.flights, func(f *flight) bool { return !f.began })
		ended := slices.IndexFunc(w.flights, func(f *flight) bool { return f.ended })
		switch {
		case w.pending != nil || w.answer != nil || w.reading:
			w.record()
		case len(w.fetch) > 0:
			p.answerFetch()
		case p.delivered < len(w.signals):
			p.delivered = len(w.signals)
			w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals...)})
		case ended >= 0:
			w.comeBack(w.flights[ended], engine.Return{Kind: engine.ReturnEnded})
		case unbegun >= 0:
			w.arrive(w.flights[unbegun])
		case w.hook != nil && w.hook.ended:
			w.returnHook(engine.Return{Kind: engine.ReturnEnded})
		case w.m.ObservedSeq() < w.head.LastSeq:
			w.observe()
		default:
			return
		}
	}
}

// inbox returns the facts that the store has about the run's signals.
func (p *player) inbox() interp.Inbox {
	w := p.w
	var in interp.Inbox
	for _, s := range w.signals {
		if !w.receipts[s.ID].app.Final() {
			in.Pending = append(in.Pending, s)
		}
		if w.state.Pause != nil && w.state.Pause.SignalID == s.ID {
			in.PauseNo = s.No
		}
	}
	return in
}

// checkFailureHold compares the steps that the state of the run says a failure holds with those that the machine will
// not start: its blocked steps, and all that wait for them or for a failed step.
func (p *player) checkFailureHold(in interp.Inbox) {
	w := p.w
	retried := func(stepID string) bool {
		return slices.ContainsFunc(in.Pending,
			func(s engine.Signal) bool { return s.StepID == stepID && s.Type == run.RetryStep })
	}
	hold := w.state.FailureHold(retried)
	if len(hold.Failed) == 0 || w.state.Status != run.Running || w.m.Finalizing() {
		return
	}
	want := map[string]bool{}
	for _, o := range append(w.m.BlockedSteps(), hold.Failed...) {
		want[w.sk.Steps[o].StepID] = true
	}
	for grew := true; grew; {
		grew = false
		for _, s := range w.state.Steps {
			if !want[s.StepID] && s.Status == run.StepPending &&
				slices.ContainsFunc(s.DependsOn, func(id string) bool { return want[id] }) {
				want[s.StepID], grew = true, true
			}
		}
	}
	for _, s := range w.state.Steps {
		if s.Status == run.StepPending && hold.Holds(s.Ord) != want[s.StepID] {
			p.rt.Fatalf("step %s is held by a failure: %t by the state, %t by the machine; failed %v", s.StepID,
				hold.Holds(s.Ord), want[s.StepID], hold.Failed)
		}
	}
}

func (p *player) preview(in interp.Inbox) {
	w := p.w
	sig := engine.Signal{
		ID: fmt.Sprintf("preview-%d", w.head.LastSeq), Force: rapid.Bool().Draw(p.rt, "force"),
		Type: rapid.SampledFrom([]run.SignalType{
			run.Pause, run.Pause, run.Resume, run.Resume, run.RetryStep, run.RetryStep, run.RetryStep, run.SkipStep,
			run.SkipStep,
			run.CompleteManual, run.CompleteManual, run.UpdateParams, run.InjectOverride, run.EscalateAlert, run.UpdateTarget,
			run.EmergencyStop, run.Cancel,
		}).Draw(p.rt, "previewed"),
	}
	switch sig.Type {
	case run.RetryStep, run.SkipStep, run.CompleteManual, run.UpdateParams:
		sig.StepID = p.drawStep(sig.Type)
		if step, ok := w.state.Step(sig.StepID); ok && sig.Type != run.SkipStep && sig.Type != run.UpdateParams {
			sig.LogicalAttempt = step.LogicalAttempt
		}
	}
	if sig.Type == run.CompleteManual {
		sig.Outcome = rapid.SampledFrom([]run.ManualOutcome{run.ManualSucceeded, run.ManualFailed, run.ManualCancelled}).Draw(
			p.rt, "as")
	}
	asked := map[string]bool{}
	for _, f := range w.flights {
		asked[f.stepID] = f.cancelled
	}
	want := interp.PreviewSignal(w.sk, w.cfg, w.state, in, sig, w.now)
	story := strings.Join(w.logLines(), "\n")

	from := len(w.effects)
	accepted := w.accept(sig)
	if accepted.Outcome == run.Reject {
		if want.Decision != accepted {
			p.rt.Fatalf("the preview of %+v has the decision %+v, want %+v; the log was\n%s", sig, want.Decision,
				accepted, story)
		}
		return
	}
	p.delivered = len(w.signals)
	w.feed(interp.Signalled{At: w.now, Signals: w.signals[p.delivered-1:]})
	for w.pending != nil || w.answer != nil || w.reading || len(w.fetch) > 0 {
		if w.pending != nil || w.answer != nil || w.reading {
			w.record()
			continue
		}
		p.answerFetch()
	}
	got := interp.Preview{Status: w.m.RunStatus(), Changes: p.changes(w.effects[from:]), Blocked: w.m.BlockedSteps()}
	again := func(c interp.Change) bool { return c.Kind == interp.ChangeCancel && asked[w.sk.Steps[c.Ord].StepID] }
	want.Changes, got.Changes = slices.DeleteFunc(want.Changes, again), slices.DeleteFunc(got.Changes, again)
	if d := cmp.Diff(got, want, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(interp.Preview{}, "Decision",
		"Later")); d != "" {
		p.rt.Fatalf("the preview of %+v differs (-effect +preview):\n%s\npending %+v; the log was\n%s", sig, d, in, story)
	}
	r := w.receipts[sig.ID]
	switch {
	case sig.Type == run.UpdateParams || sig.Type == run.InjectOverride || sig.Type == run.EscalateAlert ||
		sig.Type == run.UpdateTarget:
	case r.app == run.SignalNoop || r.app == run.SignalNotApply:
		if want.Decision.Outcome == run.Accept || string(want.Decision.Code) != r.reason {
			p.rt.Fatalf("preview of %+v says %+v, the receipt %+v; the log was\n%s", sig, want.Decision, *r, story)
		}
	case want.Decision.Outcome != run.Accept:
		p.rt.Fatalf("preview of %+v says %+v, the receipt %+v; the log was\n%s", sig, want.Decision, *r, story)
	}
}

// drawStep picks a step on which the signal can have an effect, or s00 if there is none.
func (p *player) drawStep(t run.SignalType) string {
	w := p.w
	want := map[run.SignalType]run.StepStatus{run.RetryStep: run.StepFailed, run.CompleteManual: run.StepRunning}[t]
	var of []string
	for _, s := range w.state.Steps {
		if want == "" || s.Status == want && (t != run.CompleteManual || s.Substatus == run.WaitingManual) {
			of = append(of, s.StepID)
		}
	}
	if len(of) == 0 {
		return "s00"
	}
	return rapid.SampledFrom(of).Draw(p.rt, "of")
}

// changes returns the changes of steps that the effects cause, as in a Preview.
func (p *player) changes(effects [][]interp.Effect) []interp.Change {
	w := p.w
	var out []interp.Change
	add := func(stepID string, kind interp.ChangeKind, logicalAttempt int) {
		o, _ := w.sk.Ordinal(stepID)
		out = append(out, interp.Change{Ord: run.Ord(o), Kind: kind, LogicalAttempt: logicalAttempt})
	}
	for _, e := range slices.Concat(effects...) {
		switch e := e.(type) {
		case interp.Execute:
			add(w.sk.Steps[e.Ord].StepID, interp.ChangeStart, e.LogicalAttempt)
		case interp.CancelSteps:
			for _, o := range e.Ords {
				for _, f := range w.flights {
					if f.ord == o {
						add(f.stepID, interp.ChangeCancel, f.logicalAttempt)
					}
				}
			}
		case interp.Compensate:
			add(w.sk.Steps[e.Ord].StepID, interp.ChangeUndo, e.LogicalAttempt)
		case interp.Append:
			for _, d := range e.Events {
				switch d.Type {
				case run.StepSkippedEvent:
					add(d.StepID, interp.ChangeSkip, d.LogicalAttempt)
				case run.StepAwaitingManualCompletion:
					add(d.StepID, interp.ChangeStart, d.LogicalAttempt)
				case run.StepCompletedEvent, run.StepFailedEvent:
					kind := interp.ChangeCancel
					if strings.Contains(string(d.Payload), `"manual":{`) {
						kind = interp.ChangeEnd
					}
					add(d.StepID, kind, d.LogicalAttempt)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b interp.Change) int { return int(a.Ord - b.Ord) })
	return out
}
