package subject_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/subject"
)

func secret(id string) string {
	return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32)[:32]))
}

func parse(t *testing.T, list ...string) *subject.Keyring {
	t.Helper()
	k, err := subject.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// table is a table of keys in memory.
type table map[string]store.SubjectKey

func (t table) put(rows []store.AuditRow) {
	for _, k := range store.Keys(rows) {
		t[k.ID] = k
	}
}

func (t table) SubjectKeys(_ context.Context, f store.SubjectKeyFilter) (out []store.SubjectKey, _ error) {
	for _, k := range t {
		if (f.TenantID == "" || k.TenantID == f.TenantID) && (f.IDs == nil || slices.Contains(f.IDs, k.ID)) &&
			k.ID > f.After && (!f.Live || k.Wrapped != "") &&
			(f.ErasedAfter.IsZero() || k.ErasedAt != nil && k.ErasedAt.After(f.ErasedAfter)) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b store.SubjectKey) int { return strings.Compare(a.ID, b.ID) })
	return out[:min(len(out), f.Limit)], nil
}

func (t table) destroy(lookups []string, at time.Time) {
	for id, k := range t {
		if slices.Contains(lookups, k.Lookup) {
			k.Wrapped, k.Name, k.Lookup, k.ErasedAt = "", "", "", &at
			t[id] = k
		}
	}
}

func row(actor string) store.AuditRow {
	return store.AuditRow{ID: "i-" + actor, TenantID: "t1", Actor: actor, Action: "PAUSE", Outcome: "ACCEPTED",
		Reason: "call " + actor + "@example.org", Address: "192.0.2.7", Credential: "token:t-1", Format: 2}
}

