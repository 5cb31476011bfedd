package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/erasure"
	"github.com/dvt-engine/dvt/store"
)

// contract: T165
func TestErasure_OnePersonAsksAndAnotherDecides(t *testing.T) {
	address, _ := serve(t)
	isolateEnvironment(t)
	ask := func(who string, want int, words ...string) string {
		t.Helper()
		out, status, err := dvt(t, address, who, words...)
		if status != want {
			t.Errorf("dvt %s as %s: status %d, %v, want %d", strings.Join(words, " "), who, status, err, want)
		}
		return out
	}
	ask("dev-admin", 2, "tenant", "purge", "acme")
	ask("dev-admin", 2, "tenant", "purge", "globex", "--reason", "another tenant")
	ask("dev-operator", 3, "tenant", "purge", "acme", "--reason", "not mine")
	var asked client.ErasureRow
	doc := ask("dev-admin", 0, "subject", "erase", "ola", "--reason", "by letter", "-o", "json")
	if err := json.Unmarshal([]byte(doc), &asked); err != nil || asked.Subject == nil || *asked.Subject != "ola" {
		t.Fatalf("%v in %s", err, doc)
	}
	if out := ask("dev-admin", 0, "tenant", "purge", "acme", "--reason", "it ended"); !strings.Contains(out,
		"dvt erasure confirm ") {
		t.Errorf("purge prints %q, want what to do next", out)
	}
	ask("dev-admin", 3, "erasure", "confirm", asked.Id, "--reason", "mine")
	if out := ask("dev-sre", 0, "erasure", "confirm", asked.Id, "--reason", "seen"); !strings.Contains(out,
		"dvt store erase "+asked.Id) {
		t.Errorf("confirm prints %q, want what to do next", out)
	}
	if out := ask("dev-sre", 0, "erasure", "list"); !strings.Contains(out, "confirmed") || !strings.Contains(out, "ola") ||
		!strings.Contains(out, "waits for another person") {
		t.Errorf("list prints %s", out)
	}
	if out := ask("dev-sre", 0, "erasure", "cancel", asked.Id, "--reason", "a mistake"); !strings.Contains(out,
		"nothing is erased") {
		t.Errorf("cancel prints %q", out)
	}
	ask("dev-mallory", 4, "erasure", "cancel", asked.Id, "--reason", "a stranger")
}

func TestErasureVerify_RefusesAChangedCertificate(t *testing.T) {
	isolateEnvironment(t)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, body []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	c := erasure.Certificate{Erasure: "e1", Kind: store.EraseTenant, Erased: map[string]int64{"table run": 3}}
	body, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Signature = ed25519.Sign(private, body)
	signed, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out, status, err := dvt(t, "", "", "erasure", "verify", write("good.json", signed), "--key", key, "-o", "json")
	if status != 0 || !strings.Contains(out, `"table run": 3`) {
		t.Errorf("status %d, %v, %s; want 0 and the counts", status, err, out)
	}
	changed := strings.Replace(string(signed), `"table run":3`, `"table run":0`, 1)
	_, status, _ = dvt(t, "", "", "erasure", "verify", write("changed.json", []byte(changed)), "--key", key)
	if status != 1 {
		t.Errorf("a changed certificate gives status %d, want 1", status)
	}
}
