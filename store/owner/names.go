package owner

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/store"
)

// erasedText replaces what an erased person wrote.
const erasedText = "(erased)"

// replacement names the columns of a table that name a person and that no chain, digest or trigger covers, with the
// texts that the person wrote beside the name.
type replacement struct {
	table, keys, where, name string
	texts                    []string
}

func replacements() []replacement {
	return []replacement{
		{"alert_state", "pos", ofTenant, "acknowledged_by", []string{"ack_note"}},
		{"alert_silence", "id", ofTenant, "actor", []string{"reason"}},
		{"incident", "pos", ofTenant, "acknowledged_by", nil},
		{"incident", "pos", ofTenant, "closed_by", nil},
		{"incident_note", "incident, n", ofIncident, "actor", []string{"text"}},
		{"legal_hold", "n", ofTenant, "placed_by", []string{"reason"}},
		{"legal_hold", "n", ofTenant, "lifted_by", []string{"lifted_for"}},
		{"legal_hold", "n", ofTenant + ` AND kind = 'SUBJECT' AND lifted_at IS NOT NULL`, "subject", nil},
		{"destination_order", "n", ofTenant, "actor", []string{"reason"}},
		{"secret_order", "id", ofTenant, "actor", []string{"reason"}},
		{"api_token", "pos", ofTenant, "revoked_by", nil},
		{"run_tag", "run_id, tag", ofTenant, "triggered_by", nil},
	}
}

// Names lists the columns in which ReplaceNames replaces a person, as TABLE.COLUMN, in their order.
func (d *DB) Names() (out []string) {
	for _, r := range replacements() {
		out = append(out, r.table+"."+r.name)
	}
	return out
}

// ReplaceNames replaces a person in at most limit rows of one column, and what the person wrote there, adds the number
// of rows to e.Counts under "names TABLE", and saves the progress of e, all in one transaction. ErrOvertaken.
func (d *DB) ReplaceNames(ctx context.Context, e *store.Erasure, s Scope, name string, limit int) (n int64, err error) {
	i := slices.Index(d.Names(), name)
	if i < 0 || s.Subject == "" {
		return 0, fmt.Errorf("owner: no erasure of a person replaces %q", name)
	}
	r := replacements()[i]
	sets := []string{fmt.Sprintf("%s = '%s'", r.name, store.ErasedSubject)}
	for _, text := range r.texts {
		sets = append(sets, fmt.Sprintf("%[1]s = CASE WHEN %[1]s = '' THEN '' ELSE '%[2]s' END", text, erasedText))
	}
	statement := fmt.Sprintf(`UPDATE %[1]s SET %[2]s WHERE (%[3]s) IN (SELECT %[3]s FROM %[1]s WHERE %[4]s
		AND %[5]s = $2 LIMIT %[6]d)`, r.table, strings.Join(sets, ", "), r.keys, r.where, r.name, limit)
	place := "names " + r.table
	before, now := e.Counts[place], progress{}
	err = d.inTx(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, d.q(statement), s.Args()...)
		if err != nil {
			return fmt.Errorf("replace names in %s: %w", r.table, err)
		}
		if n, err = result.RowsAffected(); err != nil {
			return err
		}
		e.Counts[place] = before + n
		now, err = d.advance(ctx, tx, *e)
		return err
	})
	if err == nil {
		d.remember(e.ID, now)
	} else {
		e.Counts[place] = before
	}
	if e.Counts[place] == 0 {
		delete(e.Counts, place)
	}
	return n, err
}

// Needles returns the forms in which a text names a person: as a string of JSON, and anywhere when the name has at
// least eight bytes. A shorter name is part of too many other words.
func (s Scope) Needles() (out []string) {
	out = []string{quoted(s.Subject)}
	if len(s.Subject) >= minPart {
		out = append(out, s.Subject)
	}
	return out
}

// FindNames counts the rows of the tenant that name the person of s, by table. It reads every text of every row of the
// tenant, so that no table is forgotten.
func (d *DB) FindNames(ctx context.Context, s Scope) (map[string]int64, error) {
	out := map[string]int64{}
	for _, t := range d.tables(tenantTables()) {
		if t.where == ofPlan {
			t.where = ofAnyPlan // a plan that another tenant has run, too, names the person as well
		}
		columns, err := d.textColumns(ctx, t.name)
		if err != nil {
			return nil, err
		}
		if err := d.eachNaming(ctx, s, t, columns, "", nil, func(string) { out[t.name]++ }); err != nil {
			return nil, fmt.Errorf("owner: search %s for a name: %w", t.name, err)
		}
	}
	return out, nil
}

