package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/store"
)

// AlertStore saves alerts. Raise is idempotent by the id of an alert.
type AlertStore interface {
	Raise(ctx context.Context, alerts ...store.Alert) error
}

// Alerts raises alerts and counts them. It is safe for concurrent use.
type Alerts struct {
	store   AlertStore
	counter *prometheus.CounterVec
	limiter *PerMinuteLimiter
}

// NewAlerts makes Alerts. It registers its metric with r unless r is nil.
func NewAlerts(s AlertStore, r prometheus.Registerer, now func() time.Time) *Alerts {
	return &Alerts{store: s, counter: newAlertCounter(r), limiter: NewPerMinuteLimiter(now)}
}

// IsFirst reports whether key comes for the first time within a minute. Callers use it so that a lasting condition does
// not write to the store in each round.
func (s *Alerts) IsFirst(key string) bool {
	w, known := s.limiter.Add(key)
	return !known || w.N <= 1
}

// Count counts an alert that a person raised. The caller has saved it.
func (s *Alerts) Count(level store.AlertLevel) { s.counter.WithLabelValues(string(level)).Inc() }

func newAlertCounter(r prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_alerts_total", Help: "Alerts raised about runs, by people or by dvt itself, by level.",
	}, []string{"level"})
	for _, level := range store.AlertLevels() {
		c.WithLabelValues(string(level))
	}
	if r != nil {
		r.MustRegister(c)
	}
	return c
}

// Raise saves an alert that dvt itself raises and counts it.
func (s *Alerts) Raise(ctx context.Context, a store.Alert) error {
	if err := s.store.Raise(ctx, a); err != nil {
		return err
	}
	s.Count(a.Level)
	return nil
}

// EngineActor is the actor of audit rows and alerts that dvt itself writes.
const EngineActor = "dvt"

// AlertID returns the same id for the same finding, so that repeated rounds and several servers raise one alert.
func AlertID(runID, subject, kind string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt sweep|%s|%s|%s", runID, subject, kind)).String()
}
