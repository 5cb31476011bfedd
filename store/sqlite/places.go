package sqlite

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/store"
)

// placesSQL goes from each place to the next one: in all projects, or within each of ?2.
const placesSQL = `WITH RECURSIVE known (project_id, environment_id, found) AS (
	SELECT value, '', 0 FROM json_each(?2)
	UNION ALL
	SELECT n.project_id, n.environment_id, 1 FROM known k CROSS JOIN run_state n ON n.run_id = %s
) SELECT project_id, environment_id FROM known WHERE found LIMIT ?3`

const (
	nextPlace = `coalesce(` + nextPlaceWithinIt + `, (SELECT t.run_id FROM run_state t INDEXED BY run_state_scope_status
		WHERE t.tenant_id = ?1 AND t.project_id > k.project_id ORDER BY t.project_id, t.environment_id LIMIT 1))`
	nextPlaceWithinIt = `(SELECT t.run_id FROM run_state t INDEXED BY run_state_scope_status
		WHERE t.tenant_id = ?1 AND t.project_id = k.project_id AND t.environment_id > k.environment_id ORDER BY t.environment_id LIMIT 1)`
)

// RunScopes implements store.Runs.
func (s *Store) RunScopes(ctx context.Context, tenantID string, projects []string, limit int) ([]store.Scope, error) {
	next, from := nextPlaceWithinIt, projects
	if projects == nil {
		next, from = nextPlace, []string{""}
	}
	return readAll(ctx, s, "places", func(row scanner) (p store.Scope, err error) {
		return p, row.Scan(&p.ProjectID, &p.EnvironmentID)
	}, fmt.Sprintf(placesSQL, next), tenantID, array(from), clamp(limit, store.MaxPage))
}
