package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

type passMetrics struct {
	runs     *prometheus.CounterVec
	bytes    prometheus.Counter
	events   prometheus.Counter
	objects  prometheus.Counter
	failures prometheus.Counter
	paused   prometheus.Counter
	ended    prometheus.Gauge
	overdue  prometheus.Gauge
}

func newPassMetrics(r prometheus.Registerer) *passMetrics {
	register := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &passMetrics{
		runs: register.NewCounterVec(prometheus.CounterOpts{Name: "dvt_retention_runs_total",
			Help: "Runs that the retention worked on, by what it did."}, []string{"outcome"}),
		bytes:    counter("dvt_retention_archived_bytes_total", "Bytes of the archives that were written."),
		events:   counter("dvt_retention_deleted_events_total", "Events of archived runs that were deleted from the store."),
		objects:  counter("dvt_retention_removed_objects_total", "Step logs and artifacts that were removed from the bucket."),
		failures: counter("dvt_retention_failures_total", "Runs that could not be archived or deleted, and steps that failed."),
		paused:   counter("dvt_retention_pauses_total", "Pauses because the projector was late."),
		ended: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_retention_pass_ended_timestamp_seconds",
			Help: "When the last pass over all tenants ended in this process; 0 before the first."}),
		overdue: register.NewGauge(prometheus.GaugeOpts{Name: "dvt_retention_overdue_seconds",
			Help: "How late the retention is: the age of the oldest thing that should be archived or deleted and could not, " +
				"or the delay of the pass; 0 in a process that does not work on it."}),
	}
}

// tellLate sets the metric of how late the retention is: the oldest thing that a pass could not do, or the pass itself.
func (w *Worker) tellLate() {
	now, late := w.cfg.Now(), time.Duration(0)
	p := w.position()
	since := w.late
	if since.IsZero() {
		since = p.LateSince
	}
	if !since.IsZero() {
		late = now.Sub(since)
	}
	if !p.EndedAt.IsZero() {
		late = max(late, now.Sub(p.EndedAt)-w.cfg.Installed.Every)
	}
	w.metrics.overdue.Set(max(0, late.Seconds()))
}

func (w *Worker) count(p *Pass) {
	w.metrics.runs.WithLabelValues("archived").Add(float64(p.Archived))
	w.metrics.runs.WithLabelValues("deleted").Add(float64(p.Deleted))
	w.metrics.runs.WithLabelValues("held").Add(float64(p.Held))
	w.metrics.runs.WithLabelValues("waiting").Add(float64(p.Waiting))
	w.metrics.bytes.Add(float64(p.Bytes))
	w.metrics.events.Add(float64(p.Events))
	w.metrics.objects.Add(float64(p.Objects))
	w.metrics.failures.Add(float64(p.Failed))
}

// audit writes what a pass deleted.
func (w *Worker) audit(ctx context.Context, tenant string, p *Pass) error {
	if p.Archived+p.Deleted+p.Receipts+p.Rows+p.Objects == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]int64{"archived": p.Archived, "deleted": p.Deleted, "events": p.Events,
		"receipts": p.Receipts, "objects": p.Objects, "rows": p.Rows})
	if err != nil {
		return err
	}
	return w.cfg.Store.Audit(ctx, store.AuditRow{ID: uuid.NewString(), TenantID: tenant, Actor: control.EngineActor,
		Action: ActionRetain, Outcome: "ACCEPTED", Detail: detail})
}

// alert raises or resolves the alert about the retention of a tenant.
func (w *Worker) alert(ctx context.Context, p *passOf) error {
	if w.cfg.Alerts == nil || ctx.Err() != nil {
		return nil //nolint:nilerr // the process ends
	}
	if err := w.alertLate(ctx, p); err != nil {
		return err
	}
	a := store.Alert{TenantID: p.tenant, Level: store.AlertMedium, Code: run.CodeRetentionFailing, Subject: "retention"}
	if p.out.Failed == 0 {
		return w.cfg.Alerts.Resolve(ctx, "A pass ended without a failure.", a)
	}
	a.Note = fmt.Sprintf("The last pass of the retention had %s, and what failed is kept. The first failure: %s",
		control.Plural(int(p.out.Failed), "failure", "failures"), run.Text(p.out.Error, 500))
	_, err := w.cfg.Alerts.Raise(ctx, a)
	return err
}

// alertLate raises or resolves the alert about things that are kept for much longer than the policy says.
func (w *Worker) alertLate(ctx context.Context, p *passOf) error {
	a := store.Alert{TenantID: p.tenant, Level: store.AlertHigh, Code: run.CodeRetentionOverdue, Subject: "retention"}
	since := p.out.OverdueSince
	if since == nil || p.now.Sub(*since) <= w.cfg.Installed.OverdueAfter {
		return w.cfg.Alerts.Resolve(ctx, "Nothing is late any more.", a)
	}
	a.Note = fmt.Sprintf("Something that the policy no longer keeps is late since %s and still there. The first failure of "+
		"the last pass: %s", since.UTC().Format("2006-01-02 15:04 UTC"), run.Text(p.out.Error, 500))
	_, err := w.cfg.Alerts.Raise(ctx, a)
	return err
}
