package engine

import (
	"context"
	"iter"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Census answers for many runs at once from an engine's index of executions. The
// index may lag behind and knows nothing of what is older than it keeps: before
// anything is done about a run, Describe is to confirm what it says.
type Census interface {
	// Closed yields runs whose execution ended at or after since by another hand than
	// its own, in no order; of their identities only run, tenant and project are set.
	Closed(ctx context.Context, since time.Time) iter.Seq2[Description, error]
	// Open reports which of these runs, at most MaxCensus, have an execution that is
	// open, by run id.
	Open(ctx context.Context, ids []run.Identity) (map[string]bool, error)
}

// MaxCensus is the most runs that one Open asks for.
const MaxCensus = 100
