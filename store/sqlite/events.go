package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// eventsSQL selects the identity of the run before the columns of each event. It returns one row without an event if
// the run has none.
const (
	eventsSQL = `SELECT r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, ` + eventColumns + `
	FROM run r LEFT JOIN event e ON e.run_id = r.run_id AND e.run_seq `
	eventsAfter  = eventsSQL + `> ?2 WHERE r.run_id = ?1 ORDER BY e.run_seq LIMIT ?3`
	eventsBefore = eventsSQL + `< ?2 WHERE r.run_id = ?1 ORDER BY e.run_seq DESC LIMIT ?3`
)

// Events implements store.Log.
func (s *Store) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	return s.events(ctx, eventsAfter, runID, after, limit)
}

// EventsBefore implements store.Log.
func (s *Store) EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error) {
	return s.events(ctx, eventsBefore, runID, before, limit)
}

func (s *Store) events(ctx context.Context, query, runID string, bound run.Seq, limit int) (out []run.Event,
	err error) {
	var id run.Identity
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, "read events", query, []any{runID, bound, clamp(limit, store.MaxPage)}, func(r row) error {
			if id.RunID == "" {
				id.RunID = runID
				if err := r.Scan(&id.TenantID, &id.ProjectID, &id.EnvironmentID, &id.PlanID, &id.PlanVersion); err != nil {
					return err
				}
			}
			if r = r[5:]; r[0] == nil {
				return nil // no event
			}
			e, err := scanEvent(r)
			e.Identity = id
			out = append(out, e)
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case id.RunID == "":
		return nil, notFound("run " + runID)
	}
	return out, nil
}

func clamp(limit, maximum int) int {
	if limit <= 0 || limit > maximum {
		return maximum
	}
	return limit
}

// headsSQL selects the epoch in every row. It returns at least one row.
const headsSQL = `SELECT (` + epochSQL + `), h.run_id, ` +
	headColumns + ` FROM (SELECT 1) LEFT JOIN (SELECT * FROM run_head
	WHERE run_id IN (SELECT value FROM json_each(?))) h`

// Heads implements store.Log.
func (s *Store) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	if len(runIDs) > store.MaxHeads {
		return store.Heads{}, fmt.Errorf("sqlite: heads of %d runs, at most %d", len(runIDs), store.MaxHeads)
	}
	out := store.Heads{ByRun: make(map[string]store.Head, len(runIDs))}
	ids, err := json.Marshal(runIDs)
	if err != nil {
		return store.Heads{}, fmt.Errorf("sqlite: heads: %w", err)
	}
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, "heads", headsSQL, []any{string(ids)}, func(r row) error {
			if err := r.Scan(&out.Epoch); err != nil || r[1] == nil {
				return err
			}
			h, err := scanHead(r[2:])
			if err != nil {
				return err
			}
			err = r[1:].Scan(&h.RunID)
			out.ByRun[h.RunID] = h
			return err
		})
	})
	out.Now = s.now()
	return out, err
}

// identities caches the identities of runs that were seen committed. They never change.
type identities struct {
	mu   sync.RWMutex
	byID map[string]run.Identity
}

const maxIdentities = 8192

func (i *identities) get(runID string) (run.Identity, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	id, found := i.byID[runID]
	return id, found
}

// put clears the cache when it is full. Each run that is still in use costs one read.
func (i *identities) put(id run.Identity) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.byID == nil || len(i.byID) >= maxIdentities {
		i.byID = make(map[string]run.Identity)
	}
	i.byID[id.RunID] = id
}

const identitySQL = `SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version FROM run WHERE run_id = ?`

// identity returns the identity of a run from the cache or the file. It returns store.ErrNotFound for an unknown run.
func (s *Store) identity(ctx context.Context, runID string) (run.Identity, error) {
	if id, found := s.identities.get(runID); found {
		return id, nil
	}
	id, err := readOne(ctx, s, "run "+runID, scanIdentity, identitySQL, runID)
	if err == nil {
		s.identities.put(id)
	}
	return id, err
}

func scanIdentity(row scanner) (id run.Identity, err error) {
	err = row.Scan(&id.RunID, &id.TenantID, &id.ProjectID, &id.EnvironmentID, &id.PlanID, &id.PlanVersion)
	return id, err
}
