package postgres

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Take implements store.QuotaTx.
func (r runTx) Take(context.Context, store.Bucket) (time.Duration, error) { return 0, nil }

// RecentSignals implements store.QuotaTx.
func (r runTx) RecentSignals(context.Context, int, time.Duration) (time.Duration, error) {
	return 0, nil
}
