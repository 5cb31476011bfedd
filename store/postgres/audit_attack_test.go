package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dvt-engine/dvt/store"
)

func attackRow(tenant string, n int) store.AuditRow {
	return store.AuditRow{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), TenantID: tenant, Actor: "ana",
		Action: "PAUSE", Outcome: "ACCEPTED"}
}

// The role of servers can insert forged rows, but the audit shows each of them.
func TestAudit_TheRoleOfServersLeavesATrace(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	r.migrate(t)
	s, c := openMigrated(t, r.server), connect(t, r.server)
	if err := s.Audit(ctx, attackRow("acme", 1), attackRow("globex", 2)); err != nil {
		t.Fatal(err)
	}
	if n := must[int](t)(s.LinkAudit(ctx, 10)); n != 2 {
		t.Fatalf("linked %d rows, want 2", n)
	}
	for _, sql := range []string{
		`INSERT INTO audit_link VALUES ('acme', 9223372036854775807, gen_random_uuid(), decode(repeat('00', 32), 'hex'))`,
		`UPDATE audit_head SET no = 9`,
		`INSERT INTO audit_head VALUES ('initech', 4611686018427387903, '')`,
		`DELETE FROM audit_pending`,
		`UPDATE api_token SET grants = '[]'`,
		`ALTER FUNCTION dvt_audit_link(text, int) SET search_path = mine`,
		`ALTER TABLE audit DISABLE TRIGGER audit_date`,
	} {
		_, err := c.Exec(ctx, sql)
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
	}
	execute(t, r.server,
		`INSERT INTO api_token (id, tenant_id, name, principal, sha256, grants, created_by, expires_at)
			VALUES ('00000000-0000-4000-8000-0000000000aa', 'acme', 'mine', 'gustav', 'x', '[]', 'gustav', now() + interval '1 day')`,
		`UPDATE meta SET value = value + 1 WHERE name = 'authority'`,
		`INSERT INTO policy (tenant_id, version, doc, actor, reason, request_id) VALUES ('acme', 1, '{"sod":{}}', 'gustav', '', '')`,
		`INSERT INTO setting (kind, tenant_id, version, doc, actor, reason, request_id) VALUES ('QUOTA', 'acme', 1, '{}', 'gustav', '', '')`,
		`INSERT INTO audit (id, at, format, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id)
			VALUES ('00000000-0000-4000-8000-0000000000bb', now() - interval '10 months', 1, 'acme', 'gustav', 'SET_POLICY', '', '', 'ACCEPTED', '', '', '')`,
	)
	found := map[string]string{}
	for _, kind := range store.AuditObjectKinds() {
		for _, o := range must[[]store.AuditObject](t)(
			s.AuditObjects(ctx, store.AuditObjectFilter{Kind: kind, TenantID: "acme", Limit: 10})) {
			found[o.Object] = o.Made
		}
	}
	for _, object := range []string{"token/00000000-0000-4000-8000-0000000000aa", "policy/1", "setting/QUOTA/acme/1"} {
		if made, ok := found[object]; !ok || made != "" {
			t.Errorf("%s: stored %t, explained by an audit row with the digest %q; want true and no audit row", object, ok, made)
		}
	}
	must[int](t)(s.LinkAudit(ctx, 10))
	links := must[[]store.AuditLink](t)(s.AuditLinks(ctx, store.AuditFilter{TenantID: "acme", Newest: true, Limit: 1}))
	if at := links[0].Row.At; links[0].ID != "00000000-0000-4000-8000-0000000000bb" || time.Since(at).Abs() > time.Hour ||
		links[0].Row.Format != 2 {
		t.Errorf("the backdated row is %s with the time %s and format %d; want the current time and format 2",
			links[0].ID, at, links[0].Row.Format)
	}
}

