package store

import (
	"slices"
	"strings"
)

// Limits of the plans and runs to which an adapter resolves RunFilter.Text. It reads one more of each to learn whether
// there are more.
const (
	MaxTextPlans = 32
	MaxTextRuns  = 256
)

// TextMatches are the plans whose ids contain the text of a filter, MaxTextPlans+1 when there are more than the limit,
// and the runs whose ids begin with it.
type TextMatches struct {
	Plans, Runs []string
	Many        bool // there are more than MaxTextRuns such runs: Runs is not complete
}

// NewTextMatches returns the matches of a look-up that read up to MaxTextPlans+1 plans and MaxTextRuns+1 runs. The id
// of a run that the rest of the filter excludes must be ""; it counts for Many and is not in Runs.
func NewTextMatches(plans, runs []string) TextMatches {
	many := len(runs) > MaxTextRuns
	return TextMatches{
		Plans: plans, Runs: slices.DeleteFunc(runs, func(id string) bool { return id == "" }), Many: many,
	}
}

// TextRestricts reports whether Text excludes runs that meet the rest of the filter.
func (f RunFilter) TextRestricts() bool {
	return f.Text != "" && (f.PlanID == "" || !strings.Contains(f.PlanID, f.Text))
}

// TextRange returns the bounds of ids that begin with Text: from ≤ id < to.
func (f RunFilter) TextRange() (from, to string) { return f.Text, f.Text + "\U0010FFFF" }
