package sqlite

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Get implements store.Runs.
func (s *Store) Get(ctx context.Context, runID string) (store.Run, error) {
	return readOne(ctx, s, "get run", scanRun, `SELECT `+runColumns+` FROM run WHERE run_id = ?`, runID)
}

// ByRequest implements store.Runs.
func (s *Store) ByRequest(ctx context.Context, key run.Key) (store.Run, error) {
	return readOne(ctx, s, "get run", scanRun, byRequestSQL, key)
}

const byRequestSQL = `SELECT ` + runColumns + ` FROM run WHERE request_key = ?`

const putPlan = `INSERT INTO plan_body (sha256, body) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING`

// PutPlan implements store.Runs.
func (s *Store) PutPlan(ctx context.Context, sha256 string, doc []byte) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "put plan", putPlan, sha256, doc)
		return err
	})
}

// Plan implements store.Runs.
func (s *Store) Plan(ctx context.Context, sha256 string) ([]byte, error) {
	return readOne(ctx, s, "get plan", value[[]byte], `SELECT body FROM plan_body WHERE sha256 = ?`, sha256)
}

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

const listColumns = `st.header, st.created_at, h.last_seq, h.ops_rev`

const listFrom = ` FROM run_state st JOIN run_head h ON h.run_id = st.run_id WHERE `

// List implements store.Runs.
func (s *Store) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	w := scope(f)
	if f.EnvironmentID != "" {
		w.add(`st.environment_id = ?`, f.EnvironmentID)
	}
	if len(f.Statuses) > 0 {
		w.in(`st.status`, len(f.Statuses), func(i int) any { return f.Statuses[i] })
	}
	if f.PlanID != "" {
		w.add(`st.plan_id = ?`, f.PlanID)
	}
	if f.Text != "" {
		w.add(`(substr(st.run_id, 1, length(?)) = ? OR instr(st.plan_id, ?) > 0)`, f.Text, f.Text, f.Text)
	}
	if !f.CreatedFrom.IsZero() {
		w.add(`st.created_at >= ?`, micros(f.CreatedFrom))
	}
	if !f.CreatedTo.IsZero() {
		w.add(`st.created_at < ?`, micros(f.CreatedTo))
	}
	later, earlier := `>`, `<`
	if !f.Ascending {
		later, earlier = earlier, later
	}
	if f.After != nil {
		w.add(`(st.created_at, st.run_id) `+later+` (?, ?)`, micros(f.After.CreatedAt), f.After.RunID)
	}
	if f.Before != nil {
		w.add(`(st.created_at, st.run_id) `+earlier+` (?, ?)`, micros(f.Before.CreatedAt), f.Before.RunID)
	}
	backward := f.Before != nil && f.After == nil
	direction := ` DESC`
	if f.Ascending != backward {
		direction = ` ASC`
	}
	w.args = append(w.args, clamp(f.Limit, maxList))
	out, err := readAll(ctx, s, "list runs", scanListed, `SELECT `+listColumns+listFrom+w.String()+
		` ORDER BY st.created_at`+direction+`, st.run_id`+direction+` LIMIT ?`, w.args...)
	if backward {
		slices.Reverse(out)
	}
	return out, err
}

const maxList = 201

func scanListed(row scanner) (r store.RunRow, err error) {
	var header []byte
	var created int64
	if err := row.Scan(&header, &created, &r.Head, &r.OpsRev); err != nil {
		return r, err
	}
	err = json.Unmarshal(header, &r.Header)
	r.Header.CreatedAt = instant(created)
	return r, err
}
