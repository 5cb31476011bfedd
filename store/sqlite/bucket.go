package sqlite

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Take implements store.QuotaTx.
func (t *runTx) Take(context.Context, store.Bucket) (time.Duration, error) { return 0, nil }

// RecentSignals implements store.QuotaTx.
func (t *runTx) RecentSignals(context.Context, int, time.Duration) (time.Duration, error) {
	return 0, nil
}
