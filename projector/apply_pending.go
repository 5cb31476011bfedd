package projector

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// epochTrust is how long a message may use an epoch after the store reported it. A log that was replaced meanwhile is
// found by the read that follows each message, before anything is saved (contract T194).
const epochTrust = time.Second

// epochSeen is the last epoch that the store reported.
type epochSeen struct {
	mu    sync.Mutex
	epoch string
	at    time.Time // local time of the request
}

func (s *epochSeen) observe(epoch string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.at) {
		s.epoch, s.at = epoch, at
	}
}

func (s *epochSeen) isRecent(epoch string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch == epoch && now.Sub(s.at) < epochTrust
}

// loadTails reads tails and notes the epoch.
func (p *Projector) loadTails(ctx context.Context, asked []store.TailRequest) (store.Tails, error) {
	at := time.Now()
	out, err := p.store.Tails(ctx, asked)
	if err == nil {
		p.epoch.observe(out.Epoch, at)
	}
	return out, err
}

// applyPending folds the events reported by wakes onto the cached state. It returns false if the log must be read:
// events are missing, the state is not cached, or earlier messages are not published yet.
func (p *Projector) applyPending(w *runWork, pending pendingEvents) bool {
	if pending.mustRead {
		return false
	}
	k, cached := p.cache.Get(w.runID)
	if !cached || k.ops < 0 || k.to != k.state.Seq || !p.epoch.isRecent(k.epoch, time.Now()) {
		return false
	}
	evs, whole := pending.after(k.state)
	if !whole || len(evs) == 0 {
		return false
	}
	var anomalies []run.Anomaly
	k.state, _, anomalies = run.Fold(k.state, evs)
	for _, a := range anomalies {
		p.monitor.reportAnomaly(w.runID, a)
	}
	p.cache.Put(w.runID, k, len(k.state.Steps))
	w.state, w.since = k, evs[0].PersistedAt
	last := evs[len(evs)-1].PersistedAt
	w.message = newMessage(k.epoch, max(k.ops, pending.ops), last, last, k.state.Since(k.to))
	return true
}

// publishApplied publishes the result of applyPending.
func (p *Projector) publishApplied(ctx context.Context, w *runWork) {
	var sent bool
	if sent, w.err = p.publish(ctx, w); sent {
		p.monitor.observePublished(w.message, time.Since(w.woken))
	}
}
