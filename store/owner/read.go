package owner

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is a row of a table as a JSON object whose names are those of the columns. Times are RFC 3339 in UTC, or
// "infinity", bytes are hex behind \x, and documents are JSON.
type Row struct {
	JSON []byte
	// Key is the primary key. Reading continues after it.
	Key []string
}

// notExported lists what leaves in another form, or never: keys, and what the chain of the audit is made of.
var notExported = []string{"event", "plan_body", "audit", "audit_link", "audit_head", "audit_pending", "subject_key"}

// omitted lists the columns that never leave: hashes of tokens, and fields of the installation.
var omitted = map[string][]string{"api_token": {"sha256"}, "erasure": {"deleting"}, "run_state": {"xid", "change"}}

// personTables lists the rows that an export of a person has: those by the person, and those about the person without
// what others wrote. names are the only columns, unless it is empty.
func personTables() []personTable {
	const runs = `run_id IN (SELECT run_id FROM run WHERE tenant_id = $1 AND triggered_by = $2)`
	const inTenant = `run_id IN (SELECT run_id FROM run WHERE tenant_id = $1)`
	const bulks = `bulk_id IN (SELECT id FROM bulk WHERE tenant_id = $1 AND actor = $2)`
	const incidents = `incident IN (SELECT pos FROM incident WHERE tenant_id = $1)`
	of := func(column string) string { return ofTenant + ` AND ` + column + ` = $2` }
	return []personTable{
		{table{"run", "run_id", of("triggered_by"), nil}, ""},
		{table{"signal", "pos", inTenant + ` AND actor = $2`, nil}, ""},
		{table{"run_note", "pos", inTenant + ` AND author = $2`, nil}, ""},
		{table{"approval_decision", "pos", inTenant + ` AND principal = $2`, nil}, ""},
		{table{"secret_read", "pos", ofTenant + ` AND ` + runs, nil}, ""},
		{table{"saved_view", "tenant_id, owner, id", of("owner"), nil}, ""},
		{table{"api_token", "pos", of("principal"), nil}, ""},
		{table{"bulk", "pos", of("actor"), nil}, ""},
		{table{"bulk_row", "bulk_id, no", bulks, nil}, ""},
		{table{"policy", "tenant_id, version", of("actor"), nil}, "tenant_id version actor reason request_id at"},
		{table{"setting", "kind, tenant_id, version", of("actor"), nil}, "kind tenant_id version actor reason request_id at"},
		{table{"alert", "pos", of("actor"), nil}, ""},
		{table{"alert_state", "pos", of("acknowledged_by"), nil},
			"pos tenant_id run_id code acknowledged_at acknowledged_by ack_note"},
		{table{"alert_silence", "id", of("actor"), nil}, ""},
		{table{"incident_note", "incident, n", incidents + ` AND actor = $2`, nil}, ""},
		{table{"incident", "pos", ofTenant + ` AND (acknowledged_by = $2 OR closed_by = $2)`, nil},
			"pos id tenant_id run_id code opened_at acknowledged_at closed_at"},
		{table{"destination_order", "n", of("actor"), nil}, ""},
		{table{"legal_hold", "n", ofTenant + ` AND (subject = $2 AND kind = 'SUBJECT' OR placed_by = $2 OR lifted_by = $2)`, nil},
			"n id tenant_id kind placed_at lifted_at"},
		{table{"erasure", "id", ofTenant + ` AND (subject = $2 OR requested_by = $2 OR confirmed_by = $2)`, nil},
			"id kind requested_at confirmed_at finished_at"},
	}
}

type personTable struct {
	table
	names string // of columns, separated by spaces
}

func (d *DB) exported(s Scope) (out []personTable) {
	if s.Subject != "" {
		return personTables()
	}
	for _, t := range d.tables(tenantTables()) {
		if !slices.Contains(notExported, t.name) {
			if t.name == "erasure" {
				t.where = ofTenant
			}
			out = append(out, personTable{t, ""})
		}
	}
	return out
}

// ExportTables lists the tables that Read reads of s, in their order. The audit, the events and the plans are read
// through the store.
func (d *DB) ExportTables(s Scope) (names []string) {
	for _, t := range d.exported(s) {
		names = append(names, t.name)
	}
	return names
}

// CountExport counts the rows that Read reads of a table.
func (d *DB) CountExport(ctx context.Context, s Scope, name string) (n int64, err error) {
	t, err := d.exportTable(s, name)
	if err != nil {
		return 0, err
	}
	err = d.db.QueryRowContext(ctx, d.q(`SELECT count(*) FROM `+t.name+` WHERE `+t.where), s.Args()...).Scan(&n)
	return n, err
}

func (d *DB) exportTable(s Scope, name string) (personTable, error) {
	all := d.exported(s)
	i := slices.IndexFunc(all, func(t personTable) bool { return t.name == name })
	if i < 0 {
		return personTable{}, fmt.Errorf("owner: an export reads no table %q", name)
	}
	return all[i], nil
}

