package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const codeInsufficientPrivilege = "42501"

// right lists the privileges that a server needs on one table. Its role gets no others.
type right struct{ table, privileges string }

// rights lists every table of the schema. Identity columns need no privileges of their own.
var rights = []right{ //nolint:gochecknoglobals // a table
	{"event", "SELECT, INSERT"},
	{"audit", "SELECT, INSERT"},
	{"audit_link", "SELECT"}, // dvt_audit_link writes it
	{"audit_head", "SELECT"},
	{"audit_pending", "SELECT"},
	{"audit_cut", "SELECT"}, // dvt_cut_audit writes it
	{"alert", "SELECT, INSERT"},
	{"alert_state", "SELECT, INSERT, UPDATE"},
	{"alert_silence", "SELECT, INSERT, DELETE"},
	{"alert_rev", "SELECT, UPDATE"},
	{"incident", "SELECT, INSERT, UPDATE"},
	{"incident_note", "SELECT, INSERT"},
	{"incident_alert", "SELECT, INSERT"},
	{"incident_cursor", "SELECT, UPDATE"},
	{"duty_heartbeat", "SELECT, INSERT, UPDATE, DELETE"},
	{"policy", "SELECT, INSERT"},
	{"api_token", "SELECT, INSERT, UPDATE (revoked_at, revoked_by, last_used_at)"},
	{"run", "SELECT, INSERT"},
	{"plan_body", "SELECT, INSERT"},
	{"meta", "SELECT, UPDATE"},
	{"run_head", "SELECT, INSERT, UPDATE"},
	{"run_state", "SELECT, INSERT, UPDATE, DELETE"},
	{"step_state", "SELECT, INSERT, UPDATE, DELETE"},
	{"run_dirty", "SELECT, INSERT, UPDATE, DELETE"},
	{"run_queue", "SELECT, INSERT, UPDATE"},
	// the other columns of a signal never change; dvt audit verify compares them
	{"signal", "SELECT, INSERT, UPDATE (application, application_reason, applied_seq, quiescent_seq, delivered_at, applied_at)"},
	{"delivery", "SELECT, INSERT, UPDATE"},
	{"dead_letter", "SELECT, INSERT, UPDATE"},
	{"run_repair", "SELECT, INSERT, UPDATE"},
	{"run_status", "SELECT, INSERT, UPDATE"},
	{"run_plan", "SELECT, INSERT"},
	{"plan_activity", "SELECT"}, // dvt_plan_active writes it
	{"lane", "SELECT, INSERT, UPDATE"},
	{"bucket", "SELECT, INSERT, UPDATE"},
	{"approval", "SELECT, INSERT, UPDATE (open)"}, // the other columns decide how many approvals a run needs
	{"approval_decision", "SELECT, INSERT"},
	{"setting", "SELECT, INSERT"},
	{"bulk", "SELECT, INSERT, UPDATE, DELETE"},
	{"bulk_row", "SELECT, INSERT, UPDATE, DELETE"},
	{"run_tag", "SELECT, INSERT, DELETE"},
	{"run_note", "SELECT, INSERT"},
	{"saved_view", "SELECT, INSERT, UPDATE, DELETE"},
	{"worker_report", "SELECT, INSERT, UPDATE, DELETE"},
	{"worker_drain", "SELECT, INSERT, DELETE"},
	{"secret_read", "SELECT, INSERT"},
	{"secret_order", "SELECT, INSERT, DELETE"},
	{"secret_answer", "SELECT, INSERT, DELETE"},
	{"feed_cursor", "SELECT, INSERT, UPDATE"},
	{"alert_change", "SELECT, INSERT, DELETE"},
	{"destination", "SELECT, INSERT, UPDATE, DELETE"},
	{"destination_dead", "SELECT, INSERT, UPDATE, DELETE"},
	{"destination_order", "SELECT, INSERT, UPDATE, DELETE"},
	// functions of the database mark and delete what is archived, after they have checked that they may
	{"run_archive", "SELECT"},
	{"legal_hold", "SELECT, INSERT, UPDATE (lifted_by, lifted_at, lifted_for)"},
	{"retention_pass", "SELECT, INSERT, UPDATE"},
	{"subject_key", "SELECT, INSERT"}, // only the owner destroys a key
	{"erasure", "SELECT, INSERT (id, kind, tenant_id, subject, reason, requested_by, expires_at), " +
		"UPDATE (confirmed_by, confirmed_at, cancelled_by, cancelled_at)"}, // only the owner carries one out
	{"goose_db_version", "SELECT"},
	{"goose_lock", ""},
}

// mayChangeSQL reports whether the role r (a row of pg_roles) could change the insert-only tables: by its own
// privileges, by a membership or as their owner.
const mayChangeSQL = `(SELECT coalesce(bool_or(pg_has_role(r.oid, c.relowner, 'MEMBER')
  OR has_table_privilege(r.oid, c.oid, 'UPDATE, DELETE, TRUNCATE, TRIGGER') OR has_any_column_privilege(r.oid, c.oid, 'UPDATE')), false)
  FROM pg_class c WHERE c.oid IN (to_regclass('event'), to_regclass('audit'), to_regclass('audit_link'),
  to_regclass('secret_read')))`

