package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/storetest"
)

// roles is one database with an owner that is not a superuser, and a role for servers.
type roles struct{ admin, owner, server, name string }

func as(t testing.TB, dsn, role string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

func execute(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	c := connect(t, dsn)
	for _, s := range statements {
		if _, err := c.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// newRoles creates the roles. It does not migrate the database.
func newRoles(t testing.TB) roles {
	t.Helper()
	r := roles{admin: testserver.Postgres(t)}
	u, err := url.Parse(r.admin)
	if err != nil {
		t.Fatal(err)
	}
	db := strings.Trim(u.Path, "/")
	owner := "owner_" + db
	r.name = "Server " + db // a name that must be quoted
	execute(t, r.admin, `CREATE ROLE `+owner+` LOGIN`, `CREATE ROLE "`+r.name+`" LOGIN`, `ALTER DATABASE `+db+` OWNER TO `+
		owner)
	r.owner, r.server = as(t, r.admin, owner), as(t, r.admin, r.name)
	return r
}

func (r roles) migrate(t testing.TB) {
	t.Helper()
	if err := (postgres.Migration{AppRole: r.name}).Run(context.Background(), r.owner); err != nil {
		t.Fatal(err)
	}
}

// serverRoleTemplate is a database with the roles "owner" and "Server", migrated with the rights of Server.
var serverRoleTemplate = testserver.Template{Prepare: func(dsn string) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, `CREATE ROLE owner LOGIN; CREATE ROLE "Server" LOGIN; ALTER DATABASE `+c.Config().Database+
		` OWNER TO owner`)
	if err := errors.Join(err, c.Close(ctx)); err != nil {
		return err
	}
	return postgres.Migration{AppRole: "Server"}.Run(ctx, strings.Replace(dsn, "//postgres@", "//owner@", 1))
}}

// A server needs only the rights that its role has.
// contract: T208
func TestConformance_AsTheRoleOfServers(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.DB { return database{as(t, serverRoleTemplate.Postgres(t), "Server")} })
}

