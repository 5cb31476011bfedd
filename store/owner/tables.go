package owner

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// table says which rows of a table belong to a tenant ($1), or to a person of a tenant ($1 and $2).
type table struct {
	name  string
	keys  string // the primary key
	where string
	only  *Dialect
}

const ofTenant = `tenant_id = $1`

func (t table) hasTenant() bool { return t.where == ofTenant }

const (
	ofRun         = `run_id IN (SELECT run_id FROM run WHERE tenant_id = $1)`
	ofBulk        = `bulk_id IN (SELECT id FROM bulk WHERE tenant_id = $1)`
	ofIncident    = `incident IN (SELECT pos FROM incident WHERE tenant_id = $1)`
	ofAlert       = `pos IN (SELECT pos FROM alert_state WHERE tenant_id = $1)`
	ofSecretOrder = `order_id IN (SELECT id FROM secret_order WHERE tenant_id = $1)`
	ofAudit       = `id IN (SELECT id FROM audit WHERE tenant_id = $1)`
	ofAnyPlan     = `sha256 IN (SELECT {sha} FROM run WHERE tenant_id = $1)`
	// A plan that another tenant has run, too, stays: its address is its content.
	ofPlan = ofAnyPlan + `
		AND NOT EXISTS (SELECT 1 FROM run o WHERE o.tenant_id <> $1 AND o.{sha} = plan_body.sha256)`
	ofQueue = `{ofQueue}` // the queues of a tenant that is isolated
)

// tenantTables lists every table with rows of a tenant. Rows that are found through others come before these.
func tenantTables() []table {
	postgres := Postgres
	return []table{
		{"event", "run_id, run_seq", ofRun, nil},
		{"signal", "pos", ofRun, nil},
		{"step_state", "run_id, ord", ofRun, nil},
		{"run_state", "run_id", ofTenant, nil},
		{"run_status", "run_id", ofTenant, &postgres},
		{"run_dirty", "run_id", ofRun, nil},
		{"run_repair", "run_id", ofRun, nil},
		{"run_note", "pos", ofRun, nil},
		{"run_tag", "run_id, tag", ofTenant, nil},
		{"approval_decision", "pos", ofRun, nil},
		{"approval", "run_id", ofTenant, nil},
		{"secret_answer", "order_id, account, worker", ofSecretOrder, nil},
		{"secret_order", "id", ofTenant, nil},
		{"secret_read", "pos", ofTenant, nil},
		{"run_archive", "run_id", ofTenant, nil},
		{"legal_hold", "n", ofTenant, nil},
		{"retention_pass", "tenant_id", ofTenant, nil},
		{"run_queue", "run_id", ofTenant, nil},
		{"delivery", "run_id", ofTenant, nil},
		{"dead_letter", "pos", ofTenant, nil},
		{"bulk_row", "bulk_id, no", ofBulk, nil},
		{"bulk", "pos", ofTenant, nil},
		{"incident_alert", "alert", ofIncident, nil},
		{"incident_note", "incident, n", ofIncident, nil},
		{"incident", "pos", ofTenant, nil},
		{"alert_change", "n", ofAlert, nil},
		{"alert_state", "pos", ofTenant, nil},
		{"alert", "pos", ofTenant, nil},
		{"alert_silence", "id", ofTenant, nil},
		{"destination_dead", "n", ofTenant, nil},
		{"destination_order", "n", ofTenant, nil},
		{"saved_view", "tenant_id, owner, id", ofTenant, nil},
		{"worker_report", "account, worker, queue", ofQueue, nil},
		{"plan_body", "sha256", ofPlan, nil},
		{"run_head", "run_id", ofRun, nil},
		{"run", "run_id", ofTenant, nil},
		{"run_plan", "tenant_id, plan_id, project_id", ofTenant, nil},
		{"plan_activity", "tenant_id, project_id, environment_id, plan_id", ofTenant, nil},
		{"lane", "tenant_id, project_id", ofTenant, nil},
		{"bucket", "tenant_id, project_id, action", ofTenant, nil},
		{"audit_pending", "id", ofAudit, nil},
		{"audit", "id", ofTenant, nil},
		{"audit_link", "tenant_id, no", ofTenant, nil},
		{"audit_cut", "tenant_id", ofTenant, nil},
		{"audit_head", "tenant_id", ofTenant, &postgres},
		{"subject_key", "id", ofTenant, nil},
		{"erasure", "id", `tenant_id = $1 AND started_at IS NULL`, nil}, // other requests, which nobody confirmed
		{"api_token", "pos", ofTenant, nil},
		{"policy", "tenant_id, version", ofTenant, nil},
		{"setting", "kind, tenant_id, version", ofTenant, nil}, // the last one, because it holds the freeze
	}
}

