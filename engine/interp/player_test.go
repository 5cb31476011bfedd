package interp_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// player makes random moves.
type player struct {
	w         *world
	rt        *rapid.T
	delivered int // number of signals that quiesce has delivered

	steady bool // no Pressure
	honest bool // the engine loses no worker, and nobody forges its answers
	ending int  // number of tokens requested since finish started; two of three are available
}

// throttle returns the time until a token is available, or 0. Only steps with an even number need a token.
func (p *player) throttle(stepID string) time.Duration {
	if (stepID[len(stepID)-1]-'0')%2 == 1 {
		return 0
	}
	if p.ending > 0 {
		p.ending++
		return []time.Duration{0, 0, 2 * time.Second}[p.ending%3]
	}
	return time.Duration(rapid.SampledFrom([]int{0, 0, 100, 7000, -1}).Draw(p.rt, "token after")) * time.Millisecond
}

func (p *player) move() {
	w := p.w
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(p.rt, "ms")) * time.Millisecond)
	w.lag = time.Duration(rapid.SampledFrom([]int{0, 0, 1000, 20_000}).Draw(p.rt, "lag")) * time.Millisecond
	switch rapid.IntRange(0, 19).Draw(p.rt, "move") {
	case 0, 1, 2:
		p.step()
	case 3, 4:
		if w.pending != nil {
			w.commit()
		}
	case 5, 6:
		if w.answer != nil {
			w.deliver()
		}
	case 7:
		p.accept()
	case 8:
		p.deliverSignals()
	case 9:
		p.repeat()
	case 10:
		p.answerFetch()
	case 11:
		p.timer()
	case 12:
		if w.reading || rapid.Bool().Draw(p.rt, "unasked") {
			w.deliverTail(w.read())
		}
	case 13:
		p.readLate()
	case 14:
		if !p.steady && rapid.IntRange(0, 3).Draw(p.rt, "presses") == 0 {
			w.feed(interp.Pressure{At: w.now, Hard: rapid.Bool().Draw(p.rt, "hard")})
		}
	case 15:
		p.undo()
	case 16:
		if len(w.orphans) > 0 {
			p.orphan()
		}
	case 17:
		if w.history.lossy && rapid.Bool().Draw(p.rt, "losesTask") {
			w.loseTask()
		}
	case 18:
		w.feed(interp.Woken{At: w.now})
	case 19:
		if len(w.lost) > 0 {
			p.lateHook()
		}
	}
}

// lateHook lets the worker of a hook that the engine lost write an end or die.
func (p *player) lateHook() {
	w := p.w
	i := rapid.IntRange(0, len(w.lost)-1).Draw(p.rt, "lost hook")
	h := w.lost[i]
	w.lost = append(w.lost[:i:i], w.lost[i+1:]...)
	if code := rapid.SampledFrom([]string{"", "LATE", "dies"}).Draw(p.rt, "late"); code != "dies" && !h.ended &&
		!w.state.Status.Terminal() {
		w.writeEndOf(h, rapid.IntRange(1, 2).Draw(p.rt, "attempts"), code)
	}
}

// readLate reads the log, or delivers an earlier read to the machine.
func (p *player) readLate() {
	w := p.w
	if len(w.tails) < 2 && rapid.Bool().Draw(p.rt, "reads") {
		w.tails = append(w.tails, w.read())
		return
	}
	if len(w.tails) > 0 {
		i := rapid.IntRange(0, len(w.tails)-1).Draw(p.rt, "tail")
		t := w.tails[i]
		w.tails = append(w.tails[:i:i], w.tails[i+1:]...)
		w.deliverTail(t)
	}
}

// undo makes a random move of the hook in flight.
func (p *player) undo() {
	w := p.w
	if w.hook == nil {
		return
	}
	switch kind := rapid.IntRange(0, 9).Draw(p.rt, "hook"); {
	case kind < 2 && !w.hook.ended:
		w.writeHookEnd(rapid.IntRange(1, 2).Draw(p.rt, "attempts"), rapid.SampledFrom([]string{"", "", "STUCK"}).Draw(p.rt,
			"undone"))
	case p.honest || kind < 6:
		w.endHook(rapid.IntRange(1, 2).Draw(p.rt, "attempts"), rapid.SampledFrom([]string{"", "", "STUCK"}).Draw(p.rt,
			"undone"))
	case kind < 8:
		w.lost = append(w.lost, w.hook)
		w.returnHook(engine.Return{Kind: engine.ReturnLost, EngineAttempt: rapid.IntRange(0, 2).Draw(p.rt, "engine attempt")})
	default:
		w.lost = append(w.lost, w.hook)
		w.returnHook(engine.Return{Kind: p.forged(), EngineAttempt: rapid.IntRange(-1, 9).Draw(p.rt, "engine attempt")})
	}
}

