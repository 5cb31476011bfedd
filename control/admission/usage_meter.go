package admission

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// UsageStore reads what tenants use.
type UsageStore interface {
	Usage(ctx context.Context, tenantID string) (store.Usage, error)
	DueStarts(ctx context.Context) (int64, error)
	Dirty(ctx context.Context, minAge time.Duration, limit int) ([]store.DirtyRun, error)
}

// UsageMeter shows and measures what tenants use. It is safe for concurrent use.
type UsageMeter struct {
	rights     *control.Rights
	store      UsageStore
	allowances *Allowances
	metrics    *Metrics
	backlogs   Backlogs    // nil when the engine cannot tell
	full       *fullQueues // only MeasureQuotas uses it
}

// NewUsageMeter makes a UsageMeter.
func NewUsageMeter(rights *control.Rights, store UsageStore, allowances *Allowances, metrics *Metrics,
	alerts *control.Alerts, backlogs Backlogs) *UsageMeter {
	return &UsageMeter{rights: rights, store: store, allowances: allowances, metrics: metrics, backlogs: backlogs,
		full: newFullQueues(alerts)}
}

// QuotaSnapshot has the limits and the use of a tenant or of one of its projects.
type QuotaSnapshot struct {
	ProjectID         string // "": the whole tenant
	Buckets           []BucketSnapshot
	Active, MaxActive int
	Depth, MaxDepth   int
}

// BucketSnapshot is a token bucket.
type BucketSnapshot struct {
	Action      store.BucketAction
	PerMinute   int
	Remaining   int
	UsedPercent float64
	// NextRefill is the time of the next token; zero when the bucket is full or never refills.
	NextRefill time.Time
}

// Quotas reads the limits and the use of the caller's tenant, and then of its projects that have limits of their own
// and that p may READ. It returns nothing for a caller who may read nothing, or when quotas are not configured. A
// negative limit is no limit.
func (s *UsageMeter) Quotas(ctx context.Context, p authz.Principal) ([]QuotaSnapshot, error) {
	scope, ok := s.rights.Narrow(p, control.RunFilter{})
	q := s.allowances.quotaOf(p.TenantID)
	if !ok || q == nil {
		return nil, nil
	}
	u, err := s.store.Usage(ctx, p.TenantID)
	if err != nil {
		return nil, control.Translate(err)
	}
	out := []QuotaSnapshot{snapshot("", q.limits, q.limits, u.Tenant, u.Now)}
	for _, id := range slices.Sorted(maps.Keys(q.projects)) {
		if project := q.projects[id]; project.limits != noLimits() && (scope.ProjectIDs == nil ||
			slices.Contains(scope.ProjectIDs, id)) {
			out = append(out, snapshot(id, project.limits, q.limits, u.Projects[id], u.Now))
		}
	}
	return out, nil
}

// snapshot returns the buckets of the own limits, and the effective caps of runs.
func snapshot(projectID string, own, tenant limits, u store.LaneUsage, now time.Time) QuotaSnapshot {
	least := func(k int) int {
		if own[k] < 0 {
			return tenant[k]
		}
		return min(own[k], tenant[k])
	}
	out := QuotaSnapshot{
		ProjectID: projectID, Active: int(u.Active), MaxActive: least(limitActive), Depth: int(u.Waiting),
		MaxDepth: least(limitDepth),
	}
	for k, action := range []store.BucketAction{store.BucketStart, store.BucketHeavy, store.BucketSignal} {
		if own[k] >= 0 {
			out.Buckets = append(out.Buckets, bucketSnapshot(action, own[k], u.Full[action], now))
		}
	}
	return out
}

// bucketSnapshot computes the state of a bucket of perMinute tokens from the time at which it is full again.
func bucketSnapshot(action store.BucketAction, perMinute int, full, now time.Time) BucketSnapshot {
	b := BucketSnapshot{Action: action, PerMinute: perMinute, UsedPercent: 100}
	if perMinute == 0 {
		return b
	}
	every, missing := time.Minute/time.Duration(perMinute), max(full.Sub(now), 0)
	taken := int((missing + every - 1) / every)
	b.Remaining = max(perMinute-taken, 0)
	b.UsedPercent = math.Min(100*float64(missing)/float64(time.Minute), 100)
	if taken > 0 {
		b.NextRefill = full.Add(-time.Duration(taken-1) * every)
	}
	return b
}

// MeasureQuotas updates the metrics of quotas, of due starts, of overdue projections and of the engine's queues every
// 10 s until ctx ends, and raises an alert about each full queue of runs (QUEUE_FULL). It reads only tenants that were
// busy on this server within busyFor, at most maxTenantLabels, to bound the load.
func (s *UsageMeter) MeasureQuotas(ctx context.Context) error {
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.measureQuotas(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			s.rights.Log.WarnContext(ctx, "the metrics of quotas were not updated; the next tick tries again",
				slog.Any("error", err))
		}
	}
}

func (s *UsageMeter) measureQuotas(ctx context.Context) error {
	due, err := s.store.DueStarts(ctx)
	if err != nil {
		return err
	}
	for _, g := range s.metrics.pending {
		g.Set(float64(due))
	}
	overdue, err := s.store.Dirty(ctx, overdueAge, maxOverdue)
	if err != nil {
		return err
	}
	s.metrics.unprojected.Set(float64(len(overdue)))
	if s.backlogs != nil {
		s.metrics.backlog.measure(ctx, s.backlogs, s.rights.Now())
	}
	s.metrics.updateWaits(s.rights.Now())
	busy, idle := s.metrics.busy()
	for _, tenant := range idle {
		s.metrics.forget(tenant)
	}
	for _, tenant := range busy {
		u, err := s.store.Usage(ctx, tenant)
		if err != nil {
			return err
		}
		s.metrics.depth.WithLabelValues(tenant, string(store.BucketStart)).Set(float64(u.Tenant.Waiting))
		if u.Tenant.Waiting > 0 {
			s.metrics.Label(tenant) // a tenant with waiting runs counts as busy
		}
		if q := s.allowances.quotaOf(tenant); q != nil {
			for _, b := range snapshot("", q.limits, q.limits, u.Tenant, u.Now).Buckets {
				s.metrics.used.WithLabelValues(tenant, string(b.Action)).Set(b.UsedPercent)
			}
			if err := s.full.check(ctx, tenant, q, u); err != nil {
				return err
			}
		}
	}
	return nil
}
