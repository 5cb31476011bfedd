package attacks_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// cli runs dvt against the server with a token and returns its output and whether its status is 0.
func (w *world) cli(t *testing.T, token string, args ...string) (string, bool) {
	t.Helper()
	c := exec.CommandContext(t.Context(), w.binary, append(args, "--server", w.url)...)
	c.Env = []string{"DVT_TOKEN=" + token, "HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

// asServer runs a statement with the credentials of a server.
func (w *world) asServer(t *testing.T, sql string) error {
	t.Helper()
	c, err := pgx.Connect(t.Context(), w.serverDSN)
	must(t, err)
	defer func() { must(t, c.Close(context.WithoutCancel(t.Context()))) }()
	_, err = c.Exec(t.Context(), sql)
	return err
}

// A thief with the credentials of a server can insert a token but cannot stop the audit. verify names the token.
func TestAudit_StolenServerCredentialsLeaveATrace(t *testing.T) {
	w := installation(t)
	if out, ok := w.cli(t, foreignAdmin, "audit", "verify"); !ok {
		t.Fatalf("verify before the attack:\n%s", out)
	}
	if err := w.asServer(
		t, `INSERT INTO audit_link VALUES ('acme', 9223372036854775807, gen_random_uuid(), decode(repeat('00', 32), 'hex'))`); err == nil {
		t.Error("the role of servers could insert a link, want a refusal")
	}
	must(t, w.asServer(t, `INSERT INTO api_token (id, tenant_id, name, principal, sha256, grants, created_by, expires_at)
		VALUES ('00000000-0000-4000-8000-0000000000aa', 'globex', 'mine', 'gus', '`+hash("dvt_minted")+
		`', '[]', 'gus', now() + interval '1 day')`))
	out, ok := w.cli(t, foreignAdmin, "audit", "verify")
	if want := "token 00000000-0000-4000-8000-0000000000aa of tenant globex has no row that created it"; ok ||
		!strings.Contains(out, want) {
		t.Errorf("verify succeeded %t and said\n%swant %q", ok, out, want)
	}
}

// A thief with the credentials of a server mints runs and signals, and changes how far a run came and how many
// approvals it needs. He cannot change who sent a signal. The owner of the database changes that, who requested a run,
// and its plan. verify names each of them.
func TestAudit_ChangedRunsAndSignalsAreNamed(t *testing.T) {
	w := installation(t)
	runID := w.startRun(t, foreign, "shop", command("s", queueNobody, "true"))
	other := w.startRun(t, foreign, "shop", command("other", queueNobody, "true"))
	// A run takes a pause once it has begun. Rejected pauses have receipts, too.
	for deadline := time.Now().Add(patient(20 * time.Second)); ; time.Sleep(200 * time.Millisecond) {
		out, ok := w.cli(t, foreign, "run", "pause", runID, "--reason", "to look")
		if ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(out)
		}
	}
	// A row gets its number about a second after its commit.
	for deadline := time.Now().Add(patient(20 * time.Second)); ; time.Sleep(200 * time.Millisecond) {
		out, _ := w.cli(t, foreignAdmin, "audit", "verify")
		if strings.Contains(out, runID) || strings.Contains(out, other) || time.Now().After(deadline) {
			t.Fatalf("verify before the attack:\n%s", out)
		}
		if strings.Contains(out, "\nhead ") && !strings.Contains(out, "waiting for a link") {
			break
		}
	}
	if err := w.asServer(t, `UPDATE run SET triggered_by = 'mallory'`); err == nil {
		t.Error("the role of servers could change a run, want a refusal")
	}
	for _, column := range []string{"type", "actor", "payload", "reason", "rejected", "received_at"} {
		if err := w.asServer(t, `UPDATE signal SET `+column+` = `+column); err == nil {
			t.Errorf("the role of servers could change the %s of a signal, want a refusal", column)
		}
	}
	w.exec(t, `UPDATE signal SET actor = 'mallory' WHERE run_id = $1`, runID)
	must(t, w.asServer(t,
		`INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, request_id,
			plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
		SELECT 'minted', tenant_id, project_id, environment_id, plan_id, plan_version, request_id,
			plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at
		FROM run WHERE run_id = '`+runID+`'`))
	must(t, w.asServer(t,
		`INSERT INTO signal (run_id, signal_id, no, type, step_id, expected_attempt, force, actor, reason,
			rejected, rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
				received_at)
		VALUES ('`+other+`', 'minted', 0, 'CANCEL', '', 0, false, 'gita', '', true, '', '', '', '', 0, 0, 0, now())`))
	must(t, w.asServer(t,
		`INSERT INTO run SELECT 'forged', tenant_id, project_id, 'prod', plan_id, plan_version, NULL, request_id,
			plan_ref, 'gita', trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = '`+runID+`'`))
	must(t, w.asServer(t,
		`INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
		VALUES (gen_random_uuid(), 'globex', 'gita', 'START', 'forged', '', 'ACCEPTED', '', '', '', '{}')`))
	must(t, w.asServer(t, `UPDATE run_head SET terminal = true WHERE run_id = '`+other+`'`))
	must(t, w.asServer(t,
		`INSERT INTO approval (run_id, tenant_id, project_id, environment_id, required, priority, created_at,
			expires_at, open) SELECT run_id, tenant_id, project_id, environment_id, 2, 5, created_at, created_at, false
		FROM run WHERE run_id = '`+other+`'`))
	w.exec(t, `UPDATE run SET triggered_by = 'mallory' WHERE run_id = $1`, runID)
	w.exec(t, `UPDATE plan_body SET body = '{}' WHERE sha256 = (SELECT plan_ref ->> 'sha256' FROM run WHERE run_id = $1)`,
		other)
	out, ok := w.cli(t, foreignAdmin, "audit", "verify")
	if ok {
		t.Error("verify succeeded, want status 1")
	}
	for _, want := range []string{
		"run " + runID + " of tenant globex differs from the row that created it (number ",
		"the requester is \"mallory\", recorded as \"gita\"",
		"signal " + runID + "/",
		"the actor is \"mallory\", recorded as \"gita\"",
		"run minted of tenant globex has no row that created it",
		"run forged of tenant globex has no row that created it",
		"signal " + other + "/minted of tenant globex has no row that created it",
		"run " + other + " of tenant globex differs from the row that created it (number ",
		"the number of approvals is \"2\", recorded as \"0\"",
		"the digest of the stored plan is ",
		"its head says that it has ended, and its log has no end",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("verify does not say %q:\n%s", want, out)
		}
	}
}

