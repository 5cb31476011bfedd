package engine

import (
	"context"
	"iter"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Census answers questions about many runs from an engine's index of executions. The index may lag and does not
// contain executions that it has expired. Confirm its answers with Describe before you act on them.
type Census interface {
	// ListClosed yields runs whose execution failed, timed out, or was terminated or cancelled from outside, at or after
	// since, in no order. Of their identities only run, tenant and project are set.
	ListClosed(ctx context.Context, since time.Time) iter.Seq2[Description, error]
	// FindOpen returns, by run id, which of these runs have an open execution that dvt started. At most MaxCensus ids.
	FindOpen(ctx context.Context, ids []run.Identity) (map[string]bool, error)
	// ListOpen lists the next page of runs with an open execution. Of their identities only run and tenant are set. page
	// is empty for the first page, then the previous answer's next, which is empty after the last page.
	ListOpen(ctx context.Context, page string) (ids []run.Identity, next string, err error)
	// TerminateForeign ends the execution under a run's id if dvt did not start it. Errors: ErrNotStarted if there is
	// none, ErrClosed if it is closed or dvt's own, ErrUnavailable.
	TerminateForeign(ctx context.Context, id run.Identity, reason string) error
}

// MaxCensus is the maximum number of runs of one Open.
const MaxCensus = 100
