package owner

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/store"
)

// Rewriting is what one step of an erasure of a person rewrites with.
type Rewriting struct {
	Scope    Scope
	Renaming Renaming
	// Vouch returns the audit row that vouches for a rewrite.
	Vouch func(store.Rewrite) store.AuditRow
	// Prior lists what earlier erasures made of an object, the newest last.
	Prior func(ctx context.Context, object string) ([]store.Rewrite, error)
}

// logTables lists the tables whose rows belong to the log of a run, and change only when the run has ended. An event
// is rewritten with the seals of its log.
var logTables = []string{"run", "event", "signal", "step_state", "run_state", "run_status", "run_note", "run_tag",
	"approval_decision", "approval", "run_archive", "run_queue", "delivery", "secret_read"}

// keepingTables lists the tables in which nothing is replaced: the chain of the audit, what is addressed by its
// content, and what holds no text of people.
var keepingTables = []string{"audit", "audit_link", "audit_head", "audit_pending", "subject_key", "plan_body",
	"run_head", "run_dirty", "run_repair", "run_plan", "plan_activity", "lane", "bucket"}

// fixed lists the columns that name no people: ids, words of dvt and hashes. A person may be named like a plan.
var fixed = []string{"id", "tenant_id", "project_id", "environment_id", "plan_id", "plan_version", "run_id",
	"parent_run_id", "step_id", "signal_id", "event_id", "bulk_id", "order_id", "message_id", "request_key", "key", "type",
	"status", "code", "level", "kind", "queue", "state", "act", "outcome", "answered", "given_as", "severity",
	"grouped_by", "resolution", "rejection", "application", "fingerprint", "sha256", "digest", "location", "phase",
	"position", "counts",
	"certificate", "trigger_source", "emitted_by", "cause", "plan_ref", "provider", "action", "version"}

// isFixed reports whether nothing is replaced in a column.
func isFixed(table, column string) bool {
	return slices.Contains(fixed, column) && (table != "bulk" || column != "action")
}

