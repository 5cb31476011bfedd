package history

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

func (b *book) checkAcknowledged(v *verdict) {
	for i, e := range b.events {
		if len(b.origins(run.Seq(i+1), ofEvent(e))) == 0 {
			v.add(Acknowledged, "%s at %d is in the log, but no call can have written it", ofEvent(e), i+1)
		}
	}
	for _, w := range b.writes {
		if w.Regressed && w.append != nil {
			v.add(Acknowledged, "%s returned ErrRegressed for MinHead %d", w.call, w.append.MinHead)
		}
		switch {
		case w.answer.Effect != Done || w.append == nil:
		case w.Kind == KindCreate:
			for i, d := range w.drafts {
				b.checkOutcome(v, w, d, Outcome{Seq: run.Seq(i + 1)})
			}
		case len(w.answer.Outcomes) != len(w.drafts):
			v.add(Acknowledged, "%s has %d outcomes for %d drafts", w.call, len(w.answer.Outcomes), len(w.drafts))
		default:
			for i, o := range w.answer.Outcomes {
				if o.Refused == "" {
					b.checkOutcome(v, w, w.drafts[i], o)
				}
			}
		}
	}
}

// checkOutcome compares an outcome with the event that it names.
func (b *book) checkOutcome(v *verdict, w *write, d run.Draft, o Outcome) {
	s, e := ofDraft(d), b.at(o.Seq)
	if e == nil || ofEvent(*e) != s {
		found := "nothing"
		if e != nil {
			found = ofEvent(*e).String()
		}
		v.add(Acknowledged, "%s returned that %s is at %d, but the log has %s there (and the event at %d)", w.call, s, o.Seq, found,
			b.bySubject[s])
		return
	}
	same := samePayload(d, *e)
	if w.Kind != KindCreate && (e.EventID != o.EventID || !e.PersistedAt.Equal(o.PersistedAt)) {
		v.add(Acknowledged, "%s returned for %s at %d the id %s and the time %v; the log has %s and %v", w.call, s, o.Seq, o.EventID,
			o.PersistedAt, e.EventID, e.PersistedAt)
	}
	if o.Deduplicated {
		if same == o.PayloadMismatch {
			v.add(Acknowledged, "%s returned payloadMismatch=%v for %s at %d: sent %s, stored %s", w.call, o.PayloadMismatch, s,
				o.Seq, d.Payload, e.Payload)
		}
		if b.earliest[o.Seq] >= w.returnedAt {
			v.add(Acknowledged, "%s returned that %s is a duplicate, before any other call sent the event", w.call, s)
		}
		return
	}
	if by := b.inserter[o.Seq]; by != w {
		v.add(Acknowledged, "%s and %s both returned that they inserted %s at %d", by.call, w.call, s, o.Seq)
	}
	if !same || e.EngineAttempt != d.EngineAttempt || e.EmittedBy != d.EmittedBy || !e.EmittedAt.Equal(d.EmittedAt) {
		v.add(Acknowledged, "%s inserted %s at %d, but the log has other content: sent %s, stored %s", w.call, s, o.Seq,
			d.Payload, e.Payload)
	}
}

// stamped has the members of payloads that the store sets.
var stamped = map[run.EventType]string{
	run.RunPaused: "runningStepsCount", run.StepStartedEvent: "paramsSeq", run.RunResumed: "retryDeadline",
	run.StepFailedEvent: "retryDeadline", run.StepCompletedEvent: "retryDeadline",
	run.StepAwaitingManualCompletion: "retryDeadline",
}

func samePayload(d run.Draft, e run.Event) bool {
	if bytes.Equal(d.Payload, e.Payload) {
		return true
	}
	var sent, stored map[string]any
	if json.Unmarshal(d.Payload, &sent) != nil || json.Unmarshal(e.Payload, &stored) != nil {
		return false
	}
	delete(sent, stamped[d.Type])
	delete(stored, stamped[d.Type])
	return reflect.DeepEqual(sent, stored)
}

func (b *book) checkRefused(v *verdict) {
	for _, w := range b.writes {
		if w.answer.Effect != Done || len(w.answer.Outcomes) != len(w.drafts) {
			continue
		}
		floor, ceiling := b.floor(w.calledAt), max(b.ceiling(w.returnedAt), w.answer.Head.LastSeq)
		for i, o := range w.answer.Outcomes {
			if o.Refused == "" {
				continue
			}
			s := ofDraft(w.drafts[i])
			if at := b.bySubject[s]; at > 0 && at <= floor {
				v.add(Refused, "%s: %s was refused with %s, but the log had it at %d before the call", w.call, s, o.Refused, at)
			}
			if why := b.unjustified(w, s, o, ceiling); why != "" {
				v.add(Refused, "%s: %s was refused with %s, but %s", w.call, s, o.Refused, why)
			}
		}
	}
}