// subjectTables lists the rows of a person that no log and no chain needs.
func subjectTables() []table {
	const ofSubjectsBulks = `bulk_id IN (SELECT id FROM bulk WHERE tenant_id = $1 AND actor = $2 AND finished_at IS NOT NULL)`
	// A note to a run that a hold may cover is evidence, and stays.
	const ofSubjectsNotes = ofRun + ` AND author = $2 AND NOT EXISTS (SELECT 1 FROM legal_hold h WHERE h.tenant_id = $1
		AND h.lifted_at IS NULL AND (h.kind = 'SUBJECT' OR h.kind = 'RUN' AND h.subject = run_note.run_id
		OR h.kind = 'PLAN' AND h.subject IN (SELECT plan_id FROM run WHERE run.run_id = run_note.run_id)))`
	return []table{
		{"saved_view", "tenant_id, owner, id", `tenant_id = $1 AND owner = $2`, nil},
		{"run_note", "pos", ofSubjectsNotes, nil},
		{"api_token", "pos", `tenant_id = $1 AND principal = $2`, nil},
		{"bulk_row", "bulk_id, no", ofSubjectsBulks, nil},
		{"bulk", "pos", `tenant_id = $1 AND actor = $2 AND finished_at IS NOT NULL`, nil},
	}
}

// namingTables lists the rows that name a person in a column and stay, because a chain or a digest covers them. A
// preview counts them. The certificate counts every row that FindNames finds.
func namingTables() []table {
	const inRun = ` IN (SELECT run_id FROM run WHERE tenant_id = $1)`
	return []table{
		{"run", "", `tenant_id = $1 AND triggered_by = $2`, nil},
		{"signal", "", `run_id` + inRun + ` AND actor = $2`, nil},
		{"approval_decision", "", `run_id` + inRun + ` AND principal = $2`, nil},
		{"run_note", "", `run_id` + inRun + ` AND author = $2`, nil},
		{"policy", "", `tenant_id = $1 AND actor = $2`, nil},
		{"setting", "", `tenant_id = $1 AND actor = $2`, nil},
		{"alert", "", `tenant_id = $1 AND actor = $2`, nil},
		{"audit", "", `tenant_id = $1 AND actor = $2`, nil}, // rows from before the keys
	}
}

func (d *DB) tables(all []table) []table {
	return slices.DeleteFunc(all, func(t table) bool { return t.only != nil && *t.only != d.dialect })
}

// Scope is what an erasure erases: a tenant, or one person of it.
type Scope struct{ TenantID, Subject string }

// Args returns the arguments of the statements about s.
func (s Scope) Args() []any {
	if s.Subject == "" {
		return []any{s.TenantID}
	}
	return []any{s.TenantID, s.Subject}
}

func (d *DB) tablesOf(s Scope) []table {
	if s.Subject == "" {
		return d.tables(tenantTables())
	}
	return d.tables(subjectTables())
}

// Tables lists the tables that an erasure of s empties, in their order.
func (d *DB) Tables(s Scope) (names []string) {
	for _, t := range d.tablesOf(s) {
		names = append(names, t.name)
	}
	return names
}

// Count counts the rows that an erasure of s deletes, by table. Tables without such rows are absent.
func (d *DB) Count(ctx context.Context, s Scope) (map[string]int64, error) {
	return d.count(ctx, s, d.tablesOf(s))
}

func (d *DB) count(ctx context.Context, s Scope, tables []table) (map[string]int64, error) {
	out := map[string]int64{}
	for _, t := range tables {
		var n int64
		if err := d.db.QueryRowContext(ctx, d.q(`SELECT count(*) FROM `+t.name+` WHERE `+t.where), s.Args()...).
			Scan(&n); err != nil {
			return nil, fmt.Errorf("owner: count %s: %w", t.name, err)
		}
		if n > 0 {
			out[t.name] = n
		}
	}
	return out, nil
}

// Statement counts rows of one table.
type Statement struct{ Table, SQL string }

