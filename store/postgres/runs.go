package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const runColumns = `r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  coalesce(r.request_key, ''), r.request_id, r.plan_ref, r.triggered_by, r.trigger_source, r.parent_run_id,
  r.params, r.policy, r.created_at`

func scanRun(row pgx.Row) (store.Run, error) {
	var r store.Run
	var ref, policy json.RawMessage
	if err := row.Scan(&r.RunID, &r.TenantID, &r.ProjectID, &r.EnvironmentID, &r.PlanID, &r.PlanVersion,
		&r.RequestKey, &r.RequestID, verbatim{&ref}, &r.TriggeredBy, &r.TriggerSource, &r.ParentRunID,
		verbatim{&r.Params}, verbatim{&policy}, utc{&r.CreatedAt}); err != nil {
		return store.Run{}, err
	}
	if err := unmarshal(ref, &r.PlanRef); err != nil {
		return store.Run{}, err
	}
	return r, unmarshal(policy, &r.Policy)
}

// Get implements store.Runs.
func (s *Store) Get(ctx context.Context, runID string) (store.Run, error) {
	return s.oneRun(ctx, `SELECT `+runColumns+` FROM run r WHERE run_id = $1`, runID)
}

// ByRequest implements store.Runs.
func (s *Store) ByRequest(ctx context.Context, key run.Key) (store.Run, error) {
	return s.oneRun(ctx, byRequestSQL, string(key))
}

const byRequestSQL = `SELECT ` + runColumns + ` FROM run r WHERE request_key = $1`

func (s *Store) oneRun(ctx context.Context, sql, arg string) (r store.Run, err error) {
	err = s.do(ctx, "run", func(ctx context.Context, c *pgx.Conn) error {
		r, err = scanRun(c.QueryRow(ctx, sql, arg))
		return err
	})
	return r, err
}

// identity returns the identity of a run, which never changes, from the cache or the database. It returns
// store.ErrNotFound for an unknown run.
func (s *Store) identity(ctx context.Context, runID string) (run.Identity, error) {
	if id, ok := s.identities.Get(runID); ok {
		return id, nil
	}
	id := run.Identity{RunID: runID}
	err := s.do(ctx, "run", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, identitySQL, runID).Scan(identityTargets(&id)...)
	})
	if err != nil {
		return run.Identity{}, err
	}
	s.identities.Add(runID, id)
	return id, nil
}

// PutPlan implements store.Runs. It does not change an existing body.
func (s *Store) PutPlan(ctx context.Context, sha256 string, doc []byte) error {
	return s.do(ctx, "put plan", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, putPlanSQL, sha256, doc)
		return err
	})
}

const putPlanSQL = `INSERT INTO plan_body (sha256, body) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING`

