package history

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// checkReads checks the results of reads against the log: content, gaps and freshness.
func (b *book) checkReads(v *verdict) {
	for _, w := range b.writes {
		b.checkFound(v, w.call)
		if w.answer.Effect == Done && w.answer.Head.RunID != "" {
			b.checkHead(v, w.call, w.answer.Head)
		}
	}
	for _, c := range b.reads {
		floor := b.floor(c.calledAt)
		b.checkFound(v, c)
		if !c.done() {
			continue
		}
		switch c.Kind {
		case KindEvents:
			b.checkPage(v, c, floor, c.Seq+1, 1)
		case KindBefore:
			b.checkPage(v, c, floor, c.Seq-1, -1)
		default:
			b.checkSummaries(v, c, floor)
		}
	}
}

// checkFound reports a call that did not find a run that had been created before.
func (b *book) checkFound(v *verdict, c *call) {
	if c.Missing && b.made < c.calledAt {
		v.add(Fresh, "%s did not find the run, which was created at line %d", c, b.made)
	}
}

// checkPage checks the events of a page. next is the first seq, step is 1 for ascending and -1 for descending pages.
func (b *book) checkPage(v *verdict, c *call, floor, next run.Seq, step run.Seq) {
	if step < 0 && len(c.Page) > 0 {
		next = min(next, c.Page[0].Seq) // the head may be below the requested seq
	}
	for _, s := range c.Page {
		if s.Seq != next {
			v.add(Prefix, "%s has the event %d, want %d", c, s.Seq, next)
			return
		}
		b.checkSeen(v, c, s)
		next += step
	}
	top := next - 1 // the newest event that the page has or could have
	if step < 0 {
		if next > 0 && len(c.Page) < c.Limit && len(c.Page) > 0 {
			v.add(Prefix, "%s is not full, but ends above %d", c, next)
		}
		top = 0
		if len(c.Page) > 0 {
			top = c.Page[0].Seq
		}
		floor = min(floor, c.Seq-1)
	}
	if (step < 0 || len(c.Page) < c.Limit) && top < floor {
		v.add(Fresh, "%s ends at %d, but %d was acknowledged before it was called", c, top, floor)
	}
}

// checkSeen checks one event that was read.
func (b *book) checkSeen(v *verdict, c *call, s Seen) {
	switch e := b.at(s.Seq); {
	case e == nil:
		v.add(Prefix, "%s saw an event at %d, which the log does not have", c, s.Seq)
	case see(*e).Sum != s.Sum:
		v.add(Prefix, "%s saw other content at %d than that of %s", c, s.Seq, ofEvent(*e))
	case b.earliest[s.Seq] >= c.returnedAt:
		v.add(Prefix, "%s saw %s at %d before any call sent it", c, ofEvent(*e), s.Seq)
	}
}

// checkSummaries checks the heads and folds of the run in the result of a read.
func (b *book) checkSummaries(v *verdict, c *call, floor run.Seq) {
	known := false
	for _, h := range c.Heads {
		if h.RunID != b.runID {
			continue
		}
		known = true
		if h.LastSeq < floor {
			v.add(Fresh, "%s saw head %d, but %d was acknowledged before it was called", c, h.LastSeq, floor)
		}
		b.checkHead(v, c, h)
	}
	if c.Kind == KindHeads && !known && b.made < c.calledAt {
		v.add(Fresh, "%s did not find the run, which was created at line %d", c, b.made)
	}
	for _, f := range c.Folds {
		if f.RunID != b.runID {
			continue
		}
		switch {
		case f.Head > b.last():
			v.add(Prefix, "%s saw head %d, but the log ends at %d", c, f.Head, b.last())
		case f.Head < floor:
			v.add(Fresh, "%s saw head %d, but %d was acknowledged before it was called", c, f.Head, floor)
		case f.Seq > f.Head, f.Of != OfHeader && f.Seq != f.Head:
			v.add(Folded, "%s saw a %s at %d with head %d", c, f.Of, f.Seq, f.Head)
		}
	}
}

