package trace

import (
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

func (b *Builder) stepOf(id string) *step {
	s := b.steps[id]
	if s == nil {
		s = &step{StepOutline: run.StepOutline{StepID: id}}
		b.steps[id] = s
	}
	return s
}

// step applies an event of a step. A step that has succeeded or was skipped is finished, and later events of it, which
// no valid log has, give no spans.
func (b *Builder) step(e *run.Event) {
	s := b.stepOf(e.StepID)
	if s.closed {
		return
	}
	a := b.attempt(e, s)
	if a == nil {
		return
	}
	switch {
	case e.Type == run.StepAwaitingManualCompletion:
		if a.manual.IsZero() {
			a.manual = b.now
			b.addRunning(e, -1)
		}
	case e.Type.EndsAttempt():
		b.endAttempt(e, s, e.LogicalAttempt, a)
	}
}

// attempt returns the open attempt of an event, and begins it if this is its first event. It returns nil when the
// attempt has ended.
func (b *Builder) attempt(e *run.Event, s *step) *attempt {
	la := e.LogicalAttempt
	at, begun := slices.BinarySearchFunc(s.attempts, la, func(a *attempt, la int) int { return a.no - la })
	if begun {
		if a := s.attempts[at]; !a.done {
			return a
		}
		return nil
	}
	a := &attempt{open: open{start: b.now}, no: la}
	if s.began.IsZero() {
		s.began = b.readyAt(s)
		s.waiting = s.began
	}
	if !s.waiting.IsZero() && s.waiting.Before(b.now) && e.Type == run.StepStartedEvent {
		name := "wait for a worker"
		if !s.ended.IsZero() {
			name = "wait for a retry"
		}
		b.own = append(b.own[:0], text("stepId", s.StepID), number("logicalAttempt", la))
		b.finish(e, Span{Kind: kindWait, Name: name, Start: s.waiting, Parent: StepSpan(b.id.RunID, s.StepID),
			Attributes: b.own}, s.StepID, itoa(la))
	}
	s.waiting = time.Time{}
	s.latest = max(s.latest, la)
	s.attempts = slices.Insert(s.attempts, at, a)
	b.addRunning(e, 1)
	if e.Type == run.StepStartedEvent && mentions(e, "signalId", "paramsSeq") {
		p, _ := run.PayloadOf[run.StepStartedPayload](e.Payload)
		b.causeBy(e, p.SignalID, AttemptSpan(b.id.RunID, s.StepID, la), &a.open)
		if signalID := b.overlays[p.ParamsSeq]; signalID != "" {
			a.links = append(a.links, Link{Trace: IDOf(b.id.RunID), Span: b.signalSpan(signalID), Relation: Overlaid})
		}
	}
	return a
}

// readyAt returns the time at which the last dependency of a step ended, which is not before the start of the run.
func (b *Builder) readyAt(s *step) time.Time {
	at := run.Latest(b.began, b.startedAt)
	for _, id := range s.DependsOn {
		if on := b.steps[id]; on != nil {
			at = run.Latest(at, on.ended)
		}
	}
	return at
}

func (b *Builder) endAttempt(e *run.Event, s *step, la int, a *attempt) {
	status, code, reused, signalID := stepEnd(e)
	b.causeBy(e, signalID, AttemptSpan(b.id.RunID, s.StepID, la), &a.open)
	if reused != nil {
		s.links = append(s.links,
			Link{Trace: IDOf(reused.RunID), Span: StepSpan(reused.RunID, s.StepID), Relation: ReusesFrom})
	}
	b.finishAttempt(e, s, la, a, status, code)
	if e.Type == run.StepFailedEvent {
		s.waiting = b.now
		return
	}
	for _, other := range s.attempts {
		if !other.done {
			b.finishAttempt(e, s, other.no, other, status, code)
		}
	}
	b.finishStep(e, s)
}

// stepEnd returns the parts of the end of an attempt that a trace may show.
func stepEnd(e *run.Event) (status, code string, reused *run.Reused, signalID string) {
	switch e.Type {
	case run.StepCompletedEvent:
		if !mentions(e, "manual", "reused") {
			break
		}
		p, _ := run.PayloadOf[run.StepCompletedPayload](e.Payload)
		if p.Manual != nil {
			signalID = p.Manual.SignalID
		}
		return string(run.StepSuccess), "", p.Reused, signalID
	case run.StepFailedEvent:
		p, _ := run.PayloadOf[run.FailurePayload](e.Payload)
		if p.Manual != nil {
			signalID = p.Manual.SignalID
		}
		return string(run.StepFailed), p.ErrorCode, nil, signalID
	case run.StepSkippedEvent:
		p, _ := run.PayloadOf[run.StepSkippedPayload](e.Payload)
		return string(run.StepSkipped), string(p.ReasonCode), nil, p.SignalID
	}
	return string(run.StepSuccess), "", nil, ""
}

func (b *Builder) finishAttempt(e *run.Event, s *step, la int, a *attempt, status, code string) {
	a.done = true
	attrs := append(b.own[:0], text("stepId", s.StepID), number("logicalAttempt", la))
	if a.manual.IsZero() {
		b.addRunning(e, -1)
	} else {
		b.finish(e, Span{Kind: kindManual, Name: "wait for a person", Start: a.manual,
			Parent: AttemptSpan(b.id.RunID, s.StepID, la), Attributes: attrs}, s.StepID, itoa(la))
	}
	if e.Type.EndsAttempt() {
		attrs = append(attrs, number("engineAttempt", e.EngineAttempt))
	}
	s.ended, s.status, s.code, s.failed = b.now, status, code, status == string(run.StepFailed)
	b.own = appendCode(append(attrs, text("status", status)), code)
	b.finish(e, Span{Kind: kindAttempt, Name: attemptName(la), Start: a.start, Parent: StepSpan(b.id.RunID, s.StepID),
		Failed: s.failed, Links: a.links, Attributes: b.own}, s.StepID, itoa(la))
}

func attemptName(la int) string {
	if la == 1 { // the only one of almost every step
		return "attempt 1"
	}
	return "attempt " + itoa(la)
}

// finishStep finishes a step at the end of its last attempt.
func (b *Builder) finishStep(e *run.Event, s *step) {
	s.closed = true
	s.attempts = nil
	attrs := append(b.own[:0], text("stepId", s.StepID))
	if s.Type != "" {
		attrs = append(attrs, text("stepType", s.Type))
	}
	if s.TaskQueue != "" {
		attrs = append(attrs, text("queue", s.TaskQueue))
	}
	b.own = appendCode(append(attrs, number("logicalAttempts", s.latest), text("status", s.status)), s.code)
	b.finish(e, Span{Kind: kindStep, Name: "step " + s.StepID, Start: s.began, End: s.ended, Failed: s.failed,
		Links: s.links, Attributes: b.own}, s.StepID)
}

// endSteps finishes the steps that the end of the run leaves open, in the order of their ids. Attempts that had not
// ended get the status of the run.
func (b *Builder) endSteps(e *run.Event, status, code string) {
	for _, id := range slices.Sorted(maps.Keys(b.steps)) {
		s := b.steps[id]
		if s.closed || s.began.IsZero() {
			continue
		}
		for _, a := range s.attempts {
			if !a.done {
				b.finishAttempt(e, s, a.no, a, status, code)
			}
		}
		b.finishStep(e, s)
	}
}
