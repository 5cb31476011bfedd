package admission

import (
	"fmt"

	"github.com/dvt-engine/dvt/control"
)

// describeChanges fills in Changed of each version of a page, newest first. last is the version before the page's last
// one, nil when there is none: version 1 is compared with settings that set nothing.
func describeChanges(page []QuotaSettings, last *QuotaSettings) {
	if last == nil {
		last = &QuotaSettings{}
	}
	before := quotaLines(last.Document)
	for i := len(page) - 1; i >= 0; i-- {
		after := quotaLines(page[i].Document)
		page[i].Changed = control.ChangedLines(before, after)
		before = after
	}
}

// quotaLines returns a line for each value that the settings set.
func quotaLines(doc QuotaDocument) (out []string) {
	limits := func(whose string, l QuotaLimits) {
		for k, v := range l.each() {
			if v != nil {
				out = append(out, fmt.Sprintf("%s %s: %d", whose, limitNames()[k], *v))
			}
		}
	}
	limits("tenant", doc.Tenant)
	for _, p := range doc.Projects {
		out = append(out, fmt.Sprintf("project %s weight: %d", p.ProjectID, p.Weight))
		limits("project "+p.ProjectID, p.Limits)
	}
	if doc.Strategy != "" {
		out = append(out, fmt.Sprintf("strategy: %s", doc.Strategy))
	}
	if doc.TTLMS != 0 {
		out = append(out, fmt.Sprintf("ttlMs: %d", doc.TTLMS))
	}
	return out
}