// A row distinguishes a thief from the owner by the credential and the address.
func TestAudit_RowsNameCredentialAndAddress(t *testing.T) {
	w := installation(t)
	runID := w.startRun(t, operator, "shop", command("s", queueNobody, "true"))
	type row struct{ Actor, Credential, Address, Via, Detail string }
	var found *row
	for deadline := time.Now().Add(patient(20 * time.Second)); found == nil &&
		time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		out, ok := w.cli(t, admin, "audit", "export", "--run", runID, "--action", "START")
		if !ok {
			t.Fatal(out)
		}
		for line := range strings.Lines(out) {
			var entry struct{ Row *row }
			must(t, json.Unmarshal([]byte(line), &entry))
			found = entry.Row
		}
	}
	if found == nil {
		t.Fatal("the start has no linked row")
	}
	if found.Actor != "olga" || found.Credential != "account" || found.Address != "127.0.0.1" || found.Via != "http" {
		t.Errorf("the row of the start is %+v; want olga by account from 127.0.0.1 by http", *found)
	}
	for _, part := range []string{`"planSha256":"`, `"projectId":"shop"`, `"environmentId":"dev"`} {
		if !strings.Contains(found.Detail, part) {
			t.Errorf("the detail of the start is %s; want %s in it", found.Detail, part)
		}
	}
}

func (w *world) headsDir() string { return filepath.Join(w.dir, "heads") }

// makeHeadsKey writes the key pair of the signed heads.
func (w *world) makeHeadsKey() error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(w.dir, "heads.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
			0o600),
		os.WriteFile(filepath.Join(w.dir, "heads.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}),
			0o600))
}

// signedNo returns the greatest number of a tenant in the signed heads.
func (w *world) signedNo(t *testing.T, tenant string) (no int64) {
	t.Helper()
	must(t, filepath.WalkDir(w.headsDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var doc struct {
			Heads []struct {
				Tenant string
				No     int64
			}
		}
		err = json.Unmarshal(text, &doc)
		for _, h := range doc.Heads {
			if h.Tenant == tenant {
				no = max(no, h.No)
			}
		}
		return err
	}))
	return no
}

// The owner of the database cuts the end of a chain and repairs its head. Only the signed heads reveal it.
func TestAudit_ACutTailIsFoundBySignedHeads(t *testing.T) {
	w := installation(t)
	flags := []string{"audit", "verify", "--heads", w.headsDir(), "--heads-key", filepath.Join(w.dir, "heads.pub")}
	for range 3 {
		w.cli(t, foreign, "audit", "verify") // leaves a denial
		w.startRun(t, foreign, "shop", command("s", queueNobody, "true"))
	}
	var no int64
	for deadline := time.Now().Add(patient(40 * time.Second)); no < 3; time.Sleep(200 * time.Millisecond) {
		if no = w.signedNo(t, "globex"); time.Now().After(deadline) {
			t.Fatalf("the newest signed head of globex has number %d, want 3 or more", no)
		}
	}
	if out, _ := w.cli(t, foreignAdmin, flags...); strings.Contains(out, "its signed head") ||
		!strings.Contains(out, "signed head") {
		t.Fatalf("before the cut:\n%s", out)
	}
	w.exec(t, fmt.Sprintf(`DO $$ BEGIN
		ALTER TABLE audit_link DISABLE TRIGGER USER; ALTER TABLE audit DISABLE TRIGGER USER;
		DELETE FROM audit_link WHERE tenant_id = 'globex' AND no >= %d;
		-- Rows that have no link yet go too, because they would be linked after the cut, at numbers that were signed.
		DELETE FROM audit a WHERE a.tenant_id = 'globex' AND NOT EXISTS (SELECT FROM audit_link l WHERE l.id = a.id);
		UPDATE audit_head h SET no = l.no, hash = l.hash FROM audit_link l
			WHERE h.tenant_id = 'globex' AND l.tenant_id = 'globex' AND l.no = %[1]d - 1;
		ALTER TABLE audit_link ENABLE TRIGGER USER; ALTER TABLE audit ENABLE TRIGGER USER;
	END $$`, no))
	if out, _ := w.cli(t, foreignAdmin, "audit", "verify"); strings.HasPrefix(out, "number ") ||
		strings.Contains(out, "\nnumber ") || strings.Contains(out, "the chain ends") {
		t.Errorf("verify without the heads sees the cut:\n%s", out)
	}
	out, ok := w.cli(t, foreignAdmin, flags...)
	if want := fmt.Sprintf("the chain ends at %d; its signed head of ", no-1); ok || !strings.Contains(out, want) {
		t.Errorf("verify succeeded %t and said\n%swant %q", ok, out, want)
	}
}
