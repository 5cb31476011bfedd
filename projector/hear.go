package projector

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// trust is how long after the store said its epoch a message may carry it without
// asking again: a log that was replaced in between is found by the read that
// follows each message, before anything is saved (T194).
const trust = time.Second

// sighting is the epoch that the store said last.
type sighting struct {
	mu    sync.Mutex
	epoch string
	at    time.Time // when it was asked, by our clock
}

func (s *sighting) see(epoch string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.at) {
		s.epoch, s.at = epoch, at
	}
}

func (s *sighting) trusts(epoch string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch == epoch && now.Sub(s.at) < trust
}

// tails reads tails and takes note of the epoch.
func (p *Projector) tails(ctx context.Context, asked []store.Known) (store.Tails, error) {
	at := time.Now()
	out, err := p.store.Tails(ctx, asked)
	if err == nil {
		p.seen.see(out.Epoch, at)
	}
	return out, err
}

// hear folds what was told of a run on the state that is known, and reports true if
// that is all there is and nothing before it waits or is held back.
func (p *Projector) hear(w *work, n news) bool {
	if n.read {
		return false
	}
	k, cached := p.cache.Get(w.runID)
	if !cached || k.ops < 0 || k.to != k.state.Seq || !p.seen.trusts(k.epoch, time.Now()) {
		return false
	}
	evs, whole := n.after(k.state)
	if !whole || len(evs) == 0 {
		return false
	}
	var anomalies []run.Anomaly
	k.state, _, anomalies = run.Fold(k.state, evs)
	for _, a := range anomalies {
		p.watch.anomaly(w.runID, a)
	}
	p.cache.Put(w.runID, k, len(k.state.Steps))
	w.known, w.since = k, evs[0].PersistedAt
	last := evs[len(evs)-1].PersistedAt
	w.message = message(k.epoch, max(k.ops, n.ops), last, last, k.state.Since(k.to))
	return true
}

// announce publishes what was told.
func (p *Projector) announce(ctx context.Context, w *work) {
	var sent bool
	if sent, w.err = p.publish(ctx, w); sent {
		p.watch.latency(time.Since(w.woken))
	}
}
