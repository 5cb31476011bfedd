package interp_test

import (
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

type dispatch struct {
	ord   run.Ord
	la, n int
}

// flight is an execution that was dispatched.
type flight struct {
	dispatch
	stepID    string
	passes    bool
	signalID  string
	began     time.Time
	cancelled bool
	lost      bool // its worker died: nobody can say when it began
}

// arrive lets an executor take up an execution: it begins, or comes back.
func (w *world) arrive(f *flight) {
	w.tb.Helper()
	b, err := authority.PrepareBegin(w.id, store.Begin{
		RunID: w.id.RunID, StepID: f.stepID, LogicalAttempt: f.la, EngineAttempt: 1,
		EmittedAt: w.now, PassFailing: f.passes, SignalID: f.signalID,
	})
	if err != nil {
		w.tb.Fatalf("begin: %v", err)
	}
	p, begun := authority.DecideBegin(w.head, b, w.facts(), w.now)
	if w.throttle != nil && len(p.Insert) > 0 {
		if wait := w.throttle(f.stepID); wait > 0 {
			w.report(f, engine.StepEnd{Kind: engine.EndThrottled, RetryAfter: wait})
			return
		}
	}
	w.carryOut(p)
	switch begun.Verdict {
	case store.BeginRun:
		f.began = w.now
	case store.BeginParked:
		w.report(f, engine.StepEnd{Kind: engine.EndParked})
	case store.BeginRunTerminal:
		w.report(f, engine.StepEnd{Kind: engine.EndRunTerminal})
	case store.BeginDone:
		if begun.Terminal.Type != run.StepSkippedEvent || !w.m.Finalizing() && !w.m.Done() {
			w.tb.Fatalf("%s/%d.%d is dispatched after its end", f.stepID, f.la, f.n)
		}
		w.report(f, engine.StepEnd{Kind: engine.EndRunTerminal}) // skipped at the end of the run
	}
}

// report brings the end of an execution home.
func (w *world) report(f *flight, end engine.StepEnd) {
	w.tb.Helper()
	w.flights = slices.DeleteFunc(w.flights, func(o *flight) bool { return o == f })
	end.StepID, end.LogicalAttempt, end.N, end.EngineAttempt, end.StartedAt = f.stepID, f.la, f.n, 1, f.began
	if f.lost {
		end.StartedAt = time.Time{}
	}
	if f.began.IsZero() {
		w.past[f.dispatch] = true
	}
	w.feed(interp.StepEnded{At: w.now, End: end})
}

func (w *world) flight(stepID string) *flight {
	w.tb.Helper()
	for _, f := range w.flights {
		if f.stepID == stepID {
			return f
		}
	}
	w.tb.Fatalf("%s is not in flight; the log is\n%s", stepID, strings.Join(w.story(), "\n"))
	return nil
}

// begin, succeed and fail move one step and record what follows.
func (w *world) begin(ids ...string) {
	w.tb.Helper()
	for _, id := range ids {
		w.arrive(w.flight(id))
		w.record()
	}
}

func (w *world) end(stepID string, end engine.StepEnd) {
	w.tb.Helper()
	if f := w.flight(stepID); f.began.IsZero() {
		w.arrive(f)
	}
	w.report(w.flight(stepID), end)
	w.record()
}

func (w *world) succeed(ids ...string) {
	w.tb.Helper()
	for _, id := range ids {
		w.end(id, completed())
	}
}

func (w *world) fail(stepID, code string) {
	w.tb.Helper()
	w.end(stepID, failed(code, true))
}

func completed() engine.StepEnd {
	return engine.StepEnd{Kind: engine.EndCompleted, Completed: &run.StepCompletedPayload{}}
}

func failed(code string, retryable bool) engine.StepEnd {
	return engine.StepEnd{Kind: engine.EndFailed, Failed: &run.FailurePayload{ErrorCode: code, ErrorMessage: code + "!", Retryable: retryable, FailureCategory: run.CategoryUser}}
}

// inFlight lists the steps in flight in the order of dispatch.
func (w *world) inFlight() string {
	var ids []string
	for _, f := range w.flights {
		ids = append(ids, f.stepID)
	}
	return strings.Join(ids, " ")
}