// unjustified returns why a refusal is wrong, or "" if it is correct.
func (b *book) unjustified(w *write, s subject, o Outcome, ceiling run.Seq) string {
	switch o.Refused {
	case run.CodeInvalidTransition:
		won := b.end
		switch {
		case s.endsAttempt():
			won = b.ended[s.attempt()]
		case s.endsHook():
			won = b.hooks[s.attempt()]
		}
		e := b.at(won)
		switch {
		case !s.endsAttempt() && !s.endsHook() && !s.endsRun():
			return "the event ends no attempt, hook or run"
		case e == nil || won > ceiling:
			return "its subject had not ended"
		case o.Existing == nil || *o.Existing != see(*e):
			return "the result does not have the terminal event that won"
		}
	case run.CodeOrphanedTask:
		if b.end == 0 || b.end > ceiling || s.decides() {
			return "the run had not ended"
		}
	case run.CodeStepNotStarted:
		began := b.started[s.attempt()]
		switch {
		case w.append == nil || !w.append.IfStarted || !s.endsAttempt() || s.kind == run.StepSkippedEvent:
			return "the call does not require a start"
		case began > 0 && began <= b.floor(w.calledAt):
			return "the attempt had started"
		}
	default:
		return "the store has no refusal with this code"
	}
	return ""
}

// checkTogether reports appends that are in the log only in part, or with gaps between their events.
func (b *book) checkTogether(v *verdict) {
	for _, w := range b.writes {
		if w.answer.Effect == Done {
			b.checkAdjacent(v, w)
		}
	}
	torn := map[*write][]run.Seq{}
	for i, e := range b.events {
		seq := run.Seq(i + 1)
		if by := b.origins(seq, ofEvent(e)); len(by) == 1 && by[0].answer.Effect == Unknown && by[0].begin == nil {
			torn[by[0]] = append(torn[by[0]], seq)
		}
	}
	for w, at := range torn {
		b.checkComplete(v, w, at)
	}
}

func (b *book) checkAdjacent(v *verdict, w *write) {
	var last run.Seq
	for i, o := range w.answer.Outcomes {
		if o.Refused != "" || o.Deduplicated || i >= len(w.drafts) {
			continue
		}
		if last > 0 && o.Seq != last+1 {
			v.add(Together, "%s inserted %s at %d, but the draft before it at %d", w.call, ofDraft(w.drafts[i]),
				o.Seq, last)
		}
		last = o.Seq
	}
	if w.append != nil && w.Kind != KindCreate && last > 0 && w.Kind != KindBatch && w.answer.Head.LastSeq != last {
		v.add(Together, "%s inserted up to %d, but returned head %d", w.call, last, w.answer.Head.LastSeq)
	}
}

// checkComplete checks an append without a result that alone can have written the events at these seqs. Each of its
// other drafts must be in the log before or beside them, or the store had to refuse it.
func (b *book) checkComplete(v *verdict, w *write, at []run.Seq) {
	first, last := at[0], at[len(at)-1]
	may := func(seq run.Seq) bool {
		e := b.at(seq)
		return e != nil && slices.Contains(b.origins(seq, ofEvent(*e)), w)
	}
	for may(last + 1) { // another write may have inserted the event too
		last++
	}
	for seq := first; seq <= last; seq++ {
		if !may(seq) {
			v.add(Together, "the append %s without a result has events at %v, with %s of another call in between", w.call, at,
				ofEvent(*b.at(seq)))
		}
	}
	for _, d := range w.drafts {
		s := ofDraft(d)
		seq, ended, hooked := b.bySubject[s], b.ended[s.attempt()], b.hooks[s.attempt()]
		switch {
		case seq > 0 && seq <= last:
		case s.endsHook() && hooked > 0 && hooked <= last:
		case s.endsAttempt() && (w.append.IfStarted || ended > 0 && ended <= last):
		case b.end > 0 && b.end <= last && !s.decides():
		default:
			v.add(Together, "the log has events of the append %s without a result at %v, but not %s before or beside them", w.call, at,
				s)
		}
	}
}

// checkReceipts compares the receipts of a run with the decisions in its log.
func (b *book) checkReceipts(v *verdict) {
	accepted, number := map[string]run.Seq{}, int64(0)
	var last run.Seq
	for _, r := range b.log.Receipts {
		if r.Rejected {
			continue
		}
		e := b.at(r.AcceptedSeq)
		number++
		switch {
		case e == nil || e.Type != run.SignalAccepted || e.SignalID != r.Signal.ID:
			v.add(Together, "the receipt of signal %s has acceptedSeq %d, but the log does not accept it there", r.Signal.ID, r.AcceptedSeq)
		case r.No != number || r.AcceptedSeq < last:
			v.add(Together, "the receipt of signal %s has number %d, want %d by the order of the log", r.Signal.ID, r.No, number)
		case b.end > 0 && !r.Application.Final():
			v.add(Together, "the run has ended, but the receipt of signal %s is %s", r.Signal.ID, r.Application)
		}
		accepted[r.Signal.ID], last = r.AcceptedSeq, r.AcceptedSeq
	}
	for i, e := range b.events {
		if e.Type == run.SignalAccepted && accepted[e.SignalID] != run.Seq(i+1) {
			v.add(Together, "signal %s was accepted at %d, but has no receipt with this acceptedSeq", e.SignalID, i+1)
		}
	}
}
