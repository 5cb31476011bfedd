package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	// maxList is the longest List: a page of 200 rows and one row that shows whether there are more.
	maxList = 201
	// maxStreams is the most streams that a page is merged from: one for each combination of the filter's values. A
	// column whose values would exceed it becomes a condition of the rows instead.
	maxStreams = 128
)

// filter builds the conditions of a statement.
type filter struct {
	where []string
	args  []any
}

// bind replaces the question marks of a condition by numbered parameters for args.
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

// String joins the conditions by AND.
func (f *filter) String() string { return strings.Join(f.where, " AND ") }

// scope restricts a table to the tenant and the projects of rf.
func (f *filter) scope(table string, rf store.RunFilter) {
	f.add(table+".tenant_id = ?", rf.TenantID)
	if rf.ProjectIDs != nil {
		f.add(table+".project_id = ANY(?)", rf.ProjectIDs)
	}
}

// scopes restricts a table to a union of environments, projects and pairs of both. It is a condition without a
// subquery, so that the planner still walks the index and stops at a full page.
func (f *filter) scopes(table string, s store.Scopes) {
	if environments, projects, places, all := s.Split(); !all {
		f.add(fmt.Sprintf(
			"(%[1]s.environment_id = ANY(?) OR %[1]s.project_id = ANY(?) OR %[1]s.project_id || '/' || "+
				"%[1]s.environment_id = ANY(?))",
			table), environments, projects, places)
	}
}

// listQuery builds the select that finds a page. It reads each combination of the filter's values as a stream in the
// order of its index, at most one page long, and merges the streams. So the number of rows read does not grow with the
// number of runs. It reads run_status if the filter has statuses, otherwise run.
type listQuery struct {
	filter
	rf        store.RunFilter
	table     string
	key       string // the column that the list is sorted by
	direction string
	limit     int
}

// isBackward reports whether only Before is set. The page that ends there is found in reverse order.
func isBackward(rf store.RunFilter) bool { return rf.Before != nil && rf.After == nil }

func newListQuery(rf store.RunFilter) *listQuery {
	q := &listQuery{rf: rf, table: "run", key: sortColumns[rf.Sort], direction: "DESC", limit: clamp(rf.Limit, maxList)}
	if len(rf.Statuses) > 0 || rf.Sort != "" {
		q.table = "run_status"
	}
	if rf.Ascending != isBackward(rf) {
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
		q.beyond(after, *p)
	}
	if p := rf.Before; p != nil {
		q.beyond(before, *p)
	}
	return q
}

// sortColumns are the columns of the orders.
//
//nolint:gochecknoglobals // a constant
var sortColumns = map[store.RunSort]string{
	"": "created_at", store.SortEnded: "ended_at", store.SortDuration: "took", store.SortTimeLeft: "awaiting_until",
}

// beyond restricts to the rows on that side of a position.
func (q *listQuery) beyond(side string, p store.RunPos) {
	at := any(p.CreatedAt)
	if q.rf.Sort == store.SortDuration {
		at = p.Took.Microseconds()
	}
	q.add("(l."+q.key+", l.run_id) "+side+" (?, ?)", at, p.RunID)
}

