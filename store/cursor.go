package store

import (
	"context"
	"time"
)

// Cursor is the position of a consumer of the feed, and the lease of the process that works for it.
type Cursor struct {
	Name       string
	Owner      string
	Generation int64  // the fencing token: increases with every lease
	Position   string // opaque to the store; "" before the first save
}

// Cursors keeps the positions of consumers of the feed, such as the exporter of traces, and leases each consumer to one
// process at a time. All times are the store's.
type Cursors interface {
	// LeaseCursor leases a consumer for ttl and returns its position. A process gets its own lease again. ErrConflict
	// while another owner holds the lease.
	LeaseCursor(ctx context.Context, name, owner string, ttl time.Duration) (Cursor, error)
	// SaveCursor saves c.Position and extends the lease to ttl from now. ErrConflict, and nothing is written, when the
	// consumer was leased again.
	SaveCursor(ctx context.Context, c Cursor, ttl time.Duration) error
	// ReleaseCursor ends the lease, so that another process need not wait until it expires. ErrConflict as for SaveCursor.
	ReleaseCursor(ctx context.Context, c Cursor) error
}
