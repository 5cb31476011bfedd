package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// textRestricts is false when every run that meets the rest of f meets the text.
func textRestricts(f store.RunFilter) bool {
	return f.Text != "" && (f.PlanID == "" || !strings.Contains(f.PlanID, f.Text))
}

// match looks up a text among the plans and the ids of the runs of the filter's tenant and projects: what there is
// elsewhere changes neither the answer nor what it costs (T101). Both only grow, so that a list which is read after it
// misses nothing that was there before.
func match(ctx context.Context, c *conn, f store.RunFilter) (matches, error) {
	plans, own := scope(f), scope(f)
	plans.add(`instr(st.plan_id, ?) > 0`, f.Text)
	if f.PlanID != "" {
		plans.add(`st.plan_id = ?`, f.PlanID)
	}
	return one(ctx, c, "look up a text", func(at scanner) (found matches, err error) {
		var ofPlans, ofRuns []byte
		if err := at.Scan(&ofPlans, &ofRuns); err != nil {
			return found, err
		}
		err = errors.Join(json.Unmarshal(ofPlans, &found.plans), json.Unmarshal(ofRuns, &found.runs))
		found.many = len(found.runs) > maxTextRuns
		found.runs = slices.DeleteFunc(found.runs, func(id string) bool { return id == "" })
		return found, err
	}, fmt.Sprintf(`SELECT
		(SELECT json_group_array(plan_id) FROM (SELECT DISTINCT st.plan_id FROM run_plan st WHERE %s LIMIT %d)),
		(SELECT json_group_array(iif(%s, run_id, '')) FROM (SELECT * FROM run WHERE tenant_id = ? AND run_id >= ? AND run_id < ? ORDER BY run_id LIMIT %d) st)`,
		plans, maxTextPlans+1, own, maxTextRuns+1), slices.Concat(plans.args, own.args,
		[]any{f.TenantID, f.Text, f.Text + lastOfAll})...)
}
