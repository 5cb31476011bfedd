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

// past is the writes to one log that are in the engine's history, in the order that the log had.
type past struct {
	id     run.Identity
	writes []write
	known  run.Seq // the highest head that the engine got as a result
}

// write is one Append, or one signal that was accepted.
type write struct {
	append store.Append
	first  run.Seq // seq of the first event that only this Append can have written; 0 for starts and signals
	signal *engine.Signal
	at     time.Time // of the signal
}

// start is the StepStarted of an attempt, which StartAttempt wrote.
type start struct {
	draft run.Draft
	seq   run.Seq // 0 when it is unknown
}

// pastOf reads a history. An Append with the end of an attempt carries its StepStarted again. The StepStarted must
// return to its own seq before that Append, because the attempts that are running decide what the store stamps
// (contract T221). If the seq is unknown, the time at which the attempt started decides about the order.
func pastOf(ctx context.Context, h engine.Historian, id run.Identity) (*past, error) {
	p := &past{id: id}
	var unplaced []start
	starts := map[run.Key]start{}
	seen := map[string]bool{}
	for r, err := range h.History(ctx, id) {
		switch {
		case err != nil:
			return nil, err
		case r.Signal != nil:
			if !seen[r.Signal.ID] {
				seen[r.Signal.ID] = true
				p.writes = append(p.writes, write{signal: r.Signal, at: r.At})
			}
			continue
		case r.Seqs == nil && len(r.Append.Events) == 1 && r.Head == 0:
			unplaced = append(unplaced, start{draft: r.Append.Events[0]})
			continue
		}
		p.known = max(p.known, r.Head)
		w := write{append: r.Append}
		for i, d := range r.Append.Events {
			if d.Type == run.StepStartedEvent {
				starts[d.Key(id)] = start{draft: d, seq: r.Seqs[i]}
			} else if w.first == 0 || r.Seqs[i] < w.first {
				w.first = r.Seqs[i]
			}
		}
		p.writes = append(p.writes, w)
	}
	for _, s := range unplaced {
		if key := s.draft.Key(id); starts[key].draft.Type == "" {
			starts[key] = s
		}
	}
	p.insertStarts(starts)
	return p, nil
}

// insertStarts inserts each start before the first Append that it preceded.
func (p *past) insertStarts(starts map[run.Key]start) {
	before := map[int][]start{} // by index of the write; len(p.writes) for the end
	for _, s := range starts {
		at := len(p.writes)
		for i, w := range p.writes {
			if s.precedes(w) {
				at = i
				break
			}
		}
		before[at] = append(before[at], s)
	}
	var writes []write
	for i := range len(p.writes) + 1 {
		list := sortStarts(before[i])
		for chunk := range slices.Chunk(list, store.MaxBatch) {
			w := write{}
			for _, s := range chunk {
				w.append.Events = append(w.append.Events, s.draft)
			}
			writes = append(writes, w)
		}
		if i < len(p.writes) {
			writes = append(writes, p.writes[i])
		}
	}
	p.writes = writes
}

// sortStarts sorts starts by seq. A start with an unknown seq comes before the first one with a later time.
func sortStarts(starts []start) []start {
	slices.SortFunc(starts, func(a, b start) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), a.draft.EmittedAt.Compare(b.draft.EmittedAt),
			cmp.Compare(a.draft.StepID, b.draft.StepID))
	})
	unplaced := 0
	for unplaced < len(starts) && starts[unplaced].seq == 0 {
		unplaced++
	}
	out := slices.Clone(starts[unplaced:])
	for _, s := range starts[:unplaced] {
		at := slices.IndexFunc(out, func(o start) bool { return o.draft.EmittedAt.After(s.draft.EmittedAt) })
		if at < 0 {
			at = len(out)
		}
		out = slices.Insert(out, at, s)
	}
	return out
}

// precedes reports whether the start was in the log before the events of w.
func (s start) precedes(w write) bool {
	if w.first == 0 {
		return false
	}
	if s.seq > 0 {
		return s.seq < w.first
	}
	return s.draft.EmittedAt.Before(emittedAt(w.append))
}

// emittedAt returns the time of the last event of an append.
func emittedAt(a store.Append) time.Time { return a.Events[len(a.Events)-1].EmittedAt }

// missing returns the writes that a log with these keys needs again. A restored log is a prefix of the one that the
// engine knew. So all writes up to the last Append that has an event in the log were carried out, including their
// changes of gates and receipts. Signals are all returned, because putSignal checks whether the store has their
// receipts.
func (p *past) missing(have map[run.Key]bool) []write {
	from := 0
	for i, w := range p.writes {
		if w.first > 0 && slices.ContainsFunc(w.append.Events, func(d run.Draft) bool {
			return d.Type != run.StepStartedEvent && have[d.Key(p.id)]
		}) {
			from = i + 1
		}
	}
	var out []write
	for i, w := range p.writes {
		switch {
		case w.signal != nil, i >= from && !w.hasOnlyStarts():
			out = append(out, w)
		case w.hasOnlyStarts():
			w.append.Events = slices.DeleteFunc(slices.Clone(w.append.Events),
				func(d run.Draft) bool { return have[d.Key(p.id)] })
			if len(w.append.Events) > 0 {
				w.append.Outcomes = retryOutcomes(w.append.Events)
				out = append(out, w)
			}
		}
	}
	return out
}

// hasOnlyStarts reports whether the write has only StepStarted events.
func (w write) hasOnlyStarts() bool {
	return w.signal == nil && w.first == 0 && len(w.append.Events) > 0
}

// retryOutcomes returns the outcomes of the RETRY_STEP signals that caused the starts.
func retryOutcomes(starts []run.Draft) (out []store.SignalOutcome) {
	for i, d := range starts {
		if p, err := run.PayloadOf[run.StepStartedPayload](d.Payload); err == nil && p.SignalID != "" {
			out = append(out, store.SignalOutcome{SignalID: p.SignalID, Application: run.SignalApplied, AppliedBy: i})
		}
	}
	return out
}
