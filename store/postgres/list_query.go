package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/store"
)

const (
	// maxList is the longest List: a page of 200 and one to see that there is more.
	maxList = 201
	// maxStreams is how many combinations of values a page is merged from. So many
	// values more are no key: rows are met on a walk that has one of them.
	maxStreams = 128
)

// filter builds the conditions of a statement.
type filter struct {
	where []string
	args  []any
}

// bind puts parameters in the place of the question marks of a condition.
func (f *filter) bind(condition string, args ...any) string {
	for _, a := range args {
		f.args = append(f.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(f.args)), 1)
	}
	return condition
}

func (f *filter) add(condition string, args ...any) {
	f.where = append(f.where, f.bind(condition, args...))
}

// String is all of them.
func (f *filter) String() string { return strings.Join(f.where, " AND ") }

// scope restricts a table to the tenant and the projects of rf.
func (f *filter) scope(table string, rf store.RunFilter) {
	f.add(table+".tenant_id = ?", rf.TenantID)
	if rf.ProjectIDs != nil {
		f.add(table+".project_id = ANY(?)", rf.ProjectIDs)
	}
}

// scopes restricts a table to a union of places. It is a condition of each row alone, without a subquery, so that the
// walk of an index and its end at a full page stay as they are.
func (f *filter) scopes(table string, s store.Scopes) {
	if environments, projects, places, all := s.Split(); !all {
		f.add(fmt.Sprintf(
			"(%[1]s.environment_id = ANY(?) OR %[1]s.project_id = ANY(?) OR %[1]s.project_id || '/' || "+
				"%[1]s.environment_id = ANY(?))",
			table), environments, projects, places)
	}
}

// listQuery builds the select that finds a page. Each combination of the values that
// are asked for is read in the order of its index, as far as a page reaches, and the
// page is the first of those: what is read does not grow with the runs that there
// are. run_status is read when the status matters, else run.
type listQuery struct {
	filter
	rf        store.RunFilter
	table     string
	direction string
	limit     int
}

// backward: only Before is given. The page that ends there is found by walking back from it.
func backward(rf store.RunFilter) bool { return rf.Before != nil && rf.After == nil }

func newListQuery(rf store.RunFilter) *listQuery {
	q := &listQuery{rf: rf, table: "run", direction: "DESC", limit: bounded(rf.Limit, maxList)}
	if len(rf.Statuses) > 0 {
		q.table = "run_status"
	}
	if rf.Ascending != backward(rf) {
		q.direction = "ASC"
	}
	q.add("l.tenant_id = ?", rf.TenantID)
	if rf.EnvironmentID != "" {
		q.add("l.environment_id = ?", rf.EnvironmentID)
	}
	q.scopes("l", rf.Scopes)
	if rf.TriggeredBy != "" {
		q.add("l.triggered_by = ?", rf.TriggeredBy)
	}
	// CreatedFrom is inclusive, CreatedTo exclusive.
	if !rf.CreatedFrom.IsZero() {
		q.add("l.created_at >= ?", rf.CreatedFrom)
	}
	if !rf.CreatedTo.IsZero() {
		q.add("l.created_at < ?", rf.CreatedTo)
	}
	after, before := "<", ">"
	if rf.Ascending {
		after, before = before, after
	}
	if p := rf.After; p != nil {
		q.add("(l.created_at, l.run_id) "+after+" (?, ?)", p.CreatedAt, p.RunID)
	}
	if p := rf.Before; p != nil {
		q.add("(l.created_at, l.run_id) "+before+" (?, ?)", p.CreatedAt, p.RunID)
	}
	return q
}

// page is the select, "" when there can be no rows. The runs that a text finds are
// those of the plans that it is a part of, and others whose ids begin with it. What
// more plans and runs match than are looked up is soon met on a walk.
func (q *listQuery) page(found store.TextMatches) string {
	plan := key{column: "plan_id"}
	if q.rf.PlanID != "" {
		plan.values = []string{q.rf.PlanID}
	}
	text := q.rf.Text
	switch {
	case q.rf.ProjectIDs != nil && len(q.rf.ProjectIDs) == 0:
		return ""
	case !q.rf.TextRestricts():
		return q.stream(plan)
	case len(found.Plans) > store.MaxTextPlans:
		return q.stream(plan, q.bind("(starts_with(l.run_id, ?) OR strpos(l.plan_id, ?) > 0)", text, text))
	}
	var parts []string
	if len(found.Plans) > 0 {
		parts = append(parts, q.stream(key{plan.column, found.Plans}))
	}
	if found.Many || len(found.Runs) > 0 {
		named, which := "l.run_id = ANY(?)", any(found.Runs)
		if found.Many {
			named, which = "starts_with(l.run_id, ?)", text
		}
		parts = append(parts, q.stream(plan, q.bind(named, which), q.bind("strpos(l.plan_id, ?) = 0", text)))
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return q.first(`SELECT * FROM ((`+parts[0]+`) UNION ALL (`+parts[1]+`)) u`, "u")
}

// key is a column that is to have one of some values; any value when there are none.
type key struct {
	column string
	values []string
}

// stream selects the first rows of the list that have a value of plan and meet the
// filter and more.
func (q *listQuery) stream(plan key, more ...string) string {
	statuses := make([]string, len(q.rf.Statuses))
	for i, s := range q.rf.Statuses {
		statuses[i] = string(s)
	}
	where := slices.Concat(q.where, more)
	var from []string
	streams := 1
	for _, k := range []key{plan, {"project_id", q.rf.ProjectIDs}, {"status", statuses}} {
		vs := slices.Compact(slices.Sorted(slices.Values(k.values)))
		ofPlans := k.column == "project_id" && len(plan.values) > 0 // which are of few projects
		switch n := len(vs); {
		case n == 0:
		case n == 1:
			where = append(where, q.bind("l."+k.column+" = ?", vs[0]))
		case ofPlans || streams*n > maxStreams:
			where = append(where, q.bind("l."+k.column+" = ANY(?)", vs))
		default:
			streams *= n
			from = append(from, q.bind("unnest(?::text[]) AS of_"+k.column+" (v)", vs))
			where = append(where, "l."+k.column+" = of_"+k.column+".v")
		}
	}
	rows := q.first(`SELECT l.created_at, l.run_id FROM `+q.table+` l WHERE `+strings.Join(where, " AND "), "l")
	if len(from) == 0 {
		return rows
	}
	return q.first(`SELECT s.* FROM `+strings.Join(from, ", ")+`, LATERAL (`+rows+`) s`, "s")
}

// first is the first rows of a select. Their number is no parameter, for the plan depends on it.
func (q *listQuery) first(rows, table string) string {
	return fmt.Sprintf("%s ORDER BY %[2]s.created_at %[3]s, %[2]s.run_id %[3]s LIMIT %[4]d", rows, table, q.direction,
		q.limit)
}