// contract: Z02, T208
func TestRoles_NothingChangesEventsOrAudit(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	r.migrate(t)
	s := openMigrated(t, r.server)
	create(t, s, "r1")
	must[store.Appended](t)(appendTo(ctx, s, "r1", stepStarted("s1", 1)))
	if err := s.Audit(ctx, store.AuditRow{ID: "5b6c0c9e-0000-4000-8000-000000000002", TenantID: "t1",
		Action: "TEST"}); err != nil {
		t.Fatal(err)
	}
	digest := func() (sum string) {
		if err := connect(t, r.admin).QueryRow(ctx, `SELECT md5(string_agg(e::text, '' ORDER BY e.run_id, e.run_seq)) ||
			(SELECT md5(string_agg(a::text, '' ORDER BY id)) FROM audit a) FROM event e`).Scan(&sum); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := digest()
	c := connect(t, r.server)
	refused := func(sql string) {
		t.Helper()
		_, err := c.Exec(ctx, sql)
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
		_, _ = c.Exec(ctx, `ROLLBACK`)
	}
	for _, table := range []string{"event", "audit"} {
		for _, sql := range []string{
			`UPDATE %s SET run_id = 'x'`, `UPDATE %s SET run_id = 'x' WHERE false`, `DELETE FROM %s`,
			`DELETE FROM %s WHERE false`, `TRUNCATE %s`,
			`ALTER TABLE %[1]s DISABLE TRIGGER %[1]s_insert_only`, `ALTER TABLE %s DISABLE TRIGGER ALL`,
			`DROP TRIGGER %[1]s_insert_only ON %[1]s`,
			`ALTER TABLE %s ADD COLUMN x int`, `ALTER TABLE %s RENAME TO y`, `ALTER TABLE %s OWNER TO CURRENT_USER`,
			`DROP TABLE %s`,
			`CREATE RULE r AS ON INSERT TO %s DO INSTEAD NOTHING`, `CREATE INDEX ON %s (run_id)`,
			`CREATE TRIGGER t BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
			`SELECT * FROM %s FOR UPDATE`, `BEGIN; LOCK TABLE %s IN ACCESS EXCLUSIVE MODE`, `COPY %s FROM PROGRAM 'true'`,
			`INSERT INTO %[1]s SELECT * FROM %[1]s ON CONFLICT DO NOTHING; UPDATE %[1]s SET run_id = ''`,
			`ALTER TABLE %s SET (autovacuum_enabled = off)`, `ALTER TABLE %s SET UNLOGGED`, `CREATE POLICY p ON %s`,
		} {
			refused(fmt.Sprintf(sql, table))
		}
	}
	refused(`INSERT INTO event SELECT * FROM event ON CONFLICT ON CONSTRAINT event_key DO UPDATE SET payload = NULL`)
	refused(`INSERT INTO audit SELECT * FROM audit ON CONFLICT (id) DO UPDATE SET actor = ''`)
	for _, table := range []string{"approval_decision", "setting"} {
		for _, sql := range []string{
			`UPDATE %s SET reason = 'x'`, `DELETE FROM %s`, `DELETE FROM %s WHERE false`, `TRUNCATE %s`,
			`ALTER TABLE %s DISABLE TRIGGER ALL`,
			`DROP TRIGGER %[1]s_insert_only ON %[1]s`, `DROP TABLE %s`,
		} {
			refused(fmt.Sprintf(sql, table))
		}
	}
	for _, sql := range []string{
		`UPDATE secret_read SET key = 'x'`, `DELETE FROM secret_read`, `DELETE FROM secret_read WHERE false`,
		`TRUNCATE secret_read`, `ALTER TABLE secret_read DISABLE TRIGGER ALL`, `DROP TABLE secret_read`,
		`DROP TRIGGER secret_read_insert_only ON secret_read`, `UPDATE secret_order SET tenant_id = 'x'`,
		`UPDATE secret_answer SET doc = 'x'`,
	} {
		refused(sql)
	}
	for _, column := range strings.Fields(`run_id signal_id no type step_id expected_attempt force payload actor reason
		rejected rejection reject_text accepted_seq received_at`) {
		refused(fmt.Sprintf(`UPDATE signal SET %[1]s = %[1]s`, column))
	}
	refused(`DELETE FROM signal`)
	refused(`DELETE FROM approval`)
	refused(`DELETE FROM bucket`)
	refused(`MERGE INTO audit USING audit a ON audit.id = a.id WHEN MATCHED THEN DELETE`)
	for _, sql := range []string{
		`SET session_replication_role = replica`, `CREATE TABLE mine (n int)`,
		`CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
		`CREATE SCHEMA mine`, `ALTER FUNCTION dvt_insert_only() RENAME TO f`, `DROP FUNCTION dvt_insert_only() CASCADE`,
		`CREATE OR REPLACE FUNCTION dvt_insert_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
		`SET ROLE ` + pgx.Identifier{strings.Replace(r.name, "Server ", "owner_", 1)}.Sanitize(),
		`UPDATE goose_db_version SET is_applied = false`, `SELECT * FROM goose_lock`, `UPDATE run SET tenant_id = ''`,
		`DELETE FROM run_head`, `DELETE FROM plan_body`,
	} {
		refused(sql)
	}
	_, _ = c.Exec(ctx, `GRANT UPDATE, DELETE ON event, audit TO CURRENT_USER`) // only a warning
	refused(`UPDATE event SET payload = NULL`)
	if after := digest(); after != before {
		t.Error("events or audit rows changed, want no change")
	}
}

// dvt_append runs with the rights of its caller, so it does not bypass them. The functions that link the audit, keep
// the activity of plans, and delete what is archived or cut, run with their owner's rights and with a search path that
// callers cannot change.
// contract: T208
func TestRoles_FunctionsGiveNoRights(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	r.migrate(t)
	s := openMigrated(t, r.server)
	create(t, s, "r1")
	must[store.Appended](t)(appendTo(ctx, s, "r1", stepStarted("s1", 1)))
	c := connect(t, r.admin)
	rows, err := c.Query(
		ctx, `SELECT p.oid::regprocedure::text || CASE WHEN p.prosecdef AND NOT (p.proname IN ('dvt_audit_pending', 'dvt_audit_link_next', 'dvt_audit_link', 'dvt_plan_active',
			'dvt_mark_archived', 'dvt_delete_archived_events', 'dvt_delete_archived_receipts', 'dvt_delete_archived_run', 'dvt_trim_rows',
			'dvt_cut_audit')
			AND p.proconfig = ARRAY['search_path=public, pg_temp']) THEN ' runs as its owner' ELSE '' END
		|| CASE WHEN EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0) THEN ' is open to PUBLIC' ELSE '' END
		FROM pg_proc p WHERE pronamespace = 'public'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	functions := must[[]string](t)(pgx.CollectRows(rows, pgx.RowTo[string]))
	if len(functions) < 3 {
		t.Errorf("functions of the schema: %v, want at least 3", functions)
	}
	for _, f := range functions {
		if strings.Contains(f, " runs as ") || strings.Contains(f, " is open") {
			t.Errorf("function %s, want neither", f)
		}
	}
	// Without the right to insert events, dvt_append cannot insert any.
	execute(t, r.owner, `REVOKE INSERT ON event FROM "`+r.name+`"`)
	_, err = appendTo(ctx, s, "r1", stepStarted("s2", 1))
	if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "42501" {
		t.Errorf("append without the right to insert: %v, want 42501", err)
	}
	// An append with an existing key and another payload changes nothing.
	r.migrate(t) // grants the right again
	again := stepStarted("s1", 1)
	again.Payload = []byte(`{"filler": "another"}`)
	if a := must[store.Appended](t)(appendTo(ctx, s, "r1", again)); !a.Outcomes[0].Deduplicated {
		t.Errorf("outcome %+v, want Deduplicated", a.Outcomes[0])
	}
	if evs := must[[]string](t)(payloads(ctx, s)); len(evs) != 1 || strings.Contains(evs[0], "another") {
		t.Errorf("payloads %v, want only the first one", evs)
	}
}

func payloads(ctx context.Context, s *postgres.Store) (out []string, err error) {
	evs, err := s.Events(ctx, "r1", 0, 10)
	for _, e := range evs {
		out = append(out, string(e.Payload))
	}
	return out, err
}

// Every table has an entry in rights, and PUBLIC has no rights on any table.
// contract: T208
func TestRoles_EveryTableIsCoveredAndPublicHasNothing(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	// the worst defaults that an owner could have set
	execute(t, r.owner, `ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC`,
		`GRANT CREATE ON SCHEMA public TO PUBLIC`)
	r.migrate(t)
	c := connect(t, r.admin)
	rows, err := c.Query(
		ctx, `SELECT c.relname, coalesce((SELECT string_agg(a.privilege_type, ',' ORDER BY a.privilege_type) FROM aclexplode(c.relacl) a WHERE a.grantee = 0), ''),
		coalesce((SELECT string_agg(a.privilege_type, ',' ORDER BY a.privilege_type) FROM aclexplode(c.relacl) a WHERE a.grantee = $1::regrole), '')
		FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')`, `"`+r.name+`"`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table, public, server string
		if err := rows.Scan(&table, &public, &server); err != nil {
			t.Fatal(err)
		}
		if public != "" {
			t.Errorf("PUBLIC has %s on %s, want nothing: the table is missing in rights (roles.go)", public, table)
		}
		if (server == "") != (table == "goose_lock") {
			t.Errorf("the role of servers has %q on %s: add the privileges that a server needs to rights (roles.go)",
				server, table)
		}
		if table == "event" || table == "audit" {
			if server != "INSERT,SELECT" {
				t.Errorf("the role of servers has %s on %s, want INSERT,SELECT", server, table)
			}
		}
	}
	var creates bool
	if err := c.QueryRow(ctx, `SELECT has_schema_privilege($1, 'public', 'CREATE')`, r.name).Scan(&creates); err != nil ||
		creates {
		t.Errorf("the role of servers may create objects: %t, %v; want false", creates, err)
	}
}

// contract: T208
func TestMigration_RefusesUnsuitableRoles(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	owner := strings.Replace(r.name, "Server ", "owner_", 1)
	member, writer := "member_"+owner, "writer_"+owner
	execute(t, r.admin, `CREATE ROLE `+member+` IN ROLE `+owner, `CREATE ROLE `+writer+` IN ROLE pg_write_all_data`)
	for role, want := range map[string]string{
		"nobody there": `make it with CREATE ROLE "nobody there" LOGIN`,
		owner:          "has the rights of the owner",
		member:         "has the rights of the owner",
		"postgres":     "has the rights of the owner",
		writer:         "could still change events",
	} {
		err := postgres.Migration{AppRole: role}.Run(ctx, r.owner)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("migration for the role %s: %v, want one line with %q", role, err, want)
		}
	}
	if err := postgres.Migrate(ctx, r.server); err == nil || !strings.Contains(err.Error(), "migrate as its owner") {
		t.Errorf("migration by the role of servers: %v, want an error that says to migrate as its owner", err)
	}
}

// A migration revokes rights that are no longer needed. Concurrent migrations do not disturb each other.
// contract: T208
func TestMigration_RevokesOldRights(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	if err := postgres.Migrate(ctx, r.owner); err != nil {
		t.Fatal(err)
	}
	execute(t, r.owner, `GRANT ALL ON event TO "`+r.name+`"`, `GRANT UPDATE (actor) ON audit TO "`+r.name+`"`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := (postgres.Migration{AppRole: r.name}).Run(ctx, r.owner); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c := connect(t, r.server)
	for _, sql := range []string{`DELETE FROM event`, `UPDATE audit SET actor = ''`} {
		if _, err := c.Exec(ctx, sql); err == nil {
			t.Errorf("%s was allowed", sql)
		}
	}
}

// contract: T208
func TestOpen_WarnsOfARoleThatMayChangeEvents(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	if err := postgres.Migrate(ctx, r.owner); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(ctx, r.server, postgres.Options{}); err == nil || !strings.Contains(err.Error(),
		"--app-role") {
		t.Errorf("Open as a role without rights: %v, want an error that names --app-role", err)
	}
	r.migrate(t)
	warnings := func(dsn string) int {
		t.Helper()
		var log bytes.Buffer
		s, err := postgres.Open(ctx, dsn, postgres.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		create(t, s, fmt.Sprint("r", len(dsn)))
		return strings.Count(log.String(), "may change events")
	}
	if n := warnings(r.owner); n != 1 {
		t.Errorf("%d warnings as the owner, want 1", n)
	}
	if n := warnings(r.server); n != 0 {
		t.Errorf("%d warnings as the role of servers, want none", n)
	}
}

// openMigrated opens a database without migrating it.
func openMigrated(t testing.TB, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
