package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

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

// listQuery builds the statement of a page. It reads each combination of the filter's values as a stream in the order
// of its index, and merges the streams row by row. So the number of rows read does not grow with the number of runs.
type listQuery struct {
	where     // the conditions of every stream
	f         store.RunFilter
	key       string // the column that the list is sorted by
	direction string
}

// isBackward reports whether only Before is set. The page that ends there is found in reverse order.
func isBackward(f store.RunFilter) bool { return f.Before != nil && f.After == nil }

func newListQuery(f store.RunFilter) *listQuery {
	q := &listQuery{f: f, key: sortColumns[f.Sort], direction: " DESC"}
	if f.Ascending != isBackward(f) {
		q.direction = " ASC"
	}
	q.terms = append(q.terms, q.bind(`tenant_id = ?`, f.TenantID))
	if !f.CreatedFrom.IsZero() {
		q.terms = append(q.terms, q.bind(`created_at >= ?`, micros(f.CreatedFrom)))
	}
	if !f.CreatedTo.IsZero() {
		q.terms = append(q.terms, q.bind(`created_at < ?`, micros(f.CreatedTo)))
	}
	if term, args := inScopes(``, f.Scopes); term != "" {
		q.terms = append(q.terms, q.bind(term, args...))
	}
	later, earlier := `>`, `<`
	if !f.Ascending {
		later, earlier = earlier, later
	}
	if p := f.After; p != nil {
		q.terms = append(q.terms, q.beyond(later, *p))
	}
	if p := f.Before; p != nil {
		q.terms = append(q.terms, q.beyond(earlier, *p))
	}
	return q
}

// sortColumns are the columns of the orders.
//
//nolint:gochecknoglobals // a constant
var sortColumns = map[store.RunSort]string{
	"": "created_at", store.SortEnded: "ended_at", store.SortDuration: "took", store.SortTimeLeft: "awaiting_until",
}

// beyond is the condition that a row stands on that side of a position.
func (q *listQuery) beyond(side string, p store.RunPos) string {
	at := micros(p.CreatedAt)
	if q.f.Sort == store.SortDuration {
		at = p.Took.Microseconds()
	}
	return q.bind(`(`+q.key+`, run_id) `+side+` (?, ?)`, at, p.RunID)
}

// bind replaces the question marks of a term by numbered parameters for args, which many streams share.
func (q *listQuery) bind(term string, args ...any) string {
	before := ""
	for _, a := range args {
		q.args = append(q.args, a)
		head, tail, _ := strings.Cut(term, "?")
		before += fmt.Sprintf("%s?%d", head, len(q.args))
		term = tail
	}
	return before + term
}

// page returns a select of all rows of the list without an order, or "" if no row can match. A text finds the runs of
// plans whose id contains it, and runs whose id begins with it. If it matches too many plans or runs to look up, a walk
// over all runs soon finds a full page.
func (q *listQuery) page(found store.TextMatches) (page string) {
	plan := key{column: "plan_id"}
	if q.f.PlanID != "" {
		plan.values = []string{q.f.PlanID}
	}
	const named = `substr(run_id, 1, length(?)) = ?`
	text := q.f.Text
	switch {
	case q.f.ProjectIDs != nil && len(q.f.ProjectIDs) == 0:
	case !q.f.TextRestricts():
		page = q.streams(plan)
	case len(found.Plans) > store.MaxTextPlans:
		page = q.streams(plan, q.bind(`(`+named+` OR instr(plan_id, ?) > 0)`, text, text, text))
	default:
		var parts []string
		if len(found.Plans) > 0 {
			parts = append(parts, q.streams(key{plan.column, found.Plans}))
		}
		if found.Many {
			parts = append(parts, q.streams(plan, q.bind(named, text, text)))
		} else if len(found.Runs) > 0 {
			parts = append(parts, q.runsByID(found.Runs, plan))
		}
		page = strings.Join(parts, ` UNION `) // UNION, because a run may be in both
	}
	return page
}

// statement returns the statement of a page, or "" if no row can match.
func (q *listQuery) statement(found store.TextMatches) string {
	page := q.page(found)
	if page == "" {
		return ""
	}
	columns := listColumns
	if q.f.Steps {
		columns += listedSteps
	}
	if q.f.Sort != "" {
		columns += `, p.` + q.key
	}
	order := func(of string) string {
		return ` ORDER BY ` + of + q.key + q.direction + `, ` + of + `run_id` + q.direction
	}
	return `SELECT ` + columns + ` FROM (` + page + order(``) + q.bind(` LIMIT ?`, clamp(q.f.Limit, maxList)) + `) p
		CROSS JOIN run_state st ON st.run_id = p.run_id CROSS JOIN run_head h ON h.run_id = p.run_id` + order(`p.`)
}

