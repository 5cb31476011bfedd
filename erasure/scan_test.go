package erasure_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shared lists the tables without rows of a tenant. A new table is in owner's list of tables, or here.
var shared = []string{"meta", "goose_db_version", "goose_lock", "sqlite_sequence", "alert_rev", "duty_heartbeat",
	"incident_cursor", "feed_cursor", "destination", "worker_drain", "erasure"}

func (i *installation) texts(query string, args ...any) (out []string) {
	i.Helper()
	rows, err := i.db.QueryContext(i.Context(), query, args...)
	check(i.T, err)
	defer rows.Close()
	for rows.Next() {
		var s string
		check(i.T, rows.Scan(&s))
		out = append(out, s)
	}
	check(i.T, rows.Err())
	return out
}

func (i *installation) tables() []string {
	if i.pg {
		return i.texts(`SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() ORDER BY 1`)
	}
	return i.texts(`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1`)
}

type column struct {
	name, kind string
	pg         bool
}

func (i *installation) columns(table string) (out []column) {
	i.Helper()
	query := `SELECT name || ' ' || type FROM pragma_table_info('` + table + `')`
	if i.pg {
		query = `SELECT column_name || ' ' || replace(data_type, ' ', '_') FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = '` + table + `'
			ORDER BY ordinal_position`
	}
	for _, text := range i.texts(query) {
		f := strings.Fields(text)
		out = append(out, column{f[0], strings.ToUpper(f[1]), i.pg})
	}
	return out
}

// Columns that name a person who did something, and those with what the person wrote.
var (
	people = []string{"actor", "principal", "owner", "author", "triggered_by", "created_by", "acknowledged_by",
		"closed_by", "placed_by", "lifted_by", "revoked_by", "requested_by"}
	written = []string{"reason", "ack_note", "lifted_for"}
)

// personOf returns the name of the person of a tenant.
func personOf(mark string) string { return "ana." + mark + "@example.org" }

// archiveOf returns the name of the archived log of a tenant's run.
func archiveOf(mark string) string { return "tenant-" + mark + "/2026/01/run-" + mark + "-0.ndjson.gz" }

// value returns a literal for a column of a row that belongs to the tenant of mark.
func (c column) value(table, mark string) string {
	number := fmt.Sprint(1000 + int(mark[0]))
	switch {
	case c.name == "tenant_id":
		return "'tenant-" + mark + "'"
	case c.kind == "TEXT" && slices.Contains(people, c.name),
		c.kind == "TEXT" && table == "legal_hold" && c.name == "subject":
		return "'" + personOf(mark) + "'"
	case c.kind == "TEXT" && slices.Contains(written, c.name), table == "incident_note" && c.name == "text":
		return "'she wrote: " + personOf(mark) + " of " + mark + "'"
	case table == "run_archive" && c.name == "location":
		return "'" + archiveOf(mark) + "'"
	case c.name == "run_id" || c.name == "parent_run_id":
		return "'run-" + mark + "-0'"
	case c.name == "bulk_id" || table == "bulk" && c.name == "id":
		return "'bulk-" + mark + "'"
	case c.name == "incident" || table == "incident" && c.name == "pos", c.name == "alert":
		return number
	case table == "alert_change" && c.name == "pos", table == "alert_state" && c.name == "pos":
		return number
	case c.name == "queue":
		return "'tq-isolation-tenant-" + mark + "-prod'"
	case table == "legal_hold" && c.name == "kind":
		return "'SUBJECT'" // a constraint names the kinds
	case c.kind == "UUID":
		return fmt.Sprintf("'00000000-0000-4000-8000-%012x'", mark[0])
	case c.kind == "BOOLEAN":
		return "false"
	case c.kind == "BYTEA" || c.kind == "BLOB":
		if c.pg {
			return "decode('00', 'hex')"
		}
		return "x'00'"
	case strings.HasPrefix(c.kind, "TIMESTAMP"):
		return "'2026-01-02T03:04:05Z'"
	case c.kind == "JSON":
		return `'{"of":"` + mark + `"}'`
	case c.kind == "ARRAY":
		return "'{}'"
	case c.kind == "TEXT":
		return "'x-" + mark + "'"
	}
	return number
}

// dump returns the rows of a table as texts; those that contain mark, unless it is "".
func (i *installation) dump(table, mark string) (out []string) {
	i.Helper()
	rows, err := i.db.QueryContext(i.Context(), `SELECT * FROM `+table)
	check(i.T, err)
	defer rows.Close()
	names, err := rows.Columns()
	check(i.T, err)
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for k := range values {
			into[k] = &values[k]
		}
		check(i.T, rows.Scan(into...))
		text := table + ":"
		for k, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			text += fmt.Sprintf(" %s=%v", names[k], v)
		}
		if strings.Contains(text, mark) {
			out = append(out, text)
		}
	}
	check(i.T, rows.Err())
	slices.Sort(out)
	return out
}

// scan returns everything in the store, the bucket and the engine that contains mark.
func (i *installation) scan(mark string) (out []string) {
	i.Helper()
	for _, table := range i.tables() {
		out = append(out, i.dump(table, mark)...)
	}
	for key := range i.engine.runs {
		if strings.Contains(key, mark) {
			out = append(out, "engine: "+key)
		}
	}
	slices.Sort(out)
	return append(out, i.scanFiles(i.bucketDir, mark)...)
}

// scanFiles returns the files under a directory whose path or content contains mark.
func (i *installation) scanFiles(dir, mark string) (out []string) {
	i.Helper()
	check(i.T, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		if strings.Contains(path, mark) || strings.Contains(string(body), mark) {
			out = append(out, fmt.Sprintf("file %s: %x", strings.TrimPrefix(path, dir), body))
		}
		return err
	}))
	return out
}