func checkRole(ctx context.Context, db *sql.DB, role string) error {
	var owner bool
	err := db.QueryRowContext(
		ctx, `SELECT r.rolsuper OR pg_has_role(r.oid, current_user, 'MEMBER') FROM pg_roles r WHERE r.rolname = $1`,
		role).Scan(&owner)
	switch name := (pgx.Identifier{role}).Sanitize(); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("there is no role %s: make it with CREATE ROLE %s LOGIN PASSWORD '…', then migrate again", name,
			name)
	case err != nil:
		return err
	case owner:
		return fmt.Errorf("the role %s has the rights of the owner: servers need a role of their own, made with CREATE ROLE",
			name)
	}
	return nil
}

// grant grants role the rights of a server. It revokes all other rights on the tables and functions of the schema from
// role and from PUBLIC. It is one transaction, so servers that run as role notice nothing. It returns an error if the
// role could still change the insert-only tables, or create objects in the schema that the owner might call.
func grant(ctx context.Context, db *sql.DB, role string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
	var version int64
	var schemaName string
	var uses, creates bool
	if err := tx.QueryRowContext(
		ctx, `SELECT (SELECT max(version_id) FROM goose_db_version WHERE is_applied), current_schema(),
		has_schema_privilege($1, current_schema(), 'USAGE'), has_schema_privilege($1, current_schema(), 'CREATE')`, role).
		Scan(&version, &schemaName, &uses, &creates); err != nil {
		return err
	}
	if version > schema {
		return fmt.Errorf("%w: it is %d, this program knows %d: give the rights with the dvt that migrated it",
			store.ErrSchema, version, schema)
	}
	to, in := (pgx.Identifier{role}).Sanitize(), (pgx.Identifier{schemaName}).Sanitize()
	var statements []string
	if creates {
		statements = append(statements, "REVOKE CREATE ON SCHEMA "+in+" FROM PUBLIC, "+to)
	}
	if !uses {
		statements = append(statements, "GRANT USAGE ON SCHEMA "+in+" TO "+to)
	}
	for _, r := range rights {
		table := in + "." + (pgx.Identifier{r.table}).Sanitize()
		statements = append(statements, "REVOKE ALL ON TABLE "+table+" FROM PUBLIC, "+to)
		if r.privileges != "" {
			statements = append(statements, "GRANT "+r.privileges+" ON TABLE "+table+" TO "+to)
		}
	}
	functions, err := functionRights(ctx, tx, to)
	if err != nil {
		return err
	}
	for _, s := range append(statements, functions...) {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	var changes bool
	if err := tx.QueryRowContext(ctx, `SELECT `+mayChangeSQL+`, has_schema_privilege(r.oid, current_schema(), 'CREATE')
		FROM pg_roles r WHERE r.rolname = $1`, role).Scan(&changes, &creates); err != nil {
		return err
	}
	switch {
	case changes:
		return fmt.Errorf(
			"the role %s could still change events, through another role that it is a member of: take that membership from it",
			to)
	case creates:
		return fmt.Errorf(
			"the role %s may create objects in the schema %s: run REVOKE CREATE ON SCHEMA %s FROM PUBLIC as its owner", to, in,
			in)
	}
	return tx.Commit()
}

// functionRights returns the statements for the functions of the schema. They grant EXECUTE on all functions except
// those of triggers, which no server calls.
func functionRights(ctx context.Context, tx *sql.Tx, to string) (out []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT oid::regprocedure::text, prorettype = 'trigger'::regtype FROM pg_proc
		WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'dvt\_%' ORDER BY oid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var trigger bool
		if err := rows.Scan(&name, &trigger); err != nil {
			return nil, err
		}
		out = append(out, "REVOKE ALL ON FUNCTION "+name+" FROM PUBLIC, "+to)
		if !trigger {
			out = append(out, "GRANT EXECUTE ON FUNCTION "+name+" TO "+to)
		}
	}
	return out, rows.Err()
}

// missingRights returns the rights of a server that the role of c lacks on the tables and functions of the schema, such
// as "INSERT on event". Tables that do not exist are left to the check of the schema.
func missingRights(ctx context.Context, c *pgx.Conn) ([]string, error) {
	var tables, privileges, columns []string
	for _, r := range rights {
		for _, p := range splitPrivileges(r.privileges) {
			name, list, _ := strings.Cut(p, " (")
			for column := range strings.SplitSeq(strings.TrimSuffix(list, ")"), ", ") {
				tables, privileges, columns = append(tables, r.table), append(privileges, name), append(columns, column)
			}
		}
	}
	rows, err := c.Query(ctx, `SELECT p || CASE WHEN c = '' THEN '' ELSE ' (' || c || ')' END || ' on ' || t
		FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS x(t, p, c, n)
		WHERE to_regclass(t) IS NOT NULL AND NOT CASE WHEN c = '' THEN has_table_privilege(to_regclass(t), p)
		ELSE has_column_privilege(to_regclass(t), c, p) END
		UNION ALL SELECT 'EXECUTE on ' || oid::regprocedure::text FROM pg_proc
		WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'dvt\_%' AND prorettype <> 'trigger'::regtype
		AND NOT has_function_privilege(oid, 'EXECUTE')`, tables, privileges, columns)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// splitPrivileges divides a list of privileges at the commas that are not within a list of columns.
func splitPrivileges(list string) (out []string) {
	depth, from := 0, 0
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			out, from = append(out, strings.TrimSpace(list[from:i])), i+1
		}
	}
	if rest := strings.TrimSpace(list[from:]); rest != "" {
		out = append(out, rest)
	}
	return out
}
