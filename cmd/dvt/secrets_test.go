package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func TestSecrets_AreListedExportedCheckedAndRevoked(t *testing.T) {
	isolateEnvironment(t)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	var rows []store.SecretRead
	for no := range 250 {
		row := store.SecretRead{TenantID: "acme", RunID: "r1", StepID: "load", LogicalAttempt: 1, EngineAttempt: 1,
			No: no + 1, Account: "steps-1", Worker: "host/7", Provider: "vault", Key: "db#password", As: "env:PASSWORD"}
		if no == 0 {
			row.Key, row.Code = "db#user", run.CodeSecretDenied
		}
		rows = append(rows, row)
	}
	if err := s.PutSecretReads(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	address, _ := serveStore(t, s, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	expect := func(want int, token, words string, args ...string) string {
		t.Helper()
		out, status, err := dvt(t, address, token, append([]string{"secrets"}, args...)...)
		if err != nil {
			out += err.Error()
		}
		if status != want || !strings.Contains(out, words) {
			t.Errorf("dvt secrets %s: status %d, want %d, and %q in:\n%s", strings.Join(args, " "), status, want, words, out)
		}
		return out
	}
	expect(0, "dev-admin", "SECRET_DENIED", "who-read", "--key", "db#user")
	expect(0, "dev-admin", "more rows exist", "who-read", "--since", "1h")
	expect(0, "dev-admin", "No read of a secret", "who-read", "--run", "another")
	expect(2, "dev-admin", "--limit must be", "who-read", "--limit", "1000")
	expect(3, "dev-engineer", "read the audit", "who-read")
	lines := strings.Split(strings.TrimSpace(expect(0, "dev-admin", "host/7", "export")), "\n")
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); len(lines) != 250 || err != nil ||
		last["key"] != "db#user" {
		t.Errorf("the export has %d lines, the last %v (%v), want 250 with the oldest read last", len(lines), last, err)
	}
	expect(2, "dev-admin", "--yes", "revoke", "--reason", "it leaked")
	expect(2, "dev-admin", "--reason", "revoke", "--yes")
	expect(0, "dev-admin", "0 of 0 workers carried it out", "revoke", "--yes", "--reason", "it leaked")
	expect(3, "dev-engineer", "freeze", "revoke", "--yes", "--reason", "it leaked")

	plan := filepath.Join(t.TempDir(), "plan.json")
	doc := `{"schemaVersion":"v1.2","metadata":{"planId":"p","planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z",
		"createdBy":"t","schemaVersion":"v1.2"},"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev",
		"repoSha":"` + strings.Repeat("0", 40) + `"},"steps":[{"stepId":"load","type":"NOOP","inputs":{},"timeout":"1m"}]}`
	if err := os.WriteFile(plan, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(0, "dev-engineer", "names no secret", "check", plan)
	began := time.Now()
	doc = strings.Replace(doc, `"type":"NOOP","inputs":{}`,
		`"type":"COMMAND","inputs":{"argv":["true"]},"secretRefs":[{"provider":"vault","key":"db#user"}]`, 1)
	if err := os.WriteFile(plan, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(1, "dev-engineer", "NO ANSWER", "check", plan)
	if took := time.Since(began); took < 10*time.Second {
		t.Errorf("the check gave up after %s, want 15 s: a worker may need some", took)
	}
}
