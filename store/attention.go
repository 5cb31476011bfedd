package store

import "context"

// Attention finds and counts runs that may need people.
type Attention interface {
	// ListAwaitingRuns lists the runs that are AWAITING_OPERATOR as of their checkpoints, the earliest end of the retry
	// window first, without their steps. It ignores f.RunID and f.After; f.Limit is 1..MaxPage. It reads an index of such
	// runs only.
	ListAwaitingRuns(ctx context.Context, f WaitFilter) ([]RunRow, error)
	// CountUpTo counts the runs that List would return, but at most limit (1 to MaxCountUpTo). It ignores the position,
	// the order, the limit and the steps of f. Its cost is that of a page of limit rows without the rows.
	CountUpTo(ctx context.Context, f RunFilter, limit int) (int, error)
}

// MaxCountUpTo is the largest limit of CountUpTo.
const MaxCountUpTo = 1000
