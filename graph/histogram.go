package graph

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// CountReads counts runs.
type CountReads interface {
	// RunHistogram returns the counts of runs in buckets of equal length, in the order of time.
	RunHistogram(ctx context.Context, p authz.Principal, in reads.RunHistogram) ([]reads.RunCount, error)
	// CountRuns counts exactly up to reads.MaxCountedRuns, and one more stands for more.
	CountRuns(ctx context.Context, p authz.Principal, filters []control.RunFilter) ([]int, error)
}

func (q queries) RunCounts(ctx context.Context, filters []model.RunFilter) ([]int, error) {
	in := make([]control.RunFilter, len(filters))
	for i := range filters {
		one, err := runsQuery(&filters[i], nil, nil)
		if err != nil {
			return nil, err
		}
		in[i] = one.Filter
	}
	return q.control.CountRuns(ctx, principal(ctx), in)
}

func (q queries) RunHistogram(ctx context.Context, filter *model.RunFilter, from, to time.Time,
	buckets int) ([]model.RunBucket, error) {
	in, err := runsQuery(filter, nil, nil)
	if err != nil {
		return nil, err
	}
	counts, err := q.control.RunHistogram(ctx, principal(ctx), reads.RunHistogram{Filter: in.Filter, From: from, To: to,
		Buckets: buckets})
	out := make([]model.RunBucket, len(counts))
	for i, c := range counts {
		begin := from.Add(time.Duration(int64(to.Sub(from)) / int64(len(counts)) * int64(i)))
		out[i] = model.RunBucket{From: begin, Total: int(c.Total), Failed: int(c.Failed)}
	}
	return out, err
}