// eachNaming calls f with the run of each row of a table that names the person of s in one of the columns; "" for a
// table without runs.
func (d *DB) eachNaming(ctx context.Context, s Scope, t table, columns []textColumn, where string, more []any,
	f func(runID string)) error {
	named, err := d.namedSQL(ctx, t.name)
	if err != nil || named == "" || len(columns) == 0 {
		return err
	}
	needles := s.Needles()
	args := append([]any{s.TenantID, s.Subject, needles[0], needles[len(needles)-1]}, more...)
	selected := []string{"''"}
	for _, c := range columns {
		if c.name == "run_id" {
			selected[0] = "run_id"
		}
	}
	if slices.Contains(logTables, t.name) {
		selected[0] = "run_id"
	}
	for _, c := range columns {
		selected = append(selected, d.columnText(c))
	}
	rows, err := d.db.QueryContext(ctx, d.q(`SELECT `+strings.Join(selected, ", ")+` FROM `+t.name+` WHERE (`+t.where+
		`) AND (`+named+`)`+where), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	r := Renaming{Name: s.Subject}
	values, into := make([]sql.NullString, len(selected)), make([]any, len(selected))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if slices.ContainsFunc(values[1:], func(v sql.NullString) bool { return r.Names(v.String) }) {
			f(values[0].String)
		}
	}
	return rows.Err()
}

// textColumn is a column with texts or documents. kind is that of the database: text, json, jsonb, ARRAY or bytea;
// TEXT or BLOB.
type textColumn struct{ name, kind string }

// textColumns lists the columns of a table with texts or documents.
func (d *DB) textColumns(ctx context.Context, table string) (out []textColumn, err error) {
	d.mu.Lock()
	out, known := d.texted[table]
	d.mu.Unlock()
	if known {
		return out, nil
	}
	query := `SELECT name || ' ' || type FROM pragma_table_info($1) WHERE type IN ('TEXT', 'BLOB')`
	if d.dialect == Postgres {
		query = `SELECT column_name || ' ' || data_type FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name = $1
			AND data_type IN ('text', 'json', 'jsonb', 'ARRAY', 'bytea') ORDER BY ordinal_position`
	}
	texts, err := d.texts(ctx, query, table)
	for _, text := range texts {
		name, kind, _ := strings.Cut(text, " ")
		out = append(out, textColumn{name, kind})
	}
	if err == nil {
		d.mu.Lock()
		d.texted[table] = out
		d.mu.Unlock()
	}
	return out, err
}

// replacedColumns lists the columns of a table in which a person is replaced.
func (d *DB) replacedColumns(ctx context.Context, t table) ([]textColumn, error) {
	all, err := d.textColumns(ctx, t.name)
	keys := strings.Split(t.keys, ", ")
	return slices.DeleteFunc(slices.Clone(all), func(c textColumn) bool {
		return c.kind == "bytea" || slices.Contains(keys, c.name) || isFixed(t.name, c.name)
	}), err
}

// namedSQL returns the condition that a text of a row is the name $2 or contains $3 or $4; "" for a table without
// texts.
func (d *DB) namedSQL(ctx context.Context, table string) (string, error) {
	equal, contains := `%s = $2`, `instr(CAST(%s AS BLOB), CAST(%s AS BLOB)) > 0`
	inBinary := contains
	if d.dialect == Postgres {
		equal, contains = `%s::text = $2::text`, `strpos(%s::text, %s::text) > 0`
		inBinary = `position(convert_to(%[2]s::text, 'UTF8') IN %[1]s) > 0`
	}
	columns, err := d.textColumns(ctx, table)
	var terms []string
	texts := 0
	for _, c := range columns {
		if c.kind == "bytea" || c.kind == "BLOB" {
			terms = append(terms, fmt.Sprintf(inBinary, c.name, "$3"), fmt.Sprintf(inBinary, c.name, "$4"))
			continue
		}
		texts++
		terms = append(terms, fmt.Sprintf(equal, c.name), fmt.Sprintf(contains, c.name, "$3"),
			fmt.Sprintf(contains, c.name, "$4"))
	}
	if texts == 0 && len(terms) > 0 { // every argument is used
		terms = append(terms, `$2 <> $2`)
	}
	return strings.Join(terms, " OR "), err
}

// Archives lists the names of the objects of archived runs of a tenant, by the id of the run.
func (d *DB) Archives(ctx context.Context, tenantID, after string, limit int) (runs, locations []string, err error) {
	rows, err := d.db.QueryContext(ctx, d.q(`SELECT run_id, location FROM run_archive WHERE tenant_id = $1 AND run_id > $2
		ORDER BY run_id LIMIT $3`), tenantID, after, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("owner: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, location string
		if err := rows.Scan(&id, &location); err != nil {
			return nil, nil, fmt.Errorf("owner: %w", err)
		}
		runs, locations = append(runs, id), append(locations, location)
	}
	return runs, locations, rows.Err()
}
