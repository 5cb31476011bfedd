package retention_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// refusing is a bucket and an archive that refuse to write and delete while it is true.
type refusing struct {
	atomic.Bool
	artifact.Remover
	retention.Archive
}

func (r *refusing) Remove(ctx context.Context, s artifact.Scope, limit int) (artifact.Removed, error) {
	if r.Load() {
		return artifact.Removed{}, errors.New("the bucket denies deletion")
	}
	return r.Remover.Remove(ctx, s, limit)
}

func (r *refusing) WriteRun(ctx context.Context, runID string) (store.ArchivedRun, error) {
	if r.Load() {
		return store.ArchivedRun{}, errors.New("the archive is down")
	}
	return r.Archive.WriteRun(ctx, runID)
}

// A pass that cannot delete says since when things are late: in its record, in the metric, and by an alert after a day.
func TestPass_TellsThatItIsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Hold()
	oldRun(t, w, "old-1") // ended 100 days ago: its log was due 86 days ago, its archive 10
	bucket := &refusing{Remover: w.Artifacts, Archive: archive.Archive{Store: w.Raw, Objects: w.Artifacts}}
	registry := prometheus.NewRegistry()
	worker := retention.NewWorker(retention.WorkerConfig{Store: w.Raw, Archive: bucket, Bucket: bucket, Owner: "a",
		Alerts: w.Alerts, Now: w.Clock.Now, Metrics: registry,
		Installed: retention.Installation{RunsPerMinute: 1_000_000, Share: 1, Document: retention.DefaultDocument()}})
	pass := func() (out retention.Pass, late float64, alerts []string) {
		t.Helper()
		if err := worker.PassNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		doc := controltest.Must[json.RawMessage](t)(w.Raw.RetentionPass(t.Context(), "acme"))
		if err := json.Unmarshal(doc, &out); err != nil {
			t.Fatal(err)
		}
		open := controltest.Must[[]store.AlertState](t)(w.Raw.ListAlerts(t.Context(), store.AlertFilter{TenantID: "acme",
			States: []store.AlertStage{store.AlertOpen}, Limit: 10}))
		for _, a := range open {
			alerts = append(alerts, string(a.Code))
		}
		return out, controltest.MetricValues(t, registry)["dvt_retention_overdue_seconds"], alerts
	}
	bucket.Store(true)
	out, late, alerts := pass()
	want := w.Clock.Now().AddDate(0, 0, -86)
	if out.Failed != 2 || out.OverdueSince == nil || out.OverdueSince.Sub(want).Abs() > day/24 {
		t.Errorf("the pass failed %d times and is late since %v, want 2 and %s", out.Failed, out.OverdueSince, want)
	}
	if late < 85*86400 || late > 87*86400 {
		t.Errorf("dvt_retention_overdue_seconds is %v, want 86 days", late)
	}
	if got := strings.Join(alerts, " "); !strings.Contains(got, string(run.CodeRetentionOverdue)) ||
		!strings.Contains(got, string(run.CodeRetentionFailing)) {
		t.Errorf("open alerts are %v, want RETENTION_FAILING and RETENTION_OVERDUE", alerts)
	}
	bucket.Store(false)
	out, late, alerts = pass()
	if out.Failed != 0 || out.OverdueSince != nil || late != 0 || len(alerts) > 0 || out.Archived != 1 {
		t.Errorf("after the bucket works again: %+v, late by %v s, alerts %v; want nothing late", out, late, alerts)
	}
}
