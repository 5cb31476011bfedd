package projector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// batch is one projection of several runs.
type batch struct {
	p     *Projector
	works []*runWork

	epoch string
	now   time.Time // the store's clock at the read
	read  time.Time // local time of the read
}

// runWork is one run of a batch.
type runWork struct {
	runID       string
	woken       time.Time
	state       cachedState
	tail        store.Tail
	read        bool      // the tail was read
	since       time.Time // commit time of the oldest reported event
	published   bool      // everything up to state.to was published and must be recorded
	messageSent bool      // a message was sent
	done        bool      // nothing is left to do
	err         error

	message live.Message
	refusal error // the bus's refusal of message
}

func (w *runWork) end(err error) { w.done, w.err = true, err }

// project folds and publishes the woken runs. saveLoop saves and records them later (contract T189). Runs whose
// events are all pending go first and are not read.
func (p *Projector) project(ctx context.Context, woken []dueRun) {
	var applied []*runWork
	r := &batch{p: p}
	for _, t := range woken {
		w := &runWork{runID: t.runID, woken: t.woken}
		isApplied := false
		p.contain(w, func() { isApplied = p.applyPending(w, t.pending) })
		if isApplied {
			applied = append(applied, w)
		} else {
			r.works = append(r.works, w)
		}
	}
	p.forEach(applied, func(w *runWork) { p.publishApplied(ctx, w) })
	for _, w := range applied {
		p.finish(ctx, w)
	}
	r.project(ctx)
	for _, w := range r.works {
		p.finish(ctx, w)
	}
}

// finish passes a run to saveLoop and allows it to be taken again. A run whose message was refused may be taken again
// after the refusal is recorded.
func (p *Projector) finish(ctx context.Context, w *runWork) {
	p.logFailure(ctx, w.runID, w.err)
	sent, refused := w.messageSent, w.refusal != nil
	if p.saves.put(w) && refused {
		return
	}
	p.schedule.finish(time.Now(), w.runID, sent)
}

// project reads, folds and publishes the runs of the batch.
func (r *batch) project(ctx context.Context) {
	if len(r.works) == 0 {
		return
	}
	for _, w := range r.openWorks() {
		r.p.contain(w, func() { r.loadState(ctx, w) })
	}
	for _, step := range []func(context.Context) error{r.readTails, r.fold} {
		if err := step(ctx); err != nil {
			for _, w := range r.openWorks() {
				w.end(err)
			}
			return
		}
	}
	r.p.forEach(r.openWorks(), func(w *runWork) { w.err = r.publish(ctx, w) })
}

// concurrentMessages is the number of messages of a batch that are sent concurrently.
const concurrentMessages = 16

// contain calls do. A panic aborts only the work on this run: its mark stays, so that the sweep retries it, and its
// cached state is dropped.
func (p *Projector) contain(w *runWork, do func()) {
	err := p.panics.Call("project", w.runID, func() error {
		do()
		return nil
	})
	if err != nil {
		p.cache.Drop(w.runID)
		w.end(err)
	}
}

// forEach calls do for all works, several concurrently.
func (p *Projector) forEach(works []*runWork, do func(*runWork)) {
	if len(works) == 1 {
		p.contain(works[0], func() { do(works[0]) })
		return
	}
	var wg sync.WaitGroup
	free := make(chan struct{}, concurrentMessages)
	for _, w := range works {
		free <- struct{}{}
		wg.Go(func() {
			p.contain(w, func() { do(w) })
			<-free
		})
	}
	wg.Wait()
}

func (r *batch) openWorks() []*runWork {
	out := make([]*runWork, 0, len(r.works))
	for _, w := range r.works {
		if !w.done {
			out = append(out, w)
		}
	}
	return out
}

// loadState takes the state from the cache, or loads it.
func (r *batch) loadState(ctx context.Context, w *runWork) {
	var cached bool
	if w.state, cached = r.p.cache.Get(w.runID); !cached {
		r.load(ctx, w)
	}
}

// load reads the whole state: checkpoint and tail.
func (r *batch) load(ctx context.Context, w *runWork) {
	l, err := r.p.store.Load(ctx, w.runID)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
		w.done = true
	}
	if err != nil {
		w.end(err)
	}
	if w.done {
		return
	}
	for _, a := range l.Anomalies {
		r.p.monitor.reportAnomaly(w.runID, a)
	}
	if !l.OldestUnprojected.IsZero() {
		r.p.monitor.observeLag(w.runID, l.Now.Sub(l.OldestUnprojected))
	}
	w.state = cachedState{epoch: l.Epoch, state: l.State, ops: -1}
	w.tail.Head, w.tail.CheckpointAt, w.tail.PublishedSeq = l.Head, l.CheckpointAt, l.PublishedSeq
}