// CountStatements returns the statements that count at most limit rows of each table that an erasure of s would delete
// or leave with the name of the person. Their arguments are Scope.Args. Servers run them for previews, because they
// can read what only the owner can delete.
func CountStatements(dialect Dialect, s Scope, limit int) (deleted, remaining []Statement) {
	d := &DB{dialect: dialect}
	of := func(tables []table) (out []Statement) {
		for _, t := range d.tables(tables) {
			out = append(out, Statement{t.name, d.q(fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s LIMIT %d) t`,
				t.name, t.where, limit))})
		}
		return out
	}
	if s.Subject == "" {
		return of(tenantTables()), nil
	}
	return of(subjectTables()), of(namingTables())
}

// HoldsStatement returns the statement that counts the open legal holds that forbid the erasure of s. Its arguments are
// Scope.Args.
func HoldsStatement(dialect Dialect, s Scope) string {
	query := `SELECT count(*) FROM legal_hold WHERE tenant_id = $1 AND lifted_at IS NULL`
	if s.Subject != "" {
		query += ` AND kind = 'SUBJECT' AND subject = $2`
	}
	return (&DB{dialect: dialect}).q(query)
}

// DeleteRows deletes at most limit rows of one table, adds their number to e.Counts under "table NAME", and saves the
// progress of e, all in one transaction. ErrOvertaken.
func (d *DB) DeleteRows(ctx context.Context, e *store.Erasure, s Scope, name string, limit int) (n int64, err error) {
	i := slices.IndexFunc(d.tablesOf(s), func(t table) bool { return t.name == name })
	if i < 0 {
		return 0, fmt.Errorf("owner: an erasure empties no table %q", name)
	}
	t := d.tablesOf(s)[i]
	place := "table " + t.name
	before := e.Counts[place]
	var now progress
	err = d.inTx(ctx, func(tx *sql.Tx) error {
		forbid, err := d.permitDeletes(ctx, tx, e.ID, t.name)
		if err != nil {
			return err
		}
		if err := d.beforeDelete(ctx, tx, s, t.name); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, d.q(fmt.Sprintf(`DELETE FROM %[1]s WHERE (%[2]s) IN (
			SELECT %[2]s FROM %[1]s WHERE %[3]s LIMIT %[4]d)`, t.name, t.keys, t.where, limit)), s.Args()...)
		if err != nil {
			return fmt.Errorf("delete from %s: %w", t.name, err)
		}
		if n, err = result.RowsAffected(); err != nil {
			return err
		}
		e.Counts[place] = before + n
		if now, err = d.advance(ctx, tx, *e); err != nil {
			return err
		}
		if n > 0 && (t.name == "api_token" || t.name == "policy" || t.name == "setting") {
			if err := d.authorityChanged(ctx, tx); err != nil {
				return err
			}
		}
		return forbid()
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

// Compact removes what deleted rows left in the files of the database: SQLite writes its file again, PostgreSQL
// frees the space of the rows for others. Backups and the WAL of the database keep them for as long as the operator
// keeps these.
func (d *DB) Compact(ctx context.Context, s Scope) error {
	statements := []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`}
	if d.dialect == Postgres {
		statements = nil
		for _, name := range d.Tables(s) {
			statements = append(statements, `VACUUM `+name)
		}
	}
	for _, statement := range statements {
		var err error
		for range lockTries {
			if _, err = d.db.ExecContext(ctx, statement); err == nil || !isBusy(err) {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lockPause):
			}
		}
		if err != nil {
			return fmt.Errorf("owner: %s: %w", statement, err)
		}
	}
	return nil
}

// permitDeletes lets this transaction alone delete rows of an insert-only table, until the returned function is called.
func (d *DB) permitDeletes(ctx context.Context, tx *sql.Tx, id, name string) (func() error, error) {
	if d.dialect == Postgres {
		set := func(to bool) error {
			_, err := tx.ExecContext(ctx, `UPDATE erasure SET deleting = $2 WHERE id = $1`, id, to)
			return err
		}
		return func() error { return set(false) }, set(true)
	}
	var trigger, text string
	err := tx.QueryRowContext(ctx, `SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name = ?`,
		name, name+"_no_delete").Scan(&trigger, &text)
	if err == sql.ErrNoRows { //nolint:errorlint // Scan returns it as it is
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `DROP TRIGGER `+trigger)
	return func() error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}, err
}

// beforeDelete keeps what other tenants share consistent with a deletion.
func (d *DB) beforeDelete(ctx context.Context, tx *sql.Tx, s Scope, name string) error {
	statement := ""
	var args []any
	switch {
	case name == "run_queue": // its triggers count slots and waits of the whole installation
		statement, args = `UPDATE run_queue SET slot = {false}, waiting = {false} WHERE tenant_id = $1`, []any{s.TenantID}
	case name == "plan_body" && d.dialect == Postgres: // no run of another tenant with such a plan is created meanwhile
		statement = `LOCK TABLE run IN SHARE MODE`
	}
	if statement == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, d.q(statement), args...); err != nil {
		return fmt.Errorf("%s: %w", strings.Fields(statement)[0], err)
	}
	return nil
}
