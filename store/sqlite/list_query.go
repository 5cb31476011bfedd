package sqlite

import (
	"encoding/json"
	"fmt"
	"math/bits"
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

// listQuery builds the statement of a page. Each combination of the values that are
// asked for is read in the order of its index, and the page is merged from these
// streams, a row at a time: what is read does not grow with the runs that there are.
type listQuery struct {
	where     // of every stream
	f         store.RunFilter
	direction string
}

// backward: only Before is given. The page that ends there is found by walking back from it.
func backward(f store.RunFilter) bool { return f.Before != nil && f.After == nil }

func newListQuery(f store.RunFilter) *listQuery {
	q := &listQuery{f: f, direction: " DESC"}
	if f.Ascending != backward(f) {
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
		q.terms = append(q.terms, q.bind(`(created_at, run_id) `+later+` (?, ?)`, micros(p.CreatedAt), p.RunID))
	}
	if p := f.Before; p != nil {
		q.terms = append(q.terms, q.bind(`(created_at, run_id) `+earlier+` (?, ?)`, micros(p.CreatedAt), p.RunID))
	}
	return q
}

// bind puts numbered parameters, which many streams share, in the place of the question marks of a term.
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

// page selects all rows of the list, unordered, "" when there can be none. The runs that a
// text finds are those of the plans that it is a part of, and those whose ids begin with
// it. What more plans and runs match than are looked up is soon met on a walk.
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
			parts = append(parts, q.these(found.Runs, plan))
		}
		page = strings.Join(parts, ` UNION `) // a run may be in both
	}
	return page
}

// statement is "" when there can be no rows.
func (q *listQuery) statement(found store.TextMatches) string {
	page := q.page(found)
	if page == "" {
		return ""
	}
	columns := listColumns
	if q.f.Steps {
		columns += listedSteps
	}
	order := func(of string) string {
		return ` ORDER BY ` + of + `created_at` + q.direction + `, ` + of + `run_id` + q.direction
	}
	return `SELECT ` + columns + ` FROM (` + page + order(``) + q.bind(` LIMIT ?`, clamp(q.f.Limit, maxList)) + `) p
		CROSS JOIN run_state st ON st.run_id = p.run_id CROSS JOIN run_head h ON h.run_id = p.run_id` + order(`p.`)
}

// key is a column that is to have one of some values; any value when there are none.
type key struct {
	column string
	values []string
}

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

// streams are the selects of the rows that have a value of plan and meet the filter and more, one for each combination
// of the values of an index: one of who started them, of the plans, of the projects or of the environment, whichever
// comes first, and the statuses. Runs of one plan at one place have an index of their own.
func (q *listQuery) streams(plan key, more ...string) string {
	const ofTenant = `run_state_tenant`
	terms := slices.Concat(q.terms, more)
	index, combined := ofTenant, []string{""}
	keys := q.keys(plan)
	if ofPlace(keys) {
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

// ofPlace: one plan, project and environment are asked for, and statuses: such runs have an index.
func ofPlace(keys []key) bool {
	for _, k := range keys {
		switch n := len(k.values); {
		case k.column == "triggered_by" && n > 0, k.column == "status" && n == 0, k.column != "triggered_by" &&
			k.column != "status" && n != 1:
			return false
		}
	}
	return true
}

// combine adds each value to each of the combinations that there are. The number of
// values is made a power of two, by some that are none, so that there are few statements.
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

// these selects those of some runs that meet the filter.
func (q *listQuery) these(runIDs []string, plan key) string {
	terms := slices.Clone(q.terms)
	for _, k := range q.keys(plan) {
		if len(k.values) > 0 {
			terms = append(terms, q.oneOf(k))
		}
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

// array is values as SQLite reads them.
func array(values []string) string {
	doc, _ := json.Marshal(values) // texts always are JSON
	return string(doc)
}