func seal(t *testing.T, k *subject.Keyring, rows ...store.AuditRow) []store.AuditRow {
	t.Helper()
	out, err := k.Seal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// asRead returns a stored row as a store reads it.
func asRead(r store.AuditRow) *store.AuditRow { r.Key = nil; return &r }

// contract: T165
func TestSeal_ARowNamesNobodyUntilItIsOpened(t *testing.T) {
	t.Parallel()
	k := parse(t, secret("k1"))
	sealed := seal(t, k, row("ana"), row("bo"))
	stored := table{}
	stored.put(sealed)
	if text := fmt.Sprintf("%+v %+v", sealed, stored); strings.Contains(text, "ana@") ||
		strings.Contains(text, "192.0.2.7") || strings.Contains(text, "Actor:ana") {
		t.Fatalf("the stored texts name the actor: %s", text)
	}
	read := asRead(sealed[0])
	hash := read.Link([32]byte{}, 1)
	if err := k.Open(t.Context(), stored, "t1", []*store.AuditRow{read}); err != nil {
		t.Fatal(err)
	}
	want := row("ana")
	want.Sealed = &store.SealedTexts{Actor: sealed[0].Actor, Reason: sealed[0].Reason, Address: sealed[0].Address}
	if diff := cmp.Diff(want, *read); diff != "" {
		t.Errorf("opened row (-want +got):\n%s", diff)
	}
	if read.Link([32]byte{}, 1) != hash {
		t.Error("the hash of an opened row differs from that of the stored row")
	}
}

// contract: T165
func TestOpen_ADestroyedKeyErasesOneActorAndChangesNoHash(t *testing.T) {
	t.Parallel()
	k := parse(t, secret("k1"))
	sealed := seal(t, k, row("ana"), row("bo"))
	stored := table{}
	stored.put(sealed)
	ana, bo := asRead(sealed[0]), asRead(sealed[1])
	hash := ana.Link([32]byte{}, 1)
	stored.destroy(k.Lookups("t1", "ana"), time.Now())
	if err := k.Open(t.Context(), stored, "t1", []*store.AuditRow{ana, bo}); err != nil {
		t.Fatal(err)
	}
	if got := []string{ana.Actor, ana.Reason, ana.Address}; !slices.Equal(got, []string{"erased subject", "(erased)",
		"(erased)"}) {
		t.Errorf("the row of the erased actor reads %q", got)
	}
	if ana.Link([32]byte{}, 1) != hash {
		t.Error("the erasure changed the hash of a row")
	}
	if bo.Actor != "bo" || bo.Reason != "call bo@example.org" {
		t.Errorf("the row of another actor reads %q, %q", bo.Actor, bo.Reason)
	}
}

func TestForget_AnErasedActorGetsANewKey(t *testing.T) {
	t.Parallel()
	k := parse(t, secret("k1"))
	before := seal(t, k, row("ana"))
	stored := table{}
	stored.put(before)
	if again := seal(t, k, row("ana")); again[0].Key.ID != before[0].Key.ID {
		t.Fatal("the second row of an actor has another key, want the key of the first")
	}
	stored.destroy(k.Lookups("t1", "ana"), time.Now())
	if err := k.Forget(t.Context(), stored, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if after := seal(t, k, row("ana")); after[0].Key.ID == before[0].Key.ID {
		t.Error("a row after the erasure was sealed by the destroyed key")
	}
}

func TestKeyring_RotationAndRestart(t *testing.T) {
	t.Parallel()
	old := parse(t, secret("k1"))
	sealed := seal(t, old, row("ana"))
	stored := table{}
	stored.put(sealed)
	rotated := parse(t, secret("k2"), secret("k1"))
	read := asRead(sealed[0])
	if err := rotated.Open(t.Context(), stored, "t1", []*store.AuditRow{read}); err != nil || read.Actor != "ana" {
		t.Errorf("after a rotation the row reads %q, %v", read.Actor, err)
	}
	if lookups := rotated.Lookups("t1", "ana"); !slices.Contains(lookups, sealed[0].Key.Lookup) {
		t.Error("after a rotation the keys of an actor are not found")
	}
	again := parse(t, secret("k1"))
	if err := again.Load(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if next := seal(t, again, row("ana")); next[0].Key.ID != sealed[0].Key.ID {
		t.Error("a process that starts again makes another key")
	}
	other := parse(t, secret("k3"))
	read = asRead(sealed[0])
	if err := other.Open(t.Context(), stored, "t1", []*store.AuditRow{read}); err != nil ||
		!strings.Contains(read.Actor, "cannot be read") {
		t.Errorf("without the key of the installation the row reads %q, %v", read.Actor, err)
	}
}

func TestStoredActors_FindsNamesByAPart(t *testing.T) {
	t.Parallel()
	k := parse(t, secret("k1"))
	sealed := seal(t, k, row("ana"), row("Joana"), row("bo"))
	stored := table{}
	stored.put(sealed)
	got, err := k.StoredActors(t.Context(), stored, "t1", "ana")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{sealed[0].Actor, sealed[1].Actor}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestSeal_RowsOfDvtItselfAndForgedTextsStayPlain(t *testing.T) {
	t.Parallel()
	k := parse(t, secret("k1"))
	own := store.AuditRow{TenantID: "t1", Actor: "dvt", Action: "SEAL_LOG"}
	if got := seal(t, k, own); got[0].Actor != "dvt" || got[0].Key != nil {
		t.Errorf("a row of dvt itself was sealed: %+v", got[0])
	}
	forged := store.AuditRow{TenantID: "t1", Actor: store.SealedActor + strings.Repeat("0", 32)}
	if err := k.Open(t.Context(), table{}, "t1", []*store.AuditRow{&forged}); err != nil ||
		forged.Actor == store.ErasedSubject {
		t.Errorf("a name that looks like a destroyed key reads %q, %v", forged.Actor, err)
	}
	changed := seal(t, k, row("ana"))
	stored := table{}
	stored.put(changed)
	read := asRead(changed[0])
	read.Reason = strings.Replace(read.Reason, "sealed:"+changed[0].Key.ID+":", "sealed:"+changed[0].Key.ID+":AAAA", 1)
	if err := k.Open(t.Context(), stored, "t1", []*store.AuditRow{read}); err != nil ||
		!strings.Contains(read.Reason, "cannot be read") {
		t.Errorf("a changed text reads %q, %v", read.Reason, err)
	}
}

func TestParse_RefusesWeakKeysWithoutShowingThem(t *testing.T) {
	t.Parallel()
	for _, list := range [][]string{{"k1:c2hvcnQ="}, {"nokey"}, {secret("k1"), secret("k1")}} {
		if _, err := subject.Parse(list); err == nil || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%d keys: %v", len(list), err)
		}
	}
	if k, err := subject.Parse(nil); k != nil || err != nil {
		t.Errorf("no keys give %v, %v", k, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", parse(t, secret("k1")), parse(t, secret("k1")), "x"); strings.Contains(text,
		"k1k1") {
		t.Errorf("a keyring prints its secrets: %s", text)
	}
}
