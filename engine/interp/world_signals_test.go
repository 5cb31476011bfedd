package interp_test

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

type receipt struct {
	app    run.Application
	reason string
	seq    run.Seq
}

// accept does what control does with a signal: it judges the signal on the log, gives it a number and a receipt, and
// writes the decision to the log.
func (w *world) accept(s engine.Signal) run.Decision {
	w.tb.Helper()
	d := run.Judge(w.state, run.Signal{ID: s.ID, Type: s.Type, StepID: s.StepID, ExpectedAttempt: s.LogicalAttempt,
		Force:   s.Force,
		Outcome: s.Outcome})
	draft := run.Draft{Type: run.SignalAccepted, SignalID: s.ID, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
		EmittedBy: run.ByAuthz}
	p := run.SignalPayload{SignalID: s.ID, SignalType: s.Type, StepID: s.StepID, Actor: "ola"}
	a := store.Append{}
	if d.Outcome == run.Reject {
		draft.Type, p.Code = run.SignalRejected, d.Code
	} else {
		s.No = int64(len(w.signals) + 1)
		w.head.SignalNo = s.No
		w.signals = append(w.signals, s)
		w.receipts[s.ID] = &receipt{app: run.SignalPending}
		if s.Type == run.Cancel || s.Type == run.EmergencyStop {
			a.SetGate = run.GateStopped
		}
	}
	ahead := d.Outcome == run.Accept && s.Type == run.Pause && w.pausesAhead()
	draft.Payload, _ = json.Marshal(p)
	a.Events = []run.Draft{draft}
	w.write(a)
	if ahead {
		w.ahead[s.ID] = true
		paused, _ := json.Marshal(run.PausePayload{SignalID: s.ID})
		w.write(store.Append{
			SetGate: run.GatePaused, Outcomes: []store.SignalOutcome{{SignalID: s.ID, Application: run.SignalApplied}},
			Events: []run.Draft{{
				Type: run.RunPaused, LogicalAttempt: w.state.PausedEpoch + 1, EngineAttempt: 1, EmittedAt: w.now,
				EmittedBy: run.ByControl, Payload: paused,
			}},
		})
	}
	return d
}

// pausesAhead reports whether control may apply the PAUSE that it has just accepted, which is the last one in signals.
func (w *world) pausesAhead() bool {
	for _, s := range w.signals[:len(w.signals)-1] {
		if s.Type != run.EscalateAlert && !w.receipts[s.ID].app.Final() {
			return false
		}
	}
	return !w.noPauseAhead && w.state.PausesAhead() && w.head.Gate&run.GateStopped == 0
}

// asSent returns accepted signals with the flags that a delivery has now.
func (w *world) asSent(signals ...engine.Signal) []engine.Signal {
	signals = slices.Clone(signals)
	for i := range signals {
		s := &signals[i]
		r := w.receipts[s.ID]
		s.Applied = s.Type == run.Pause && r.app == run.SignalApplied
		s.Ineffective = r.app.Final() && r.app != run.SignalApplied
	}
	return signals
}

// signal accepts and delivers one signal and records the appends that follow.
func (w *world) signal(t run.SignalType, id, stepID string) run.Decision {
	w.tb.Helper()
	s := engine.Signal{ID: id, Type: t, StepID: stepID}
	if step, ok := w.state.Step(stepID); ok && t == run.RetryStep {
		s.LogicalAttempt = step.LogicalAttempt
	}
	d := w.accept(s)
	if d.Outcome != run.Reject {
		w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[len(w.signals)-1])})
		w.record()
	}
	return d
}

// fire advances the clock to the time of a timer that is set, and fires it.
func (w *world) fire(t interp.Timer) {
	w.tb.Helper()
	at := w.timers[t]
	if at.IsZero() {
		w.tb.Fatalf("timer %s is not set", t)
	}
	if at.After(w.now) {
		w.now = at
	}
	w.needTask(w.history.armers[t])
	w.timers[t] = time.Time{}
	w.feed(interp.Fired{At: w.now, Timer: t})
	w.record()
}
