package secret

import (
	"context"
	"sync"
)

// sets are the sets of running attempts that have leases.
type sets struct {
	mu   sync.Mutex
	open map[*Set]struct{}
}

// keepTrack remembers a set with leases until it is released.
func (r *Resolver) keepTrack(s *Set) {
	if len(s.leases) == 0 {
		return
	}
	r.sets.mu.Lock()
	defer r.sets.mu.Unlock()
	if r.sets.open == nil {
		r.sets.open = map[*Set]struct{}{}
	}
	r.sets.open[s] = struct{}{}
}

func (r *Resolver) loseTrack(s *Set) {
	if r == nil {
		return // the set is empty
	}
	r.sets.mu.Lock()
	defer r.sets.mu.Unlock()
	delete(r.sets.open, s)
}

// Revoked counts what a revocation did.
type Revoked struct {
	Dropped int // remembered values that were forgotten
	Ended   int // leases
	Failed  int // leases that could not be ended yet; Sweep ends them later, or the end of their life does
}

// Revoke forgets the values that are remembered for a tenant and ends the leases of its running attempts, or those of
// one run when runID is not "". Attempts that run keep the values that they were given; a value behind an ended lease
// stops working. Reads that are under way are not remembered.
func (r *Resolver) Revoke(ctx context.Context, tenantID, runID string) Revoked {
	var out Revoked
	for _, s := range r.sources {
		s.forgotten.Add(1)
		if s.cache == nil {
			continue
		}
		for _, id := range s.cache.Keys() {
			if kept, ok := s.cache.Peek(id); ok && kept.tenantID == tenantID && s.cache.Remove(id) {
				out.Dropped++
			}
		}
	}
	var found []*Set
	r.sets.mu.Lock()
	for s := range r.sets.open {
		if s.scope.TenantID == tenantID && (runID == "" || s.scope.RunID == runID) {
			found = append(found, s)
		}
	}
	r.sets.mu.Unlock()
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, s := range found {
		for _, h := range s.leases {
			all.Go(func() {
				err := r.end(ctx, h)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					out.Failed++
					return
				}
				out.Ended++
			})
		}
	}
	all.Wait()
	return out
}
