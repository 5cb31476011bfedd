package reads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// MaxHistogram is the longest time that a histogram may cover.
const MaxHistogram = 31 * 24 * time.Hour

// RunHistogram asks for the number of created runs over time. CreatedFrom and CreatedTo of the filter are ignored.
type RunHistogram struct {
	Filter   control.RunFilter
	From, To time.Time
	Buckets  int // 1 to store.MaxParts, all of the same length
}

// RunCount is the number of runs that were created in a bucket, and the number of FAILED ones among them.
type RunCount = store.RunCount

// RunHistogram counts the runs that p may see, oldest bucket first. Like lists, it lags behind the logs by the time of
// a projection. Errors: BAD_USER_INPUT, and QUERY_TOO_COMPLEX for more than store.MaxCounted runs, because the cost
// grows with the number of counted runs.
func (s *RunLists) RunHistogram(ctx context.Context, p authz.Principal, in RunHistogram) ([]RunCount, error) {
	var vs []plan.Violation
	refuseUnless := func(ok bool, path, message string) {
		if !ok {
			vs = append(vs, plan.Violation{Path: path, Code: plan.CodeRange, Message: message})
		}
	}
	refuseUnless(in.From.Before(in.To), "to", "must be after from")
	refuseUnless(in.To.Sub(in.From) <= MaxHistogram, "from", "must be at most 31 days before to")
	refuseUnless(in.Buckets >= 1 && in.Buckets <= store.MaxParts, "buckets", fmt.Sprintf("must be from 1 to %d",
		store.MaxParts))
	if len(vs) > 0 {
		return nil, control.BadInput(vs)
	}
	f, ok := s.rights.Narrow(p, in.Filter)
	if !ok {
		return make([]RunCount, in.Buckets), nil
	}
	f.CreatedFrom, f.CreatedTo = in.From, in.To
	counts, err := s.store.Count(ctx, f, in.Buckets)
	if errors.Is(err, store.ErrTooMany) {
		return nil, &control.Error{
			Code: run.CodeQueryTooComplex, Limit: store.MaxCounted,
			Message: fmt.Sprintf(
				"More than %d runs were created in this time. Ask for a shorter time or for one project.",
				store.MaxCounted),
		}
	}
	return counts, control.Translate(err)
}
