package control

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AlertStore opens, updates and resolves alerts.
type AlertStore interface {
	RaiseAlert(ctx context.Context, a store.Alert) (store.AlertRaised, error)
	ResolveAlerts(ctx context.Context, fingerprints []string, why string) ([]store.AlertState, error)
	ResolveEndedAlerts(ctx context.Context, why string) ([]store.AlertState, error)
	ListOpenAlerts(ctx context.Context, codes []run.Code, limit int) ([]store.AlertState, error)
}

// raiseAgain is the time after which a process tells the store again that it still finds a state. Rounds in between
// cost no write.
const raiseAgain = time.Minute

// maxRecent bounds the findings that a process remembers. A forgotten one costs a write earlier.
const maxRecent = 10_000

// Alerts is the port through which everything of dvt raises and resolves alerts. Each opening and each end is one line
// of the log. It is safe for concurrent use.
type Alerts struct {
	store   AlertStore
	counter *prometheus.CounterVec
	limiter *PerMinuteLimiter
	recent  *lru.Cache[string, time.Time] // by fingerprint: when this process told the store last
	now     func() time.Time
	log     *slog.Logger
}

// NewAlerts makes Alerts. It registers its metric with r unless r is nil.
func NewAlerts(s AlertStore, r prometheus.Registerer, now func() time.Time, log *slog.Logger) *Alerts {
	return &Alerts{store: s, counter: newAlertCounter(r), limiter: NewPerMinuteLimiter(now),
		recent: NewLRU[time.Time](maxRecent), now: now, log: log}
}

// IsFirst reports whether key comes for the first time within a minute. Callers use it so that a lasting condition does
// not write to the store in each round.
func (s *Alerts) IsFirst(key string) bool {
	w, known := s.limiter.Add(key)
	return !known || w.N <= 1
}

func newAlertCounter(r prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_alerts_total", Help: "Alerts opened by people or by dvt itself, by level.",
	}, []string{"level"})
	for _, level := range store.AlertLevels() {
		c.WithLabelValues(string(level))
	}
	if r != nil {
		r.MustRegister(c)
	}
	return c
}

// Raise opens an alert, or tells the store that its state still lasts, at most once a minute. The returned State is
// zero when the store was not told.
func (s *Alerts) Raise(ctx context.Context, a store.Alert) (store.AlertRaised, error) {
	a.Actor = cmp.Or(a.Actor, EngineActor)
	if s.IsRecent(a) {
		return store.AlertRaised{}, nil
	}
	out, err := s.store.RaiseAlert(ctx, a)
	if err != nil {
		return out, err
	}
	s.recent.Add(a.Fingerprint(), s.now())
	if out.Opened {
		s.NoteOpened(ctx, out.State.Alert)
	}
	return out, nil
}

// IsRecent reports whether this process told the store about the alert within the last minute.
func (s *Alerts) IsRecent(a store.Alert) bool {
	last, known := s.recent.Get(a.Fingerprint())
	return known && s.now().Sub(last) < raiseAgain
}

// NoteOpened counts and logs an alert whose opening the caller has saved.
func (s *Alerts) NoteOpened(ctx context.Context, a store.Alert) {
	s.counter.WithLabelValues(string(a.Level)).Inc()
	level := slog.LevelInfo
	switch a.Level {
	case store.AlertHigh:
		level = slog.LevelError
	case store.AlertMedium:
		level = slog.LevelWarn
	}
	s.log.LogAttrs(ctx, level, "an alert was raised", append(alertAttrs(a), slog.String("actor", a.Actor),
		slog.String("why", a.Note))...)
}

// alertAttrs returns the ids of an alert that are set. The code of a person's escalation is the name of its signal, as
// in lists and messages, so that a filter of the log can name it.
func alertAttrs(a store.Alert) []slog.Attr {
	out := []slog.Attr{slog.String("alertId", a.ID), slog.String("severity", string(a.Level))}
	for _, x := range [...][2]string{{"code", cmp.Or(string(a.Code), "ESCALATE_ALERT")}, {"tenantId", a.TenantID},
		{"projectId", a.ProjectID}, {"runId", a.RunID}, {"stepId", a.StepID}, {"subject", a.Subject}} {
		if x[1] != "" {
			out = append(out, slog.String(x[0], x[1]))
		}
	}
	return out
}

// Resolve ends the open alerts of these states. An alert that is not open is no error.
func (s *Alerts) Resolve(ctx context.Context, why string, alerts ...store.Alert) error {
	if len(alerts) == 0 {
		return nil
	}
	fingerprints := make([]string, len(alerts))
	for i, a := range alerts {
		fingerprints[i] = a.Fingerprint()
		s.recent.Remove(fingerprints[i])
	}
	ended, err := s.store.ResolveAlerts(ctx, fingerprints, why)
	s.noteResolved(ctx, ended)
	return err
}

// ResolveEnded ends the open alerts about runs that have ended.
func (s *Alerts) ResolveEnded(ctx context.Context) error {
	ended, err := s.store.ResolveEndedAlerts(ctx, "The run has ended.")
	s.noteResolved(ctx, ended)
	return err
}

func (s *Alerts) noteResolved(ctx context.Context, ended []store.AlertState) {
	for _, a := range ended {
		s.recent.Remove(a.Fingerprint())
		s.log.LogAttrs(ctx, slog.LevelInfo, "an alert is resolved", append(alertAttrs(a.Alert),
			slog.Int64("count", a.Count), slog.String("why", a.Resolution))...)
	}
}

// Open lists open alerts with these codes, of every tenant.
func (s *Alerts) Open(ctx context.Context, codes ...run.Code) ([]store.AlertState, error) {
	return s.store.ListOpenAlerts(ctx, codes, store.MaxPage)
}

// EngineActor is the actor of audit rows and alerts that dvt itself writes.
const EngineActor = "dvt"

// AlertID returns the same id for the same finding, so that repeated rounds and several servers write one audit row.
func AlertID(runID, subject, kind string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "dvt sweep|%s|%s|%s", runID, subject, kind)).String()
}
