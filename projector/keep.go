package projector

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/store"
)

// unsaved is the runs with a state to save or a message to record, each once with
// the newest of it.
type unsaved struct {
	most int
	rung chan struct{} // rings when there are some

	mu    sync.Mutex
	works map[string]*work
	order []*work
}

func newUnsaved(most int) *unsaved {
	return &unsaved{most: most, rung: make(chan struct{}, 1), works: map[string]*work{}}
}

// put takes over w, which nobody else may touch any more, if anything of it is to
// be saved or recorded. It reports false when there is nothing, or no room: then the
// mark is still there.
func (u *unsaved) put(w *work) bool {
	if !w.unsaved() {
		return false
	}
	w.read = false // it may wait
	u.mu.Lock()
	defer u.mu.Unlock()
	old := u.works[w.runID]
	if old != nil {
		old.follow(w)
		return true
	}
	if len(u.works) >= u.most {
		return false
	}
	u.works[w.runID] = w
	u.order = append(u.order, w)
	select {
	case u.rung <- struct{}{}:
	default:
	}
	return true
}

// take takes at most n works, those that wait longest.
func (u *unsaved) take(n int) []*work {
	u.mu.Lock()
	defer u.mu.Unlock()
	n = min(n, len(u.order))
	out := slices.Clone(u.order[:n])
	u.order = slices.Delete(u.order, 0, n)
	for _, w := range out {
		delete(u.works, w.runID)
	}
	return out
}

// unsaved reports whether anything is to be saved or recorded.
func (w *work) unsaved() bool {
	return !w.over && w.known.epoch != "" && (w.said || w.refusal != nil || !w.read ||
		w.tail.CheckpointAt < w.known.state.Seq)
}

// follow takes over later work on the same run.
func (w *work) follow(next *work) {
	if before := *w; before.known.epoch == next.known.epoch {
		next.said = next.said || before.said
		next.known.to, next.known.ops = max(next.known.to, before.known.to), max(next.known.ops, before.known.ops)
		if !before.since.IsZero() {
			next.since = before.since
		}
	}
	*w = *next
}

// keep saves and records until stop is closed and nothing is left to do. The first
// after a pause goes at once; then there is SaveInterval between two rounds, in which
// the runs of the next one gather, unless they are enough for one already.
func (p *Projector) keep(ctx context.Context, stop <-chan struct{}) {
	var sent []store.PublishedTo // published, and not recorded yet
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-stop:
		}
		works := p.unsaved.take(p.cfg.RoundRuns)
		if next.Reset(p.cfg.SaveInterval); len(works) == p.cfg.RoundRuns {
			next.Reset(0)
		}
		switch {
		case len(works) > 0:
			panicked := p.panics.Call("project", "", func() error {
				sent = p.save(ctx, works, sent)
				return nil
			})
			if panicked != nil { // the marks stay, so that the sweep tries these runs again
				for _, w := range works {
					p.cache.Drop(w.runID)
					w.end(panicked)
				}
			}
			for _, w := range works {
				p.report(ctx, w.runID, w.err)
				if w.refusal != nil {
					p.motions.finished(time.Now(), w.runID, false)
				}
			}
			continue
		case len(sent) > 0:
			p.report(ctx, "", p.record(ctx, sent))
			sent = nil // what could not be recorded still has its mark
		}
		select {
		case <-p.unsaved.rung:
		case <-stop:
			if p.unsaved.empty() {
				return
			}
		}
	}
}

func (u *unsaved) empty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.order) == 0
}

// save writes the newer checkpoints of works, records what was published earlier,
// and wakes the lists, which show what is saved. It returns what is to be recorded
// next: a crash before that leaves the marks (T189).
func (p *Projector) save(ctx context.Context, works []*work, sent []store.PublishedTo) []store.PublishedTo {
	for _, w := range works {
		w.err = nil
	}
	if err := p.verify(ctx, works); err != nil {
		for _, w := range works {
			w.end(err)
		}
		return sent
	}
	sent = p.advance(ctx, works, sent)
	if err := p.wakeLists(ctx, works); err != nil {
		for _, w := range works {
			if w.said && !w.over { // the sweep sends it all again
				p.cache.Drop(w.runID)
				w.end(err)
			}
		}
	}
	for _, w := range works {
		if w.said && !w.over {
			sent = append(sent, store.PublishedTo{RunID: w.runID, To: w.known.to, OpsRev: w.known.ops})
		}
	}
	return p.writeRefusals(ctx, works, sent)
}