// Read calls each with the rows of s in a table, in the order of their keys, after the row with the key after; nil
// reads from the beginning. It reads a row when the one before was handled, until each returns false or an error.
func (d *DB) Read(ctx context.Context, s Scope, name string, after []string, each func(Row) (bool, error)) error {
	t, err := d.exportTable(s, name)
	if err != nil {
		return err
	}
	columns, err := d.columns(ctx, t)
	if err != nil {
		return err
	}
	keys := strings.Split(t.keys, ", ")
	where, args := t.where, s.Args()
	if after != nil {
		marks := make([]string, len(keys))
		for i, key := range after {
			marks[i] = "$" + strconv.Itoa(len(args)+1)
			args = append(args, key)
		}
		where = fmt.Sprintf("(%s) AND (%s) > (%s)", where, t.keys, strings.Join(marks, ", "))
	}
	selected := make([]string, len(keys))
	for i, key := range keys {
		selected[i] = fmt.Sprintf("CAST(%s AS text)", key)
	}
	list := strings.Join(columns, ", ")
	if d.dialect == Postgres {
		selected = append(selected, fmt.Sprintf("row_to_json((SELECT x FROM (SELECT %s) x))", list))
	} else {
		selected = append(selected, list)
	}
	query := d.q(fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s", strings.Join(selected, ", "), t.name, where,
		t.keys))
	if d.dialect == SQLite {
		return d.readSQLite(ctx, t.name, columns, len(keys), query, args, each)
	}
	return d.readPostgres(ctx, len(keys), query, args, each)
}

// columns lists the columns of a table that leave.
func (d *DB) columns(ctx context.Context, t personTable) ([]string, error) {
	if t.names != "" {
		return strings.Fields(t.names), nil
	}
	query := `SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND
		table_name = $1 ORDER BY ordinal_position`
	if d.dialect == SQLite {
		query = `SELECT name FROM pragma_table_info($1)`
	}
	all, err := d.texts(ctx, query, t.name)
	return slices.DeleteFunc(all, func(c string) bool { return slices.Contains(omitted[t.name], c) }), err
}

// readPostgres reads in a transaction whose times are in UTC.
func (d *DB) readPostgres(ctx context.Context, keys int, query string, args []any, each func(Row) (bool, error)) error {
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it changed nothing
	if _, err := tx.ExecContext(ctx, `SET LOCAL TIME ZONE 'UTC'`); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		key, into := scanKeys(keys, 1)
		var body []byte
		into[keys] = &body
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		var line bytes.Buffer
		if err := json.Compact(&line, body); err != nil { // a document may have lines
			return fmt.Errorf("owner: %w", err)
		}
		if more, err := each(Row{line.Bytes(), key}); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

func scanKeys(keys, others int) (key []string, into []any) {
	key, into = make([]string, keys), make([]any, keys+others)
	for i := range key {
		into[i] = &key[i]
	}
	return key, into
}

func (d *DB) readSQLite(ctx context.Context, name string, columns []string, keys int, query string, args []any,
	each func(Row) (bool, error)) error {
	rows, err := d.db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		key, into := scanKeys(keys, len(columns))
		values := make([]any, len(columns))
		for i := range values {
			into[keys+i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		var line bytes.Buffer
		for i, c := range columns {
			value, err := json.Marshal(sqliteValue(name, c, values[i]))
			if err != nil {
				return fmt.Errorf("owner: %s.%s: %w", name, c, err)
			}
			before := byte(',')
			if i == 0 {
				before = '{'
			}
			fmt.Fprintf(&line, "%c%q:%s", before, c, value)
		}
		line.WriteByte('}')
		if more, err := each(Row{line.Bytes(), key}); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// What SQLite has no type for. A test compares these with the types of PostgreSQL.
var (
	sqliteBools = []string{"alert_state.shared", "approval.open", "approval_decision.approved", "lane.ready",
		"run_head.terminal", "run_queue.slot", "run_queue.token_taken", "run_queue.waiting", "secret_read.cached",
		"signal.force", "signal.rejected"}
	sqliteJSON = []string{"api_token.grants", "api_token.memberships", "approval.rerun", "bulk.action", "bulk.principal",
		"policy.doc", "retention_pass.doc", "run.params", "run.plan_ref", "run.policy", "run_archive.subjects",
		"run_state.header", "setting.doc", "signal.payload", "step_state.body", "worker_report.doc"}
	sqliteTimes = []string{"at", "until", "since", "last_seen", "last_sent", "not_before", "oldest_waiting",
		"failing_since"}
	sqliteNoTimes = []string{"run_state.created_at", "run_state.ended_at"} // PostgreSQL has no such columns
)

func isSQLiteTime(name, column string) bool {
	return !slices.Contains(sqliteNoTimes, name+"."+column) && (slices.Contains(sqliteTimes, column) ||
		strings.HasSuffix(column, "_at") || strings.HasSuffix(column, "_until"))
}

const lastYear = 9999

func sqliteValue(name, column string, v any) any {
	if raw, ok := v.([]byte); ok && slices.Contains(sqliteJSON, name+"."+column) {
		v = string(raw)
	}
	switch v := v.(type) {
	case int64:
		if slices.Contains(sqliteBools, name+"."+column) {
			return v != 0
		}
		if !isSQLiteTime(name, column) {
			return v
		}
		if t := time.UnixMicro(v).UTC(); t.Year() <= lastYear {
			return t.Format("2006-01-02T15:04:05.999999+00:00")
		}
		return "infinity"
	case []byte:
		return fmt.Sprintf(`\x%x`, v)
	case string:
		if slices.Contains(sqliteJSON, name+"."+column) && json.Valid([]byte(v)) {
			return json.RawMessage(v)
		}
	}
	return v
}
