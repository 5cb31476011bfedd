package decorate

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SealResolver returns the seal of the log after the newest erasure that rewrote it.
type SealResolver func(ctx context.Context, tenantID, runID string, seal store.LogSeal) (store.LogSeal, error)

// ResolveSeals returns a store whose seals are those of the logs as erasures left them, so that the next seal of a log
// continues from the log that exists.
func ResolveSeals(s store.Store, resolve SealResolver) store.Store { return resolving{s, resolve} }

type resolving struct {
	store.Store
	resolve SealResolver
}

func (s resolving) LastLogSeal(ctx context.Context, tenantID, runID string, below run.Seq) (store.LogSeal, error) {
	seal, err := s.Store.LastLogSeal(ctx, tenantID, runID, below)
	if err != nil {
		return seal, err
	}
	return s.resolve(ctx, tenantID, runID, seal)
}