// key is a column that must have one of values. No values means no restriction.
type key struct {
	column string
	values []string
}

// statusKey is the index of the statuses in keys.
const statusKey = 4

func (q *listQuery) keys(plan key) []key {
	starter, environment, status := key{column: "triggered_by"}, key{column: "environment_id"}, key{column: "status"}
	if q.f.TriggeredBy != "" {
		starter.values = []string{q.f.TriggeredBy}
	}
	if q.f.EnvironmentID != "" {
		environment.values = []string{q.f.EnvironmentID}
	}
	for _, s := range q.f.Statuses {
		status.values = append(status.values, string(s))
	}
	keys := []key{starter, plan, {"project_id", q.f.ProjectIDs}, environment, status}
	for i := range keys {
		keys[i].values = slices.Compact(slices.Sorted(slices.Values(keys[i].values)))
	}
	return keys
}

// streams returns the union of selects that have a value of plan and meet the filter and the conditions in more. There
// is one select for each combination of the values of an index. The first key column of the index is the starter, the
// plan, the project or the environment, whichever the filter restricts first; the statuses follow. Runs of one plan in
// one project and environment have their own index.
func (q *listQuery) streams(plan key, more ...string) string {
	waits := q.f.AwaitingOperator && !slices.Contains(q.f.Statuses, run.Running) // those with RUNNING include them
	switch {
	case q.f.Sort == store.SortTimeLeft:
		return q.byTimeLeft(plan)
	case q.f.Sort != "":
		return q.ended(plan)
	case q.f.Tag != "":
		return q.tagged(plan, more...)
	case waits && len(q.f.Statuses) == 0:
		return q.awaiting(plan, more...)
	case waits:
		return q.awaiting(plan, more...) + ` UNION ALL ` + q.byKeys(plan, more...)
	}
	return q.byKeys(plan, more...)
}

// awaiting selects the runs that await an operator. Only they are in its index, so that conditions on other columns
// skip few rows.
func (q *listQuery) awaiting(plan key, more ...string) string {
	return `SELECT created_at, run_id FROM run_state INDEXED BY run_state_awaiting WHERE awaiting_until IS NOT NULL AND ` +
		strings.Join(slices.Concat(q.terms, more, q.conditions(plan, false)), " AND ")
}

// byTimeLeft selects the runs that await an operator, in the order of their index. Only they are in it.
func (q *listQuery) byTimeLeft(plan key) string {
	return `SELECT awaiting_until, run_id FROM run_state INDEXED BY run_state_awaiting_until
		WHERE awaiting_until IS NOT NULL AND ` + strings.Join(slices.Concat(q.terms, q.conditions(plan, true)), " AND ")
}

// ended returns the streams of the runs that have ended: one for each of their statuses and each value of the plan, the
// project or the environment, whichever the filter restricts first. The other columns are conditions of the rows.
func (q *listQuery) ended(plan key) string {
	status := key{column: "status"}
	for _, s := range q.f.EndedStatuses() {
		status.values = append(status.values, string(s))
	}
	if len(status.values) == 0 {
		return ""
	}
	combined, terms, index := q.combine([]string{""}, status), slices.Clone(q.terms), "tenant"
	for _, k := range q.keys(plan) {
		switch n := len(k.values); {
		case n == 0 || k.column == status.column:
		case index != "tenant" || len(combined)*n > maxStreams:
			terms = append(terms, q.oneOf(k))
		default:
			index = strings.TrimSuffix(k.column, "_id")
			combined = q.combine(combined, k)
		}
	}
	name := map[string]string{"ended_at": "ended", "took": "took"}[q.key]
	for i, equal := range combined {
		combined[i] = `SELECT ` + q.key + `, run_id FROM run_state INDEXED BY run_state_` + name + `_` + index + ` WHERE ` +
			q.key + ` IS NOT NULL AND ` + strings.Join(terms, " AND ") + equal
	}
	return strings.Join(combined, ` UNION ALL `)
}

