package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// QuotaEffect is what a change of the quota settings does, in words.
type QuotaEffect struct {
	Changed  []string // as control.ChangedLines
	Warnings []string // limits below what is in use now
}

// PreviewQuota returns the effect of doc as the next settings of the caller's tenant. It changes nothing. Errors:
// FORBIDDEN without READ_POLICY on the whole tenant; BAD_USER_INPUT with all violations, as SetQuota.
func (s *QuotaEditor) PreviewQuota(ctx context.Context, p authz.Principal, doc QuotaDocument) (QuotaEffect, error) {
	now, err := s.QuotaSettings(ctx, p)
	if err != nil {
		return QuotaEffect{}, err
	}
	if vs := s.allowances.checkDocument(p.TenantID, doc); len(vs) > 0 {
		return QuotaEffect{}, control.BadInput(vs)
	}
	effect, err := s.effectOf(ctx, p.TenantID, now.Document, doc)
	return effect, control.Translate(err)
}

// effectOf compares two valid documents of a tenant, and the second with what is in use.
func (s *QuotaEditor) effectOf(ctx context.Context, tenantID string, before, after QuotaDocument) (QuotaEffect, error) {
	out := QuotaEffect{Changed: control.ChangedLines(s.allowances.quotaLines(tenantID, before),
		s.allowances.quotaLines(tenantID, after))}
	u, err := s.store.Usage(ctx, tenantID)
	if err != nil {
		return out, err
	}
	// A warning about a limit that stays as it was would look like an effect of the change.
	warn := func(whose string, was, l QuotaLimits, use store.LaneUsage) {
		l.MaxActive = changedLimit(was.MaxActive, l.MaxActive)
		l.MaxQueueDepth = changedLimit(was.MaxQueueDepth, l.MaxQueueDepth)
		if most := l.MaxActive; most != nil && *most > 0 && int(use.Active) > *most {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s active in %s now; no new one starts until %s.",
				control.Plural(int(use.Active), "run is", "runs are"), whose, fewerThan(*most)))
		}
		if most := l.MaxQueueDepth; most != nil && int(use.Waiting) > *most {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s in the queue of %s now; they stay, and no other is accepted "+
				"until there are fewer than %d.", control.Plural(int(use.Waiting), "run waits", "runs wait"), whose, max(*most, 1)))
		}
		if most := l.MaxActive; most != nil && *most == 0 {
			out.Warnings = append(out.Warnings, fmt.Sprintf("With 0 active runs nothing starts in %s.", whose))
		}
		if most := changedLimit(was.StartRunPerMinute, l.StartRunPerMinute); most != nil && *most == 0 {
			out.Warnings = append(out.Warnings, fmt.Sprintf("With 0 starts per minute nothing starts in %s.", whose))
		}
	}
	warn("the tenant", before.Tenant, after.Tenant, u.Tenant)
	was := map[string]QuotaLimits{}
	for _, project := range before.Projects {
		was[project.ProjectID] = project.Limits
	}
	for _, project := range after.Projects {
		warn("project "+project.ProjectID, was[project.ProjectID], project.Limits, u.Projects[project.ProjectID])
	}
	return out, nil
}

// changedLimit returns the limit after a change, or nil when it stays.
func changedLimit(before, after *int) *int {
	if before != nil && after != nil && *before == *after {
		return nil
	}
	return after
}

// fewerThan completes "no new one starts until …".
func fewerThan(n int) string {
	if n == 1 {
		return "none is active"
	}
	return fmt.Sprintf("fewer than %d are", n)
}

// describeChanges fills in Changed of each version of a page, newest first. last is the version before the page's last
// one, nil when there is none: version 1 is compared with settings that set nothing.
func (s *Allowances) describeChanges(tenantID string, page []QuotaSettings, last *QuotaSettings) {
	if last == nil {
		last = &QuotaSettings{}
	}
	before := s.quotaLines(tenantID, last.Document)
	for i := len(page) - 1; i >= 0; i-- {
		after := s.quotaLines(tenantID, page[i].Document)
		page[i].Changed = control.ChangedLines(before, after)
		before = after
	}
}

// limitWords are the limits as people know them, in the order of limitNames.
func limitWords() [numLimits]string {
	return [numLimits]string{"starts per minute", "heavy steps per minute", "signals per minute", "active runs",
		"waiting runs"}
}

// quotaLines returns a line for each limit of the tenant, and for each value that the settings set for a project.
func (s *Allowances) quotaLines(tenantID string, doc QuotaDocument) (out []string) {
	var most limits
	if s.rules != nil {
		_, tier := s.rules.tier(tenantID)
		most = tier.limits()
	}
	for k, v := range doc.Tenant.each() {
		switch {
		case v != nil:
			out = append(out, fmt.Sprintf("%s of the tenant: %d", limitWords()[k], *v))
		case s.rules != nil:
			out = append(out, fmt.Sprintf("%s of the tenant: the tier's %d", limitWords()[k], most[k]))
		}
	}
	for _, p := range doc.Projects {
		if p.Weight > 1 { // nobody set a weight of 1, which is the default
			out = append(out, fmt.Sprintf("weight of project %s: %d", p.ProjectID, p.Weight))
		}
		for k, v := range p.Limits.each() {
			if v != nil {
				out = append(out, fmt.Sprintf("%s of project %s: %d", limitWords()[k], p.ProjectID, *v))
			}
		}
	}
	switch doc.Strategy {
	case store.StrategyQueue:
		out = append(out, "runs over a limit wait")
	case store.StrategyReject:
		out = append(out, "runs over a limit are refused")
	case store.StrategyDelay:
		out = append(out, "runs over a limit are delayed")
	}
	if doc.TTLMS != 0 {
		out = append(out, "longest wait of a run: "+plan.DurationWords(time.Duration(doc.TTLMS)*time.Millisecond))
	}
	return out
}
