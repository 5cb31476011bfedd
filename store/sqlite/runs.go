package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Get implements store.Runs.
func (s *Store) Get(ctx context.Context, runID string) (store.Run, error) {
	return readOne(ctx, s, "get run", scanRun, `SELECT `+runColumns+` FROM run WHERE run_id = ?`, runID)
}

// ByRequest implements store.Runs.
func (s *Store) ByRequest(ctx context.Context, key run.Key) (store.Run, error) {
	return readOne(ctx, s, "get run", scanRun, byRequestSQL, key)
}

const byRequestSQL = `SELECT ` + runColumns + ` FROM run WHERE request_key = ?`

const putPlan = `INSERT INTO plan_body (sha256, body) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING`

// PutPlan implements store.Runs. It does not change an existing body.
func (s *Store) PutPlan(ctx context.Context, sha256 string, doc []byte) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "put plan", putPlan, sha256, doc)
		return err
	})
}

// Plan implements store.Runs.
func (s *Store) Plan(ctx context.Context, sha256 string) ([]byte, error) {
	return readOne(ctx, s, "get plan", value[[]byte], `SELECT body FROM plan_body WHERE sha256 = ?`, sha256)
}

// scopesSQL finds each pair of project and environment by a probe of the index from the previous one, in all projects
// or within each project of ?2.
const scopesSQL = `WITH RECURSIVE known (project_id, environment_id, found) AS (
	SELECT value, '', 0 FROM json_each(?2)
	UNION ALL
	SELECT n.project_id, n.environment_id, 1 FROM known k CROSS JOIN run_state n ON n.run_id = %s
) SELECT project_id, environment_id FROM known WHERE found LIMIT ?3`

const (
	nextScope = `coalesce(` + nextScopeInProject + `, (SELECT t.run_id FROM run_state t INDEXED BY run_state_scope_status
		WHERE t.tenant_id = ?1 AND t.project_id > k.project_id ORDER BY t.project_id, t.environment_id LIMIT 1))`
	nextScopeInProject = `(SELECT t.run_id FROM run_state t INDEXED BY run_state_scope_status
		WHERE t.tenant_id = ?1 AND t.project_id = k.project_id AND t.environment_id > k.environment_id ORDER BY t.environment_id LIMIT 1)`
)

// RunScopes implements store.Runs.
func (s *Store) RunScopes(ctx context.Context, tenantID string, projects []string, limit int) ([]store.Scope, error) {
	next, from := nextScopeInProject, projects
	if projects == nil {
		next, from = nextScope, []string{""}
	}
	return readAll(ctx, s, "run scopes", func(row scanner) (p store.Scope, err error) {
		return p, row.Scan(&p.ProjectID, &p.EnvironmentID)
	}, fmt.Sprintf(scopesSQL, next), tenantID, array(from), clamp(limit, store.MaxPage))
}

// rerunChainsSQL walks up to the runs that were rerun and down to the reruns. UNION visits each run once, so the work
// is bounded by the number of runs in the chains.
const rerunChainsSQL = chainSQL + `SELECT r.run_id, r.parent_run_id, r.created_at, coalesce(st.status, '')
FROM chain JOIN run r ON r.run_id = chain.id LEFT JOIN run_state st ON st.run_id = r.run_id
WHERE r.tenant_id = ?2 LIMIT ?3`

const chainSQL = `WITH RECURSIVE chain (id) AS (
  SELECT r.run_id FROM json_each(?1) JOIN run r ON r.run_id = value WHERE r.tenant_id = ?2
  UNION SELECT r.parent_run_id FROM chain JOIN run r ON r.run_id = chain.id WHERE r.parent_run_id <> ''
  UNION SELECT r.run_id FROM chain JOIN run r ON r.parent_run_id = chain.id AND r.parent_run_id <> ''
)
`

// RerunChains implements store.Reruns.
func (s *Store) RerunChains(ctx context.Context, tenantID string, runIDs []string, limit int) ([]store.ChainRun,
	error) {
	doc, err := json.Marshal(runIDs)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "rerun chains", func(row scanner) (c store.ChainRun, err error) {
		var created int64
		err = row.Scan(&c.RunID, &c.ParentRunID, &created, &c.Status)
		c.CreatedAt = instant(created)
		return c, err
	}, rerunChainsSQL, string(doc), tenantID, limit)
}

// newerRerunSQL finds a run in the chain of ?1 that is newer than ?3, was not cancelled, and is not ?4.
const newerRerunSQL = chainSQL + `SELECT r.run_id FROM run parent CROSS JOIN chain JOIN run r ON r.run_id = chain.id
  LEFT JOIN run_state st ON st.run_id = r.run_id
WHERE parent.run_id = ?3 AND r.tenant_id = ?2 AND (r.created_at, r.run_id) > (parent.created_at, parent.run_id)
  AND r.run_id <> ?4 AND coalesce(st.status, '') <> 'CANCELLED' LIMIT 1`

// checkNotRerun returns store.ErrAlreadyRerun when the parent of the new run r has a newer rerun. It needs no lock,
// because this transaction is the only writer.
func (t *runTx) checkNotRerun(ctx context.Context, r store.Run) error {
	parent, err := json.Marshal([]string{r.ParentRunID})
	if err != nil {
		return err
	}
	_, err = collectOne(ctx, t.conn, "newer rerun", value[string], newerRerunSQL, string(parent), r.TenantID,
		r.ParentRunID, r.RunID)
	switch {
	case err == nil:
		return fmt.Errorf("sqlite: run %s: %w", r.ParentRunID, store.ErrAlreadyRerun)
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return err
}
