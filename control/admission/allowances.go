package admission

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// Allowances knows the limits of tenants and projects. It does no I/O. It is safe for concurrent use.
type Allowances struct {
	rules *Quotas
	modes *Modes
	waker *Waker
	log   *slog.Logger
	own   atomic.Pointer[map[string]*tenantQuota]
	tiers *lru.Cache[string, *tenantQuota]
}

// NewAllowances makes Allowances.
func NewAllowances(rules *Quotas, modes *Modes, waker *Waker, log *slog.Logger) *Allowances {
	a := &Allowances{rules: rules, modes: modes, waker: waker, log: log, tiers: control.NewLRU[*tenantQuota](maxTenants)}
	a.own.Store(&map[string]*tenantQuota{})
	return a
}

// Quotas are the limits that the operators of dvt set for tenants.
type Quotas struct {
	// Tiers are by name. DefaultTier applies to tenants that Tenants does not name.
	Tiers   map[string]Tier
	Tenants map[string]string // name of a tier by tenant
	// Projects have limits beside the tier of their tenant, by "tenant/project".
	Projects  map[string]QuotaLimits
	MaxActive int // runs of the whole installation that hold a slot
	Strategy  store.Strategy
	TTL       time.Duration // maximum time that a run may wait
}

// maxTenants bounds the tenants whose limits are cached.
const maxTenants = 10_000

// DefaultTier is the tier of tenants without an assigned one.
const DefaultTier = "default"

// Tier has the limits of each of its tenants.
type Tier struct {
	StartRunPerMinute   int `json:"startRunPerMinute"`
	HeavyStepsPerMinute int `json:"heavyStepsPerMinute"`
	SignalOpsPerMinute  int `json:"signalOpsPerMinute"`
	MaxActive           int `json:"maxActive"`     // runs that hold a slot
	MaxQueueDepth       int `json:"maxQueueDepth"` // runs that wait
	Weight              int `json:"weight"`        // against other tenants while runs wait
}

// QuotaLimits overrides limits. A nil field inherits.
type QuotaLimits struct {
	StartRunPerMinute   *int `json:"startRunPerMinute,omitempty"`
	HeavyStepsPerMinute *int `json:"heavyStepsPerMinute,omitempty"`
	SignalOpsPerMinute  *int `json:"signalOpsPerMinute,omitempty"`
	MaxActive           *int `json:"maxActive,omitempty"`
	MaxQueueDepth       *int `json:"maxQueueDepth,omitempty"`
}

// Indices of the limits. All loops over limits use this order.
const (
	limitStart = iota
	limitHeavy
	limitSignal
	limitActive
	limitDepth
	numLimits

	perMinute = limitSignal + 1 // the limits below this index are token buckets
)

type limits [numLimits]int

func (l QuotaLimits) each() [numLimits]*int {
	return [numLimits]*int{l.StartRunPerMinute, l.HeavyStepsPerMinute, l.SignalOpsPerMinute, l.MaxActive, l.MaxQueueDepth}
}

func limitNames() [numLimits]string {
	return [numLimits]string{"startRunPerMinute", "heavyStepsPerMinute", "signalOpsPerMinute", "maxActive",
		"maxQueueDepth"}
}

func (t Tier) limits() limits {
	return limits{t.StartRunPerMinute, t.HeavyStepsPerMinute, t.SignalOpsPerMinute, t.MaxActive, t.MaxQueueDepth}
}

// noLimits returns limits that all inherit.
func noLimits() limits { return limits{-1, -1, -1, -1, -1} }

// tenantQuota has the effective limits of one tenant. It is immutable.
type tenantQuota struct {
	limits   limits
	weight   int
	projects map[string]projectQuota // projects with limits or a weight of their own
	strategy store.Strategy
	ttl      time.Duration
}

type projectQuota struct {
	limits limits // a negative limit inherits
	weight int
}

func (t *tenantQuota) project(id string) projectQuota {
	if p, ok := t.projects[id]; ok {
		return p
	}
	return projectQuota{limits: noLimits(), weight: 1}
}

// tier returns the tier of a tenant with its name.
func (q *Quotas) tier(tenantID string) (string, Tier) {
	name := cmp.Or(q.Tenants[tenantID], DefaultTier)
	return name, q.Tiers[name]
}

// granted returns the limits that the operators set for projects of a tenant, by project.
func (q *Quotas) granted(tenantID string) map[string]QuotaLimits {
	out := map[string]QuotaLimits{}
	for key, l := range q.Projects {
		if tenant, project, _ := splitProject(key); tenant == tenantID {
			out[project] = l
		}
	}
	return out
}

