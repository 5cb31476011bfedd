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

// identities are whose the maxIdentities runs are that were watched last, which never
// changes, and who is being read.
type identities struct {
	kept    *lru.Cache[string, run.Identity]
	reading singleflight.Group
}

const (
	maxIdentities = 10_000
	identityTime  = 5 * time.Second
)

// checkWatchable is visible for a stream of a run: the viewers who come at once, after a
// server was lost, cost one read of each run. Whether the run is still there is
// for the hub to say, which reads it anyway. A denial costs a read whatever is
// known, so that time tells nothing.
func (s *Watcher) checkWatchable(ctx context.Context, p authz.Principal, runID string) (run.Identity, error) {
	if id, ok := s.identities.kept.Get(runID); ok {
		if d, err := s.rights.Authz.Decide(p, authz.Read, control.ObjectOf(id)); err == nil && d.Allowed {
			return id, nil
		}
		r, err := s.rights.Visible(ctx, p, authz.Read, runID)
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

// identify reads whose a run is, for all who ask meanwhile: it outlives the one who asked first.
func (s *Watcher) identify(ctx context.Context, runID string) (run.Identity, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), identityTime)
	defer cancel()
	r, err := s.store.Get(ctx, runID)
	if err == nil {
		s.identities.kept.Add(runID, r.Identity)
	}
	return r.Identity, err
}
