package history

import (
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// consumer is one reader of the feed.
type consumer struct {
	began   int                // it counts what was asked for after its first read was answered
	due     map[string]run.Seq // committed before a read, and not told yet
	told    map[string]run.Seq
	read    int  // changes[:read] are due or told
	pass    int  // when it began the pass that it is in, never between two
	drained bool // it caught up after the writers had ended
}

// change is a commit that the feed is to tell.
type change struct {
	asked, told int
	runID       string
	seq         run.Seq
}

// feeds follows every consumer of the feed. Pages up to one that is not full are a
// pass. A change that was acknowledged before a pass began is to be told, or a
// later one of its run, by the end of that pass; one that came behind the place of a
// pass is the next one's.
func (h *History) feeds(v *verdict) {
	changes := h.changes()
	consumers := map[string]*consumer{}
	for _, c := range h.calls { // those of one consumer are in its order
		if c.Kind != KindChanged || !c.done() {
			continue
		}
		k := consumers[c.Actor]
		if k == nil || c.Cursor == "" { // it starts, or starts again
			k = &consumer{due: map[string]run.Seq{}, told: map[string]run.Seq{}, began: c.told, pass: never}
			consumers[c.Actor] = k
		}
		k.pass = min(k.pass, c.asked)
		for ; k.read < len(changes) && changes[k.read].told < k.pass; k.read++ {
			if ch := changes[k.read]; ch.asked > k.began && ch.seq > k.told[ch.runID] {
				k.due[ch.runID] = max(k.due[ch.runID], ch.seq)
			}
		}
		for _, f := range c.Folds {
			k.told[f.RunID] = max(k.told[f.RunID], f.Seq)
			if k.told[f.RunID] >= k.due[f.RunID] {
				delete(k.due, f.RunID)
			}
		}
		if len(c.Folds) >= c.Limit {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(k.due)) {
			v.run = id
			v.add(Feeding, "%s caught up and was told %d of the run, but %d was saved before it began to", c, k.told[id],
				k.due[id])
			delete(k.due, id)
		}
		k.drained = k.drained || k.pass > h.drained
		k.pass = never
	}
	for _, actor := range slices.Sorted(maps.Keys(consumers)) {
		h.settled(v, actor, consumers[actor])
	}
}

// settled judges what a consumer knows at the end.
func (h *History) settled(v *verdict, actor string, k *consumer) {
	if !k.drained {
		v.run = "(all runs)"
		v.add(Feeding, "%s never caught up after the last write", actor)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(h.byRun)) {
		b := h.byRun[id]
		if len(b.writes) == 0 || b.writes[0].asked < k.began || b.log == nil {
			continue
		}
		if told := k.told[id]; told != b.last() {
			v.run = id
			v.add(Feeding, "%s knows %d of the run at the end, the log ends at %d", actor, told, b.last())
		}
	}
}

// changes are the acknowledged saves, and the runs that were made with a first
// checkpoint, in the order of their answers.
func (h *History) changes() []change {
	var out []change
	for _, c := range h.calls {
		switch {
		case !c.done() || !c.Wrote:
		case c.Kind == KindSave:
			out = append(out, change{c.asked, c.told, c.RunID, c.Seq})
		case c.Kind == KindCreate && len(c.Entries) == 1:
			out = append(out, change{c.asked, c.told, c.RunID, run.Seq(len(c.Entries[0].Append.Events))})
		}
	}
	slices.SortFunc(out, func(x, y change) int { return x.told - y.told })
	return out
}
