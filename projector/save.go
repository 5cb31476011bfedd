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

// saveQueue holds the runs with a state to save or a publication to record, once each with the newest values. Safe
// for concurrent use.
type saveQueue struct {
	limit  int
	signal chan struct{} // receives when the queue is not empty

	mu    sync.Mutex
	works map[string]*runWork
	order []*runWork
}

func newSaveQueue(limit int) *saveQueue {
	return &saveQueue{limit: limit, signal: make(chan struct{}, 1), works: map[string]*runWork{}}
}

// put takes ownership of w if something of it must be saved or recorded. It returns false if there is nothing, or no
// room: then the dirty mark is still set.
func (u *saveQueue) put(w *runWork) bool {
	if !w.needsSave() {
		return false
	}
	w.read = false // it may wait, so verify reads it again
	u.mu.Lock()
	defer u.mu.Unlock()
	old := u.works[w.runID]
	if old != nil {
		old.merge(w)
		return true
	}
	if len(u.works) >= u.limit {
		return false
	}
	u.works[w.runID] = w
	u.order = append(u.order, w)
	select {
	case u.signal <- struct{}{}:
	default:
	}
	return true
}

// take removes and returns at most n works, the oldest first.
func (u *saveQueue) take(n int) []*runWork {
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

// needsSave reports whether something must be saved or recorded.
func (w *runWork) needsSave() bool {
	return !w.done && w.state.epoch != "" && (w.published || w.refusal != nil || !w.read ||
		w.tail.CheckpointAt < w.state.state.Seq)
}

// merge replaces w by later work on the same run and keeps the unrecorded publication.
func (w *runWork) merge(next *runWork) {
	if before := *w; before.state.epoch == next.state.epoch {
		next.published = next.published || before.published
		next.state.to, next.state.ops = max(next.state.to, before.state.to), max(next.state.ops, before.state.ops)
		if !before.since.IsZero() {
			next.since = before.since
		}
	}
	*w = *next
}

// saveLoop saves and records until stop is closed and the queue is empty. The first save after a pause starts at
// once. After that there is SaveInterval between two saves, unless a whole batch is waiting.
func (p *Projector) saveLoop(ctx context.Context, stop <-chan struct{}) {
	var sent []store.PublishedTo // published and not yet recorded
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-stop:
		}
		works := p.saves.take(p.cfg.RoundRuns)
		if next.Reset(p.cfg.SaveInterval); len(works) == p.cfg.RoundRuns {
			next.Reset(0)
		}
		switch {
		case len(works) > 0:
			panicked := p.panics.Call("project", "", func() error {
				sent = p.save(ctx, works, sent)
				return nil
			})
			if panicked != nil { // the marks stay, so that the sweep retries these runs
				for _, w := range works {
					p.cache.Drop(w.runID)
					w.end(panicked)
				}
			}
			for _, w := range works {
				p.logFailure(ctx, w.runID, w.err)
				if w.refusal != nil {
					p.schedule.finish(time.Now(), w.runID, false)
				}
			}
			continue
		case len(sent) > 0:
			p.logFailure(ctx, "", p.recordPublished(ctx, sent))
			sent = nil // runs whose publication was not recorded keep their marks
		}
		select {
		case <-p.saves.signal:
		case <-stop:
			if p.saves.isEmpty() {
				return
			}
		}
	}
}

func (u *saveQueue) isEmpty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.order) == 0
}

// save writes the newer checkpoints of works, records earlier publications, and wakes the lists, which show saved
// states. It returns the publications to record next. A crash before that leaves the marks (contract T189).
func (p *Projector) save(ctx context.Context, works []*runWork, sent []store.PublishedTo) []store.PublishedTo {
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
			if w.published && !w.done { // the sweep publishes the run again
				p.cache.Drop(w.runID)
				w.end(err)
			}
		}
	}
	for _, w := range works {
		if w.published && !w.done {
			sent = append(sent, store.PublishedTo{RunID: w.runID, To: w.state.to, OpsRev: w.state.ops})
		}
	}
	return p.writeRefusals(ctx, works, sent)
}

// writeRefusals records the messages that the bus refused. It records the successful ones first, because that clears
// refusals.
func (p *Projector) writeRefusals(ctx context.Context, works []*runWork, sent []store.PublishedTo) []store.PublishedTo {
	for _, w := range works {
		if w.refusal == nil || w.done || w.tail.Mark == nil {
			continue
		}
		if w.err = p.recordPublished(ctx, sent); w.err == nil {
			sent = nil
			w.err = p.handleRefusal(ctx, w.message, w.tail.Mark.Attempts, w.refusal)
		}
	}
	return sent
}

// verify reads the head of each run that was not read or that waited, before its checkpoint is saved. A run whose log
// was replaced, for example by a restore, is dropped from the cache and projected again (contract T194).
func (p *Projector) verify(ctx context.Context, works []*runWork) error {
	var asked []store.TailRequest
	for _, w := range works {
		if !w.read {
			asked = append(asked, store.TailRequest{RunID: w.runID, Seq: w.state.state.Seq})
		}
	}
	if len(asked) == 0 {
		return nil
	}
	tails, err := p.loadTails(ctx, asked)
	if err != nil {
		return err
	}
	for _, w := range works {
		if w.read {
			continue
		}
		tail, found := tails.ByRun[w.runID]
		if !found || tails.Epoch != w.state.epoch || tail.Head.LastSeq < w.state.state.Seq {
			w.end(nil)
			p.cache.Drop(w.runID)
			p.Wake(w.runID)
			continue
		}
		w.tail, w.read = tail, true
		if tail.CheckpointAt < w.state.state.Seq && !w.since.IsZero() {
			p.monitor.observeLag(w.runID, tails.Now.Sub(w.since))
		}
	}
	return nil
}

// advance writes the checkpoints. If one cannot be written, the others still are.
func (p *Projector) advance(ctx context.Context, works []*runWork, sent []store.PublishedTo) []store.PublishedTo {
	var saving []store.CheckpointSave
	var of []*runWork
	for _, w := range works {
		if w.done || w.tail.CheckpointAt >= w.state.state.Seq {
			continue
		}
		p.contain(w, func() {
			if err := p.sealer.seal(ctx, w); err != nil { // the mark stays, so that the sweep tries the run again
				w.end(err)
			}
		})
		if !w.done {
			saving, of = append(saving, store.CheckpointSave{State: w.state.state, Replaces: w.tail.CheckpointAt}), append(of, w)
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

// wakeLists wakes the lists of the published runs, including those published in earlier batches.
func (p *Projector) wakeLists(ctx context.Context, works []*runWork) error {
	var lists []live.List
	for _, w := range works {
		h := w.state.state.Header
		if l := (live.List{TenantID: h.TenantID,
			ProjectID: h.ProjectID}); w.published && !w.done && !slices.Contains(lists, l) {
			lists = append(lists, l)
		}
	}
	if len(lists) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	if err := p.bus.WakeLists(within, lists...); err != nil && !errors.Is(err, live.ErrRefused) {
		return errors.Join(errBusUnavailable, err)
	}
	return nil
}

// recordPublished records that messages were published.
func (p *Projector) recordPublished(ctx context.Context, sent []store.PublishedTo) error {
	if len(sent) == 0 {
		return nil
	}
	_, err := p.store.Advance(ctx, sent, nil)
	return err
}

// flushTime bounds the last saves when a projector ends.
const flushTime = time.Second
