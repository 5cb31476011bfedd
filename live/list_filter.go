package live

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// selects reports whether f selects the row of a change, as store.Runs.List does, ignoring limit and positions.
func selects(f *store.RunFilter, row *store.RunRow) bool {
	h := &row.Header
	created := h.CreatedAt.UnixMicro() // stores keep times in microseconds
	switch {
	case h.TenantID != f.TenantID,
		f.ProjectIDs != nil && !slices.Contains(f.ProjectIDs, h.ProjectID),
		f.EnvironmentID != "" && h.EnvironmentID != f.EnvironmentID,
		!f.Scopes.Contains(h.ProjectID, h.EnvironmentID),
		!hasStatus(f, h),
		f.Tag != "" && !slices.Contains(row.Tags, f.Tag),
		f.PlanID != "" && h.PlanID != f.PlanID,
		f.TriggeredBy != "" && h.TriggeredBy != f.TriggeredBy,
		f.Text != "" && !strings.HasPrefix(h.RunID, f.Text) && !strings.Contains(h.PlanID, f.Text),
		!f.CreatedFrom.IsZero() && created < f.CreatedFrom.UnixMicro(),
		!f.CreatedTo.IsZero() && created >= f.CreatedTo.UnixMicro():
		return false
	}
	return true
}

// hasStatus reports whether a run has one of the statuses of f or awaits an operator, as f asks.
func hasStatus(f *store.RunFilter, h *run.Header) bool {
	return len(f.Statuses) == 0 && !f.AwaitingOperator || slices.Contains(f.Statuses, h.Status) ||
		f.AwaitingOperator && h.Substatus() == run.AwaitingOperator
}

// displayOrder returns the order in which f lists rows.
func displayOrder(f *store.RunFilter) func(a, b *store.RunRow) int {
	return func(a, b *store.RunRow) int {
		if !f.Ascending {
			a, b = b, a
		}
		return cmp.Or(a.Header.CreatedAt.Compare(b.Header.CreatedAt), strings.Compare(a.Header.RunID, b.Header.RunID))
	}
}
