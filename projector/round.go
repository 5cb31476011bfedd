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

// round is one projection of several runs.
type round struct {
	p     *Projector
	works []*work

	epoch string
	now   time.Time // the store's clock
	read  time.Time // when it said so, by ours
}

// work is one run of a round.
type work struct {
	runID string
	woken time.Time
	known known
	tail  store.Tail
	read  bool      // the tail was read
	since time.Time // when the oldest event that was told was committed
	said  bool      // everything up to known.to was published, and that is to be recorded
	sent  bool      // a message went out
	over  bool      // nothing is left to do for it
	err   error

	message live.Message
	refusal error // of the message
}

func (w *work) end(err error) { w.over, w.err = true, err }

// project brings runs forward that were woken: fold and publish. What is to be
// saved and recorded after that is left to keep (T189). A run whose wakes told
// everything that is new goes first, and nothing of it is read.
func (p *Projector) project(ctx context.Context, woken []taken) {
	var told []*work
	r := &round{p: p}
	for _, t := range woken {
		w := &work{runID: t.runID, woken: t.woken}
		heard := false
		p.contain(w, func() { heard = p.hear(w, t.news) })
		if heard {
			told = append(told, w)
		} else {
			r.works = append(r.works, w)
		}
	}
	p.each(told, func(w *work) { p.announce(ctx, w) })
	for _, w := range told {
		p.finished(ctx, w)
	}
	r.project(ctx)
	for _, w := range r.works {
		p.finished(ctx, w)
	}
}

// finished leaves a run to be saved, and free to be woken again; one whose message
// was refused is free when that is written down.
func (p *Projector) finished(ctx context.Context, w *work) {
	p.report(ctx, w.runID, w.err)
	sent, refused := w.sent, w.refusal != nil
	if p.unsaved.put(w) && refused {
		return
	}
	p.motions.finished(time.Now(), w.runID, sent)
}

// project reads, folds and publishes.
func (r *round) project(ctx context.Context) {
	if len(r.works) == 0 {
		return
	}
	for _, w := range r.open() {
		r.p.contain(w, func() { r.find(ctx, w) })
	}
	for _, step := range []func(context.Context) error{r.readTails, r.fold} {
		if err := step(ctx); err != nil {
			for _, w := range r.open() {
				w.end(err)
			}
			return
		}
	}
	r.p.each(r.open(), func(w *work) { w.err = r.publish(ctx, w) })
}

// atOnce is how many messages of a round are on their way at once.
const atOnce = 16

// contain does something with w. A panic ends the work on this run and on no other: its mark stays, so that the sweep
// tries it again, and what is cached of it is dropped.
func (p *Projector) contain(w *work, do func()) {
	err := p.panics.Call("project", w.runID, func() error {
		do()
		return nil
	})
	if err != nil {
		p.cache.Drop(w.runID)
		w.end(err)
	}
}

// each does something with all works, with several at a time.
func (p *Projector) each(works []*work, do func(*work)) {
	if len(works) == 1 {
		p.contain(works[0], func() { do(works[0]) })
		return
	}
	var wg sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, w := range works {
		free <- struct{}{}
		wg.Go(func() {
			p.contain(w, func() { do(w) })
			<-free
		})
	}
	wg.Wait()
}

func (r *round) open() []*work {
	out := make([]*work, 0, len(r.works))
	for _, w := range r.works {
		if !w.over {
			out = append(out, w)
		}
	}
	return out
}

// find takes the state from the cache, or else loads it.
func (r *round) find(ctx context.Context, w *work) {
	var cached bool
	if w.known, cached = r.p.cache.Get(w.runID); !cached {
		r.load(ctx, w)
	}
}

