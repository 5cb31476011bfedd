package history

import (
	"slices"
	"sort"

	"github.com/dvt-engine/dvt/run"
)

// index derives the data that the rules need from the log and the writes of the run.
func (b *book) index() {
	b.bySubject, b.started, b.ended = map[subject]run.Seq{}, map[attempt]run.Seq{}, map[attempt]run.Seq{}
	b.hooks, b.inserter, b.maybe = map[attempt]run.Seq{}, map[run.Seq]*write{}, map[subject][]*write{}
	b.readLog()
	b.findOrigins()
	b.markAcknowledged()
	b.gates = b.findGates()
}

// at returns the event with this seq, or nil.
func (b *book) at(seq run.Seq) *run.Event {
	if seq < 1 || int(seq) > len(b.events) {
		return nil
	}
	return &b.events[seq-1]
}

func (b *book) last() run.Seq { return run.Seq(len(b.events)) }

// readLog records the first seq of each subject, and counts at each seq the running attempts: those that have started,
// have not ended and do not wait for a person (contract T185, T47).
func (b *book) readLog() {
	b.running = make([]int, len(b.events)+1)
	manual := map[attempt]bool{}
	live := map[attempt]bool{}
	for i, e := range b.events {
		seq, s := run.Seq(i+1), ofEvent(e)
		if b.bySubject[s] == 0 {
			b.bySubject[s] = seq
		}
		if s.endsRun() && b.end == 0 {
			b.end = seq
		}
		a := s.attempt()
		switch {
		case s.kind == run.StepStartedEvent && b.started[a] == 0:
			b.started[a] = seq
		case s.kind == run.StepAwaitingManualCompletion:
			manual[a] = true
		case s.endsAttempt() && b.ended[a] == 0:
			b.ended[a] = seq
		case s.endsHook() && b.hooks[a] == 0:
			b.hooks[a] = seq
		}
		if b.started[a] > 0 && !manual[a] && b.ended[a] == 0 {
			live[a] = true
		} else {
			delete(live, a)
		}
		b.running[seq] = len(live)
	}
}

// findOrigins finds for each event the write that inserted it, or the writes that may have.
func (b *book) findOrigins() {
	for _, w := range b.writes {
		switch {
		case w.answer.Effect == Nothing:
		case w.answer.Effect == Done && w.begin != nil:
			if w.answer.Verdict == "RUN" {
				b.suspect(w, 0)
			}
		case w.answer.Effect == Done && w.Kind == KindCreate:
			for i := range w.drafts {
				b.credit(w, run.Seq(i+1))
			}
		case w.answer.Effect == Done:
			for _, o := range w.answer.Outcomes {
				if o.Refused == "" && !o.Deduplicated {
					b.credit(w, o.Seq)
				}
			}
		default:
			for i := range w.drafts {
				b.suspect(w, i)
			}
		}
	}
	b.earliest = make([]int, len(b.events)+1)
	for i, e := range b.events {
		seq := run.Seq(i + 1)
		b.earliest[seq] = never
		for _, w := range b.origins(seq, ofEvent(e)) {
			b.earliest[seq] = min(b.earliest[seq], w.calledAt)
		}
	}
}

func (b *book) credit(w *write, seq run.Seq) {
	if b.inserter[seq] == nil {
		b.inserter[seq] = w
	}
}

func (b *book) suspect(w *write, draft int) {
	s := ofDraft(w.drafts[draft])
	b.maybe[s] = append(b.maybe[s], w)
}

// origins returns the writes that may have inserted an event.
func (b *book) origins(seq run.Seq, s subject) []*write {
	if w := b.inserter[seq]; w != nil {
		return []*write{w}
	}
	return b.maybe[s]
}

// markAcknowledged records for each result of a write the highest seq that it acknowledged.
func (b *book) markAcknowledged() {
	for _, w := range b.writes {
		if w.answer.Effect != Done {
			continue
		}
		top := max(w.answer.Head.LastSeq, w.answer.StartedSeq)
		if w.Kind == KindCreate {
			top = run.Seq(len(w.drafts))
		}
		for _, o := range w.answer.Outcomes {
			top = max(top, o.Seq)
		}
		b.acked = append(b.acked, mark{w.returnedAt, top})
	}
	slices.SortFunc(b.acked, func(x, y mark) int { return x.at - y.at })
	for i := 1; i < len(b.acked); i++ {
		b.acked[i].seq = max(b.acked[i].seq, b.acked[i-1].seq)
	}
}

// floor returns the highest seq that was acknowledged before a position in the journal.
func (b *book) floor(at int) run.Seq {
	n := sort.Search(len(b.acked), func(i int) bool { return b.acked[i].at >= at })
	if n == 0 {
		return 0
	}
	return b.acked[n-1].seq
}

// ceiling returns the highest seq that the log may have had before a position in the journal.
func (b *book) ceiling(at int) run.Seq {
	seq := min(b.floor(at), b.last())
	for seq < b.last() && b.earliest[seq+1] < at {
		seq++
	}
	return seq
}
