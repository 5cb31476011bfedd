package modelcheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// kinds has each type of event as often as its weight.
var kinds = slices.Concat(
	slices.Repeat([]run.EventType{run.StepStartedEvent}, 8), slices.Repeat([]run.EventType{run.StepCompletedEvent}, 4),
	slices.Repeat([]run.EventType{run.StepFailedEvent}, 3),
	slices.Repeat([]run.EventType{run.StepAwaitingManualCompletion}, 2),
	[]run.EventType{run.StepSkippedEvent, run.StepCompensated, run.StepCompensationFailed, run.SignalRejected},
)

// append draws an append. A change of the gate comes with an event, so that the log shows when it took effect.
func (w *writer) append(id string, s *runView) store.Append {
	a := store.Append{RunID: id}
	if w.IntN(3) == 0 {
		a.MinHead = s.head
	}
	epoch := 1 + s.n/12 + w.IntN(2)
	switch draw := w.IntN(1000); {
	case draw < 60:
		a.Events, a.SetGate = []run.Draft{runtest.Draft(run.RunPaused, "", epoch)}, run.GatePaused
		a.Outcomes = []store.SignalOutcome{{SignalID: fmt.Sprintf("sig-%d", s.n/8), Application: run.SignalApplied}}
	case draw < 150:
		a.Events, a.ClearGate = []run.Draft{runtest.Draft(run.RunResumed, "", epoch)}, run.GatePaused
	case draw < 190:
		a.Events, a.SetGate = []run.Draft{w.draft(run.StepFailedEvent, s)}, run.GateFailing
	case draw < 260:
		a.Events, a.ClearGate = w.drafts(s, 2), run.GateFailing
	case draw < 262:
		a.Events, a.SetGate = w.drafts(s, 2), run.GateStopped
	case draw < 340:
		a.IfStarted, a.Events = true, []run.Draft{w.draft(run.StepCompletedEvent, s), w.draft(run.StepFailedEvent, s)}
	case draw < 340+w.endRate(id):
		ends := []run.EventType{run.RunCompleted, run.RunFailed, run.RunCancelled}
		a.Events = append(w.drafts(s, 2), runtest.Draft(ends[w.IntN(len(ends))], "", 1))
	case draw < 700: // one event, like most appends
		a.Events = w.drafts(s, 1)
	default:
		a.Events = w.drafts(s, 6)
	}
	return a
}

// endRate returns how many of a thousand appends end the run. It is low for hot runs, so that they get a long log.
func (w *writer) endRate(id string) int {
	if strings.HasPrefix(id, "hot-") {
		return 8
	}
	return 40
}

// drafts draws from one to most drafts.
func (w *writer) drafts(s *runView, most int) []run.Draft {
	out := make([]run.Draft, 1+w.IntN(most))
	for i := range out {
		out[i] = w.draft(kinds[w.IntN(len(kinds))], s)
	}
	return out
}

// draft draws a draft whose subject is near those of the other writers, so that they collide. Drafts with the same
// subject are mostly equal; some have another payload (contract T15).
func (w *writer) draft(kind run.EventType, s *runView) run.Draft {
	name, attempt := w.attempt(s)
	if kind.OfSignal() {
		name, attempt = fmt.Sprintf("no-%d-%s", attempt, name), 1
	}
	var more []runtest.M
	if w.IntN(10) == 0 {
		more = append(more, runtest.M{"note": w.IntN(1 << 20)})
	}
	return runtest.Draft(kind, name, attempt, more...)
}

func (w *writer) attempt(s *runView) (stepID string, attempt int) {
	stepID = fmt.Sprintf("s%d", 1+w.IntN(len(steps)))
	if w.IntN(50) == 0 {
		stepID = "stranger" // no RunStarted announced it
	}
	return stepID, 1 + s.n/8 + w.IntN(6)
}

func (w *writer) startAttempt(id string, s *runView) store.StartAttempt {
	name, attempt := w.attempt(s)
	return store.StartAttempt{
		RunID: id, StepID: name, LogicalAttempt: attempt, EngineAttempt: 1 + w.IntN(3), EmittedAt: runtest.Epoch,
		PassFailing: w.IntN(3) == 0,
	}
}

func (w *writer) entries(id string, s *runView) []store.Entry {
	out := make([]store.Entry, 1+w.IntN(5))
	for i := range out {
		if w.IntN(2) == 0 {
			b := w.startAttempt(id, s)
			out[i].Start = &b
			continue
		}
		a := w.append(id, s)
		out[i].Append = &a
	}
	return out
}
