package sqlite

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// where collects the conditions of a query.
type where struct {
	terms []string
	args  []any
}

func (w *where) add(term string, args ...any) {
	w.terms = append(w.terms, term)
	w.args = append(w.args, args...)
}

func (w *where) in(column string, n int, arg func(int) any) {
	marks := strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
	w.terms = append(w.terms, column+" IN ("+marks+")")
	for i := range n {
		w.args = append(w.args, arg(i))
	}
}

func (w *where) String() string { return strings.Join(w.terms, " AND ") }

// scope restricts to the tenant and projects of a filter.
func scope(f store.RunFilter) *where {
	w := new(where)
	w.add(`st.tenant_id = ?`, f.TenantID)
	if f.ProjectIDs != nil {
		w.in(`st.project_id`, len(f.ProjectIDs), func(i int) any { return f.ProjectIDs[i] })
	}
	return w
}

// inScopes returns the condition that a row is in the scopes. It returns "" if the scopes restrict nothing.
func inScopes(table string, s store.Scopes) (term string, args []any) {
	environments, projects, places, all := s.Split()
	if all {
		return "", nil
	}
	const list = ` IN (SELECT value FROM json_each(?))`
	return `(` + table + `environment_id` + list + ` OR ` + table + `project_id` + list + ` OR ` +
			table + `project_id || '/' || ` + table + `environment_id` + list + `)`, []any{array(environments), array(projects),
			array(places)}
}

const (
	listColumns = `st.header, st.created_at, h.last_seq, h.ops_rev,
		(SELECT parent_run_id FROM run WHERE run_id = st.run_id)`

	// listedSteps selects the steps of a row as a JSON array.
	listedSteps = `, (SELECT '[' || group_concat(body) || ']' FROM (SELECT body FROM step_state WHERE run_id = p.run_id ORDER BY ord))`
)

// List implements store.Runs. It uses one statement, and one more before it if the filter has a text.
func (s *Store) List(ctx context.Context, f store.RunFilter) (out []store.RunRow, err error) {
	if len(f.SortObstacles()) > 0 {
		return nil, store.ErrSort
	}
	err = s.read(ctx, func(c *conn) (err error) {
		var found store.TextMatches
		if f.TextRestricts() {
			if found, err = match(ctx, c, f); err != nil {
				return err
			}
		}
		out, err = list(ctx, c, f, found)
		return err
	})
	if err != nil {
		return nil, err
	}
	if isBackward(f) {
		slices.Reverse(out)
	}
	return out, nil
}

func list(ctx context.Context, c *conn, f store.RunFilter, found store.TextMatches) ([]store.RunRow, error) {
	q := newListQuery(f)
	query := q.statement(found)
	if query == "" {
		return nil, nil
	}
	steps := 0
	return collect(ctx, c, "list runs", func(at scanner) (r store.RunRow, err error) {
		var doc []byte
		var by int64
		var more []any
		if f.Steps {
			more = append(more, &doc)
		}
		if f.Sort != "" {
			more = append(more, &by)
		}
		if r, err = scanListed(at, more...); err != nil {
			return r, err
		}
		switch f.Sort {
		case "":
		case store.SortDuration:
			r.Pos = store.RunPos{Took: time.Duration(by) * time.Microsecond, RunID: r.Header.RunID}
		default:
			r.Pos = store.RunPos{CreatedAt: instant(by), RunID: r.Header.RunID}
		}
		if doc == nil {
			return r, nil
		}
		if err := json.Unmarshal(doc, &r.Steps); err != nil {
			return r, err
		}
		if steps += len(r.Steps); steps > store.MaxListSteps {
			return r, store.ErrTooMany
		}
		return r, nil
	}, query, q.args...)
}