// tagged selects the runs with the filter's tag, in the order of their index. Besides the page, the cost grows with the
// tagged runs that the other conditions exclude.
func (q *listQuery) tagged(plan key, more ...string) string {
	terms := slices.Concat(q.terms, more, q.conditions(plan, false), []string{q.bind(`tag = ?`, q.f.Tag)})
	if term := q.hasStatus(`s.`); term != "" {
		terms = append(terms, `EXISTS (SELECT 1 FROM run_state s WHERE s.run_id = run_tag.run_id AND `+term+`)`)
	}
	return `SELECT created_at, run_id FROM run_tag INDEXED BY run_tag_listed WHERE ` + strings.Join(terms, " AND ")
}

// conditions are the conditions on the key columns, with or without the statuses.
func (q *listQuery) conditions(plan key, statuses bool) (terms []string) {
	for _, k := range q.keys(plan) {
		if len(k.values) > 0 && k.column != "status" {
			terms = append(terms, q.oneOf(k))
		}
	}
	if term := q.hasStatus(``); statuses && term != "" {
		terms = append(terms, term)
	}
	return terms
}

// hasStatus is the condition that a row of table has one of the statuses or awaits an operator, as the filter asks; ""
// when it does not ask.
func (q *listQuery) hasStatus(table string) string {
	var terms []string
	if len(q.f.Statuses) > 0 {
		terms = append(terms, table+q.oneOf(q.keys(key{column: "plan_id"})[statusKey]))
	}
	if q.f.AwaitingOperator {
		terms = append(terms, table+`awaiting_until IS NOT NULL`)
	}
	if len(terms) == 0 {
		return ""
	}
	return `(` + strings.Join(terms, ` OR `) + `)`
}

// byKeys returns the streams of streams for the statuses of the filter.
func (q *listQuery) byKeys(plan key, more ...string) string {
	const ofTenant = `run_state_tenant`
	terms := slices.Concat(q.terms, more)
	index, combined := ofTenant, []string{""}
	keys := q.keys(plan)
	if isSingleScope(keys) {
		index = `run_state_scope`
	}
	for _, k := range keys {
		n := len(k.values)
		switch ofStatus := k.column == "status"; {
		case n == 0:
		case !ofStatus && index != ofTenant || len(combined)*n > maxStreams:
			terms = append(terms, q.oneOf(k))
		case ofStatus:
			index += `_status`
			combined = q.combine(combined, k)
		default:
			index = `run_state_` + strings.TrimSuffix(k.column, "_id")
			combined = q.combine(combined, k)
		}
	}
	for i, equal := range combined {
		combined[i] = `SELECT created_at, run_id FROM run_state INDEXED BY ` + index + ` WHERE ` +
			strings.Join(terms, " AND ") + equal
	}
	return strings.Join(combined, ` UNION ALL `)
}

// isSingleScope reports whether the filter has exactly one plan, project and environment, and statuses. Such runs have
// their own index.
func isSingleScope(keys []key) bool {
	for _, k := range keys {
		switch n := len(k.values); {
		case k.column == "triggered_by" && n > 0, k.column == "status" && n == 0, k.column != "triggered_by" &&
			k.column != "status" && n != 1:
			return false
		}
	}
	return true
}

// combine adds each value of k to each combination. It fills the number of values up to a power of two with NULL, which
// matches nothing, so that there are few different statements.
func (q *listQuery) combine(combined []string, k key) (out []string) {
	for i := range 1 << bits.Len(uint(len(k.values)-1)) {
		var v any
		if i < len(k.values) {
			v = k.values[i]
		}
		term := q.bind(` AND `+k.column+` = ?`, v)
		for _, c := range combined {
			out = append(out, c+term)
		}
	}
	return out
}

// runsByID selects those of the given runs that meet the filter.
func (q *listQuery) runsByID(runIDs []string, plan key) string {
	terms := slices.Concat(q.terms, q.conditions(plan, true))
	if q.f.Tag != "" {
		terms = append(terms, q.bind(`EXISTS (SELECT 1 FROM run_tag g WHERE g.run_id = run_state.run_id AND g.tag = ?)`, q.f.Tag))
	}
	return `SELECT created_at, run_id FROM ` + q.bind(`json_each(?)`, array(runIDs)) +
		` CROSS JOIN run_state ON run_id = value WHERE ` + strings.Join(terms, " AND ")
}

func (q *listQuery) oneOf(k key) string {
	if len(k.values) == 1 {
		return q.bind(k.column+` = ?`, k.values[0])
	}
	return q.bind(k.column+` IN (SELECT value FROM json_each(?))`, array(k.values))
}

// array returns values as the JSON array that json_each reads.
func array(values []string) string {
	doc, _ := json.Marshal(values) // encoding strings cannot fail
	return string(doc)
}

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
