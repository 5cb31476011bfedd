package watch

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// identities caches the immutable identities of the runs that were watched last, and shares concurrent reads of them.
type identities struct {
	kept    *lru.Cache[string, run.Identity]
	reading singleflight.Group
}

const (
	maxIdentities = 10_000
	identityTime  = 5 * time.Second
)

// checkWatchable is Rights.GetVisible for a stream of a run. Viewers who reconnect at once, after a server was lost,
// cost one read of each run. It does not check whether the run still exists, because the hub reads the run anyway. A
// denial always costs a read, so that its duration does not tell whether the run is cached.
func (s *Watcher) checkWatchable(ctx context.Context, p authz.Principal, runID string) (run.Identity, error) {
	if id, ok := s.identities.kept.Get(runID); ok {
		if d, err := s.rights.Authz.Decide(p, authz.Read, control.ObjectOf(id)); err == nil && d.Allowed {
			return id, nil
		}
		r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
		return r.Identity, err
	}
	select {
	case <-ctx.Done():
		return run.Identity{}, ctx.Err()
	case read := <-s.identities.reading.DoChan(runID, func() (any, error) { return s.identify(ctx, runID) }):
		id, _ := read.Val.(run.Identity)
		return id, s.rights.CheckVisible(ctx, p, authz.Read, id, runID, read.Err)
	}
}

// identify reads the identity of a run for all concurrent callers. It goes on when the first caller leaves.
func (s *Watcher) identify(ctx context.Context, runID string) (run.Identity, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), identityTime)
	defer cancel()
	r, err := s.store.Get(ctx, runID)
	if err == nil {
		s.identities.kept.Add(runID, r.Identity)
	}
	return r.Identity, err
}
