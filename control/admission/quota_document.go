package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// QuotaDocument has the limits that a tenant's Admin sets, within its tier.
type QuotaDocument struct {
	Tenant   QuotaLimits    `json:"tenant"`
	Projects []ProjectQuota `json:"projects"`
	Strategy store.Strategy `json:"strategy,omitempty"` // "" means that of the installation
	TTLMS    int64          `json:"ttlMs,omitempty"`    // 0 means that of the installation
}

// ProjectQuota has the limits of a project. A project with its own limit per minute uses no tokens of its tenant.
type ProjectQuota struct {
	ProjectID string      `json:"projectId"`
	Limits    QuotaLimits `json:"limits"`
	Weight    int         `json:"weight"`
}

// Strategy says what happens to a run that is over a quota.
type Strategy = store.Strategy

const (
	maxQuotaProjects = 1000
	maxWeight        = 100
	minTTLMS         = 1_000
	maxTTLMS         = 86_400_000
)

func isStrategy(s store.Strategy) bool {
	return s == store.StrategyQueue || s == store.StrategyReject || s == store.StrategyDelay
}

// splitProject splits "tenant/project".
func splitProject(key string) (tenantID, projectID string, ok bool) { return strings.Cut(key, "/") }

// Check returns all errors in the quotas, joined; nil when there are none.
func (q *Quotas) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, ok := q.Tiers[DefaultTier]; !ok {
		bad("tiers: there must be one named %s", DefaultTier)
	}
	for name, t := range q.Tiers {
		for k, l := range t.limits() {
			if l < 0 {
				bad("tiers.%s.%s must not be below 0", name, limitNames()[k])
			}
		}
		if t.Weight < 1 || t.Weight > maxWeight {
			bad("tiers.%s.weight must be between 1 and %d", name, maxWeight)
		}
	}
	for tenant, name := range q.Tenants {
		if _, ok := q.Tiers[name]; !ok {
			bad("tenants.%s: there is no tier %s", tenant, name)
		}
	}
	for key, l := range q.Projects {
		if tenant, project, ok := splitProject(key); !ok || !control.IdPattern.MatchString(tenant) ||
			!control.IdPattern.MatchString(project) {
			bad("projects: %q is not TENANT/PROJECT", key)
		}
		for k, v := range l.each() {
			if v != nil && *v < 0 {
				bad("projects.%s.%s must not be below 0", key, limitNames()[k])
			}
		}
	}
	if q.MaxActive < 0 {
		bad("maxActive must not be below 0")
	}
	if !isStrategy(q.Strategy) {
		bad("strategy must be QUEUE, REJECT or DELAY")
	}
	if ms := q.TTL.Milliseconds(); ms < minTTLMS || ms > maxTTLMS {
		bad("ttl must be between %s and %s", plan.DurationText(minTTLMS*time.Millisecond),
			plan.DurationText(maxTTLMS*time.Millisecond))
	}
	return errors.Join(errs...)
}

// checkDocument returns all violations of a tenant's document.
func (s *Allowances) checkDocument(tenantID string, doc QuotaDocument) (vs []plan.Violation) {
	bad := func(path, code, format string, args ...any) {
		vs = append(vs, plan.Violation{Path: "settings." + path, Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if s.rules == nil {
		bad("tenant", "INVALID", "this installation has no quotas")
		return vs
	}
	name, tier := s.rules.tier(tenantID)
	granted := s.rules.granted(tenantID)
	most := tier.limits()
	within := func(path string, asked QuotaLimits, given QuotaLimits) {
		given5 := given.each()
		for k, v := range asked.each() {
			limit, whose := most[k], "of its tier "+name
			if given5[k] != nil {
				limit, whose = *given5[k], "that the operators set for the project"
			}
			if v != nil && (*v < 0 || *v > limit) {
				bad(path+"."+limitNames()[k], "RANGE", "must be from 0 to %d, the limit %s", limit, whose)
			}
		}
	}
	within("tenant", doc.Tenant, QuotaLimits{})
	if len(doc.Projects) > maxQuotaProjects {
		bad("projects", "RANGE", "must be at most %d", maxQuotaProjects)
		return vs
	}
	seen := map[string]bool{}
	for i, p := range doc.Projects {
		at := fmt.Sprintf("projects[%d]", i)
		vs = control.CheckID(vs, "settings."+at+".projectId", p.ProjectID)
		if seen[p.ProjectID] {
			bad(at+".projectId", "DUPLICATE", "is named twice")
		}
		seen[p.ProjectID] = true
		if p.Weight < 1 || p.Weight > maxWeight {
			bad(at+".weight", "RANGE", "must be from 1 to %d", maxWeight)
		}
		within(at+".limits", p.Limits, granted[p.ProjectID])
	}
	for k, total := range totals(doc, granted) {
		if total > most[k] {
			bad("projects", "RANGE",
				"%s of the tenant and of its projects add up to %d; the tier %s has %d",
				limitNames()[k], total, name, most[k])
		}
	}
	if doc.Strategy != "" && !isStrategy(doc.Strategy) {
		bad("strategy", "INVALID", "must be QUEUE, REJECT or DELAY")
	}
	if doc.TTLMS != 0 && (doc.TTLMS < minTTLMS || doc.TTLMS > maxTTLMS) {
		bad("ttlMs", "RANGE", "must be from %d to %d", minTTLMS, maxTTLMS)
	}
	return vs
}

// totals adds up the limits per minute that are taken from the tier.
func totals(doc QuotaDocument, granted map[string]QuotaLimits) (sums [perMinute]int) {
	add := func(l, given QuotaLimits) {
		asked, gift := l.each(), given.each()
		for k := range sums {
			if asked[k] != nil && gift[k] == nil {
				sums[k] += max(*asked[k], 0)
			}
		}
	}
	add(doc.Tenant, QuotaLimits{})
	for _, p := range doc.Projects {
		add(p.Limits, granted[p.ProjectID])
	}
	return sums
}

// LoadSettings puts the documents of tenants in force in this process. For an unreadable document the limits of the
// tier apply.
func (s *Allowances) LoadSettings(ctx context.Context, settings []store.StoredSetting) {
	if s.rules == nil {
		return
	}
	next := map[string]*tenantQuota{}
	for _, stored := range settings {
		if stored.Kind != store.SettingQuota {
			continue
		}
		var doc QuotaDocument
		if err := json.Unmarshal(stored.Doc, &doc); err != nil {
			s.log.ErrorContext(ctx, "the quotas of a tenant cannot be read; those of its tier hold",
				slog.String("tenantId", stored.TenantID), slog.Int64("version", stored.Version), slog.Any("error", err))
			doc = QuotaDocument{}
		}
		next[stored.TenantID] = s.rules.effective(stored.TenantID, doc)
	}
	s.own.Store(&next)
	control.Wake(s.waker.Starts) // waiting runs may have got more quota
}
