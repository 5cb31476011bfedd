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
)

// asking makes steps of a skeleton wait for a person, for so long at most.
func asking(sk plan.Skeleton, timeout time.Duration, ids ...string) plan.Skeleton {
	for i := range sk.Steps {
		if slices.Contains(ids, sk.Steps[i].StepID) {
			sk.Steps[i].Type, sk.Steps[i].WaitTimeout = plan.Manual, timeout
		}
	}
	return sk
}

// undoable gives steps of a skeleton a hook.
func undoable(sk plan.Skeleton, ids ...string) plan.Skeleton {
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
		s.LA = step.LogicalAttempt
	}
	return s
}

// waits lists the steps that wait for a person, as the log says.
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
		w.tb.Fatalf("waiting for people: %v, want %v; the log is\n%s", got, want, strings.Join(w.story(), "\n"))
	}
}

// hook is a compensation in flight.
type hook struct {
	stepID    string
	cancelled bool
}

// hookOf is the step whose hook is in flight.
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
	case w.hook != nil:
		w.tb.Fatalf("R185: the hook of %s runs while that of %s does", id, w.hook.stepID)
	case w.pending != nil || w.answer != nil:
		w.tb.Fatalf("the hook of %s runs though not all is in the log", id)
	case !w.known.Compensating:
		w.tb.Fatalf("T88: the hook of %s runs, but the run is %s and does not compensate", id, w.known.Status)
	case step.Status != run.StepSuccess || step.LogicalAttempt != e.LA:
		w.tb.Fatalf("the hook of %s/%d runs, the step is %s/%d", id, e.LA, step.Status, step.LogicalAttempt)
	case len(w.undone) >= len(started) || started[len(w.undone)] != id:
		w.tb.Fatalf("R185: the hook of %s runs after %v, the order is %v", id, w.undone, started)
	}
	w.undone = append(w.undone, id)
	w.hook = &hook{stepID: id}
}

// compensationStarted is the order that RunCompensationStarted says.
func (w *world) compensationStarted() []string {
	for _, e := range w.log {
		if e.Type == run.RunCompensationStarted {
			p, _ := run.PayloadOf[run.CompensationStartedPayload](e.Payload)
			return p.StepIDs
		}
	}
	return nil
}

// endHook reports the end of the hook in flight; code is empty for a success.
func (w *world) endHook(attempts int, code string) {
	w.tb.Helper()
	if w.hook == nil {
		w.tb.Fatalf("no hook is in flight; the log is\n%s", strings.Join(w.story(), "\n"))
	}
	end := interp.CompensationEnd{StepID: w.hook.stepID, Attempts: attempts, Compensated: code == ""}
	if end.Compensated {
		end.Result = json.RawMessage(`{"undone":true}`)
	} else {
		end.ErrorCode, end.ErrorMessage = code, code+"!"
	}
	w.hook = nil
	w.feed(interp.Compensated{At: w.now, End: end})
}

// undo ends the hook of a step and records what follows.
func (w *world) undo(stepID string, attempts int, code string) {
	w.tb.Helper()
	if w.hook == nil || w.hook.stepID != stepID {
		w.tb.Fatalf("the hook in flight is %+v, want that of %s; the log is\n%s", w.hook, stepID, strings.Join(w.story(), "\n"))
	}
	w.endHook(attempts, code)
	w.record()
}

// answerFetches answers what the machine reads, with nothing new.
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