// readTails reads the new events of every run.
func (r *batch) readTails(ctx context.Context) error {
	open := r.openWorks()
	if len(open) == 0 {
		return nil
	}
	asked := make([]store.TailRequest, len(open))
	for i, w := range open {
		asked[i] = store.TailRequest{RunID: w.runID, Seq: w.state.state.Seq}
	}
	tails, err := r.p.loadTails(ctx, asked)
	if err != nil {
		return err
	}
	r.epoch, r.now, r.read = tails.Epoch, tails.Now, time.Now()
	for _, w := range open {
		tail, found := tails.ByRun[w.runID]
		if !found {
			r.p.cache.Drop(w.runID)
			w.end(nil)
			continue
		}
		w.tail, w.read = tail, true
	}
	return nil
}

// fold moves every state to its head. It loads a state that the tail does not continue: the epoch changed, the head
// is lower, or there are too many new events.
func (r *batch) fold(ctx context.Context) error {
	for _, w := range r.openWorks() {
		r.p.contain(w, func() { r.foldOne(ctx, w) })
	}
	return nil
}

func (r *batch) foldOne(ctx context.Context, w *runWork) {
	at := w.state.state.Seq
	if n := len(w.tail.Events); n > 0 {
		at = w.tail.Events[n-1].Seq
	}
	if w.state.epoch != r.epoch || at != w.tail.Head.LastSeq {
		r.p.cache.Drop(w.runID)
		mark := w.tail.Mark
		if r.load(ctx, w); w.done {
			return
		}
		w.tail.Mark, w.tail.Events = mark, nil
	}
	r.apply(w)
	r.p.cache.Put(w.runID, w.state, len(w.state.state.Steps))
}

func (r *batch) apply(w *runWork) {
	before := w.state.state.Seq
	if len(w.tail.Events) > 0 {
		r.p.monitor.checkContiguous(w.runID, before, w.tail.Events)
		var anomalies []run.Anomaly
		w.state.state, _, anomalies = run.Fold(w.state.state, w.tail.Events)
		for _, a := range anomalies {
			r.p.monitor.reportAnomaly(w.runID, a)
		}
	}
	if w.tail.CheckpointAt >= w.tail.Head.LastSeq {
		return
	}
	for _, e := range w.tail.Events {
		if e.Seq > w.tail.CheckpointAt {
			r.p.monitor.observeLag(w.runID, r.now.Sub(e.PersistedAt))
			return
		}
	}
}

// publish sends the unpublished changes of a run, if it has a mark and is not delayed by a refusal.
func (r *batch) publish(ctx context.Context, w *runWork) error {
	mark := w.tail.Mark
	if mark == nil {
		return nil
	}
	to, ops := w.state.state.Seq, w.tail.Head.OpsRev
	if w.state.to >= to && w.state.ops >= ops { // published, but not recorded yet
		w.published = true
		return nil
	}
	if mark.NotBefore.After(r.now) {
		return nil
	}
	from := min(max(w.tail.PublishedSeq, w.state.to), to)
	// fold reached the head
	w.message = newMessage(w.state.epoch, ops, r.now, w.tail.Head.LastAt, w.state.state.Since(from))
	if sent, err := r.p.publish(ctx, w); !sent {
		return err
	}
	r.p.monitor.observePublished(w.message, r.now.Sub(w.oldestUnpublished(from))+time.Since(r.read))
	return nil
}

// publish sends the message of w and caches the published position. A refusal is not returned as an error:
// writeRefusals records it later.
func (p *Projector) publish(ctx context.Context, w *runWork) (sent bool, err error) {
	err = p.send(ctx, w.message)
	if errors.Is(err, live.ErrRefused) {
		w.refusal = err
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.messageSent, w.published = true, true
	w.state.to, w.state.ops = w.message.To, w.message.OpsRev
	p.cache.Put(w.runID, w.state, len(w.state.state.Steps))
	return true, nil
}

// oldestUnpublished returns when the first event after a position was committed, as far as known.
func (w *runWork) oldestUnpublished(from run.Seq) time.Time {
	for _, e := range w.tail.Events {
		if e.Seq > from {
			return e.PersistedAt
		}
	}
	return w.tail.Mark.Since
}
