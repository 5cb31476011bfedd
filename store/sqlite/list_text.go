package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/store"
)

// match looks up the text among the plans and run ids of the filter's tenant and projects. Plans and runs of others
// change neither the result nor its cost (contract T101). Plans and runs are never removed, so a list that is read
// afterwards misses nothing.
func match(ctx context.Context, c *conn, f store.RunFilter) (store.TextMatches, error) {
	plans, own := scope(f), scope(f)
	plans.add(`instr(st.plan_id, ?) > 0`, f.Text)
	if f.PlanID != "" {
		plans.add(`st.plan_id = ?`, f.PlanID)
	}
	from, to := f.TextRange()
	return collectOne(ctx, c, "look up a text", func(at scanner) (store.TextMatches, error) {
		var ofPlans, ofRuns []byte
		var plans, runs []string
		if err := at.Scan(&ofPlans, &ofRuns); err != nil {
			return store.TextMatches{}, err
		}
		err := errors.Join(json.Unmarshal(ofPlans, &plans), json.Unmarshal(ofRuns, &runs))
		return store.NewTextMatches(plans, runs), err
	}, fmt.Sprintf(`SELECT
		(SELECT json_group_array(plan_id) FROM (SELECT DISTINCT st.plan_id FROM run_plan st WHERE %s LIMIT %d)),
		(SELECT json_group_array(iif(%s, run_id, '')) FROM (SELECT * FROM run WHERE tenant_id = ? AND run_id >= ? AND run_id < ? ORDER BY run_id LIMIT %d) st)`,
		plans, store.MaxTextPlans+1, own, store.MaxTextRuns+1), slices.Concat(plans.args, own.args,
		[]any{f.TenantID, from, to})...)
}
