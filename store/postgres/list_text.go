package postgres

import (
	"context"
	"fmt"
	"slices"
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

// matches are the plans that a text is a part of, one more than the maximum when there
// are more, and the runs whose ids begin with it; many when they are not all.
type matches struct {
	plans, runs []string
	many        bool
}

// textRestricts is false when every run that meets the rest of rf meets the text.
func textRestricts(rf store.RunFilter) bool {
	return rf.Text != "" && (rf.PlanID == "" || !strings.Contains(rf.PlanID, rf.Text))
}

// match looks up a text among the plans and the ids of the runs of the filter's tenant and projects: what there is
// elsewhere changes neither the answer nor what it costs (T101). Both only grow, so that a list which is read after it
// misses nothing that was there before.
func match(ctx context.Context, c *pgx.Conn, rf store.RunFilter) (found matches, err error) {
	var f filter
	f.scope("p", rf)
	f.add("strpos(p.plan_id, ?) > 0", rf.Text)
	if rf.PlanID != "" {
		f.add("p.plan_id = ?", rf.PlanID)
	}
	own := filter{args: f.args}
	own.scope("r", rf)
	named := own.bind("tenant_id = ? AND run_id >= ? AND run_id < ?", rf.TenantID, rf.Text, rf.Text+lastOfAll)
	err = c.QueryRow(ctx, fmt.Sprintf(`SELECT
		ARRAY(SELECT DISTINCT p.plan_id FROM run_plan p WHERE %s LIMIT %d),
		ARRAY(SELECT CASE WHEN %s THEN run_id ELSE '' END FROM (SELECT * FROM run WHERE %s ORDER BY run_id LIMIT %d) r)`,
		&f, maxTextPlans+1, &own, named, maxTextRuns+1), own.args...).Scan(&found.plans, &found.runs)
	found.many = len(found.runs) > maxTextRuns
	found.runs = slices.DeleteFunc(found.runs, func(id string) bool { return id == "" })
	return found, err
}