// forged returns a kind of return that an attacker with access to the engine may send.
func (p *player) forged() engine.ReturnKind {
	return rapid.SampledFrom([]engine.ReturnKind{
		engine.ReturnEnded, engine.ReturnAbandoned, engine.ReturnRunTerminal, engine.ReturnCancelled, engine.ReturnParked,
		engine.ReturnThrottled,
		engine.ReturnDeclined, "x",
	}).Draw(p.rt, "forged")
}

// step makes a random move of one execution in flight.
func (p *player) step() {
	w := p.w
	if len(w.flights) == 0 {
		return
	}
	f := rapid.SampledFrom(w.flights).Draw(p.rt, "flight")
	engineAttempt := rapid.IntRange(0, 3).Draw(p.rt, "engine attempt")
	kind := rapid.IntRange(0, 19).Draw(p.rt, "kind")
	switch {
	case f.back != nil: // a lost task has received this return
		w.comeBack(f, *f.back)
	case !p.honest && kind == 19:
		w.orphans = append(w.orphans, f)
		w.comeBack(f, engine.Return{Kind: engine.ReturnLost, EngineAttempt: engineAttempt})
	case !p.honest && kind == 18:
		w.orphans = append(w.orphans, f)
		w.comeBack(f, engine.Return{Kind: p.forged(), EngineAttempt: engineAttempt,
			RetryAfter: time.Duration(engineAttempt) * time.Second})
	case f.ended:
		w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
	case f.cancelled && kind < 10:
		w.comeBack(f, engine.Return{Kind: engine.ReturnCancelled, EngineAttempt: engineAttempt})
	case !f.began && !p.honest && kind == 17:
		w.comeBack(f, engine.Return{Kind: engine.ReturnDeclined, RetryAfter: 5 * time.Second})
	case !f.began:
		w.arrive(f)
	case kind == 10:
		w.needTask(f.since)
		w.writeEnd(f, completed())
	case kind == 11:
		w.needTask(f.since)
		w.writeEnd(f, failed("BROKEN", true))
	case kind < 4:
		w.report(f, failed("BROKEN", kind > 0))
	default:
		w.report(f, completed())
	}
}

// orphan makes a random move of a worker that the engine lost.
func (p *player) orphan() {
	w := p.w
	i := rapid.IntRange(0, len(w.orphans)-1).Draw(p.rt, "orphan")
	f := w.orphans[i]
	switch rapid.IntRange(0, 3).Draw(p.rt, "orphans") {
	case 0: // it dies
		w.orphans = append(w.orphans[:i:i], w.orphans[i+1:]...)
	case 1:
		if !f.began && !f.ended {
			w.startAttempt(f)
		}
	case 2:
		if f.began && !f.ended {
			w.writeEnd(f, completed())
		}
	case 3:
		if f.began && !f.ended {
			w.writeEnd(f, failed("LATE", true))
		}
	}
}

func (p *player) accept() {
	w := p.w
	if w.state.Status.Terminal() || len(w.signals) >= 16 {
		return
	}
	s := engine.Signal{
		ID: fmt.Sprintf("sig-%d", w.head.LastSeq),
		Type: rapid.SampledFrom([]run.SignalType{
			run.Pause, run.Pause, run.Resume, run.Resume, run.Resume, run.RetryStep, run.RetryStep, run.RetryStep,
			run.RetryStep, run.SkipStep, run.CompleteManual, run.CompleteManual, run.CompleteManual, run.Cancel,
			run.EmergencyStop, run.EscalateAlert,
		}).Draw(p.rt, "signal"),
		Force: rapid.Bool().Draw(p.rt, "force"),
	}
	if s.Type == run.Cancel && rapid.IntRange(0, 3).Draw(p.rt, "mercy") > 0 {
		return
	}
	if s.Type == run.CompleteManual {
		of := w.waits()
		if rapid.IntRange(0, 9).Draw(p.rt, "orphan") == 0 && len(w.sk.Steps) > 0 {
			of = []string{rapid.SampledFrom(w.sk.Steps).Draw(p.rt, "of").StepID}
		}
		if len(of) == 0 {
			return
		}
		s = w.completion(s.ID, rapid.SampledFrom(of).Draw(p.rt, "of"),
			rapid.SampledFrom([]run.ManualOutcome{run.ManualFailed, run.ManualSucceeded, run.ManualCancelled,
				run.ManualSucceeded}).Draw(p.rt, "outcome"))
	}
	if s.Type == run.RetryStep || s.Type == run.SkipStep {
		var of []string
		for _, step := range w.state.Steps {
			if step.Status == run.StepFailed || s.Type == run.SkipStep {
				of = append(of, step.StepID)
			}
		}
		if len(of) == 0 {
			return
		}
		s.StepID = rapid.SampledFrom(of).Draw(p.rt, "of")
		if s.Type == run.RetryStep {
			step, _ := w.state.Step(s.StepID)
			s.LogicalAttempt = step.LogicalAttempt
		}
	}
	w.noPauseAhead = rapid.IntRange(0, 9).Draw(p.rt, "old way") == 0
	w.accept(s)
}

