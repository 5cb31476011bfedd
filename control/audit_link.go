package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// linkEvery is the time between two rounds of LinkAudit, linkRetry the time after a failed round.
const (
	linkEvery = time.Second
	linkRetry = 5 * time.Second
	// unlinkedAlert is the age of the oldest unlinked row above which an alert is raised.
	unlinkedAlert = 10 * time.Second
	// backlogTenants bounds the number of tenants that one round reads the backlog of.
	backlogTenants = 100
)

// LinkerStore links audit rows and reads the backlog.
type LinkerStore interface {
	LinkAudit(ctx context.Context, limit int) (int, error)
	AuditBacklog(ctx context.Context, limit int) ([]store.AuditBacklog, error)
}

// AuditLinker links audit rows to the chains of their tenants.
type AuditLinker struct {
	store   LinkerStore
	alerts  *Alerts
	metrics *auditMetrics
	now     func() time.Time
	log     *slog.Logger
}

// NewAuditLinker makes an AuditLinker. It registers its metrics with r.
func NewAuditLinker(s LinkerStore, alerts *Alerts, r prometheus.Registerer, now func() time.Time,
	log *slog.Logger) *AuditLinker {
	return &AuditLinker{store: s, alerts: alerts, metrics: newAuditMetrics(r), now: now, log: log}
}

// auditMetrics count failed rounds and measure the age of the oldest unlinked row.
type auditMetrics struct {
	failures prometheus.Counter
	unlinked prometheus.Gauge
}

func newAuditMetrics(r prometheus.Registerer) *auditMetrics {
	register := promauto.With(r)
	return &auditMetrics{
		failures: register.NewCounter(prometheus.CounterOpts{
			Name: "dvt_audit_link_failures_total", Help: "Rounds in which audit rows of some tenant could not be linked.",
		}),
		unlinked: register.NewGauge(prometheus.GaugeOpts{
			Name: "dvt_audit_unlinked_seconds", Help: "Age of the oldest audit row that waits for its link; 0 when none does.",
		}),
	}
}

// LinkAudit links audit rows to the chains of their tenants, within about a second after their commit, until ctx ends.
// Any number of servers may do it. A row that waits for longer than ten seconds, and still waits after a further round,
// raises AUDIT_UNLINKED.
func (s *AuditLinker) LinkAudit(ctx context.Context) error {
	var late map[string]bool
	for {
		wait := linkEvery
		switch n, err := s.store.LinkAudit(ctx, store.MaxPage); {
		case err != nil && ctx.Err() == nil:
			s.metrics.failures.Inc()
			if !errors.Is(err, store.ErrUnavailable) {
				s.log.WarnContext(ctx, "audit rows were not linked", slog.Any("error", err))
			}
			wait = linkRetry
		case n == store.MaxPage:
			wait = 0
		}
		var err error
		if late, err = s.measureBacklog(ctx, late); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.log.WarnContext(ctx, "the backlog of the audit was not read", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// unlinkedAlertOf is the alert about audit rows of a tenant that wait for their links.
func unlinkedAlertOf(tenantID string) store.Alert {
	return store.Alert{TenantID: tenantID, Level: store.AlertHigh, Code: run.CodeAuditUnlinked, Actor: EngineActor}
}

// measureBacklog measures how long audit rows wait for their links. It returns the tenants whose rows wait too long. It
// raises an alert for those of them that were in before, the result of the previous round, and resolves it for the
// others. After an outage of the store all rows are old, and the next round links them: nobody needs to look.
func (s *AuditLinker) measureBacklog(ctx context.Context, before map[string]bool) (late map[string]bool, err error) {
	backlog, err := s.store.AuditBacklog(ctx, backlogTenants)
	if err != nil {
		return nil, err
	}
	var oldest time.Duration
	late = map[string]bool{}
	for _, b := range backlog {
		oldest = max(oldest, b.Waiting)
		if b.Waiting < unlinkedAlert {
			continue
		}
		late[b.TenantID] = true
		if !before[b.TenantID] {
			continue
		}
		a := unlinkedAlertOf(b.TenantID)
		a.Note = fmt.Sprintf(
			"An audit row of %s has no link after %s. Look for \"audit rows were not linked\" in the log of servers with the "+
				"duty reconcile.",
			b.Oldest.UTC().Format(time.RFC3339), plan.DurationWords(b.Waiting))
		if _, err := s.alerts.Raise(ctx, a); err != nil {
			return late, err
		}
	}
	s.metrics.unlinked.Set(oldest.Seconds())
	if len(backlog) == backlogTenants || !s.alerts.IsFirst("unlinked") { // others may wait; look once a minute
		return late, nil
	}
	open, err := s.alerts.Open(ctx, run.CodeAuditUnlinked)
	if err != nil {
		return late, err
	}
	var gone []store.Alert
	for _, a := range open {
		if !late[a.TenantID] {
			gone = append(gone, a.Alert)
		}
	}
	return late, s.alerts.Resolve(ctx, "The audit rows have their links.", gone...)
}