// effective returns the limits that apply to a tenant with its own document. The document never raises a limit above
// the tier. The limits per minute of projects are taken from the tier in the order of the project ids, and the tenant
// keeps the rest.
func (q *Quotas) effective(tenantID string, doc QuotaDocument) *tenantQuota {
	_, tier := q.tier(tenantID)
	out := &tenantQuota{limits: tier.limits(), weight: max(tier.Weight, 1), projects: map[string]projectQuota{},
		strategy: q.Strategy, ttl: q.TTL}
	if doc.Strategy != "" {
		out.strategy = doc.Strategy
	}
	if doc.TTLMS > 0 {
		out.ttl = time.Duration(doc.TTLMS) * time.Millisecond
	}
	granted := q.granted(tenantID)
	for project := range granted {
		out.projects[project] = out.project(project)
	}
	own := map[string]QuotaLimits{}
	for _, p := range doc.Projects {
		own[p.ProjectID] = p.Limits
		out.projects[p.ProjectID] = projectQuota{limits: noLimits(), weight: max(p.Weight, 1)}
	}
	for _, id := range slices.Sorted(maps.Keys(out.projects)) {
		p, given, asked := out.projects[id], granted[id].each(), own[id].each()
		for k := range numLimits {
			switch {
			case given[k] != nil:
				p.limits[k] = *given[k]
				if asked[k] != nil {
					p.limits[k] = min(*asked[k], *given[k])
				}
			case asked[k] != nil:
				p.limits[k] = min(*asked[k], out.limits[k])
				if k < perMinute {
					out.limits[k] -= p.limits[k]
				}
			}
		}
		out.projects[id] = p
	}
	for k, l := range doc.Tenant.each() {
		if l != nil {
			out.limits[k] = min(*l, out.limits[k])
		}
	}
	return out
}

// quotaOf returns the effective limits of a tenant; nil when quotas are not configured. It does no I/O.
func (s *Allowances) quotaOf(tenantID string) *tenantQuota {
	if s.rules == nil {
		return nil
	}
	if q, ok := (*s.own.Load())[tenantID]; ok {
		return q
	}
	if q, ok := s.tiers.Get(tenantID); ok {
		return q
	}
	q := s.rules.effective(tenantID, QuotaDocument{})
	s.tiers.Add(tenantID, q)
	return q
}

// Terms returns the current terms of admission for a project and its tenant. It does no I/O.
func (s *Allowances) Terms(tenantID, projectID string) store.Terms {
	out := store.Unlimited()
	if q := s.quotaOf(tenantID); q != nil {
		p := q.project(projectID)
		out = store.Terms{
			Tenant: shareOf(q.limits, q.weight), Project: shareOf(p.limits, p.weight),
			MaxActive: s.rules.MaxActive, Strategy: q.strategy, TTL: q.ttl,
		}
	}
	out.Hold = s.modes.isHolding(tenantID)
	return out
}

// WaitsUntil returns when the waiting run fails unless it is admitted before; zero: it may wait without limit. While
// the mode or a freeze holds the run, held is true and the time is unknown: its time to wait starts again when the hold
// ends, because people were told that queued runs wait. It does no I/O.
func (s *Allowances) WaitsUntil(q store.QueueRow) (until time.Time, held bool) {
	if q.ExpiresAt.IsZero() {
		return time.Time{}, false
	}
	if s.modes.isHolding(q.TenantID) {
		return time.Time{}, true
	}
	ended := s.modes.holdEnd(q.TenantID)
	if again := ended.Add(s.TimeToWait(q)); ended.After(q.CreatedAt) && again.After(q.ExpiresAt) {
		return again, false
	}
	return q.ExpiresAt, false
}

// TimeToWait returns how long a run may wait that is limited by its ExpiresAt.
func (s *Allowances) TimeToWait(q store.QueueRow) time.Duration {
	if ttl := s.Terms(q.TenantID, q.ProjectID).TTL; ttl > 0 {
		return ttl
	}
	return q.ExpiresAt.Sub(q.CreatedAt) // the limit was removed after the run was requested
}

func shareOf(l limits, weight int) store.Share {
	return store.Share{PerMinute: l[limitStart], MaxActive: l[limitActive], MaxWaiting: l[limitDepth], Weight: weight}
}

// SignalBucket returns the bucket from which a signal to a run of the project takes a token (contract T96). It does no
// I/O.
func (s *Allowances) SignalBucket(tenantID, projectID string) store.Bucket {
	return s.bucket(tenantID, projectID, store.BucketSignal, limitSignal)
}

// HeavyBucket returns the bucket from which a heavy step takes a token. It does no I/O.
func (s *Allowances) HeavyBucket(tenantID, projectID string) store.Bucket {
	return s.bucket(tenantID, projectID, store.BucketHeavy, limitHeavy)
}

// bucket returns the bucket of the project when it has its own limit, else that of its tenant.
func (s *Allowances) bucket(tenantID, projectID string, action store.BucketAction, k int) store.Bucket {
	out := store.Bucket{TenantID: tenantID, Action: action, PerMinute: -1}
	if q := s.quotaOf(tenantID); q != nil {
		out.PerMinute = q.limits[k]
		if own := q.project(projectID).limits[k]; own >= 0 {
			out.ProjectID, out.PerMinute = projectID, own
		}
	}
	return out
}

// most returns the limits of the tenant's tier; nil without quotas.
func (s *Allowances) most(tenantID string) *QuotaLimits {
	if s.rules == nil {
		return nil
	}
	_, t := s.rules.tier(tenantID)
	return &QuotaLimits{StartRunPerMinute: &t.StartRunPerMinute, HeavyStepsPerMinute: &t.HeavyStepsPerMinute,
		SignalOpsPerMinute: &t.SignalOpsPerMinute, MaxActive: &t.MaxActive, MaxQueueDepth: &t.MaxQueueDepth}
}

func (s *Allowances) tierOf(tenantID string) string {
	if s.rules == nil {
		return ""
	}
	name, _ := s.rules.tier(tenantID)
	return name
}
