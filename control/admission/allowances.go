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

// Allowances knows what tenants and projects may use. It does no I/O. It is safe for concurrent use.
type Allowances struct {
	rules *Quotas
	modes *Modes
	waker *Waker
	log   *slog.Logger
	own   atomic.Pointer[map[string]*tenantQuota]
	tiers *lru.Cache[string, *tenantQuota]
}

// NewAllowances makes a Allowances.
func NewAllowances(rules *Quotas, modes *Modes, waker *Waker, log *slog.Logger) *Allowances {
	a := &Allowances{rules: rules, modes: modes, waker: waker, log: log, tiers: control.NewLRU[*tenantQuota](maxTenants)}
	a.own.Store(&map[string]*tenantQuota{})
	return a
}

// Quotas is what the operators of dvt give their tenants (§12.1).
type Quotas struct {
	// Tiers by name; DefaultTier is that of tenants which Tenants does not name.
	Tiers   map[string]Tier
	Tenants map[string]string // the tier of a tenant
	// Projects have limits beside their tenant's tier, by "tenant/project".
	Projects  map[string]QuotaLimits
	MaxActive int // runs of the whole installation that hold a place
	Strategy  store.Strategy
	TTL       time.Duration // that a run may wait
}

// maxTenants whose limits are remembered.
const maxTenants = 10_000

// DefaultTier is the tier of tenants that have no other.
const DefaultTier = "default"

// Tier is what each of its tenants may have.
type Tier struct {
	StartRunPerMinute   int `json:"startRunPerMinute"`
	HeavyStepsPerMinute int `json:"heavyStepsPerMinute"`
	SignalOpsPerMinute  int `json:"signalOpsPerMinute"`
	MaxActive           int `json:"maxActive"`     // runs that hold a place
	MaxQueueDepth       int `json:"maxQueueDepth"` // runs that wait
	Weight              int `json:"weight"`        // against other tenants while runs wait
}

// QuotaLimits are some limits; nil is none of one's own.
type QuotaLimits struct {
	StartRunPerMinute   *int `json:"startRunPerMinute,omitempty"`
	HeavyStepsPerMinute *int `json:"heavyStepsPerMinute,omitempty"`
	SignalOpsPerMinute  *int `json:"signalOpsPerMinute,omitempty"`
	MaxActive           *int `json:"maxActive,omitempty"`
	MaxQueueDepth       *int `json:"maxQueueDepth,omitempty"`
}

// The limits, in one order for all that is done with each of them.
const (
	limitStart = iota
	limitHeavy
	limitSignal
	limitActive
	limitDepth
	numLimits

	perMinute = limitSignal + 1 // the limits before it are token buckets
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

// none has no limit of its own anywhere.
func none() limits { return limits{-1, -1, -1, -1, -1} }

// tenantQuota is what holds for one tenant. It does not change.
type tenantQuota struct {
	limits   limits
	weight   int
	projects map[string]projectQuota // those that have something of their own
	strategy store.Strategy
	ttl      time.Duration
}

type projectQuota struct {
	limits limits // negative: none of its own
	weight int
}

func (t *tenantQuota) project(id string) projectQuota {
	if p, ok := t.projects[id]; ok {
		return p
	}
	return projectQuota{limits: none(), weight: 1}
}

// tier of a tenant.
func (q *Quotas) tier(tenantID string) (string, Tier) {
	name := cmp.Or(q.Tenants[tenantID], DefaultTier)
	return name, q.Tiers[name]
}

// granted is what the operators gave the projects of a tenant.
func (q *Quotas) granted(tenantID string) map[string]QuotaLimits {
	out := map[string]QuotaLimits{}
	for place, l := range q.Projects {
		if tenant, project, _ := cutPlace(place); tenant == tenantID {
			out[project] = l
		}
	}
	return out
}

// of is what holds for a tenant with the document of its own, if it has one. Whatever that
// says, it is not above the tier: what projects have of their own is taken from it in
// the order of their ids, and the tenant has what they leave.
func (q *Quotas) of(tenantID string, doc QuotaDocument) *tenantQuota {
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
		out.projects[p.ProjectID] = projectQuota{limits: none(), weight: max(p.Weight, 1)}
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

// quotaOf is what holds for a tenant now; nil: nothing is limited here. It does no I/O.
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
	q := s.rules.of(tenantID, QuotaDocument{})
	s.tiers.Add(tenantID, q)
	return q
}

// Terms is what a project may have now, and its tenant. It does no I/O.
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

func shareOf(l limits, weight int) store.Share {
	return store.Share{PerMinute: l[limitStart], MaxActive: l[limitActive], MaxWaiting: l[limitDepth], Weight: weight}
}

// SignalBucket is what a signal to a run there takes a token of (T96). It does no I/O.
func (s *Allowances) SignalBucket(tenantID, projectID string) store.Bucket {
	return s.bucket(tenantID, projectID, store.BucketSignal, limitSignal)
}

// HeavyBucket is what a heavy step takes a token of (§12.3). It does no I/O.
func (s *Allowances) HeavyBucket(tenantID, projectID string) store.Bucket {
	return s.bucket(tenantID, projectID, store.BucketHeavy, limitHeavy)
}

// bucket is the project's when it has one of its own, else its tenant's.
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

func (s *Allowances) tierOf(tenantID string) string {
	if s.rules == nil {
		return ""
	}
	name, _ := s.rules.tier(tenantID)
	return name
}
