package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// cutFile is a database whose audit of the tenant acme was cut at number 5 of 6, and what an auditor needs.
type cutFile struct {
	file, heads, key string
	private          ed25519.PrivateKey
}

// recordCut writes and links the row of a cut that key signs.
func recordCut(t *testing.T, s *sqlite.Store, cut store.AuditCut, key ed25519.PrivateKey) string {
	t.Helper()
	doc, err := cut.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	row := store.AuditRow{ID: uuid.NewString(), TenantID: "acme", Actor: "dvt", Action: store.ActionCutAudit,
		Outcome: "ACCEPTED", Object: store.AuditCutObject(cut.No), Digest: cut.Hash, Detail: doc}
	if err := s.Audit(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LinkAudit(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	return row.ID
}

func newCutFile(t *testing.T) cutFile {
	t.Helper()
	dir := t.TempDir()
	f := cutFile{file: filepath.Join(dir, "dvt.db"), heads: filepath.Join(dir, "heads"), key: filepath.Join(dir, "pub")}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	f.private = private
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().AddDate(-8, 0, 0)
	s, err := sqlite.Open(t.Context(), f.file, sqlite.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range 6 {
		row := store.AuditRow{ID: uuid.NewString(), TenantID: "acme", Actor: "ola", Action: "PAUSE", Outcome: "ACCEPTED"}
		if n == 2 {
			row.Object = "revocation/x"
		}
		if err := s.Audit(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	if _, err := s.LinkAudit(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	links, err := s.AuditLinks(t.Context(), store.AuditFilter{TenantID: "acme", Limit: 10})
	if err != nil || len(links) != 6 {
		t.Fatalf("%d links (%v), want 6", len(links), err)
	}
	hash := func(no int) string { return hex.EncodeToString(links[no-1].Hash[:]) }
	heads, err := store.SignedHeads{At: now, Heads: []store.AuditHead{{TenantID: "acme", No: 2, Hash: hash(2)}}}.
		Encode(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{f.key: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		filepath.Join(f.heads, "2018", "11", "28", "120000-0001.json"): heads} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now = time.Now()
	id := recordCut(t, s, store.AuditCut{TenantID: "acme", No: 5, Hash: hash(5), At: now, Days: 2557, Rows: 4, Total: 4,
		Kept: 1, KeptDigest: store.KeptAudit("", 3, hash(3))}, private)
	if no, err := s.CutAudit(t.Context(), "acme", id, 0, 100); err != nil || no != 5 {
		t.Fatalf("the cut ended at number %d (%v), want 5", no, err)
	}
	return f
}

// verify runs audit verify on the database.
func (f cutFile) verify(t *testing.T, args ...string) (out string, status int) {
	t.Helper()
	out, status, _ = dvt(t, serveAgain(t, f.file), "dev-admin", append([]string{"audit", "verify"}, args...)...)
	return out, status
}

func TestAuditVerify_ExcusesWhatASignedCutDeleted(t *testing.T) {
	f := newCutFile(t)
	const cut, unchecked = "The retention deleted 4 records up to number 5 on ", "give --heads and --heads-key"
	out, status := f.verify(t)
	if status != 0 || !strings.Contains(out, cut) || !strings.Contains(out, unchecked) {
		t.Errorf("status %d, want 0, what was cut, and that the signature was not checked:\n%s", status, out)
	}
	out, status = f.verify(t, "--heads", f.heads, "--heads-key", f.key)
	if status != 0 || !strings.Contains(out, cut) || strings.Contains(out, unchecked) {
		t.Errorf("with the key: status %d, want 0, what was cut, and nothing unchecked:\n%s", status, out)
	}
}

func TestAuditVerify_ReportsAForgedCut(t *testing.T) {
	const removeSix = "DELETE FROM audit_link WHERE no = 6"
	for name, c := range map[string]struct {
		forge func(*store.AuditCut) bool // false: another key signs
		do    []string
		want  []string
	}{
		"a row that was kept is gone": {do: []string{"DELETE FROM audit WHERE object = 'revocation/x'"},
			want: []string{"the cut at number 5 kept 1 record, and these were changed or removed"}},
		"a row that was kept was changed": {do: []string{"UPDATE audit SET actor = 'eve' WHERE object = 'revocation/x'"},
			want: []string{"number 3 was changed or moved"}},
		"a row behind the cut is gone": {do: []string{removeSix, "DELETE FROM audit WHERE id NOT IN (SELECT id FROM audit_link)"},
			want: []string{"number 6 was removed with its link"}},
		"the hash at the cut was changed": {do: []string{"UPDATE audit_link SET hash = zeroblob(32) WHERE no = 5"},
			want: []string{"the record of the cut names another hash for number 5", "number 6 was changed or moved"}},
		"another key signed a cut": {forge: func(c *store.AuditCut) bool { c.No = 6; return false }, do: []string{removeSix},
			want: []string{"the key of --heads-key did not sign it", "number 6 was removed with its link"}},
		"the cut of another tenant": {forge: func(c *store.AuditCut) bool { c.No, c.TenantID = 6, "globex"; return true },
			do:   []string{removeSix},
			want: []string{"its record is not the one of this row", "number 6 was removed with its link"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCutFile(t)
			if c.forge != nil {
				s, err := sqlite.Open(t.Context(), f.file, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				forged := store.AuditCut{TenantID: "acme", Hash: strings.Repeat("0", 64), At: time.Now(), Kept: 1}
				key := f.private
				if !c.forge(&forged) {
					_, key, _ = ed25519.GenerateKey(nil)
				}
				recordCut(t, s, forged, key)
				_ = s.Close()
			}
			tamper(t, f.file, c.do...)
			out, status := f.verify(t, "--heads", f.heads, "--heads-key", f.key)
			if status != 1 {
				t.Errorf("status %d, want 1", status)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("verify does not report %q:\n%s", want, out)
				}
			}
		})
	}
}
