package reads

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
)

// Limits of CountRuns.
const (
	// MaxCountedRuns is the highest exact count; one more means "more than that".
	MaxCountedRuns = 100
	// MaxCountedLists is the most filters that one call counts.
	MaxCountedLists = 24
)

// CountRuns counts the runs that p may read and that each filter selects: exactly up to MaxCountedRuns, and else
// MaxCountedRuns+1. It makes one query for each filter. Error: BAD_USER_INPUT.
func (s *RunLists) CountRuns(ctx context.Context, p authz.Principal, filters []control.RunFilter) ([]int, error) {
	if len(filters) > MaxCountedLists {
		return nil, control.BadInput([]plan.Violation{{Path: "filters", Code: plan.CodeRange, Message: "must be at most 24"}})
	}
	out := make([]int, len(filters))
	for i, asked := range filters {
		f, ok := s.rights.Narrow(p, asked)
		if !ok {
			continue
		}
		var err error
		if out[i], err = s.store.CountUpTo(ctx, f, MaxCountedRuns+1); err != nil {
			return nil, control.Translate(err)
		}
	}
	return out, nil
}
