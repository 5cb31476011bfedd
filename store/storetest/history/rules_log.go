package history

import (
	"github.com/dvt-engine/dvt/run"
)

func (b *book) checkKeys(v *verdict) {
	seen := map[run.Key]run.Seq{}
	ids := map[string]run.Seq{}
	for i, e := range b.events {
		if e.Seq != run.Seq(i+1) {
			v.add(Keys, "the event with index %d has seq %d", i+1, e.Seq)
		}
		if want := ofEvent(e).key(b.id); e.Key != want {
			v.add(Keys, "%s at %d has key %s, want %s by its fields", ofEvent(e), e.Seq, e.Key, want)
		}
		if first, twice := seen[e.Key]; twice {
			v.add(Keys, "the log has %s twice, at %d and %d", ofEvent(e), first, e.Seq)
		}
		if first, twice := ids[e.EventID]; twice && seen[e.Key] == 0 {
			v.add(Keys, "the log has the event id %s twice, at %d and %d", e.EventID, first, e.Seq)
		}
		seen[e.Key], ids[e.EventID] = e.Seq, e.Seq
	}
	if b.log.Head.LastSeq != b.last() {
		v.add(Keys, "the head is at %d, but the log ends at %d", b.log.Head.LastSeq, b.last())
	}
}

func (b *book) checkTerminals(v *verdict) {
	ended, hooks := map[attempt]run.Seq{}, map[attempt]run.Seq{}
	for i, e := range b.events {
		seq, s := run.Seq(i+1), ofEvent(e)
		if b.end > 0 && seq > b.end && !s.decides() {
			v.add(Terminals, "%s at %d follows the end of the run at %d", s, seq, b.end)
		}
		if first := hooks[s.attempt()]; s.endsHook() && first > 0 {
			v.add(Terminals, "%s at %d ends a hook that %s ended at %d", s, seq, b.at(first).Type, first)
		} else if s.endsHook() {
			hooks[s.attempt()] = seq
		}
		if !s.endsAttempt() {
			continue
		}
		if first := ended[s.attempt()]; first > 0 {
			v.add(Terminals, "%s at %d ends an attempt that %s ended at %d", s, seq, b.at(first).Type, first)
			continue
		}
		ended[s.attempt()] = seq
	}
}

// checkOrder compares the log with real time.
func (b *book) checkOrder(v *verdict) {
	for i := 1; i < len(b.events); i++ {
		if b.events[i].PersistedAt.Before(b.events[i-1].PersistedAt) {
			v.add(Order, "persistedAt decreases from event %d to event %d", i, i+1)
		}
	}
	before := map[*call]run.Seq{} // highest seq that earlier entries of the call inserted
	for _, w := range b.writes {
		if w.answer.Effect != Done || w.Kind == KindCreate {
			continue
		}
		floor := max(b.floor(w.calledAt), before[w.call])
		for i, o := range w.answer.Outcomes {
			if o.Refused != "" || o.Deduplicated || i >= len(w.drafts) {
				continue
			}
			if o.Seq <= floor {
				v.add(Order, "%s inserted %s at %d, but %d was acknowledged before it was called", w.call, ofDraft(w.drafts[i]),
					o.Seq, floor)
			}
			before[w.call] = max(before[w.call], o.Seq)
		}
		if w.answer.Head.LastSeq < floor {
			v.add(Order, "%s returned head %d, but %d was acknowledged before it was called", w.call,
				w.answer.Head.LastSeq, floor)
		}
	}
}

// checkStarts compares the results of StartAttempt with the log.
func (b *book) checkStarts(v *verdict) {
	for _, w := range b.writes {
		if w.begin == nil || w.answer.Effect != Done {
			continue
		}
		a := attempt{w.begin.StepID, w.begin.LogicalAttempt}
		floor, ceiling := b.floor(w.calledAt), max(b.ceiling(w.returnedAt), w.answer.Head.LastSeq)
		ended, begun := b.ended[a], b.started[a]
		was := func(seq run.Seq) bool { return seq > 0 && seq <= floor }
		may := func(seq run.Seq) bool { return seq > 0 && seq <= ceiling }
		bad := func(why string) {
			v.add(Beginning, "%s of (%s,%d) returned %s, but %s (started at %d, ended at %d, run ended at %d, %d "+
				"acknowledged before)",
				w.call, a.stepID, a.logical, w.answer.Verdict, why, begun, ended, b.end, floor)
		}
		switch w.answer.Verdict {
		case "RUN":
			switch e := b.at(w.answer.StartedSeq); {
			case e == nil || e.Type != run.StepStartedEvent || ofEvent(*e).attempt() != a:
				bad("its StepStarted is not at StartedSeq")
			case was(ended):
				bad("the attempt had ended")
			case was(b.end):
				bad("the run had ended")
			}
		case "DONE":
			if e := b.at(ended); !may(ended) || w.answer.Terminal == nil || *w.answer.Terminal != see(*e) {
				bad("its terminal event is not that of the log")
			}
		case "PARKED":
			switch {
			case was(begun):
				bad("the attempt had started")
			case was(ended):
				bad("the attempt had ended")
			case was(b.end):
				bad("the run had ended")
			}
		case "RUN_TERMINAL":
			switch {
			case !may(b.end):
				bad("the run had not ended")
			case was(ended):
				bad("the attempt had ended")
			}
		default:
			bad("the store has no such verdict")
		}
	}
}

// checkGates compares the attempts that started and those that were parked with the gate.
func (b *book) checkGates(v *verdict) {
	for i, e := range b.events {
		seq := run.Seq(i + 1)
		if e.Type != run.StepStartedEvent || !b.gates.known(seq-1) {
			continue
		}
		by := b.origins(seq, ofEvent(e))
		passed := len(by) == 0
		for _, w := range by {
			passed = passed || w.begin == nil || !mustPark(b.gates.at[seq-1], w.begin.PassFailing)
		}
		if !passed {
			v.add(Gating, "%s at %d was started by %s through the gate %03b", ofEvent(e), seq, by[0].call, b.gates.at[seq-1])
		}
	}
	for _, w := range b.writes {
		if w.answer.Effect != Done || w.answer.Verdict != "PARKED" {
			continue
		}
		from, to := b.floor(w.calledAt), b.ceiling(w.returnedAt)
		justified := false
		for seq := from; seq <= to && !justified; seq++ {
			justified = !b.gates.known(seq) || mustPark(b.gates.at[seq], w.begin.PassFailing)
		}
		if !justified {
			v.add(Gating, "%s of (%s,%d) was parked, but the gate was open from %d to %d", w.call, w.begin.StepID,
				w.begin.LogicalAttempt, from, to)
		}
	}
}
