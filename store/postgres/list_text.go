package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// How many plans and runs a text is resolved to.
const (
	maxTextPlans = 32
	maxTextRuns  = 256
)

// lastOfAll is behind all that an id goes on with.
const lastOfAll = "\U0010FFFF"

// matches are the plans that a text is a part of and the runs whose ids begin with
// it; one more than the maximum when there are more.
type matches struct{ plans, runs []string }

// textRestricts is false when every run that meets the rest of rf meets the text.
func textRestricts(rf store.RunFilter) bool {
	return rf.Text != "" && (rf.PlanID == "" || !strings.Contains(rf.PlanID, rf.Text))
}

// match looks up a text among the plans of the filter's tenant and projects, and
// among the ids of all runs. Both only grow, so that a list which is read after it
// misses nothing that was there before.
func match(ctx context.Context, c *pgx.Conn, rf store.RunFilter) (found matches, err error) {
	var f filter
	f.scope("p", rf)
	f.add("strpos(p.plan_id, ?) > 0", rf.Text)
	if rf.PlanID != "" {
		f.add("p.plan_id = ?", rf.PlanID)
	}
	named := f.bind("r.run_id >= ? AND r.run_id < ?", rf.Text, rf.Text+lastOfAll)
	err = c.QueryRow(ctx, fmt.Sprintf(`SELECT
		ARRAY(SELECT DISTINCT p.plan_id FROM run_plan p WHERE %s LIMIT %d),
		ARRAY(SELECT r.run_id FROM run r WHERE %s ORDER BY r.run_id LIMIT %d)`,
		strings.Join(f.where, " AND "), maxTextPlans+1, named, maxTextRuns+1), f.args...).Scan(&found.plans, &found.runs)
	return found, err
}