// scanListed reads listColumns and scans the columns behind them into more.
func scanListed(row scanner, more ...any) (r store.RunRow, err error) {
	var header []byte
	var created int64
	if err := row.Scan(append([]any{&header, &created, &r.Head, &r.OpsRev, &r.ParentRunID}, more...)...); err != nil {
		return r, err
	}
	if err := json.Unmarshal(header, &r.Header); err != nil {
		return r, err
	}
	r.Header.CreatedAt = instant(created)
	return r, nil
}

// Count implements store.Runs. It uses two statements: one counts all runs, the other one the failed runs.
func (s *Store) Count(ctx context.Context, f store.RunFilter, parts int) ([]store.RunCount, error) {
	f.After, f.Before, f.Steps, f.Sort = nil, nil, false, ""
	out := make([]store.RunCount, clamp(parts, store.MaxParts))
	err := s.read(ctx, func(c *conn) (err error) {
		var found store.TextMatches
		if f.TextRestricts() {
			if found, err = match(ctx, c, f); err != nil {
				return err
			}
		}
		return f.CountInto(out, func(f store.RunFilter, each func(part, n int64)) error {
			return count(ctx, c, f, found, len(out), each)
		})
	})
	return out, err
}

func count(ctx context.Context, c *conn, f store.RunFilter, found store.TextMatches, parts int,
	each func(part, n int64)) error {
	q := newListQuery(f)
	page := q.page(found)
	if page == "" {
		return nil
	}
	from, to := micros(f.CreatedFrom), micros(f.CreatedTo)
	part := q.bind(`(created_at - ?) * ? / ?`, from, parts, max(1, to-from))
	sql := `SELECT ` + part + `, count(*) FROM (` + page + q.bind(` LIMIT ?`, store.MaxCounted+1) + `) GROUP BY 1`
	return c.query(ctx, "count runs", sql, q.args, func(r row) error {
		var part, n int64
		err := r.Scan(&part, &n)
		if err == nil {
			each(part, n)
		}
		return err
	})
}

// ListAwaitingRuns implements store.Attention.
func (s *Store) ListAwaitingRuns(ctx context.Context, f store.WaitFilter) (out []store.RunRow, err error) {
	if f.ProjectIDs != nil && len(f.ProjectIDs) == 0 {
		return nil, nil // SQLite would not use the index for a condition that is never true
	}
	w := scope(store.RunFilter{TenantID: f.TenantID, ProjectIDs: f.ProjectIDs})
	if term, args := inScopes(`st.`, f.Scopes); term != "" {
		w.add(term, args...)
	}
	if f.EnvironmentID != "" {
		w.add(`st.environment_id = ?`, f.EnvironmentID)
	}
	return readAll(ctx, s, "awaiting runs", func(row scanner) (store.RunRow, error) { return scanListed(row) },
		`SELECT `+listColumns+` FROM run_state st INDEXED BY run_state_awaiting_until
		CROSS JOIN run_head h ON h.run_id = st.run_id WHERE st.awaiting_until IS NOT NULL AND `+w.String()+`
		ORDER BY st.awaiting_until, st.run_id LIMIT ?`, append(w.args, clamp(f.Limit, store.MaxPage))...)
}

// CountUpTo implements store.Attention. It uses one statement, and one more before it if the filter has a text.
func (s *Store) CountUpTo(ctx context.Context, f store.RunFilter, limit int) (n int, err error) {
	f.After, f.Before, f.Steps, f.Sort = nil, nil, false, ""
	err = s.read(ctx, func(c *conn) (err error) {
		var found store.TextMatches
		if f.TextRestricts() {
			if found, err = match(ctx, c, f); err != nil {
				return err
			}
		}
		q := newListQuery(f)
		page := q.page(found)
		if page == "" {
			return nil
		}
		n, err = collectOne(ctx, c, "count up to", value[int], `SELECT count(*) FROM (`+page+
			q.bind(` LIMIT ?`, clamp(limit, store.MaxCountUpTo))+`)`, q.args...)
		return err
	})
	return n, err
}
