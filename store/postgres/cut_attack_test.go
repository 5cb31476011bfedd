package postgres_test

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dvt-engine/dvt/store"
)

// A person with the password of a server can delete records of the audit only as a cut that the chain records, from
// what is older than a year and speaks of no run. Everything else is refused by the database itself.
// contract: T208
func TestAudit_TheRoleOfServersCutsNothingElse(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	r.migrate(t)
	s, c := openMigrated(t, r.server), connect(t, r.server)
	create(t, s, "r1")
	row := func(n int) store.AuditRow { return attackRow("acme", n) }
	ofRun, otherTenant := row(6), attackRow("globex", 20)
	ofRun.RunID = "r1"
	policy := row(3)
	policy.Object = "policy/1"
	if err := s.Audit(ctx, row(1), row(2), policy, row(4), row(5), ofRun, row(7), otherTenant); err != nil {
		t.Fatal(err)
	}
	execute(t, r.owner, `ALTER TABLE audit DISABLE TRIGGER audit_insert_only`,
		`UPDATE audit SET at = at - interval '2 years'`, `ALTER TABLE audit ENABLE TRIGGER audit_insert_only`)
	must[int](t)(s.LinkAudit(ctx, 100))
	if err := s.Audit(ctx, row(8)); err != nil { // young
		t.Fatal(err)
	}
	must[int](t)(s.LinkAudit(ctx, 100))
	rowsLeft := func() (n int) {
		err := connect(t, r.owner).QueryRow(ctx, `SELECT count(*) FROM audit WHERE tenant_id = 'acme'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	hashIn := func(tenant string, no int64) string {
		links := must[[]store.AuditLink](t)(s.AuditLinks(ctx, store.AuditFilter{TenantID: tenant, After: no - 1, Limit: 1}))
		return hex.EncodeToString(links[0].Hash[:])
	}
	hash := func(no int64) string { return hashIn("acme", no) }
	refused := func(code string, statements ...string) {
		t.Helper()
		for _, sql := range statements {
			_, err := c.Exec(ctx, sql)
			if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != code {
				t.Errorf("%s: %v, want %s", sql, err, code)
			}
		}
	}
	refused("42501", // no privilege, whatever the setting says that the function uses
		`DELETE FROM audit WHERE tenant_id = 'acme'`,
		`DELETE FROM audit_link WHERE tenant_id = 'acme'`,
		`TRUNCATE audit`,
		`INSERT INTO audit_cut (tenant_id, no, row_id) VALUES ('acme', 5, gen_random_uuid())`,
		`DELETE FROM run WHERE run_id = 'r1'`,
		`ALTER FUNCTION dvt_cut_audit(text, uuid, bigint, int) OWNER TO CURRENT_USER`,
		`DROP TRIGGER audit_kept ON audit`)
	if _, err := c.Exec(ctx, `SET dvt.retention = 'on'`); err != nil {
		t.Fatal(err)
	}
	refused("42501", `DELETE FROM audit WHERE tenant_id = 'acme'`, `DELETE FROM audit_link WHERE tenant_id = 'acme'`)

	n := 100
	all := rowsLeft()
	// forge writes a record as the role of servers can, and returns its id.
	forge := func(action, outcome, object, digest string, link bool) string {
		t.Helper()
		n++
		f := row(n)
		f.Action, f.Outcome, f.Object, f.Digest = action, outcome, object, digest
		if err := s.Audit(ctx, f); err != nil {
			t.Fatal(err)
		}
		if link {
			must[int](t)(s.LinkAudit(ctx, 100))
		}
		all++
		return f.ID
	}
	for _, a := range []struct {
		name, tenant, id string
		after            int64
		want             int64
	}{
		{"an ordinary record", "acme", row(8).ID, 0, -2},
		{"an unknown record", "acme", "00000000-0000-4000-8000-00000000ffff", 0, -2},
		{"another action", "acme", forge("RETAIN", "ACCEPTED", "cut/5", hash(5), true), 0, -2},
		{"a refused record", "acme", forge("CUT_AUDIT", "REJECTED", "cut/5", hash(5), true), 0, -2},
		{"a forged hash", "acme", forge("CUT_AUDIT", "ACCEPTED", "cut/5", hash(4), true), 0, -2},
		{"another object", "acme", forge("CUT_AUDIT", "ACCEPTED", "policy/5", hash(5), true), 0, -2},
		{"number 0", "acme", forge("CUT_AUDIT", "ACCEPTED", "cut/0", hash(5), true), 0, -2},
		{"a number behind its own", "acme", forge("CUT_AUDIT", "ACCEPTED", "cut/400", hash(5), true), 0, -2},
		{"records of a run", "acme", forge("CUT_AUDIT", "ACCEPTED", "cut/6", hash(6), true), 0, -2},
		{"records of a run, after the first ones", "acme", forge("CUT_AUDIT", "ACCEPTED", "cut/7", hash(7), true), 5, -2},
		{"a young record", "acme", forge("CUT_AUDIT", "ACCEPTED", "cut/8", hash(8), true), 7, -2},
		{"another tenant", "globex", forge("CUT_AUDIT", "ACCEPTED", "cut/1", hash(1), true), 0, -2},
		{"another tenant, with the hash of its link", "globex", forge("CUT_AUDIT", "ACCEPTED", "cut/1", hashIn("globex", 1),
			true), 0, -2},
		{"a record without a link", "acme", forge("CUT_AUDIT", "ACCEPTED", "cut/5", hash(5), false), 0, -2},
	} {
		var got int64
		if err := c.QueryRow(ctx, `SELECT dvt_cut_audit($1, $2::text::uuid, $3, 100)`, a.tenant, a.id, a.after).
			Scan(&got); err != nil {
			t.Errorf("%s: %v", a.name, err)
		} else if got != a.want {
			t.Errorf("%s: dvt_cut_audit answers %d, want %d", a.name, got, a.want)
		}
	}
	if left := rowsLeft(); left != all {
		t.Fatalf("%d records are left of %d: a forged cut deleted some", left, all)
	}
	id := forge("CUT_AUDIT", "ACCEPTED", "cut/5", hash(5), true)
	var got int64
	err := c.QueryRow(ctx, `SELECT dvt_cut_audit('acme', $1::text::uuid, 0, 100)`, id).Scan(&got)
	if err != nil || got != 5 {
		t.Fatalf("an allowed cut answers %d, %v; want 5", got, err)
	}
	if left, want := rowsLeft(), all-4; left != want {
		t.Errorf("%d records are left, want %d: a cut keeps the one of the policy", left, want)
	}
}
