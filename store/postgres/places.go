package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// placesSQL goes from each place to the next one: in all projects, or within each of $2.
// The order is that of one index alone.
const placesSQL = `WITH RECURSIVE known (project_id, environment_id, found) AS (
  SELECT p COLLATE "C", '' COLLATE "C", false FROM unnest($2::text[]) p
  UNION ALL
  SELECT n.project_id, n.environment_id, true FROM known k, LATERAL (
    SELECT t.project_id, t.environment_id FROM run_status t WHERE t.tenant_id = $1 AND %s
    ORDER BY t.project_id, t.environment_id, t.plan_id LIMIT 1) n
) SELECT project_id, environment_id FROM known WHERE found LIMIT $3`

const (
	nextPlace         = `(t.project_id, t.environment_id) > (k.project_id, k.environment_id)`
	nextPlaceWithinIt = `t.project_id = k.project_id AND t.environment_id > k.environment_id`
)

// RunScopes implements store.Runs.
func (s *Store) RunScopes(ctx context.Context, tenantID string, projects []string, limit int) ([]store.Scope, error) {
	next, from := nextPlaceWithinIt, projects
	if projects == nil {
		next, from = nextPlace, []string{""}
	}
	return collect(ctx, s, "places", pgx.RowToStructByPos[store.Scope], fmt.Sprintf(placesSQL, next), tenantID, from,
		pageSize(limit))
}