// The database refuses a number below 1, which the role of servers could choose. If the owner lifts that, the audit
// shows the objects all the same.
func TestAudit_ShowsObjectsWithForgedNumbers(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	r.migrate(t)
	s, c := openMigrated(t, r.server), connect(t, r.server)
	const token = "00000000-0000-4000-8000-0000000000aa"
	inserts := []string{
		`INSERT INTO api_token (pos, id, tenant_id, name, principal, sha256, grants, created_by, expires_at)
			OVERRIDING SYSTEM VALUE
			VALUES (-1, '` + token + `', 'acme', 'mine', 'gustav', 'x', '[]', 'gustav', now() + interval '1 day')`,
		`INSERT INTO policy (tenant_id, version, doc, actor, reason, request_id) VALUES ('acme', 0, '{}', 'gustav', '', '')`,
	}
	for _, sql := range inserts {
		_, err := c.Exec(ctx, sql)
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "23514" {
			t.Errorf("%s: %v, want 23514", sql, err)
		}
	}
	execute(t, r.owner, `ALTER TABLE api_token DROP CONSTRAINT IF EXISTS api_token_pos_check`,
		`ALTER TABLE policy DROP CONSTRAINT IF EXISTS policy_version_check`,
		`DELETE FROM api_token`)
	execute(t, r.server, inserts...)
	for kind, object := range map[store.AuditObjectKind]string{store.AuditToken: "token/" + token,
		store.AuditPolicy: "policy/0"} {
		objects := must[[]store.AuditObject](t)(
			s.AuditObjects(ctx, store.AuditObjectFilter{Kind: kind, TenantID: "acme"}))
		if len(objects) != 1 || objects[0].Object != object || objects[0].Made != "" {
			t.Errorf("the audit of each %s shows %+v, want %s without a row", kind, objects, object)
		}
	}
}

// The audit shows a token that was changed or whose revocation was undone.
func TestAudit_ShowsARestoredToken(t *testing.T) {
	ctx := context.Background()
	r := newRoles(t)
	r.migrate(t)
	s := openMigrated(t, r.server)
	token := store.StoredToken{
		ID: "00000000-0000-4000-8000-0000000000aa", TenantID: "acme", Name: "ci", Principal: "ana", SHA256: "x",
		Grants: []byte(`[]`), CreatedBy: "ana",
		ExpiresAt: time.Now().Add(time.Hour),
	}
	if _, _, err := s.PutToken(ctx, token, attackRow("acme", 1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.RevokeToken(ctx, "acme", token.ID, "ana", attackRow("acme", 2)); err != nil {
		t.Fatal(err)
	}
	execute(t, r.server, `UPDATE api_token SET revoked_at = NULL`)
	o := must[[]store.AuditObject](t)(
		s.AuditObjects(ctx, store.AuditObjectFilter{Kind: store.AuditToken, TenantID: "acme"}))[0]
	if o.Revoked || !o.Revocation || o.Made != o.Digest {
		t.Errorf("revoked %t, revocation %t, digests agree %t; want false, true, true", o.Revoked, o.Revocation,
			o.Made == o.Digest)
	}
	execute(t, r.owner, `UPDATE api_token SET grants = '[{"role":"ADMIN"}]'`)
	o = must[[]store.AuditObject](t)(
		s.AuditObjects(ctx, store.AuditObjectFilter{Kind: store.AuditToken, TenantID: "acme"}))[0]
	if o.Made == "" || o.Made == o.Digest {
		t.Errorf("the token with changed grants has the digest %s, which equals that of its audit row; want a different one",
			o.Digest)
	}
	if err := s.Audit(ctx, store.AuditRowOfToken(attackRow("acme", 3), store.StoredToken{ID: token.ID})); err != nil {
		t.Fatal(err)
	}
	if again := must[[]store.AuditObject](t)(
		s.AuditObjects(ctx, store.AuditObjectFilter{Kind: store.AuditToken, TenantID: "acme"}))[0]; again.Made != o.Made {
		t.Error("a later audit row replaced the digest of the first one")
	}
}