// load reads the state whole: checkpoint and tail.
func (r *round) load(ctx context.Context, w *work) {
	l, err := r.p.store.Load(ctx, w.runID)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
		w.over = true
	}
	if err != nil {
		w.end(err)
	}
	if w.over {
		return
	}
	for _, a := range l.Anomalies {
		r.p.watch.anomaly(w.runID, a)
	}
	if !l.OldestUnprojected.IsZero() {
		r.p.watch.lag(w.runID, l.Now.Sub(l.OldestUnprojected))
	}
	w.known = known{epoch: l.Epoch, state: l.State, ops: -1}
	w.tail.Head, w.tail.CheckpointAt, w.tail.PublishedSeq = l.Head, l.CheckpointAt, l.PublishedSeq
}

// readTails reads what is new of every run.
func (r *round) readTails(ctx context.Context) error {
	open := r.open()
	if len(open) == 0 {
		return nil
	}
	asked := make([]store.Known, len(open))
	for i, w := range open {
		asked[i] = store.Known{RunID: w.runID, Seq: w.known.state.Seq}
	}
	tails, err := r.p.tails(ctx, asked)
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

// fold brings every state to its head. One that the log does not continue is
// loaded: the epoch is another, the head is below it, or too much is new.
func (r *round) fold(ctx context.Context) error {
	for _, w := range r.open() {
		r.p.contain(w, func() { r.foldOne(ctx, w) })
	}
	return nil
}

func (r *round) foldOne(ctx context.Context, w *work) {
	at := w.known.state.Seq
	if n := len(w.tail.Events); n > 0 {
		at = w.tail.Events[n-1].Seq
	}
	if w.known.epoch != r.epoch || at != w.tail.Head.LastSeq {
		r.p.cache.Drop(w.runID)
		mark := w.tail.Mark
		if r.load(ctx, w); w.over {
			return
		}
		w.tail.Mark, w.tail.Events = mark, nil
	}
	r.apply(w)
	r.p.cache.Put(w.runID, w.known, len(w.known.state.Steps))
}

func (r *round) apply(w *work) {
	before := w.known.state.Seq
	if len(w.tail.Events) > 0 {
		r.p.watch.tail(w.runID, before, w.tail.Events)
		var anomalies []run.Anomaly
		w.known.state, _, anomalies = run.Fold(w.known.state, w.tail.Events)
		for _, a := range anomalies {
			r.p.watch.anomaly(w.runID, a)
		}
	}
	if w.tail.CheckpointAt >= w.tail.Head.LastSeq {
		return
	}
	for _, e := range w.tail.Events {
		if e.Seq > w.tail.CheckpointAt {
			r.p.watch.lag(w.runID, r.now.Sub(e.PersistedAt))
			return
		}
	}
}

// publish sends what a run has to say, if it has a mark and is not held back.
func (r *round) publish(ctx context.Context, w *work) error {
	mark := w.tail.Mark
	if mark == nil {
		return nil
	}
	to, ops := w.known.state.Seq, w.tail.Head.OpsRev
	if w.known.to >= to && w.known.ops >= ops { // and not recorded yet
		w.said = true
		return nil
	}
	if mark.NotBefore.After(r.now) {
		return nil
	}
	from := min(max(w.tail.PublishedSeq, w.known.to), to)
	w.message = message(w.known.epoch, ops, r.now, w.tail.Head.LastAt, w.known.state.Since(from)) // fold reached the head
	if sent, err := r.p.publish(ctx, w); !sent {
		return err
	}
	r.p.watch.latency(r.now.Sub(w.waitsSince(from)) + time.Since(r.read))
	return nil
}

// publish sends the message of w and remembers that. A refusal is no error: it is
// written down later.
func (p *Projector) publish(ctx context.Context, w *work) (sent bool, err error) {
	err = p.send(ctx, w.message)
	if errors.Is(err, live.ErrRefused) {
		w.refusal = err
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.sent, w.said = true, true
	w.known.to, w.known.ops = w.message.To, w.message.OpsRev
	p.cache.Put(w.runID, w.known, len(w.known.state.Steps))
	return true, nil
}

// waitsSince is when the first event after a seq was committed, as far as is known.
func (w *work) waitsSince(from run.Seq) time.Time {
	for _, e := range w.tail.Events {
		if e.Seq > from {
			return e.PersistedAt
		}
	}
	return w.tail.Mark.Since
}
