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
	// open and that dvt started, by run id.
	Open(ctx context.Context, ids []run.Identity) (map[string]bool, error)
	// Running lists the next page of executions of runs that are open: of their identities only run and tenant are
	// set. page is empty for the first one, else the answer's next, which is empty after the last one.
	Running(ctx context.Context, page string) (ids []run.Identity, next string, err error)
	// Oust ends the execution under a run's id if dvt did not start it. ErrNotStarted when there is none, ErrClosed
	// when it is closed or dvt's own, ErrUnavailable.
	Oust(ctx context.Context, id run.Identity, reason string) error
}

// MaxCensus is the most runs that one Open asks for.
const MaxCensus = 100