// page returns the select, or "" if no row can match. A text finds the runs of plans whose id contains it, and other
// runs whose id begins with it. If it matches too many plans or runs to look up, a walk over all runs soon finds a full
// page.
func (q *listQuery) page(found store.TextMatches) string {
	plan := key{column: "plan_id"}
	if q.rf.PlanID != "" {
		plan.values = []string{q.rf.PlanID}
	}
	text := q.rf.Text
	switch {
	case q.rf.ProjectIDs != nil && len(q.rf.ProjectIDs) == 0:
		return ""
	case (q.rf.Sort == store.SortEnded || q.rf.Sort == store.SortDuration) && len(q.rf.EndedStatuses()) == 0:
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
	return q.firstRows(`SELECT * FROM ((`+parts[0]+`) UNION ALL (`+parts[1]+`)) u`, "u")
}

// key is a column that must have one of values. No values means no restriction.
type key struct {
	column string
	values []string
}

// stream selects the first rows of the list that have a value of plan and meet the filter and the conditions in more.
func (q *listQuery) stream(plan key, more ...string) string {
	waits := q.rf.AwaitingOperator && !slices.Contains(q.rf.Statuses, run.Running) // those with RUNNING include them
	switch {
	case q.rf.Sort == store.SortTimeLeft:
		return q.byTimeLeft(plan)
	case q.rf.Sort != "":
		return q.byKeys(plan, "l."+q.key+" IS NOT NULL")
	case q.rf.Tag != "":
		return q.tagged(plan, more...)
	case waits && len(q.rf.Statuses) == 0:
		return q.awaiting(plan, more...)
	case waits:
		return q.firstRows(`SELECT * FROM ((`+q.awaiting(plan, more...)+`) UNION ALL (`+q.byKeys(plan, more...)+`)) w`, "w")
	}
	return q.byKeys(plan, more...)
}

const isAwaiting = `%[1]sstatus = 'RUNNING' AND %[1]sawaiting_until IS NOT NULL` // the condition of the partial indexes

// awaiting selects the runs that await an operator. Only they are in its index, so that conditions on other columns
// skip few rows.
func (q *listQuery) awaiting(plan key, more ...string) string {
	where := slices.Concat(q.where, more, q.conditions(plan), []string{fmt.Sprintf(isAwaiting, "l.")})
	return q.firstRows(`SELECT l.created_at, l.run_id FROM run_status l WHERE `+strings.Join(where, " AND "), "l")
}

// byTimeLeft selects the runs that await an operator, in the order of their index. Only they are in it.
func (q *listQuery) byTimeLeft(plan key) string {
	where := slices.Concat(q.where, q.conditions(plan), []string{fmt.Sprintf(isAwaiting, "l.")})
	if len(q.rf.Statuses) > 0 && !q.rf.AwaitingOperator {
		where = append(where, q.bind("l.status = ANY(?)", q.statuses()))
	}
	return q.firstRows(`SELECT l.awaiting_until, l.run_id FROM run_status l WHERE `+strings.Join(where, " AND "), "l")
}

// tagged selects the runs with the filter's tag, in the order of their index. Besides the page, the cost grows with the
// tagged runs that the other conditions exclude.
func (q *listQuery) tagged(plan key, more ...string) string {
	where := slices.Concat(q.where, more, q.conditions(plan), []string{q.bind("l.tag = ?", q.rf.Tag)})
	var which []string
	if len(q.rf.Statuses) > 0 {
		which = append(which, q.bind("s.status = ANY(?)", q.statuses()))
	}
	if q.rf.AwaitingOperator {
		which = append(which, fmt.Sprintf(isAwaiting, "s."))
	}
	if len(which) > 0 {
		where = append(where, `EXISTS (SELECT FROM run_status s WHERE s.run_id = l.run_id AND (`+
			strings.Join(which, " OR ")+`))`)
	}
	return q.firstRows(`SELECT l.created_at, l.run_id FROM run_tag l WHERE `+strings.Join(where, " AND "), "l")
}

// conditions are the conditions on the plan and the projects.
func (q *listQuery) conditions(plan key) (where []string) {
	for _, k := range []key{plan, {"project_id", q.rf.ProjectIDs}} {
		if len(k.values) > 0 {
			where = append(where, q.bind("l."+k.column+" = ANY(?)", k.values))
		}
	}
	return where
}

// statuses are those of the filter. In a list of runs that have ended they are the ones of an end, because its indexes
// begin with the status.
func (q *listQuery) statuses() []string {
	of := q.rf.Statuses
	if q.rf.Sort == store.SortEnded || q.rf.Sort == store.SortDuration {
		of = q.rf.EndedStatuses()
	}
	statuses := make([]string, len(of))
	for i, s := range of {
		statuses[i] = string(s)
	}
	return statuses
}

// byKeys is stream for the statuses of the filter.
func (q *listQuery) byKeys(plan key, more ...string) string {
	where := slices.Concat(q.where, more)
	var from []string
	streams := 1
	for _, k := range []key{plan, {"project_id", q.rf.ProjectIDs}, {"status", q.statuses()}} {
		vs := slices.Compact(slices.Sorted(slices.Values(k.values)))
		ofPlans := k.column == "project_id" && len(plan.values) > 0 // a plan has few projects
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
	rows := q.firstRows(`SELECT l.`+q.key+`, l.run_id FROM `+q.table+` l WHERE `+strings.Join(where, " AND "), "l")
	if len(from) == 0 {
		return rows
	}
	return q.firstRows(`SELECT s.* FROM `+strings.Join(from, ", ")+`, LATERAL (`+rows+`) s`, "s")
}

// firstRows returns a select of the first rows of rows. Their number is not a parameter, because the query plan depends
// on it.
func (q *listQuery) firstRows(rows, table string) string {
	return fmt.Sprintf("%s ORDER BY %[2]s.%[5]s %[3]s, %[2]s.run_id %[3]s LIMIT %[4]d", rows, table, q.direction, q.limit,
		q.key)
}

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
