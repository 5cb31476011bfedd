package controltest

import (
	"context"
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// AppendEvents writes events like an engine. It can also complete runs whose steps did not run.
func (w *World) AppendEvents(runID string, events ...run.Draft) store.Appended {
	w.T.Helper()
	put := w.Journal.Append
	for i := range events {
		events[i].EmittedAt = w.Clock.Now()
		if events[i].Type == run.RunCompleted {
			put = w.Store.Append
		}
	}
	out := Must[store.Appended](w.T)(put(w.T.Context(), store.Append{RunID: runID, Events: events}))
	for i, o := range out.Outcomes {
		if o.Refused != "" {
			w.T.Fatalf("%s was refused: %s", events[i].Type, o.Refused)
		}
	}
	return out
}

// BeginStep writes a StepStarted without checking the dependencies of the step.
func (w *World) BeginStep(runID, stepID string, logicalAttempt int) {
	w.T.Helper()
	b := Must[store.AttemptStarted](w.T)(
		w.Store.StartAttempt(w.T.Context(), store.StartAttempt{RunID: runID, StepID: stepID, LogicalAttempt: logicalAttempt,
			EngineAttempt: 1,
			EmittedAt:     w.Clock.Now()}))
	if b.Verdict != store.StartGranted {
		w.T.Fatalf("StartAttempt of %s of run %s returned %s, want RUN", stepID, runID, b.Verdict)
	}
}

// FinishStep starts one attempt and ends it with the event t.
func (w *World) FinishStep(runID, stepID string, logicalAttempt int, t run.EventType, more ...M) {
	w.T.Helper()
	w.BeginStep(runID, stepID, logicalAttempt)
	w.AppendEvents(runID, runtest.Draft(t, stepID, logicalAttempt, more...))
}

// EventLog returns the run's events as "seq Type(subject)".
func (w *World) EventLog(runID string) (out []string) {
	w.T.Helper()
	for _, e := range Must[[]run.Event](w.T)(w.Raw.Events(context.Background(), runID, 0, store.MaxPage)) {
		subject := e.StepID + e.SignalID
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%d %s(%s)", e.Seq, e.Type, subject), "()"))
	}
	return out
}

// CountEvents counts the events of a type in the log of a run.
func (w *World) CountEvents(runID string, t run.EventType) (n int) {
	for _, e := range w.EventLog(runID) {
		if strings.HasPrefix(strings.SplitN(e, " ", 2)[1], string(t)) {
			n++
		}
	}
	return n
}

// ApplySignal writes the effect of a signal like the interpreter.
func (w *World) ApplySignal(runID, signalID string, effect run.Draft) {
	w.T.Helper()
	Must[store.Appended](w.T)(w.Journal.Append(w.T.Context(), store.Append{
		RunID: runID, Events: []run.Draft{effect},
		Outcomes: []store.SignalOutcome{{SignalID: signalID, Application: run.SignalApplied, AppliedBy: 0}},
	}))
}

// BeginAttempt starts an attempt through the Journal, as a worker does.
func (w *World) BeginAttempt(runID, stepID string, logicalAttempt, engineAttempt int) engine.AttemptStarted {
	w.T.Helper()
	b := w.BeginOf(runID, stepID, logicalAttempt, engineAttempt)
	return Must[engine.AttemptStarted](w.T)(w.Journal.StartAttempt(w.T.Context(), b))
}

// DispatchOf returns the dispatch of one logical attempt. A retry passes fail-fast.
func (w *World) DispatchOf(runID, stepID string, logicalAttempt int) ticket.Dispatch {
	return ticket.Dispatch{
		RunID: runID, StepID: stepID, LogicalAttempt: logicalAttempt, N: logicalAttempt, Queue: "tq-data-dev",
		PassFailing: logicalAttempt > 1,
		Expires:     w.Clock.Now().Add(ticket.Life),
	}
}

// BeginOf returns the StartAttempt of an execution with its own ticket.
func (w *World) BeginOf(runID, stepID string, logicalAttempt, engineAttempt int) engine.StartAttempt {
	return w.BeginBy(w.DispatchOf(runID, stepID, logicalAttempt), engineAttempt)
}

// BeginBy returns the StartAttempt of an execution of a dispatch.
func (w *World) BeginBy(d ticket.Dispatch, engineAttempt int) engine.StartAttempt {
	return engine.StartAttempt{
		RunID: d.RunID, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, N: d.N, EngineAttempt: engineAttempt,
		EmittedAt: w.Clock.Now(), Ticket: w.Tickets.Ticket(d),
	}
}
