package store

import "context"

// Feed answers which runs changed, across runs: for lists, webhooks and
// exporters. What changed is read from a run's own log by seq, whose commit
// order is its order (T186); package feed does that.
type Feed interface {
	// Changed reads rows of the filter's tenant and projects whose state or
	// operational state changed since cursor; the filter's other restrictions do not
	// apply, so that a row that leaves a list is seen to leave. A filter without a
	// tenant has no rows unless it says EveryTenant.
	//
	// A cursor is opaque, carries the epoch, and is inclusive and overlapping: rows
	// may repeat, none is ever skipped, in whatever order writers commit. It does not
	// wait for a long transaction, which costs repeats. It belongs to one filter. ""
	// starts now; FeedStart, a cursor of another epoch, one from after a restored
	// past, and one that cannot be read start from the beginning. Fewer rows than the
	// limit (1 to MaxPage, else MaxPage) end a pass: the caller has caught up with
	// what was committed when the pass began. What is committed during it may come
	// with the next one. One statement, one round trip.
	Changed(ctx context.Context, f RunFilter, cursor string) (rows []RunRow, next string, err error)
}

// FeedStart is the cursor of Feed.Changed that is before everything.
const FeedStart = "-"
