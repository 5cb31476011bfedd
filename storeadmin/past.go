package storeadmin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// past is what an engine's history says of one log, in the order that the log had.
type past struct {
	id    run.Identity
	facts []fact
	known run.Seq // the highest head that the engine was told
}

// fact is one write: an Append, or a signal that had been accepted.
type fact struct {
	append store.Append
	first  run.Seq // place of the first event that only this Append can have written; 0 for begins and signals
	signal *engine.Signal
	at     time.Time // of the signal
}

// begin is the StepStarted of an attempt, which its Begin wrote.
type begin struct {
	draft run.Draft
	seq   run.Seq // 0 when nobody knows its place
}

// pastOf reads a history. The StepStarted of an attempt comes to the place that it
// had in the log, before the Append that carries it again with the terminal: what
// ran at a time decides what the store stamps (T221). Where the place is not known,
// the time when the work began stands for it.
func pastOf(ctx context.Context, h engine.Historian, id run.Identity) (*past, error) {
	p := &past{id: id}
	var loose []begin
	places := map[run.Key]begin{}
	seen := map[string]bool{}
	for r, err := range h.History(ctx, id) {
		switch {
		case err != nil:
			return nil, err
		case r.Signal != nil:
			if !seen[r.Signal.ID] {
				seen[r.Signal.ID] = true
				p.facts = append(p.facts, fact{signal: r.Signal, at: r.At})
			}
			continue
		case r.Seqs == nil && len(r.Append.Events) == 1 && r.Head == 0:
			loose = append(loose, begin{draft: r.Append.Events[0]})
			continue
		}
		p.known = max(p.known, r.Head)
		f := fact{append: r.Append}
		for i, d := range r.Append.Events {
			if d.Type == run.StepStartedEvent {
				places[d.Key(id)] = begin{draft: d, seq: r.Seqs[i]}
			} else if f.first == 0 || r.Seqs[i] < f.first {
				f.first = r.Seqs[i]
			}
		}
		p.facts = append(p.facts, f)
	}
	for _, b := range loose {
		if key := b.draft.Key(id); places[key].draft.Type == "" {
			places[key] = b
		}
	}
	p.place(places)
	return p, nil
}

// place puts begins before the Append that they preceded.
func (p *past) place(begins map[run.Key]begin) {
	before := map[int][]begin{} // by index of the fact; the number of facts for the end
	for _, b := range begins {
		at := len(p.facts)
		for i, f := range p.facts {
			if b.precedes(f) {
				at = i
				break
			}
		}
		before[at] = append(before[at], b)
	}
	var facts []fact
	for i := range len(p.facts) + 1 {
		list := inOrder(before[i])
		for chunk := range slices.Chunk(list, store.MaxBatch) {
			f := fact{}
			for _, b := range chunk {
				f.append.Events = append(f.append.Events, b.draft)
			}
			facts = append(facts, f)
		}
		if i < len(p.facts) {
			facts = append(facts, p.facts[i])
		}
	}
	p.facts = facts
}

// inOrder sorts begins by their places; one without a place stands before the
// first that began later.
func inOrder(begins []begin) []begin {
	slices.SortFunc(begins, func(a, b begin) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), a.draft.EmittedAt.Compare(b.draft.EmittedAt),
			cmp.Compare(a.draft.StepID, b.draft.StepID))
	})
	loose := 0
	for loose < len(begins) && begins[loose].seq == 0 {
		loose++
	}
	out := slices.Clone(begins[loose:])
	for _, b := range begins[:loose] {
		at := slices.IndexFunc(out, func(o begin) bool { return o.draft.EmittedAt.After(b.draft.EmittedAt) })
		if at < 0 {
			at = len(out)
		}
		out = slices.Insert(out, at, b)
	}
	return out
}

func (b begin) precedes(f fact) bool {
	if f.first == 0 {
		return false
	}
	if b.seq > 0 {
		return b.seq < f.first
	}
	return b.draft.EmittedAt.Before(emitted(f.append))
}

func emitted(a store.Append) time.Time { return a.Events[len(a.Events)-1].EmittedAt }

// missing is what to write again to a log that has these keys. A restored log is
// the beginning of the one that the engine knew, so everything up to the last
// Append of which it has an event was carried out, gates and receipts included;
// signals look for themselves.
func (p *past) missing(have map[run.Key]bool) []fact {
	from := 0
	for i, f := range p.facts {
		if f.first > 0 && slices.ContainsFunc(f.append.Events, func(d run.Draft) bool {
			return d.Type != run.StepStartedEvent && have[d.Key(p.id)]
		}) {
			from = i + 1
		}
	}
	var out []fact
	for i, f := range p.facts {
		switch {
		case f.signal != nil, i >= from && !f.begins():
			out = append(out, f)
		case f.begins():
			f.append.Events = slices.DeleteFunc(slices.Clone(f.append.Events),
				func(d run.Draft) bool { return have[d.Key(p.id)] })
			if len(f.append.Events) > 0 {
				f.append.Outcomes = caused(f.append.Events)
				out = append(out, f)
			}
		}
	}
	return out
}

// begins reports whether the fact is the StepStarted of attempts and nothing else.
func (f fact) begins() bool {
	return f.signal == nil && f.first == 0 && len(f.append.Events) > 0
}

// caused are the receipts that begins move: those of the retries behind them.
func caused(begins []run.Draft) (out []store.SignalOutcome) {
	for i, d := range begins {
		if p, err := run.PayloadOf[run.StepStartedPayload](d.Payload); err == nil && p.SignalID != "" {
			out = append(out, store.SignalOutcome{SignalID: p.SignalID, Application: run.SignalApplied, AppliedBy: i})
		}
	}
	return out
}
