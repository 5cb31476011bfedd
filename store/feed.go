package store

import "context"

// Feed answers which runs changed, across runs: for lists, webhooks and
// exporters. What changed is read from a run's own log by seq, whose commit
// order is its order (T186).
type Feed interface {
	// Changed reads rows of the filter's tenant and projects whose state or
	// operational state changed since cursor; the filter's other restrictions do not
	// apply, so that a row that leaves a list is seen to leave. A cursor is opaque,
	// carries the epoch, and is inclusive and overlapping: rows may repeat, none is
	// ever skipped, in whatever order writers commit. "" starts now; a cursor of
	// another epoch, or that cannot be read, starts from the beginning. Fewer rows
	// than the limit mean that the caller has caught up.
	Changed(ctx context.Context, f RunFilter, cursor string) (rows []RunRow, next string, err error)
}
