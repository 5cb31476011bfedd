package store

import "context"

// Feed says which runs changed, for lists, webhooks and exporters. It does not return events: their order is that of
// each run's own log, and package feed reads them there (contract T186).
type Feed interface {
	// ListChanged reads rows of runs whose state or operational state changed since cursor, and the next cursor. It
	// applies only the tenant and the projects of the filter, so that a caller sees a row leave its list. A filter without
	// a tenant has no rows unless EveryTenant is set.
	//
	// A cursor is opaque and belongs to one filter. Rows may repeat, but none is ever skipped, in whatever order writers
	// commit. A long transaction does not delay the feed; it only makes rows repeat. "" starts with changes from now on.
	// FeedStart starts from the beginning, and so does a cursor that cannot be read, one of another epoch, and one that
	// is ahead of a restored database.
	//
	// Fewer rows than the limit (1 to MaxPage, else MaxPage) end a pass: the caller has read all changes that were
	// committed when the pass began. Later changes may come only with the next pass. A call is one statement.
	ListChanged(ctx context.Context, f RunFilter, cursor string) (rows []RunRow, next string, err error)
}

// FeedStart is the cursor of Feed.ListChanged before the first change.
const FeedStart = "-"
