package project

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// round is one projection of several runs.
type round struct {
	p     *Projector
	works []*work
	sent  []store.PublishedTo // published, and not recorded yet

	epoch string
	now   time.Time // the store's clock
	read  time.Time // when it said so, by ours
}

// work is one run of a round.
type work struct {
	runID string
	known known
	tail  store.Tail
	over  bool // nothing is left to do for it
	sent  bool // a message went out
	err   error
}

func (w *work) end(err error) { w.over, w.err = true, err }

// round projects runs: fold, save if newer, publish. It records what earlier
// rounds published, and leaves what it published itself for the next (T189).
func (p *Projector) round(ctx context.Context, runIDs []string, sent []store.PublishedTo) *round {
	r := &round{p: p, sent: sent, works: make([]*work, len(runIDs))}
	for i, runID := range runIDs {
		r.works[i] = &work{runID: runID}
		r.find(ctx, r.works[i])
	}
	for _, step := range []func(context.Context) error{r.readTails, r.fold, r.save} {
		if err := step(ctx); err != nil {
			for _, w := range r.open() {
				w.end(err)
			}
			return r
		}
	}
	for _, w := range r.open() {
		w.end(r.publish(ctx, w))
	}
	return r
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
	if w.known, cached = r.p.cache.get(w.runID); !cached {
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
	tails, err := r.p.store.Tails(ctx, asked)
	if err != nil {
		return err
	}
	r.epoch, r.now, r.read = tails.Epoch, tails.Now, time.Now()
	for _, w := range open {
		tail, found := tails.ByRun[w.runID]
		if !found {
			r.p.cache.drop(w.runID)
			w.end(nil)
			continue
		}
		w.tail = tail
	}
	return nil
}

// fold brings every state to its head. One that the log does not continue is
// loaded: the epoch is another, the head is below it, or too much is new.
func (r *round) fold(ctx context.Context) error {
	for _, w := range r.open() {
		at := w.known.state.Seq
		if n := len(w.tail.Events); n > 0 {
			at = w.tail.Events[n-1].Seq
		}
		if w.known.epoch != r.epoch || at != w.tail.Head.LastSeq {
			r.p.cache.drop(w.runID)
			mark := w.tail.Mark
			if r.load(ctx, w); w.over {
				continue
			}
			w.tail.Mark, w.tail.Events = mark, nil
		}
		r.apply(w)
		r.p.cache.put(w.runID, w.known)
	}
	return nil
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

// save writes the newer checkpoints, and records what earlier rounds published.
// When one cannot be written, the others are.
func (r *round) save(ctx context.Context) error {
	var saving []store.Saving
	var of []*work
	for _, w := range r.open() {
		if w.tail.CheckpointAt < w.known.state.Seq {
			saving, of = append(saving, store.Saving{State: w.known.state, Over: w.tail.CheckpointAt}), append(of, w)
		}
	}
	if len(saving)+len(r.sent) == 0 {
		return nil
	}
	_, err := r.p.store.Advance(ctx, r.sent, saving)
	if err == nil {
		r.sent = nil
		return nil
	}
	if len(saving) < 2 || ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) {
		return err
	}
	for i, w := range of {
		if _, err := r.p.store.Advance(ctx, nil, saving[i:i+1]); err != nil {
			w.end(err)
		}
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

// publish sends what a run has to say, if it has a mark and is not held back.
func (r *round) publish(ctx context.Context, w *work) error {
	mark := w.tail.Mark
	if mark == nil {
		return nil
	}
	to, ops := w.known.state.Seq, w.tail.Head.OpsRev
	if w.known.to >= to && w.known.ops >= ops { // and not recorded yet
		r.sent = append(r.sent, store.PublishedTo{RunID: w.runID, To: to, OpsRev: ops})
		return nil
	}
	if mark.NotBefore.After(r.now) {
		return nil
	}
	from := min(max(w.tail.PublishedSeq, w.known.to), to)
	m := message(w.known.epoch, ops, r.now, w.known.state.Since(from))
	err := r.p.send(ctx, m)
	switch {
	case errors.Is(err, live.ErrRefused):
		return r.p.refused(ctx, m, mark.Attempts, err)
	case err != nil:
		return err
	}
	w.sent = true
	w.known.to, w.known.ops = to, ops
	r.p.cache.put(w.runID, w.known)
	r.sent = append(r.sent, store.PublishedTo{RunID: w.runID, To: to, OpsRev: ops})
	r.p.watch.latency(r.now.Sub(w.waitsSince(from)) + time.Since(r.read))
	return nil
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

func message(epoch string, ops int64, at time.Time, d run.Delta) live.Message {
	return live.Message{
		V: live.MessageVersion, TenantID: d.Header.TenantID, ProjectID: d.Header.ProjectID, RunID: d.Header.RunID,
		Epoch: epoch, Rev: run.ReducerRev, From: d.From, To: d.To, OpsRev: ops, At: at, Delta: &d,
	}
}

// errBus says that the bus cannot be used, or that the breaker thinks so.
var errBus = errors.New("project: the bus cannot be used")

// publishTime bounds one message.
const publishTime = 5 * time.Second

// send gives a message to the bus if the breaker lets it. An error wraps errBus,
// live.ErrRefused, or that of ctx.
func (p *Projector) send(ctx context.Context, m live.Message) error {
	if !p.breaker.allow(time.Now(), p.bus.Up()) {
		return errBus
	}
	within, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	err := p.bus.Publish(within, m)
	switch {
	case err != nil && ctx.Err() != nil:
		p.breaker.abandon(time.Now())
		return ctx.Err()
	case err == nil || errors.Is(err, live.ErrRefused):
		if err != nil {
			p.watch.failure()
		}
		if p.breaker.succeed() {
			p.cfg.Logger.InfoContext(ctx, "the bus is back: breaker closed")
		}
		return err
	}
	p.watch.failure()
	if p.breaker.fail(time.Now(), p.bus.Up()) {
		p.cfg.Logger.WarnContext(ctx, "the bus cannot be used: breaker open", slog.Any("error", err))
	}
	return errors.Join(errBus, err)
}
