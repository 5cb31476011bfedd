package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

func TestExport_OfATenantIsVerifiedWithoutAServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dvt.db")
	serveFile(t, file)
	isolateEnvironment(t)
	dir := t.TempDir()
	export := func(want int, words string, args ...string) {
		t.Helper()
		args = append(args, "--store", "sqlite:"+file, "--data", filepath.Join(dir, "data"))
		out, status, err := dvt(t, "", "", args...)
		if err != nil {
			out += err.Error()
		}
		if status != want || !strings.Contains(out, words) {
			t.Errorf("dvt %s: status %d, want %d, and %q in:\n%s", strings.Join(args, " "), status, want, words, out)
		}
	}
	verify := func(want int, words, at string) {
		t.Helper()
		out, status, err := dvt(t, "", "", "export", "verify", at)
		if err != nil {
			out += err.Error()
		}
		if status != want || !strings.Contains(out, words) {
			t.Errorf("verify %s: status %d, want %d, and %q in:\n%s", at, status, want, words, out)
		}
	}
	to := filepath.Join(dir, "acme")
	export(2, "--reason", "tenant", "export", "acme", "--to", to)
	export(2, "--to", "tenant", "export", "acme", "--reason", "r")
	export(2, "--rate", "tenant", "export", "acme", "--to", to, "--reason", "r", "--rate", "fast")
	export(4, "EXPORT_NOTHING", "tenant", "export", "typo", "--to", filepath.Join(dir, "typo"), "--reason", "r")
	export(0, "manifest ", "tenant", "export", "acme", "--to", to, "--reason", "the contract ends", "--rate", "100M")
	verify(0, "of tenant acme", to)
	chain, err := os.ReadFile(filepath.Join(to, "audit", "audit-000001.ndjson"))
	me, _ := user.Current()
	if err != nil || !strings.Contains(string(chain), `"actor":"account/`+me.Username+`"`) ||
		!strings.Contains(string(chain), `"credential":"os"`) {
		t.Errorf("the audit has, %v:\n%s\nwant a record by account/%s", err, chain, me.Username)
	}
	export(3, "EXPORT_OTHER", "subject", "export", "ola", "--tenant", "acme", "--to", to, "--reason", "r")
	packed := filepath.Join(dir, "ola.tar.gz")
	export(2, "--tenant", "subject", "export", "ola", "--to", packed, "--reason", "r")
	export(0, "manifest ", "subject", "export", "ola", "--tenant", "acme", "--to", packed, "--reason", "by letter")
	verify(0, "ola of tenant acme", packed)
	if left, _ := filepath.Glob(packed + ".*"); len(left) > 0 {
		t.Errorf("the export left %v", left)
	}
	run := filepath.Join(to, "runs", "r1.ndjson")
	body, err := os.ReadFile(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(run, []byte(strings.Replace(string(body), "shop", "shoq", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	verify(1, "runs/r1.ndjson was changed", to)
	verify(4, "manifest", dir)
	verify(4, "", filepath.Join(dir, "nothing"))
}
