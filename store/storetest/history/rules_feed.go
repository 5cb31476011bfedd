package history

import (
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// consumer is one reader of the feed.
type consumer struct {
	began    int                // position of the result of its first read; only later calls count
	due      map[string]run.Seq // by run: seqs that were committed before the pass and not returned yet
	received map[string]run.Seq // by run: the highest seq that was returned
	read     int                // number of changes that are in due or were returned
	pass     int                // position at which its current pass began; never between two passes
	drained  bool               // it caught up after the last write
}

// change is a commit that the feed must return.
type change struct {
	calledAt, returnedAt int
	runID                string
	seq                  run.Seq
}

// checkFeeds follows every consumer of the feed. A pass is a sequence of pages up to one that is not full. By the end
// of a pass the consumer must have received every change that was acknowledged before the pass began, or a later change
// of the same run. Changes during a pass belong to the next one.
func (h *History) checkFeeds(v *verdict) {
	changes := h.changes()
	consumers := map[string]*consumer{}
	for _, c := range h.calls { // the calls of one consumer are in order
		if c.Kind != KindChanged || !c.done() {
			continue
		}
		k := consumers[c.Actor]
		if k == nil || c.Cursor == "" { // it starts, or starts again
			k = &consumer{due: map[string]run.Seq{}, received: map[string]run.Seq{}, began: c.returnedAt, pass: never}
			consumers[c.Actor] = k
		}
		k.pass = min(k.pass, c.calledAt)
		for ; k.read < len(changes) && changes[k.read].returnedAt < k.pass; k.read++ {
			if ch := changes[k.read]; ch.calledAt > k.began && ch.seq > k.received[ch.runID] {
				k.due[ch.runID] = max(k.due[ch.runID], ch.seq)
			}
		}
		for _, f := range c.Folds {
			k.received[f.RunID] = max(k.received[f.RunID], f.Seq)
			if k.received[f.RunID] >= k.due[f.RunID] {
				delete(k.due, f.RunID)
			}
		}
		if len(c.Folds) >= c.Limit {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(k.due)) {
			v.run = id
			v.add(Feeding, "%s caught up with the run at %d, but %d was saved before its pass began", c, k.received[id],
				k.due[id])
			delete(k.due, id)
		}
		k.drained = k.drained || k.pass > h.drained
		k.pass = never
	}
	for _, actor := range slices.Sorted(maps.Keys(consumers)) {
		h.checkConsumer(v, actor, consumers[actor])
	}
}

// checkConsumer checks that a consumer has every run at its head at the end.
func (h *History) checkConsumer(v *verdict, actor string, k *consumer) {
	if !k.drained {
		v.run = "(all runs)"
		v.add(Feeding, "%s never caught up after the last write", actor)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(h.byRun)) {
		b := h.byRun[id]
		if len(b.writes) == 0 || b.writes[0].calledAt < k.began || b.log == nil {
			continue
		}
		if told := k.received[id]; told != b.last() {
			v.run = id
			v.add(Feeding, "%s has the run at %d at the end, but the log ends at %d", actor, told, b.last())
		}
	}
}

// changes returns the acknowledged saves, and the runs that were created with a first checkpoint, in the order of their
// results.
func (h *History) changes() []change {
	var out []change
	for _, c := range h.calls {
		switch {
		case !c.done() || !c.Wrote:
		case c.Kind == KindSave:
			out = append(out, change{c.calledAt, c.returnedAt, c.RunID, c.Seq})
		case c.Kind == KindCreate && len(c.Entries) == 1:
			out = append(out, change{c.calledAt, c.returnedAt, c.RunID, run.Seq(len(c.Entries[0].Append.Events))})
		}
	}
	slices.SortFunc(out, func(x, y change) int { return x.returnedAt - y.returnedAt })
	return out
}
