package interp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The test runs random plans with random results and signals in random order, and repeats inputs. The world checks
// every effect and every event; the test checks the whole log.
func TestStep_RandomRunsKeepTheGuarantees(t *testing.T) {
	t.Parallel()
	for i := range 10 { // each with as many runs as -rapid.checks, 100 by default
		t.Run("shard "+strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, randomRun)
		})
	}
}

func randomRun(rt *rapid.T) {
	w := newRotatingWorld(rt, drawPlan(rt), drawPolicy(rt), rapid.SampledFrom([]int{0, 0, 1, 2, 3, 7}).Draw(rt,
		"rotateAfter"))
	if rapid.IntRange(0, 3).Draw(rt, "pauseAhead") > 0 {
		w.cfg.PauseAhead = true
		w.m = interp.New(w.sk, w.cfg)
	}
	w.compareTwins = true
	w.refuse = drawRefusals(rt)
	w.tailMost = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "tailMost")
	if rapid.Bool().Draw(rt, "proves") {
		w.useReceipts = func() bool { return rapid.Bool().Draw(rt, "proven") }
	}
	p := &player{w: w, rt: rt}
	w.throttle = p.throttle
	if rapid.Bool().Draw(rt, "losesTasks") {
		w.loseTasks()
	}
	w.feed(interp.Init{At: w.now})
	for range rapid.IntRange(0, 250).Draw(rt, "moves") {
		p.move()
	}
	p.finish()
	checkLog(rt, w)
	checkWaits(rt, w)
	checkHooks(rt, w)
	checkReceipts(rt, w)
	checkReplay(rt, w)
}

func drawPlan(rt *rapid.T) plan.Skeleton {
	n := rapid.IntRange(0, 30).Draw(rt, "steps")
	rank := rapid.Permutation(upTo(n)).Draw(rt, "topological order")
	position := make([]int, n)
	for r, o := range rank {
		position[o] = r
	}
	sk := plan.Skeleton{PlanID: testIdentity.PlanID, PlanVersion: testIdentity.PlanVersion,
		Steps: make([]plan.SkeletonStep, n)}
	for i := range sk.Steps {
		s := &sk.Steps[i]
		s.StepID, s.Type = fmt.Sprintf("s%02d", i), plan.Noop
		s.Retry.MaxAttempts = rapid.IntRange(0, 3).Draw(rt, "attempts")
		if rapid.IntRange(0, 3).Draw(rt, "retriesRateLimitsOnly") == 0 {
			s.Retry.RetryableErrors = []string{plan.ClassRateLimit}
		}
		s.Cancellable = rapid.Bool().Draw(rt, "cancellable")
		s.AllowCancelOnPause = rapid.Bool().Draw(rt, "allowCancelOnPause")
		if rapid.IntRange(0, 5).Draw(rt, "manual") == 0 {
			s.Type = plan.Manual
			s.WaitTimeout = rapid.SampledFrom([]time.Duration{0, 20 * time.Second, time.Minute}).Draw(rt, "waitTimeout")
		}
		if rapid.IntRange(0, 2).Draw(rt, "hook") == 0 {
			s.CompensationQueue, s.CompensationTimeout = "tq-control", time.Minute
		}
		for j := range sk.Steps {
			if position[j] < position[i] && rapid.IntRange(0, n).Draw(rt, "edge") < 3 {
				s.Deps = append(s.Deps, j)
			}
		}
	}
	return sk
}