// checkHead compares a head with the log up to its seq.
func (b *book) checkHead(v *verdict, c *call, h store.Head) {
	e := b.at(h.LastSeq)
	switch {
	case h.LastSeq > b.last() && len(c.Answers) > 0:
		v.add(Acknowledged, "%s returned head %d, but the log ends at %d", c, h.LastSeq, b.last())
		return
	case h.LastSeq > b.last():
		v.add(Prefix, "%s saw head %d, but the log ends at %d", c, h.LastSeq, b.last())
		return
	case e == nil:
		return
	case b.earliest[h.LastSeq] >= c.returnedAt:
		v.add(Prefix, "%s saw head %d before any call sent its event", c, h.LastSeq)
	}
	terminal := b.end > 0 && b.end <= h.LastSeq
	if h.Terminal != terminal || h.Running != b.running[h.LastSeq] || !h.LastAt.Equal(e.PersistedAt) {
		v.add(Folded, "%s saw head %d with terminal=%v, running=%d, lastAt=%v; the log gives %v, %d, %v",
			c, h.LastSeq, h.Terminal, h.Running, h.LastAt, terminal, b.running[h.LastSeq], e.PersistedAt)
	}
	if b.gates.known(h.LastSeq) && h.Gate != b.gates.at[h.LastSeq] {
		v.add(Gating, "%s saw head %d with gate %03b, but the appends up to it give %03b", c, h.LastSeq, h.Gate,
			b.gates.at[h.LastSeq])
	}
}

// checkFolded compares all states, headers and deltas in results with the fold of the log.
func (b *book) checkFolded(v *verdict) {
	type shown struct {
		*call
		Fold
	}
	bySeq := map[run.Seq][]shown{}
	for _, c := range b.reads {
		for _, f := range c.Folds {
			if c.done() && f.RunID == b.runID {
				bySeq[f.Seq] = append(bySeq[f.Seq], shown{c, f})
			}
		}
	}
	state := run.State{Header: run.Header{
		Identity: b.id, Rev: run.ReducerRev, Status: run.Pending, CreatedAt: b.log.CreatedAt, TriggeredBy: b.log.TriggeredBy,
	}}
	sums := map[Fold]string{}
	for seq := run.Seq(0); seq <= b.last(); seq++ {
		if e := b.at(seq); e != nil {
			if n := stampedCount(*e); n >= 0 && n != b.running[seq] {
				v.add(Folded, "RunPaused at %d has %d running steps, but the log gives %d", seq, n, b.running[seq])
			}
			state, _, _ = run.Fold(state, []run.Event{*e})
		}
		clear(sums)
		for _, s := range bySeq[seq] {
			key := Fold{Of: s.Of, From: s.From}
			if sums[key] == "" {
				sums[key] = sumOf(state, key)
			}
			if s.Sum != sums[key] {
				v.add(Folded, "%s saw a %s (from %d) at %d that is not the fold of the log, which is %s with %+v", s.call, s.Of,
					s.From, seq, state.Status, state.Counts)
			}
		}
	}
}

func sumOf(s run.State, f Fold) string {
	switch f.Of {
	case OfHeader:
		return digest(s.Header)
	case OfDelta:
		return digest(s.Since(f.From))
	}
	return digest(s)
}

// stampedCount returns the runningStepsCount of a RunPaused, or -1 for other events.
func stampedCount(e run.Event) int {
	if e.Type != run.RunPaused {
		return -1
	}
	p, err := run.PayloadOf[run.PausePayload](e.Payload)
	if err != nil {
		return -1
	}
	return p.RunningStepsCount
}

// checkMonotonic checks for every actor that the seqs in its results never decrease.
func (h *History) checkMonotonic(v *verdict) {
	type view struct{ actor, runID, what string }
	newest := map[view]run.Seq{}
	epoch := ""
	returned := slices.DeleteFunc(slices.Clone(h.calls), func(c *call) bool { return !c.done() })
	slices.SortFunc(returned, func(x, y *call) int { return x.returnedAt - y.returnedAt })
	see := func(c *call, runID, what string, seq run.Seq) {
		k := view{c.Actor, runID, what}
		if seq < newest[k] {
			v.run = runID
			v.add(Monotonic, "%s saw the %s decrease from %d to %d", c, what, newest[k], seq)
		}
		newest[k] = max(newest[k], seq)
	}
	for _, c := range returned {
		for _, a := range c.Answers {
			if a.Effect == Done {
				see(c, c.RunID, "head", a.Head.LastSeq)
			}
		}
		for _, head := range c.Heads {
			see(c, head.RunID, "head", head.LastSeq)
		}
		for _, f := range c.Folds {
			see(c, f.RunID, "head", f.Head)
			see(c, f.RunID, f.Of, f.Seq)
		}
		if n := len(c.Page); c.Kind == KindEvents && n > 0 {
			k := view{c.Actor, c.RunID, "head"}
			if n < c.Limit {
				see(c, c.RunID, "head", c.Page[n-1].Seq)
			}
			newest[k] = max(newest[k], c.Page[n-1].Seq)
		}
		if c.Epoch != "" && epoch != "" && c.Epoch != epoch {
			v.run = c.RunID
			v.add(Monotonic, "%s saw epoch %s, but it was %s before", c, c.Epoch, epoch)
		}
		if epoch == "" {
			epoch = c.Epoch
		}
	}
}
