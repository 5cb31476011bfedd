package interp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// asManual makes steps of a skeleton wait for a person. With timeout 0 they wait without a deadline.
func asManual(sk plan.Skeleton, timeout time.Duration, ids ...string) plan.Skeleton {
	for i := range sk.Steps {
		if slices.Contains(ids, sk.Steps[i].StepID) {
			sk.Steps[i].Type, sk.Steps[i].WaitTimeout = plan.Manual, timeout
		}
	}
	return sk
}

// withHooks gives steps of a skeleton a hook.
func withHooks(sk plan.Skeleton, ids ...string) plan.Skeleton {
	for i := range sk.Steps {
		if slices.Contains(ids, sk.Steps[i].StepID) {
			sk.Steps[i].CompensationQueue, sk.Steps[i].CompensationTimeout = "tq-control", time.Minute
		}
	}
	return sk
}

// complete lets a person complete the latest attempt of a step.
func (w *world) complete(id, stepID string, as run.ManualOutcome) run.Decision {
	w.tb.Helper()
	d := w.accept(w.completion(id, stepID, as))
	if d.Outcome != run.Reject {
		w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[len(w.signals)-1])})
		w.record()
	}
	return d
}

func (w *world) completion(id, stepID string, as run.ManualOutcome) engine.Signal {
	s := engine.Signal{ID: id, Type: run.CompleteManual, StepID: stepID, Outcome: as}
	if step, ok := w.state.Step(stepID); ok {
		s.LogicalAttempt = step.LogicalAttempt
	}
	return s
}

// waits returns the steps that wait for a person according to the log.
func (w *world) waits() []string {
	var ids []string
	for _, s := range w.state.Steps {
		if s.Substatus == run.WaitingManual {
			ids = append(ids, s.StepID)
		}
	}
	return ids
}

func (w *world) expectWaits(want ...string) {
	w.tb.Helper()
	if got := w.waits(); !slices.Equal(got, want) {
		w.tb.Fatalf("waiting for people: %v, want %v; the log is\n%s", got, want, strings.Join(w.logLines(), "\n"))
	}
}

// hook is a compensation in flight.
type hook struct {
	stepID            string
	logicalAttempt, n int
	spent             int
	since             int // the workflow task that dispatched it
	ended             bool
	cancelled         bool
}

// hookOf returns the step whose hook is in flight, or "".
func (w *world) hookOf() string {
	if w.hook == nil {
		return ""
	}
	return w.hook.stepID
}

func (w *world) onCompensate(e interp.Compensate) {
	w.tb.Helper()
	id := w.sk.Steps[e.Ord].StepID
	step, _ := w.known.Step(id)
	switch started := w.compensationStarted(); {
	case e.N > 1 && w.hook == nil && len(w.undone) > 0 && w.undone[len(w.undone)-1] == id: // the same hook again
		w.undone = w.undone[:len(w.undone)-1]
	case w.hook != nil && !w.hasObserved(w.hook.stepID, w.hook.logicalAttempt, run.StepCompensated,
		run.StepCompensationFailed):
		w.tb.Fatalf("the hook of %s runs together with that of %s (contract R185)", id, w.hook.stepID)
	case w.pending != nil || w.answer != nil:
		w.tb.Fatalf("the hook of %s runs while an Append is outstanding", id)
	case !w.known.Compensating:
		w.tb.Fatalf("the hook of %s runs, but the run is %s and does not compensate (contract T88)", id, w.known.Status)
	case step.Status != run.StepSuccess || step.LogicalAttempt != e.LogicalAttempt:
		w.tb.Fatalf("the hook of %s/%d runs, but the step is %s/%d", id, e.LogicalAttempt, step.Status, step.LogicalAttempt)
	case len(w.undone) >= len(started) || started[len(w.undone)] != id:
		w.tb.Fatalf("the hook of %s runs after %v, want the order %v (contract R185)", id, w.undone, started)
	}
	w.undone = append(w.undone, id)
	w.hook = &hook{stepID: id, logicalAttempt: e.LogicalAttempt, n: e.N, spent: e.Spent, since: w.history.task}
}

// compensationStarted returns the steps of RunCompensationStarted in their order, or nil.
func (w *world) compensationStarted() []string {
	for _, e := range w.log {
		if e.Type == run.RunCompensationStarted {
			p, _ := run.PayloadOf[run.CompensationStartedPayload](e.Payload)
			return p.StepIDs
		}
	}
	return nil
}

// endHook lets the worker of the hook in flight write its end and the engine report it. code is empty for a success.
func (w *world) endHook(attempts int, code string) {
	w.tb.Helper()
	w.writeHookEnd(attempts, code)
	w.returnHook(engine.Return{Kind: engine.ReturnEnded, EngineAttempt: attempts})
}

// writeHookEnd writes the end of the hook in flight.
func (w *world) writeHookEnd(attempts int, code string) {
	w.tb.Helper()
	if w.hook == nil {
		w.tb.Fatalf("no hook is in flight; the log is\n%s", strings.Join(w.logLines(), "\n"))
	}
	w.needTask(w.hook.since)
	w.writeEndOf(w.hook, attempts, code)
}

// writeEndOf writes the end of a hook as Journal.End does: only the first end counts.
func (w *world) writeEndOf(h *hook, attempts int, code string) {
	w.tb.Helper()
	p := run.CompensationPayload{
		StepID: h.stepID, IdempotencyKey: w.id.RunID + ":" + h.stepID + ":compensate", Attempts: attempts,
		Compensated: code == "",
	}
	d := run.Draft{
		Type: run.StepCompensated, StepID: h.stepID, LogicalAttempt: h.logicalAttempt, EngineAttempt: attempts,
		EmittedAt: w.now, EmittedBy: run.ByEngine,
	}
	if p.Compensated {
		p.Result = json.RawMessage(`{"undone":true}`)
	} else {
		d.Type, p.ErrorCode, p.ErrorMessage = run.StepCompensationFailed, code, code+"!"+w.hookMessage
	}
	d.Payload, _ = json.Marshal(p)
	w.write(store.Append{Events: []run.Draft{d}})
	h.ended = true
}

// returnHook lets the engine report that it no longer executes the hook in flight. The machine observes the log first.
func (w *world) returnHook(got engine.Return) {
	w.tb.Helper()
	w.needTask(w.hook.since)
	w.beginTask()
	got.StepID, got.LogicalAttempt, got.N = w.hook.stepID, w.hook.logicalAttempt, w.hook.n
	w.hook = nil
	w.observe()
	w.feed(interp.HookReturned{At: w.now, Return: got})
}

// undo ends the hook of a step and records the appends that follow.
func (w *world) undo(stepID string, attempts int, code string) {
	w.tb.Helper()
	if w.hook == nil || w.hook.stepID != stepID {
		w.tb.Fatalf("the hook in flight is %+v, want that of %s; the log is\n%s", w.hook, stepID,
			strings.Join(w.logLines(), "\n"))
	}
	w.endHook(attempts, code)
	w.record()
}

// answerFetches answers every FetchSignals with the signals that were accepted, and records the appends that follow.
func (w *world) answerFetches() {
	w.tb.Helper()
	w.record()
	for len(w.fetch) > 0 {
		after := w.fetch[0]
		w.fetch = w.fetch[1:]
		w.feed(interp.Signalled{At: w.now, Signals: w.signals[after:]})
		w.record()
	}
}