// Texts lists the tables in which RewriteTexts replaces a person, in their order. Tables with rights come first, so
// that the person has none while the erasure waits for runs.
func (d *DB) Texts() (out []string) {
	for _, t := range d.tables(tenantTables()) {
		if !slices.Contains(logTables, t.name) && !slices.Contains(keepingTables, t.name) {
			out = append(out, t.name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		first := func(name string) int { return slices.Index([]string{"setting", "api_token", "policy"}, name) }
		return first(b) - first(a)
	})
	return out
}

// after is the position in a table: the values of the primary key, nil at the beginning.
type after []any

// RewriteTexts replaces a person in at most limit rows of one table that name the person, behind the position from, and
// saves the progress of e, all in one transaction. next is nil at the end of the table. ErrOvertaken.
func (d *DB) RewriteTexts(ctx context.Context, e *store.Erasure, w Rewriting, name string, from []any, limit int) (
	n int64, next []any, err error) {
	t, err := d.tableOf(name)
	if err != nil {
		return 0, nil, err
	}
	if name == "bulk" { // one that works acts with the rights of the person, see OpenBulks
		t.where += ` AND finished_at IS NOT NULL`
	}
	err = d.rewriteTx(ctx, e, []string{name}, "names "+name, &n, func(tx *sql.Tx) (err error) {
		n, next, err = d.rewriteRows(ctx, tx, w, t, "", from, limit)
		if err == nil && n > 0 && (name == "policy" || name == "setting" || name == "api_token") {
			err = d.authorityChanged(ctx, tx)
		}
		return err
	})
	return n, next, err
}

func (d *DB) tableOf(name string) (table, error) {
	all := d.tables(tenantTables())
	i := slices.IndexFunc(all, func(t table) bool { return t.name == name })
	if i < 0 {
		return table{}, fmt.Errorf("owner: no tenant has rows in %q", name)
	}
	return all[i], nil
}

// rewriteTx runs f in a transaction that may change rows of insert-only tables, adds n to the count of a place, and
// saves the progress of e with it.
func (d *DB) rewriteTx(ctx context.Context, e *store.Erasure, tables []string, place string, n *int64,
	f func(*sql.Tx) error) error {
	for _, name := range tables { // the connection may be the only one, so that nothing else can be read in between
		if _, err := d.textColumns(ctx, name); err != nil {
			return err
		}
	}
	before, had := e.Counts[place]
	var now progress
	err := d.inTx(ctx, func(tx *sql.Tx) error {
		forbid, err := d.permitUpdates(ctx, tx, e.ID, tables)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		if *n > 0 {
			e.Counts[place] = before + *n
		}
		if now, err = d.advance(ctx, tx, *e); err != nil {
			return err
		}
		return forbid()
	})
	switch {
	case err == nil:
		d.remember(e.ID, now)
	case had:
		e.Counts[place] = before
	default:
		delete(e.Counts, place)
	}
	return err
}

// permitUpdates lets this transaction alone change rows of insert-only tables, until the returned function is called.
func (d *DB) permitUpdates(ctx context.Context, tx *sql.Tx, id string, tables []string) (func() error, error) {
	if d.dialect == Postgres {
		return d.permitDeletes(ctx, tx, id, "")
	}
	var again []string
	for _, name := range tables {
		var text string
		err := tx.QueryRowContext(ctx, `SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name = ?`,
			name, name+"_no_update").Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DROP TRIGGER `+name+`_no_update`)
		}
		if err != nil {
			return nil, err
		}
		again = append(again, text)
	}
	return func() error {
		for _, text := range again {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// naming is a row that names the person.
type naming struct {
	key    []any
	values []sql.NullString // of the columns
	parts  map[string]string
}

// rewriteRows replaces the person in at most limit rows of a table, those of one run unless runID is "". It returns how
// many it changed, and the position behind the last one; nil at the end.
func (d *DB) rewriteRows(ctx context.Context, tx *sql.Tx, w Rewriting, t table, runID string, from after, limit int) (
	n int64, next after, err error) {
	columns, err := d.replacedColumns(ctx, t)
	if err != nil || len(columns) == 0 {
		return 0, nil, err
	}
	rows, err := d.readNaming(ctx, tx, w, t, columns, runID, from, limit)
	if err != nil {
		return 0, nil, err
	}
	for _, row := range rows {
		changed, err := d.rewriteRow(ctx, tx, w, t, columns, row)
		if err != nil {
			return n, nil, fmt.Errorf("replace a name in %s: %w", t.name, err)
		}
		if changed {
			n++
		}
		next = row.key
	}
	if len(rows) < limit {
		next = nil
	}
	return n, next, nil
}

func (d *DB) readNaming(ctx context.Context, tx *sql.Tx, w Rewriting, t table, columns []textColumn, runID string,
	from after, limit int) (out []naming, err error) {
	named, err := d.namedSQL(ctx, t.name)
	if err != nil {
		return nil, err
	}
	needles := w.Scope.Needles()
	args := []any{w.Scope.TenantID, w.Scope.Subject, needles[0], needles[len(needles)-1]}
	where := `(` + t.where + `) AND (` + named + `)`
	bind := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	if runID != "" {
		where += ` AND run_id = ` + bind(runID)
	}
	keys := strings.Split(t.keys, ", ")
	if from != nil {
		marks := make([]string, len(keys))
		for i := range keys {
			marks[i] = bind(from[i])
		}
		where += fmt.Sprintf(" AND (%s) > (%s)", t.keys, strings.Join(marks, ", "))
	}
	parts := partsOf(t.name, d.dialect)
	selected := slices.Clone(keys)
	for i, c := range columns {
		selected = append(selected, fmt.Sprintf("%s AS text_%d", d.columnText(c), i))
	}
	for i, p := range parts {
		selected = append(selected, fmt.Sprintf("%s AS part_%d", p.sql, i))
	}
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT %d`, strings.Join(selected, ", "), t.name, where,
		t.keys, limit)
	if d.dialect == Postgres {
		query += ` FOR UPDATE`
	}
	rows, err := tx.QueryContext(ctx, d.q(query), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := naming{key: make([]any, len(keys)), values: make([]sql.NullString, len(columns)), parts: map[string]string{}}
		texts := make([]sql.NullString, len(parts))
		var into []any
		for i := range r.key {
			into = append(into, &r.key[i])
		}
		for i := range r.values {
			into = append(into, &r.values[i])
		}
		for i := range texts {
			into = append(into, &texts[i])
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, p := range parts {
			r.parts[p.name] = texts[i].String
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// columnText returns the expression of a column as a text; of a list as a document.
func (d *DB) columnText(c textColumn) string {
	switch c.kind {
	case "ARRAY":
		return `array_to_json(` + c.name + `)::text`
	case "bytea":
		return `encode(` + c.name + `, 'escape')`
	}
	return d.asText(c.name)
}

func (d *DB) asText(column string) string {
	if d.dialect == Postgres {
		return column + `::text`
	}
	return `CAST(` + column + ` AS TEXT)`
}

// rewriteRow replaces the person in one row, and vouches for the new content of the object that the row is.
func (d *DB) rewriteRow(ctx context.Context, tx *sql.Tx, w Rewriting, t table, columns []textColumn, r naming) (bool,
	error) {
	var sets []string
	var args []any
	was := objectOf(t.name, w.Scope.TenantID, r.parts)
	for i, c := range columns {
		value := r.values[i].String
		renamed := w.Renaming.Value(value)
		if c.kind == "ARRAY" {
			if !strings.Contains(value, quoted(w.Renaming.Name)) {
				continue
			}
			args = append(args, w.Renaming.Name, w.Renaming.Pseudonym)
			sets = append(sets, fmt.Sprintf("%[1]s = array_replace(%[1]s, $%[2]d, $%[3]d)", c.name, len(args)-1, len(args)))
			continue
		}
		if !r.values[i].Valid || renamed == value {
			continue
		}
		var v any = renamed
		cast := ""
		switch c.kind {
		case "BLOB":
			v = []byte(renamed)
		case "json", "jsonb":
			cast = "::text::" + c.kind
		}
		args = append(args, v)
		sets = append(sets, fmt.Sprintf("%s = $%d%s", c.name, len(args), cast))
		if _, ok := r.parts[c.name]; ok {
			r.parts[c.name] = renamed
		}
	}
	if len(sets) == 0 {
		return false, nil
	}
	var where []string
	for i, key := range strings.Split(t.keys, ", ") {
		args = append(args, r.key[i])
		where = append(where, fmt.Sprintf("%s = $%d", key, len(args)))
	}
	if _, err := tx.ExecContext(ctx, d.q(fmt.Sprintf(`UPDATE %s SET %s WHERE %s`, t.name, strings.Join(sets, ", "),
		strings.Join(where, " AND "))), args...); err != nil {
		return false, err
	}
	if was.Object == "" {
		return true, nil
	}
	return true, d.vouch(ctx, tx, w, was, objectOf(t.name, w.Scope.TenantID, r.parts))
}

// vouch writes the audit row for an object that an erasure changed, unless the object did not have the content that was
// recorded: then a check of the audit must find it as before.
func (d *DB) vouch(ctx context.Context, tx *sql.Tx, w Rewriting, was, is store.AuditRow) error {
	var id, digest string
	made := `SELECT ` + d.asText("a.id") + `, a.digest FROM audit a LEFT JOIN audit_link l ON l.id = a.id
		AND l.tenant_id = a.tenant_id AND l.no > 0 AND l.no < 4611686018427387904
		WHERE a.object = $1 AND a.tenant_id = $2 AND a.outcome = 'ACCEPTED'
		ORDER BY l.no NULLS LAST, a.at, a.id LIMIT 1`
	err := tx.QueryRowContext(ctx, d.q(made), was.Object, w.Scope.TenantID).Scan(&id, &digest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if digest != was.Digest {
		prior, err := w.Prior(ctx, was.Object)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(prior, func(r store.Rewrite) bool { return r.Digest == was.Digest })
		if i < 0 {
			return nil
		}
		id = prior[i].Made
	}
	row := w.Vouch(store.Rewrite{TenantID: w.Scope.TenantID, Object: is.Object, Digest: is.Digest, Made: id})
	row.RunID = is.RunID
	return d.insertAudit(ctx, tx, row)
}

func (d *DB) insertAudit(ctx context.Context, tx *sql.Tx, r store.AuditRow) error {
	columns, values := "", ""
	if d.dialect == SQLite {
		columns, values = ", at, format", ", {now}, 2"
	}
	_, err := tx.ExecContext(ctx, d.q(`INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code,
		reason, request_id, detail, object, digest`+columns+`) VALUES ($1, $2, $3, $4, $5, '', $6, '', '', '', $7, $8,
		$9`+values+`)`), uuid.NewString(), r.TenantID, r.Actor, r.Action, r.RunID, r.Outcome, string(r.Detail), r.Object,
		r.Digest)
	return err
}
