package watch

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/store"
)

// alertsPoll is how often a server asks the store whether alerts have changed while somebody watches them.
const alertsPoll = time.Second

// alertsRecount is how long a count is kept without a change, because a silence ends without one.
const alertsRecount = 15 * time.Second

// maxAlertCounts bounds the counts that are kept for scopes.
const maxAlertCounts = 1000

// AlertsFrame says that alerts may have changed.
type AlertsFrame struct {
	Sync   live.Sync
	Reason live.Reason
	Count  int  // as reads.AlertDesk.CountOpenAlerts returns it
	Known  bool // Count could be read
}

// AlertRevs reads the number that grows with each change of an alert.
type AlertRevs interface {
	AlertsRev(ctx context.Context) (int64, error)
}

// AlertWatcher opens streams of changes of alerts. Its viewers share one query a second for all alerts, and one count
// for each scope and change. It is safe for concurrent use.
type AlertWatcher struct {
	rights *control.Rights
	store  AlertRevs
	desk   *reads.AlertDesk
	quiet  time.Duration
	shared alertCounts
}

// alertCounts is the newest answer of the store, which all streams share.
type alertCounts struct {
	mu     sync.Mutex
	at     time.Time // of the newest query
	rev    int64
	err    error
	counts map[string]int // by scope, of rev
	fresh  time.Time      // when counts was emptied
}

// NewAlertWatcher makes an AlertWatcher.
func NewAlertWatcher(rights *control.Rights, store AlertRevs, desk *reads.AlertDesk,
	quiet time.Duration) *AlertWatcher {
	return &AlertWatcher{rights: rights, store: store, desk: desk, quiet: quiet}
}

// WatchAlerts returns a stream that sends a frame at first, after each change of alerts or silences, and at least once
// in the quiet interval. A change may be one that p may not see. Error: FORBIDDEN for a caller who may read nothing.
func (s *AlertWatcher) WatchAlerts(ctx context.Context, p authz.Principal) (control.Stream[AlertsFrame], error) {
	w := &alertStream{s: s, guard: s.rights.GuardTenant(p), p: p}
	if err := w.guard.Check(); err != nil {
		return nil, w.guard.EndError(ctx, err)
	}
	return w, nil
}

// look returns the newest number of changes and the count of a scope. Calls within alertsPoll share one query.
func (s *AlertWatcher) look(ctx context.Context, f store.AlertFilter) (rev int64, count int, err error) {
	key, err := json.Marshal(f)
	if err != nil {
		return 0, 0, err
	}
	now := &s.shared
	now.mu.Lock()
	defer now.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, inboxRead)
	defer cancel()
	if time.Since(now.at) >= alertsPoll {
		rev, err := s.store.AlertsRev(ctx)
		if rev != now.rev || len(now.counts) >= maxAlertCounts || time.Since(now.fresh) >= alertsRecount {
			now.counts, now.fresh = map[string]int{}, time.Now()
		}
		now.at, now.err = time.Now(), err
		if err == nil {
			now.rev = rev
		}
	}
	if now.err != nil {
		return 0, 0, now.err
	}
	count, known := now.counts[string(key)]
	if !known {
		if count, err = s.desk.CountIn(ctx, f); err != nil {
			return 0, 0, err
		}
		now.counts[string(key)] = count
	}
	return now.rev, count, nil
}

// alertStream is one viewer's stream. One goroutine calls Next.
type alertStream struct {
	s     *AlertWatcher
	guard control.Guard
	p     authz.Principal

	last  time.Time // time of the last frame
	rev   int64     // of the last frame
	shown AlertsFrame
}

// Next implements control.Stream.
func (w *alertStream) Next(ctx context.Context) (f AlertsFrame, err error) {
	err = w.guard.Wait(ctx, func(ctx context.Context) (err error) {
		f, err = w.next(ctx)
		return err
	})
	return f, err
}

func (w *alertStream) next(ctx context.Context) (AlertsFrame, error) {
	for {
		rev, count, err := w.s.look(ctx, w.s.desk.AlertScope(w.p))
		if ctx.Err() != nil {
			return AlertsFrame{}, ctx.Err()
		}
		f := AlertsFrame{Sync: live.Live, Count: count, Known: true}
		if err != nil {
			f = AlertsFrame{Sync: live.Stale, Reason: live.StoreDown, Count: w.shown.Count, Known: w.shown.Known}
			rev = w.rev
		}
		// A silence ends without a change, so the count counts as one too.
		if w.last.IsZero() || rev != w.rev || f != w.shown || time.Since(w.last) >= w.s.quiet {
			w.last, w.rev, w.shown = time.Now(), rev, f
			return f, nil
		}
		select {
		case <-ctx.Done():
			return AlertsFrame{}, ctx.Err()
		case <-time.After(alertsPoll):
		}
	}
}

// Close implements control.Stream.
func (w *alertStream) Close() {}