// writeRefusals writes down what the bus refused, after what it took before: that
// forgets refusals.
func (p *Projector) writeRefusals(ctx context.Context, works []*work, sent []store.PublishedTo) []store.PublishedTo {
	for _, w := range works {
		if w.refusal == nil || w.over || w.tail.Mark == nil {
			continue
		}
		if w.err = p.record(ctx, sent); w.err == nil {
			sent = nil
			w.err = p.refused(ctx, w.message, w.tail.Mark.Attempts, w.refusal)
		}
	}
	return sent
}

// verify reads the heads of runs that were not read or have waited, before anything
// of them is saved. A log that is not the one that was folded is read anew (T194).
func (p *Projector) verify(ctx context.Context, works []*work) error {
	var asked []store.Known
	for _, w := range works {
		if !w.read {
			asked = append(asked, store.Known{RunID: w.runID, Seq: w.known.state.Seq})
		}
	}
	if len(asked) == 0 {
		return nil
	}
	tails, err := p.tails(ctx, asked)
	if err != nil {
		return err
	}
	for _, w := range works {
		if w.read {
			continue
		}
		tail, found := tails.ByRun[w.runID]
		if !found || tails.Epoch != w.known.epoch || tail.Head.LastSeq < w.known.state.Seq {
			w.end(nil)
			p.cache.Drop(w.runID)
			p.Wake(w.runID)
			continue
		}
		w.tail, w.read = tail, true
		if tail.CheckpointAt < w.known.state.Seq && !w.since.IsZero() {
			p.watch.lag(w.runID, tails.Now.Sub(w.since))
		}
	}
	return nil
}

// advance writes. When one checkpoint cannot be written, the others are.
func (p *Projector) advance(ctx context.Context, works []*work, sent []store.PublishedTo) []store.PublishedTo {
	var saving []store.Saving
	var of []*work
	for _, w := range works {
		if w.over || w.tail.CheckpointAt >= w.known.state.Seq {
			continue
		}
		p.contain(w, func() {
			if err := p.sealer.seal(ctx, w); err != nil { // the mark stays, so that the sweep tries the run again
				w.end(err)
			}
		})
		if !w.over {
			saving, of = append(saving, store.Saving{State: w.known.state, Over: w.tail.CheckpointAt}), append(of, w)
		}
	}
	if len(saving) == 0 {
		return sent
	}
	_, err := p.store.Advance(ctx, sent, saving)
	if err == nil {
		return nil
	}
	alone := len(saving) > 1 && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) &&
		!errors.Is(err, store.ErrOverloaded)
	for i, w := range of {
		if alone {
			_, err = p.store.Advance(ctx, nil, saving[i:i+1])
		}
		if err != nil {
			w.end(err)
		}
	}
	return sent
}

// wakeLists wakes the lists of the runs of which messages went out, also in rounds before.
func (p *Projector) wakeLists(ctx context.Context, works []*work) error {
	var lists []live.List
	for _, w := range works {
		h := w.known.state.Header
		if l := (live.List{TenantID: h.TenantID, ProjectID: h.ProjectID}); w.said && !w.over && !slices.Contains(lists, l) {
			lists = append(lists, l)
		}
	}
	if len(lists) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	if err := p.bus.WakeLists(within, lists...); err != nil && !errors.Is(err, live.ErrRefused) {
		return errors.Join(errBus, err)
	}
	return nil
}

// record says that messages were published.
func (p *Projector) record(ctx context.Context, sent []store.PublishedTo) error {
	if len(sent) == 0 {
		return nil
	}
	_, err := p.store.Advance(ctx, sent, nil)
	return err
}

// flushTime bounds what is left to save and record when a projector ends.
const flushTime = time.Second