// Plan implements store.Runs.
func (s *Store) Plan(ctx context.Context, sha256 string) (doc []byte, err error) {
	err = s.do(ctx, "plan", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT body FROM plan_body WHERE sha256 = $1`, sha256).Scan(&doc)
	})
	return doc, err
}

// scopesSQL finds each pair of project and environment by a probe of the index from the previous one, in all projects
// or within each project of $2. Its order must be that of one index.
const scopesSQL = `WITH RECURSIVE known (project_id, environment_id, found) AS (
  SELECT p COLLATE "C", '' COLLATE "C", false FROM unnest($2::text[]) p
  UNION ALL
  SELECT n.project_id, n.environment_id, true FROM known k, LATERAL (
    SELECT t.project_id, t.environment_id FROM run_status t WHERE t.tenant_id = $1 AND %s
    ORDER BY t.project_id, t.environment_id, t.plan_id LIMIT 1) n
) SELECT project_id, environment_id FROM known WHERE found LIMIT $3`

const (
	nextScope          = `(t.project_id, t.environment_id) > (k.project_id, k.environment_id)`
	nextScopeInProject = `t.project_id = k.project_id AND t.environment_id > k.environment_id`
)

// RunScopes implements store.Runs.
func (s *Store) RunScopes(ctx context.Context, tenantID string, projects []string, limit int) ([]store.Scope, error) {
	next, from := nextScopeInProject, projects
	if projects == nil {
		next, from = nextScope, []string{""}
	}
	return collect(ctx, s, "run scopes", pgx.RowToStructByPos[store.Scope], fmt.Sprintf(scopesSQL, next), tenantID, from,
		pageSize(limit))
}

// rerunChainsSQL walks up to the runs that were rerun and down to the reruns. UNION visits each run once, so the work
// is bounded by the number of runs in the chains.
const rerunChainsSQL = chainSQL + `SELECT r.run_id, r.parent_run_id, r.created_at, coalesce(st.status, '')
FROM chain JOIN run r ON r.run_id = chain.id LEFT JOIN run_state st ON st.run_id = r.run_id
WHERE r.tenant_id = $2 LIMIT $3`

const chainSQL = `WITH RECURSIVE chain (id) AS (
  SELECT run_id FROM run WHERE run_id = ANY($1) AND tenant_id = $2
  UNION SELECT next.id FROM chain CROSS JOIN LATERAL (
    SELECT r.parent_run_id FROM run r WHERE r.run_id = chain.id AND r.parent_run_id <> ''
    UNION ALL SELECT r.run_id FROM run r WHERE r.parent_run_id = chain.id AND r.parent_run_id <> ''
  ) next (id)
)
`

// RerunChains implements store.Reruns.
func (s *Store) RerunChains(ctx context.Context, tenantID string, runIDs []string, limit int) ([]store.ChainRun,
	error) {
	return collect(ctx, s, "rerun chains", func(row pgx.CollectableRow) (c store.ChainRun, err error) {
		return c, row.Scan(&c.RunID, &c.ParentRunID, utc{&c.CreatedAt}, &c.Status)
	}, rerunChainsSQL, runIDs, tenantID, limit)
}

const (
	// lockChainsSQL locks the chains of runs. All transactions lock in the order of the keys, so they cannot deadlock.
	lockChainsSQL = `WITH RECURSIVE up (id, parent) AS (
  SELECT run_id, parent_run_id FROM run WHERE run_id = ANY($1)
  UNION SELECT up.parent, coalesce(r.parent_run_id, '') FROM up LEFT JOIN run r ON r.run_id = up.parent WHERE up.parent <> ''
), chain AS MATERIALIZED (SELECT DISTINCT hashtextextended('chain/' || id, 0) AS key FROM up WHERE parent = '' ORDER BY key)
SELECT pg_advisory_xact_lock(key) FROM chain`

	// newerRerunSQL finds a run in the chain of $1 that is newer than $1, was not cancelled, and is not one of $3.
	newerRerunSQL = chainSQL + `SELECT r.run_id FROM run parent CROSS JOIN chain JOIN run r ON r.run_id = chain.id
  LEFT JOIN run_state st ON st.run_id = r.run_id
WHERE parent.run_id = ANY($1) AND r.tenant_id = $2 AND (r.created_at, r.run_id) > (parent.created_at, parent.run_id)
  AND r.run_id <> ALL($3) AND coalesce(st.status, '') <> 'CANCELLED' LIMIT 1`
)

// queueChainLocks queues the locks of the chains to which the reruns among runs belong. A lock is needed for each
// rerun: another transaction that creates one only if there is none must see it.
func queueChainLocks(b *pgx.Batch, runs []*creation) {
	var parents []string
	for _, c := range runs {
		if c.Run.ParentRunID != "" {
			parents = append(parents, c.Run.ParentRunID)
		}
	}
	if len(parents) > 0 {
		b.Queue(lockChainsSQL, parents)
	}
}

// queueRerunChecks queues the search for newer reruns, after the rows of runs were inserted. After the batch has run, a
// new run that must not be created has the error store.ErrAlreadyRerun. Of two in one batch the first stays.
func queueRerunChecks(b *pgx.Batch, runs []*creation) {
	for i, c := range runs {
		if !c.UnlessRerun {
			continue
		}
		var later []string
		for _, other := range runs[i:] {
			later = append(later, other.Run.RunID)
		}
		b.Queue(newerRerunSQL, []string{c.Run.ParentRunID}, c.Run.TenantID, later).Query(func(rows pgx.Rows) error {
			defer rows.Close()
			if rows.Next() && !c.exists {
				c.err = fmt.Errorf("run %s: %w", c.Run.ParentRunID, store.ErrAlreadyRerun)
			}
			return rows.Err()
		})
	}
}
