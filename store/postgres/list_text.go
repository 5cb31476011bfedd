package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// match looks up the text among the plans and run ids of the filter's tenant and projects. Plans and runs of others
// change neither the result nor its cost (contract T101). Plans and runs are never removed, so a list that is read
// afterwards misses nothing.
func match(ctx context.Context, c *pgx.Conn, rf store.RunFilter) (store.TextMatches, error) {
	var f filter
	f.scope("p", rf)
	f.add("strpos(p.plan_id, ?) > 0", rf.Text)
	if rf.PlanID != "" {
		f.add("p.plan_id = ?", rf.PlanID)
	}
	own := filter{args: f.args}
	own.scope("r", rf)
	from, to := rf.TextRange()
	named := own.bind("tenant_id = ? AND run_id >= ? AND run_id < ?", rf.TenantID, from, to)
	var plans, runs []string
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT
		ARRAY(SELECT DISTINCT p.plan_id FROM run_plan p WHERE %s LIMIT %d),
		ARRAY(SELECT CASE WHEN %s THEN run_id ELSE '' END FROM (SELECT * FROM run WHERE %s ORDER BY run_id LIMIT %d) r)`,
		&f, store.MaxTextPlans+1, &own, named, store.MaxTextRuns+1), own.args...).Scan(&plans, &runs)
	return store.NewTextMatches(plans, runs), err
}