// drawRefusals picks steps whose results the log refuses.
func drawRefusals(rt *rapid.T) func(run.Draft) bool {
	last := rapid.SampledFrom([]string{"", "3"}).Draw(rt, "refused")
	return func(d run.Draft) bool {
		return last != "" && strings.HasSuffix(d.StepID, last) && d.Type == run.StepCompletedEvent
	}
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func drawPolicy(rt *rapid.T) run.Policy {
	return run.Policy{
		RetryWindowMS:            rapid.SampledFrom([]int64{0, 60_000}).Draw(rt, "window"),
		DrainTimeoutMS:           300_000,
		CancelRunning:            rapid.Bool().Draw(rt, "cancelRunning"),
		MaxParallelSteps:         rapid.IntRange(1, 6).Draw(rt, "parallel"),
		MaxLogicalAttemptsManual: 10,
	}
}

// checkLog checks the guarantees that concern several events of the log.
func checkLog(rt *rapid.T, w *world) {
	s := run.Project(w.id, w.log)
	if !s.Status.Terminal() || s.Status != w.m.RunStatus() && w.m.RunStatus() != "" {
		rt.Fatalf("the run is %s in the log and %s in the machine, want the same terminal status", s.Status, w.m.RunStatus())
	}
	paused, failing, epochs := false, 0, 0
	var latest time.Time // emittedAt of an end
	begun := map[string]bool{}
	ended := map[string]bool{}
	bad := func(e run.Event, why string) {
		rt.Fatalf("%d %s: %s; the log is\n%s", e.Seq, describe(e), why, strings.Join(w.logLines(), "\n"))
	}
	for i, e := range w.log {
		attempt := fmt.Sprintf("%s/%d", e.StepID, e.LogicalAttempt)
		switch {
		case e.Type == run.RunPaused:
			if epochs++; paused || e.LogicalAttempt != epochs {
				bad(e, "the run is paused already, or the epoch is wrong (contract T48)")
			}
			paused = true
		case e.Type == run.RunResumed:
			if !paused || e.LogicalAttempt != epochs {
				bad(e, "the run is not paused, or the epoch is wrong")
			}
			paused = false
		case paused && (e.Type == run.RunCompleted || e.Type == run.RunFailed || e.Type == run.RunCompensationStarted):
			bad(e, "the run ends while it is paused (contract T43)")
		case e.Type == run.StepStartedEvent:
			if paused {
				bad(e, "the attempt starts while the run is paused (contract T185)")
			}
			if failing > 0 && !begun[e.StepID] && !unblocked(w, i) {
				bad(e, "the attempt starts although fail-fast is armed (contract T214)")
			}
			begun[e.StepID] = true
		case e.Type.EndsAttempt():
			if ended[attempt] {
				bad(e, "the attempt ends a second time")
			}
			ended[attempt] = true
			if p, _ := run.PayloadOf[run.FailurePayload](e.Payload); e.Type == run.StepFailedEvent &&
				p.ErrorCode != string(run.CodeCancelledByPause) {
				failing++
			}
		case e.Type.EndsRun() && i != len(w.log)-1:
			bad(e, "events follow the end of the run")
		case e.Type == run.RunCompleted && s.Counts.Success+s.Counts.Skipped != s.Counts.Total:
			bad(e, "not every step succeeded (contract T78)")
		case e.Type == run.RunFailed && s.Counts.Pending > 0:
			bad(e, "a step is still PENDING (contract T79)")
		case e.Type == run.RunFailed:
			if p, _ := run.PayloadOf[run.RunFailedPayload](e.Payload); !failedWith(w, *p.RootCause) {
				bad(e, fmt.Sprintf("no step failed with its root cause %+v", *p.RootCause))
			}
		}
		if e.Type.EndsRun() && w.head.Running != 0 {
			bad(e, "steps are still RUNNING (contract T74)")
		}
		if e.Type.EndsRun() && e.EmittedAt.Before(latest) {
			bad(e, fmt.Sprintf("it was emitted at %v, want it not before an earlier end at %v", e.EmittedAt, latest))
		}
		if (e.Type.EndsAttempt() || e.Type.EndsHook()) && e.EmittedAt.After(latest) {
			latest = e.EmittedAt
		}
	}
}

// failedWith reports whether the log has this failure.
func failedWith(w *world, cause run.RootCause) bool {
	return slices.ContainsFunc(w.log, func(e run.Event) bool {
		p, _ := run.PayloadOf[run.FailurePayload](e.Payload)
		same := e.StepID == cause.StepID && e.LogicalAttempt == cause.LogicalAttempt && p.ErrorCode == cause.ErrorCode
		return e.Type == run.StepFailedEvent && same
	})
}

// unblocked reports whether an operator retried or skipped a step before event i. From then on some steps may pass
// fail-fast, which TestStep_OnlyARetryAndItsDependentsPassFailFast checks.
func unblocked(w *world, i int) bool {
	for _, e := range w.log[:i] {
		if p, _ := run.PayloadOf[run.SignalPayload](e.Payload); e.Type == run.SignalAccepted &&
			(p.SignalType == run.RetryStep || p.SignalType == run.SkipStep) {
			return true
		}
	}
	return false
}

// checkReceipts checks that every accepted signal has a final outcome (contract O11), and that the receipt of an
// APPLIED one points to an event of that signal.
func checkReceipts(rt *rapid.T, w *world) {
	for _, s := range w.signals {
		r := w.receipts[s.ID]
		switch {
		case s.Type == run.EscalateAlert:
		case !r.app.Final():
			rt.Fatalf("the receipt of %s %s is %+v, want a final one", s.Type, s.ID, *r)
		case r.app == run.SignalApplied:
			e := w.log[r.seq-1]
			want := map[run.SignalType]run.EventType{
				run.Pause: run.RunPaused, run.Resume: run.RunResumed, run.RetryStep: run.StepStartedEvent,
				run.SkipStep: run.StepSkippedEvent,
				run.Cancel:   run.RunCancelled, run.EmergencyStop: run.RunCancelled, run.CompleteManual: run.StepFailedEvent,
			}[s.Type]
			if s.Outcome == run.ManualSucceeded {
				want = run.StepCompletedEvent
			}
			if e.Type != want || e.StepID != s.StepID || !strings.Contains(string(e.Payload), s.ID) {
				rt.Fatalf("%s %s is applied by %d %s %s, want %s with the signal", s.Type, s.ID, e.Seq,
					describe(e), e.Payload, want)
			}
		}
	}
}

// checkReplay checks that the same inputs have the same effects, byte for byte (contract T184).
func checkReplay(rt *rapid.T, w *world) {
	m := interp.New(w.sk, w.cfg)
	for i, in := range w.inputs {
		if m.HasRotated() {
			m = carryOver(rt, m, w.sk, w.cfg)
		}
		if got, want := dump(rt, m.Step(in)), dump(rt, w.effects[i]); got != want {
			rt.Fatalf("replay of input %d, %#v:\n got %s\nwant %s", i, in, got, want)
		}
	}
}

func dump(rt *rapid.T, effects []interp.Effect) string {
	var b strings.Builder
	for _, e := range effects {
		body, err := json.Marshal(e)
		if err != nil {
			rt.Fatalf("encode %T: %v", e, err)
		}
		fmt.Fprintf(&b, "%T%s\n", e, body)
	}
	return b.String()
}

// The test feeds inputs that no driver would send.
func TestStep_AnyInputIsSafeAndNoEffectFollowsFinish(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sk := drawPlan(rt)
		m := interp.New(sk, interp.Config{Identity: testIdentity, Policy: drawPolicy(rt)})
		id := rapid.Custom(func(rt *rapid.T) string {
			return fmt.Sprintf("s%02d", rapid.IntRange(0, len(sk.Steps)).Draw(rt, "ord"))
		})
		small := rapid.IntRange(-1, 4)
		at := rapid.Custom(func(rt *rapid.T) time.Time {
			return epoch.Add(time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(rt, "at")))
		})
		inputs := rapid.Custom(func(rt *rapid.T) interp.Input {
			kinds := []engine.ReturnKind{
				engine.ReturnEnded, engine.ReturnParked, engine.ReturnThrottled, engine.ReturnDeclined, engine.ReturnRunTerminal,
				engine.ReturnCancelled, engine.ReturnLost, engine.ReturnAbandoned, "x",
			}
			back := func() engine.Return {
				return engine.Return{
					StepID: id.Draw(rt, "id"), LogicalAttempt: small.Draw(rt, "logical attempt"), N: small.Draw(rt, "n"),
					EngineAttempt: small.Draw(rt, "engine attempt"),
					Kind:          rapid.SampledFrom(kinds).Draw(rt, "kind"),
				}
			}
			switch rapid.IntRange(0, 13).Draw(rt, "input") {
			case 10:
				return interp.HookReturned{At: at.Draw(rt, "at"), Return: back()}
			case 11, 12, 13:
				t := engine.Tail{Seq: run.Seq(small.Draw(rt, "tailSeq") * 10), Head: store.Head{
					LastSeq: run.Seq(small.Draw(rt, "headSeq") * 10), Running: small.Draw(rt, "headRunning"),
					SignalNo: int64(small.Draw(rt, "signalNo")),
				}}
				for range rapid.IntRange(0, 4).Draw(rt, "events") {
					t.Events = append(t.Events, engine.LogEvent{
						Seq: run.Seq(rapid.IntRange(-1, 50).Draw(rt, "eventSeq")), StepID: id.Draw(rt, "id"),
						LogicalAttempt: small.Draw(rt, "logical attempt"),
						Type: rapid.SampledFrom([]run.EventType{
							run.StepStartedEvent, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent, run.StepCompensated,
							run.StepCompensationFailed, run.RunPaused, run.RunCompensationStarted, "x",
						}).Draw(rt, "type"),
						Payload: rapid.SampledFrom([]json.RawMessage{nil, []byte(`{`), []byte(`{}`),
							[]byte(`{"errorCode":"CANCELLED_BY_PAUSE"}`), []byte(`{"retryDeadline":"2026-01-02T03:04:05Z"}`)}).Draw(rt,
							"payload"),
					})
				}
				return interp.Observed{At: at.Draw(rt, "at"), Tail: t}
			case 0:
				return interp.Init{At: at.Draw(rt, "at")}
			case 1:
				return interp.Fired{
					At: at.Draw(rt, "at"), Timer: rapid.SampledFrom([]interp.Timer{interp.TimerDrain, interp.TimerRetryWindow,
						interp.TimerManual, interp.TimerDelay, "x"}).Draw(rt, "timer")}
			case 2, 3, 4:
				return interp.Returned{At: at.Draw(rt, "at"), Return: back()}
			case 5:
				var s interp.Signalled
				for range rapid.IntRange(0, 3).Draw(rt, "signals") {
					s.Signals = append(s.Signals, engine.Signal{
						No: rapid.Int64Range(-1, 12).Draw(rt, "no"), ID: "x", StepID: id.Draw(rt, "id"), LogicalAttempt: small.Draw(rt,
							"logical attempt"),
						Force: true,
						Type: rapid.SampledFrom([]run.SignalType{run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.Cancel,
							run.CompleteManual, run.UpdateParams, "x"}).Draw(rt, "type"),
						Outcome: rapid.SampledFrom([]run.ManualOutcome{run.ManualSucceeded, run.ManualFailed, run.ManualCancelled,
							"x"}).Draw(rt, "outcome"),
					})
				}
				return s
			}
			r := interp.Recorded{
				At: at.Draw(rt, "at"), Batch: rapid.IntRange(0, 20).Draw(rt, "batch"), Running: small.Draw(rt, "running"),
				StillFailing: rapid.IntRange(0, 5).Draw(rt, "stillFailing") == 0, Head: run.Seq(small.Draw(rt, "head")),
			}
			for range rapid.IntRange(0, 4).Draw(rt, "ends") {
				r.Ends = append(r.Ends, interp.RecordedEvent{
					Seq: run.Seq(small.Draw(rt, "seq")), Rejected: rapid.IntRange(0, 9).Draw(rt, "rejected") == 0,
					Won: rapid.SampledFrom([]run.EventType{"", "", "", run.StepFailedEvent, run.StepCompletedEvent,
						run.StepSkippedEvent, run.RunCancelled}).Draw(rt, "won"),
				})
			}
			return r
		})
		batch := 0
		answer := func(effects []interp.Effect) {
			for _, e := range effects {
				if a, ok := e.(interp.Append); ok {
					batch = a.Batch
				}
			}
		}
		answer(m.Step(interp.Init{At: epoch}))
		for range rapid.IntRange(0, 120).Draw(rt, "inputs") {
			in := inputs.Draw(rt, "in")
			if r, ok := in.(interp.Recorded); ok && rapid.Bool().Draw(rt, "answers") {
				r.Batch = batch
				in = r
			}
			done := m.Done()
			effects := m.Step(in)
			if done && len(effects) > 0 {
				rt.Fatalf("the machine returns effects after Finish: %#v", effects)
			}
			answer(effects)
		}
	})
}
