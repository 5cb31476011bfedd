package erasing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Ages of a request that is not carried out. People have the rest of Deadline to act.
const (
	LateAfter   = 3 * 24 * time.Hour  // an alert of level MEDIUM
	UrgentAfter = 20 * 24 * time.Hour // an alert of level HIGH, which opens an incident
)

const (
	watchEvery = time.Minute
	// maxWatched bounds the requests that one round reads.
	maxWatched = 2_000
)

// States of requests that have not begun, for the metric. One that has begun has the name of its phase.
const (
	stateAsked     = "ASKED"
	stateExpired   = "EXPIRED"
	stateHeld      = "HELD"
	stateConfirmed = "CONFIRMED"
)

// WatchStore reads the open erasures of all tenants.
type WatchStore interface {
	Erasures(ctx context.Context, f store.ErasureFilter) ([]store.Erasure, error)
	waitReads
}

// ErasureWatcher measures open erasures, and asks people to look at those that stand still. It is safe for concurrent
// use; several processes raise each alert once.
type ErasureWatcher struct {
	store   WatchStore
	alerts  *control.Alerts
	now     func() time.Time
	log     *slog.Logger
	metrics watchMetrics
}

type watchMetrics struct {
	open           *prometheus.GaugeVec
	oldest, erased prometheus.Gauge
}

// NewErasureWatcher makes an ErasureWatcher and registers its metrics.
func NewErasureWatcher(s WatchStore, alerts *control.Alerts, r prometheus.Registerer, now func() time.Time,
	log *slog.Logger) *ErasureWatcher {
	register := promauto.With(r)
	return &ErasureWatcher{
		store: s, alerts: alerts, now: now, log: log,
		metrics: watchMetrics{
			open: register.NewGaugeVec(prometheus.GaugeOpts{Name: "dvt_erasures_open",
				Help: "Erasures that have not ended, by phase."}, []string{"phase"}),
			oldest: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_erasure_oldest_seconds",
				Help: "Age of the oldest request to erase that has not ended; 0 without one."}),
			erased: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_erasure_erased",
				Help: "Rows, objects and keys that the erasures under way have erased so far."}),
		},
	}
}

// WatchErasures looks each minute until ctx ends.
func (w *ErasureWatcher) WatchErasures(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.LookAtErasures(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			w.log.WarnContext(ctx, "open erasures were not looked at; dvt tries again", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchEvery):
		}
	}
	return nil
}

// LookAtErasures measures the open erasures once, raises the alert ERASURE_DELAYED for those that stand still, and
// resolves it for the others. One process calls it at a time.
func (w *ErasureWatcher) LookAtErasures(ctx context.Context) error {
	open, err := w.read(ctx)
	if err != nil {
		return err
	}
	phases, now := map[string]int{}, w.now()
	var oldest time.Duration
	var erased int64
	late := map[string]bool{}
	for _, e := range open {
		seen, err := look(ctx, w.store, e, now)
		if err != nil {
			return err
		}
		phases[phaseOf(seen)]++
		age := now.Sub(e.RequestedAt)
		oldest = max(oldest, age)
		for place, n := range e.Counts {
			if place != "bucket bytes" {
				erased += n
			}
		}
		if age < LateAfter {
			continue
		}

		late[e.ID] = true
		if _, err := w.alerts.Raise(ctx, delayedAlert(seen, age)); err != nil {
			return err
		}
	}
	w.metrics.open.Reset()
	for phase, n := range phases {
		w.metrics.open.WithLabelValues(phase).Set(float64(n))
	}
	w.metrics.oldest.Set(oldest.Seconds())
	w.metrics.erased.Set(float64(erased))
	return w.resolve(ctx, late)
}

func (w *ErasureWatcher) read(ctx context.Context) (out []store.Erasure, err error) {
	f := store.ErasureFilter{Open: true, Limit: store.MaxPage}
	for len(out) < maxWatched {
		page, err := w.store.Erasures(ctx, f)
		if err != nil {
			return nil, err
		}
		if out = append(out, page...); len(page) < f.Limit {
			break
		}
		f.Before = page[len(page)-1].Pos
	}
	return out, nil
}

// resolve ends the alerts of erasures that are no longer late, also those that another process raised.
func (w *ErasureWatcher) resolve(ctx context.Context, late map[string]bool) error {
	opened, err := w.alerts.Open(ctx, run.CodeErasureDelayed)
	if err != nil {
		return err
	}
	var over []store.Alert
	for _, a := range opened {
		if !late[a.Subject] {
			over = append(over, a.Alert)
		}
	}
	return w.alerts.Resolve(ctx, "The erasure has ended or was cancelled.", over...)
}

func phaseOf(e Erasure) string {
	switch {
	case e.StartedAt != nil:
		return e.Phase
	case e.Waits == WaitRepeat:
		return stateExpired
	case e.Waits == WaitHold:
		return stateHeld
	case e.ConfirmedAt != nil:
		return stateConfirmed
	}
	return stateAsked
}

// openText names the first things that an erasure waits for.
func openText(e Erasure) string {
	const most = 3
	var names []string
	for _, o := range e.Open[:min(len(e.Open), most)] {
		if o.BulkID != "" {
			names = append(names, "bulk "+o.BulkID)
		} else {
			names = append(names, "run "+o.Run.RunID)
		}
	}
	if more := e.OpenCount - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// delayedAlert returns the alert about an erasure that stands still. It names the erasure, and nobody.
func delayedAlert(e Erasure, age time.Duration) store.Alert {
	a := store.Alert{TenantID: e.TenantID, Level: store.AlertMedium, Code: run.CodeErasureDelayed, Subject: e.ID}
	if age >= UrgentAfter {
		a.Level = store.AlertHigh
	}
	why := map[Wait]string{
		WaitPerson: "Another person has to confirm it.",
		WaitRepeat: "Nobody confirmed it in time, so nothing will be erased. Ask again, and cancel this request.",
		WaitHold:   fmt.Sprintf("%d legal holds forbid it. Lift them, or cancel the request.", e.Holds),
		WaitOwner:  "The owner of the database has to carry it out: dvt store erase " + e.ID + ".",
		WaitOpen: fmt.Sprintf("It waits for %s to end that name the person: %s. Then run dvt store erase %s again.",
			control.Plural(e.OpenCount, "open run or bulk", "open runs and bulks"), openText(e), e.ID),
		WaitNothing: "It has begun, is in the phase " + e.Phase + ", and has not ended. Run dvt store erase " + e.ID +
			" again; it continues there.",
	}
	a.Note = fmt.Sprintf("An erasure was asked for %d days ago and has to end %s. %s", int(age.Hours()/24),
		e.DueAt.UTC().Format("on 2 January 2006"), why[e.Waits])
	return a
}
