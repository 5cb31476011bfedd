package live

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// selects says what store.Runs.List says of a run: whether f selects it, wherever its page ends.
func selects(f *store.RunFilter, h *run.Header) bool {
	created := h.CreatedAt.UnixMicro() // times of stores have microseconds
	switch {
	case h.TenantID != f.TenantID,
		f.ProjectIDs != nil && !slices.Contains(f.ProjectIDs, h.ProjectID),
		f.EnvironmentID != "" && h.EnvironmentID != f.EnvironmentID,
		!f.Scopes.Hold(h.ProjectID, h.EnvironmentID),
		len(f.Statuses) > 0 && !slices.Contains(f.Statuses, h.Status),
		f.PlanID != "" && h.PlanID != f.PlanID,
		f.TriggeredBy != "" && h.TriggeredBy != f.TriggeredBy,
		f.Text != "" && !strings.HasPrefix(h.RunID, f.Text) && !strings.Contains(h.PlanID, f.Text),
		!f.CreatedFrom.IsZero() && created < f.CreatedFrom.UnixMicro(),
		!f.CreatedTo.IsZero() && created >= f.CreatedTo.UnixMicro():
		return false
	}
	return true
}

// displayed orders rows as f lists them.
func displayed(f *store.RunFilter) func(a, b *store.RunRow) int {
	return func(a, b *store.RunRow) int {
		if !f.Ascending {
			a, b = b, a
		}
		return cmp.Or(a.Header.CreatedAt.Compare(b.Header.CreatedAt), strings.Compare(a.Header.RunID, b.Header.RunID))
	}
}
