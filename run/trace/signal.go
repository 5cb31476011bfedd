package trace

import (
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

func (b *Builder) signalSpan(signalID string) SpanID { return spanID(b.id.RunID, kindSignal, signalID) }

// signal begins the span of an accepted signal. Its effect ends it. A rejected signal and one whose effect is no event
// end at once.
func (b *Builder) signal(e *run.Event) {
	p, _ := run.PayloadOf[run.SignalPayload](e.Payload)
	id := e.SignalID
	if id == "" {
		id = p.SignalID
	}
	attrs := []Attribute{text("signalId", id), text("signalType", string(p.SignalType))}
	if p.StepID != "" {
		attrs = append(attrs, text("stepId", p.StepID))
	}
	name := "signal " + string(p.SignalType)
	if e.Type == run.SignalRejected {
		if b.refused[id] {
			return
		}
		b.refused[id] = true
		b.finish(e, Span{Kind: kindRefusal, Name: name, Start: b.now,
			Attributes: appendCode(append(attrs, text("status", "REJECTED")), string(p.Code))}, id)
		return
	}
	if _, known := b.signals[id]; known {
		return
	}
	s := &open{start: b.now, attrs: attrs}
	b.signals[id] = s
	if p.SignalType.Overlays() {
		b.overlays[e.Seq] = id
	}
	if p.SignalType.Overlays() || p.SignalType == run.EscalateAlert {
		b.endSignal(e, id, s)
	}
}

// causeBy ends the span of the signal that caused a change, and links both.
func (b *Builder) causeBy(e *run.Event, signalID string, changed SpanID, o *open) {
	s := b.signals[signalID]
	if s == nil {
		return
	}
	t := b.trace
	o.links = append(o.links, Link{Trace: t, Span: b.signalSpan(signalID), Relation: CausedBy})
	s.links = append(s.links, Link{Trace: t, Span: changed, Relation: Caused})
	b.endSignal(e, signalID, s)
}

// endSignal finishes an accepted signal. The entry stays without a span, so that a repetition is recognised.
func (b *Builder) endSignal(e *run.Event, id string, s *open) {
	b.signals[id] = nil
	end := b.now
	if len(s.links) == 0 {
		end = s.start // it changed nothing
	}
	name := "signal"
	for _, a := range s.attrs {
		if a.Key == "signalType" {
			name += " " + a.Text
		}
	}
	b.finish(e, Span{Kind: kindSignal, Name: name, Start: s.start, End: end,
		Attributes: append(s.attrs, text("status", "ACCEPTED")), Links: s.links}, id)
}

// endSignals finishes the signals that changed nothing, in the order of their ids.
func (b *Builder) endSignals(e *run.Event) {
	for _, id := range slices.Sorted(maps.Keys(b.signals)) {
		if s := b.signals[id]; s != nil {
			b.endSignal(e, id, s)
		}
	}
}