// deliverSignals delivers some of the accepted signals in some order, some twice.
func (p *player) deliverSignals() {
	w := p.w
	if len(w.signals) == 0 {
		return
	}
	some := rapid.SliceOfN(rapid.SampledFrom(w.signals), 1, 6).Draw(p.rt, "signals")
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(some...)})
}

func (p *player) answerFetch() {
	w := p.w
	if len(w.fetch) == 0 {
		return
	}
	after := w.fetch[0]
	w.fetch = w.fetch[1:]
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[after:]...)})
}

func (p *player) timer() {
	w := p.w
	for _, t := range []interp.Timer{interp.TimerRetryWindow, interp.TimerDrain, interp.TimerRotation, interp.TimerManual,
		interp.TimerDelay} {
		if at := w.timers[t]; !at.IsZero() && rapid.Bool().Draw(p.rt, string(t)) {
			if at.After(w.now) {
				w.now = at
			}
			w.needTask(w.history.armers[t])
			w.timers[t] = time.Time{}
			w.feed(interp.Fired{At: w.now, Timer: t})
		}
	}
}

// repeat feeds an earlier input again. It is stale and must have no effect.
func (p *player) repeat() {
	w := p.w
	if len(w.inputs) == 0 {
		return
	}
	in := rapid.SampledFrom(w.inputs).Draw(p.rt, "repeated")
	switch in.(type) {
	case interp.Init, interp.Pressure, interp.Woken:
		return
	}
	if f, ok := in.(interp.Fired); ok {
		f.At = w.now
		in = f
		if at := w.timers[f.Timer]; !at.IsZero() && !w.now.Before(at) {
			return // it would not be stale
		}
	}
	if s, ok := in.(interp.Signalled); ok && len(s.Signals) == 0 && len(w.fetch) > 0 {
		return // it would be the answer
	}
	if o, ok := in.(interp.Observed); ok {
		w.deliverTail(o.Tail)
		return
	}
	w.feed(in)
}

// finish lets executions, hooks, waits and timers end until the run has ended, and resumes a paused run.
func (p *player) finish() {
	w := p.w
	p.ending = 1
	for i := 0; !w.m.Done(); i++ {
		w.now = w.now.Add(time.Second)
		switch {
		case i > 5000:
			p.rt.Fatalf("the run does not end; in flight %q, gate %b, running %d, timers %v, the log is\n%s",
				w.inFlight(), w.head.Gate, w.head.Running, w.timers, strings.Join(w.logLines(), "\n"))
		case w.pending != nil || w.answer != nil || w.reading:
			w.record()
		case len(w.fetch) > 0:
			p.answerFetch()
		case i%7 == 0 && len(w.signals) > 0:
			w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals...)})
		case len(w.flights) > 0:
			switch f := w.flights[0]; {
			case f.back != nil:
				w.comeBack(f, *f.back)
			case f.ended:
				w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
			case !f.began:
				w.arrive(f)
			default:
				w.report(f, completed())
			}
		case w.hook != nil:
			w.endHook(1+i%2, []string{"", "STUCK", ""}[i%3])
		case len(w.waits()) > 0 && i%3 > 0:
			w.complete(fmt.Sprintf("done-%d", i), w.waits()[0], []run.ManualOutcome{run.ManualSucceeded, run.ManualSucceeded,
				run.ManualFailed, run.ManualCancelled, run.ManualSucceeded}[i%5])
		case w.state.Status == run.Paused && i%2 == 0:
			w.signal(run.Resume, fmt.Sprintf("last-%d", i), "")
		default:
			for _, t := range []interp.Timer{interp.TimerRotation, interp.TimerDelay, interp.TimerManual, interp.TimerDrain,
				interp.TimerRetryWindow} {
				if !w.timers[t].IsZero() {
					w.fire(t)
					break
				}
			}
		}
	}
}
