package erasure_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/erasure"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/storeadmin"
)

// ask has one person request an erasure and another one confirm it.
func (i *installation) ask(id string, kind store.ErasureKind, person string) {
	i.Helper()
	_, err := i.store.RequestErasure(i.Context(), store.Erasure{ID: id, Kind: kind, TenantID: "tenant-" + gone,
		Subject: person, Reason: "the contract of " + gone + " ended", RequestedBy: "ana." + gone + "@example.org"},
		time.Hour)
	check(i.T, err)
	_, err = i.store.DecideErasure(i.Context(), "tenant-"+gone, id, "bo."+gone+"@example.org", true)
	check(i.T, err)
}

// checkNothingLeft checks that no trace of the erased tenant is left.
func (i *installation) checkNothingLeft(of string) {
	i.Helper()
	if found := i.scan(of); len(found) > 0 {
		i.Errorf("%d traces of %q are left, the first ones:\n%s", len(found), of,
			strings.Join(found[:min(len(found), 5)], "\n"))
	}
	if i.file != "" {
		if body := must[[]byte](i.T)(os.ReadFile(i.file)); bytes.Contains(body, []byte("tenant-"+of)) {
			i.Errorf("the file of the database still has bytes of %q", of)
		}
	}
	if n := len(i.dump("incident_alert", "")); n != 1 { // its rows name nobody
		i.Errorf("incident_alert has %d rows, want that of the other tenant", n)
	}
	if found := i.scanFiles(strings.TrimPrefix(i.ledger, "file://"), of); len(found) > 0 {
		i.Errorf("the ledger names %q: %s", of, found[0])
	}
}

// checkChain checks the chain of a tenant's audit as an auditor does.
func (i *installation) checkChain(tenant string) (rows int) {
	i.Helper()
	var before [32]byte
	for {
		links, err := i.store.AuditLinks(i.Context(), store.AuditFilter{TenantID: tenant, After: int64(rows),
			WithMissingRows: true, Limit: 100})
		check(i.T, err)
		for _, l := range links {
			if l.Row == nil || l.No != int64(rows)+1 || l.Hash != l.Row.Link(before, l.No) {
				i.Fatalf("link %d of %s does not continue the chain", l.No, tenant)
			}
			before, rows = l.Hash, rows+1
		}
		if len(links) < 100 {
			return rows
		}
	}
}

func (i *installation) verifyStore() {
	i.Helper()
	verified := must[storeadmin.Verified](i.T)(storeadmin.Verify(i.Context(), i.store, storeadmin.VerifyOptions{}, nil))
	if verified.Differences > 0 {
		i.Errorf("store verify finds %d differences, the first: %v", verified.Differences, verified.Found[0])
	}
}

func (i *installation) certificate(doc json.RawMessage) erasure.Certificate {
	i.Helper()
	return must[erasure.Certificate](i.T)(erasure.ReadCertificate(doc, i.sign.Public().(ed25519.PublicKey)))
}

// Two tenants have all kinds of data. One is erased: nothing of it is left anywhere, also not in a restored backup of
// the day before, and the other tenant is byte for byte the same.
// contract: Z03, T165
func TestPurge_NothingIsLeftOfTheTenantAndTheOtherIsUntouched(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.seed(kept)
		old := i.backup()
		links := i.checkChain("tenant-" + gone)
		before := i.scan(kept)
		if n := len(i.scan(gone)); n < 60 {
			t.Fatalf("the tenant has only %d traces before the purge", n)
		}
		slots := i.texts(`SELECT CAST(count(*) AS text) FROM run_queue WHERE slot AND tenant_id = 'tenant-kept'`)
		preview := must[map[string]int64](t)(i.runner(nil).Preview(t.Context(), owner.Scope{TenantID: "tenant-" + gone}))
		i.ask(request, store.EraseTenant, "")
		doc := must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request))
		i.checkNothingLeft(gone)
		if diff := cmp.Diff(before, i.scan(kept)); diff != "" {
			t.Errorf("the other tenant changed (-before +after):\n%s", diff)
		}
		if got := i.texts(`SELECT CAST(active AS text) FROM lane WHERE tenant_id = '' AND project_id = ''`); !slices.Equal(got,
			slots) {
			t.Errorf("the installation counts %v runs with a slot, the other tenant has %v", got, slots)
		}
		c := i.certificate(doc)
		if c.AuditRows != int64(links) || c.AuditHash == "" || c.TenantHash == "" || c.RequestedBy == c.ConfirmedBy {
			t.Errorf("certificate %s, want the end %d of the chain, and two people", doc, links)
		}
		for place, n := range preview {
			if place != "bucket bytes" && c.Erased[place] < n {
				t.Errorf("the certificate counts %d of %s, the preview %d", c.Erased[place], place, n)
			}
		}
		i.verifyStore()
		if i.checkChain("tenant-"+kept) == 0 {
			t.Error("the other tenant has no audit left")
		}
		// a later request of the same tenant begins from nothing
		if again := must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request)); string(again) != string(doc) {
			t.Errorf("the certificate of a finished erasure is %s, want the same as before", again)
		}

		// The backup of the day before is restored over the erased store: it refuses to serve until the ledger was replayed.
		ledger := must[*erasure.Ledger](t)(erasure.OpenLedger(t.Context(), i.ledger, i.keys))
		t.Cleanup(func() { _ = ledger.Close() })
		check(t, ledger.Check(t.Context(), i.store))
		var restored *erasure.RestoredError
		if err := ledger.Check(t.Context(), old.store); !errors.As(err, &restored) ||
			!slices.Equal(restored.IDs, []string{request}) {
			t.Fatalf("the check of a restored backup gives %v, want the missing erasure", err)
		}
		replayed := must[erasure.Replayed](t)(old.runner(nil).Replay(t.Context(), old.store))
		if replayed.Erasures != 1 || len(replayed.Certificates) != 1 || !old.certificate(replayed.Certificates[0]).Restored {
			t.Errorf("replay gives %+v", replayed)
		}
		old.checkNothingLeft(gone)
		check(t, ledger.Check(t.Context(), old.store))
		old.verifyStore()
		old.checkChain("tenant-" + kept)
		if again := must[erasure.Replayed](t)(old.runner(nil).Replay(t.Context(), old.store)); again.Erasures != 0 {
			t.Errorf("a second replay repeats %d erasures, want none", again.Erasures)
		}
	})
}

var errKilled = errors.New("killed")

// An erasure that dies after any of its steps continues in another process and ends the same.
// contract: Z03
func TestPurge_ContinuesAfterADeathAtEachStep(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.seed(kept)
		before := i.scan(kept)
		i.ask(request, store.EraseTenant, "")
		phases, again := map[string]bool{}, 0
		var doc json.RawMessage
		for deaths := 0; doc == nil; deaths++ {
			if deaths > 1000 {
				t.Fatal("the erasure does not end")
			}
			steps := 0
			out, err := i.runner(func(phase, _ string) error {
				phases[phase] = true
				if phase == erasure.PhaseAgain {
					again++ // which begins from its start, so that only its first steps die
				}
				if steps++; steps > 3 && again < 30 {
					return errKilled
				}
				return nil
			}).Run(t.Context(), request)
			switch {
			case err == nil:
				doc = out
			case !errors.Is(err, errKilled):
				t.Fatal(err)
			}
			if i.certifiedTooEarly(doc) {
				t.Fatal("the request is a tombstone before its end")
			}
		}
		for _, phase := range []string{erasure.PhaseFreeze, erasure.PhaseEnd, erasure.PhaseDrain, erasure.PhaseRows,
			erasure.PhaseBucket, erasure.PhaseEngine, erasure.PhaseAgain, erasure.PhaseCertify} {
			if !phases[phase] {
				t.Errorf("the phase %s was not seen", phase)
			}
		}
		i.checkNothingLeft(gone)
		if diff := cmp.Diff(before, i.scan(kept)); diff != "" {
			t.Errorf("the other tenant changed (-before +after):\n%s", diff)
		}
		if c := i.certificate(doc); c.Erased["table run"] != 3 || c.Erased["table event"] < 6 {
			t.Errorf("the certificate counts %v, want each row once", c.Erased)
		}
	})
}

func (i *installation) certifiedTooEarly(doc json.RawMessage) bool {
	i.Helper()
	found := must[[]store.Erasure](i.T)(i.store.Erasures(i.Context(), store.ErasureFilter{IDs: []string{request}}))
	return doc == nil && found[0].FinishedAt != nil
}

// contract: T208
func TestRun_NeedsTwoPeople(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		ctx, tenant := t.Context(), "tenant-"+gone
		i.seed(gone)
		ana, bo := "ana."+gone+"@example.org", "bo."+gone+"@example.org"
		asked, err := i.store.RequestErasure(ctx, store.Erasure{ID: request, Kind: store.EraseTenant, TenantID: tenant,
			RequestedBy: ana}, time.Hour)
		check(t, err)
		if asked.ConfirmedAt != nil || asked.ExpiresAt.Sub(asked.RequestedAt).Round(time.Minute) != time.Hour {
			t.Errorf("request %+v, want one that expires in an hour", asked)
		}
		refused := func(err error, want error, what string) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s gives %v, want %v", what, err, want)
			}
		}
		run := func() error { _, err := i.runner(nil).Run(ctx, request); return err }
		refused(run(), erasure.ErrNotConfirmed, "running an erasure that nobody confirmed")
		_, err = i.store.DecideErasure(ctx, tenant, request, ana, true)
		refused(err, store.ErrConflict, "a confirmation by the person who asked")
		_, err = i.store.DecideErasure(ctx, "tenant-"+kept, request, bo, true)
		refused(err, store.ErrNotFound, "a confirmation by another tenant")
		_, err = i.store.DecideErasure(ctx, tenant, request, bo, false)
		check(t, err)
		_, err = i.store.DecideErasure(ctx, tenant, request, bo, true)
		refused(err, store.ErrConflict, "a confirmation after it was cancelled")
		refused(run(), erasure.ErrNotConfirmed, "running a cancelled erasure")

		second := strings.Replace(request, "1", "2", 1)
		_, err = i.store.RequestErasure(ctx, store.Erasure{ID: second, Kind: store.EraseTenant, TenantID: tenant,
			RequestedBy: ana}, time.Millisecond)
		check(t, err)
		time.Sleep(10 * time.Millisecond)
		_, err = i.store.DecideErasure(ctx, tenant, second, bo, true)
		refused(err, store.ErrConflict, "a confirmation after the request expired")
		if entries, err := os.ReadDir(strings.TrimPrefix(i.ledger, "file://")); err != nil || len(entries) > 0 {
			t.Errorf("refused erasures wrote %d entries into the ledger, %v", len(entries), err)
		}
		if n := len(i.scan(gone)); n < 60 {
			t.Errorf("refused erasures left %d traces of the tenant", n)
		}
	})
}

// contract: T165
func TestRun_NeedsThatNoLegalHoldIsOpen(t *testing.T) {
	onEach(t, func(i *installation) {
		const tenant = "tenant-" + gone
		hold := func(id string, kind store.HoldKind, of string) {
			must[bool](i)(errOf3(i.store.PlaceHold(i.Context(), store.Hold{ID: id, TenantID: tenant, Kind: kind, Subject: of,
				Reason: "case 12", PlacedBy: "ana"}, store.AuditRow{ID: uuid.NewString(), TenantID: tenant, Actor: "ana"})))
		}
		lift := func(id string) {
			must[bool](i)(errOf3(i.store.LiftHold(i.Context(), tenant, id, "ben", "closed", store.AuditRow{ID: uuid.NewString(),
				TenantID: tenant, Actor: "ben"})))
		}
		i.seed(gone)
		hold("h1", store.HoldSubject, "dora")
		for n, person := range []string{"", "dora"} {
			id := fmt.Sprintf("22222222-2222-4222-8222-22222222222%d", n)
			kind := store.EraseSubject
			if person == "" {
				kind = store.EraseTenant
			}
			i.ask(id, kind, person)
			if _, err := i.runner(nil).Run(i.Context(), id); !errors.Is(err, erasure.ErrHeld) {
				i.Errorf("the erasure of %s/%s under a hold: %v, want ErrHeld", tenant, person, err)
			}
		}
		lift("h1")
		hold("h2", store.HoldSubject, "emil")
		if _, err := i.runner(nil).Run(i.Context(), "22222222-2222-4222-8222-222222222221"); err != nil {
			i.Errorf("the erasure of a person whom no hold names: %v", err)
		}
	})
}

func errOf3[T, U any](_ T, v U, err error) (U, error) { return v, err }

func TestSubject_ErasedFromTheAuditWhoseChainHolds(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.seed(kept)
		i.end(gone, 0)
		i.end(kept, 0)
		tenant, person := "tenant-"+gone, "ana."+gone+"@example.org"
		links := i.checkChain(tenant)
		old := i.backup()
		read := func(i *installation) (actors []string) {
			out := must[[]store.AuditLink](t)(i.store.AuditLinks(t.Context(), store.AuditFilter{TenantID: tenant, Limit: 100}))
			for _, l := range out {
				check(t, i.keys.Open(t.Context(), i.store, tenant, []*store.AuditRow{l.Row}))
				actors = append(actors, l.Row.Actor)
			}
			slices.Sort(actors)
			return slices.Compact(actors)
		}
		if got := read(i); !slices.Contains(got, person) || slices.Contains(got, store.ErasedSubject) {
			t.Fatalf("before the erasure the audit names %q", got)
		}
		i.ask(request, store.EraseSubject, person)
		c := i.certificate(must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request)))
		if got := read(i); slices.Contains(got, person) || !slices.Contains(got, store.ErasedSubject) {
			t.Errorf("after the erasure the audit names %q", got)
		}
		if after := i.checkChain(tenant); after <= links {
			t.Errorf("the chain has %d links, want those %d and the rows that vouch for the rewrites", after, links)
		}
		if c.Erased["keys"] == 0 || c.Erased["table api_token"] == 0 || c.Erased["table run_note"] == 0 {
			t.Errorf("certificate erased %v", c.Erased)
		}
		if len(c.Remaining) > 0 || !slices.Contains(c.NotSearched, "step logs") {
			t.Errorf("%v remain; not searched are %q", c.Remaining, c.NotSearched)
		}
		i.verifyArchived()
		replayed := must[erasure.Replayed](t)(old.runner(nil).Replay(t.Context(), old.store))
		if got := read(old); replayed.Erasures != 1 || slices.Contains(got, person) {
			t.Errorf("after a restore and %d replayed erasures the audit names %q", replayed.Erasures, got)
		}
	})
}

// Somebody who can only write to the bucket of the ledger can have nothing erased.
func TestLedger_AForgedEntryStopsTheServer(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.ask(request, store.EraseTenant, "")
		_ = must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request))
		dir := strings.TrimPrefix(i.ledger, "file://")
		for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
			body := must[[]byte](t)(os.ReadFile(dir + "/" + e.Name()))
			check(t, os.WriteFile(dir+"/x"+e.Name(), []byte(strings.Replace(string(body), request, "x"+request, 1)), 0o600))
		}
		ledger := must[*erasure.Ledger](t)(erasure.OpenLedger(t.Context(), i.ledger, i.keys))
		t.Cleanup(func() { _ = ledger.Close() })
		if err := ledger.Check(t.Context(), i.store); err == nil || !strings.Contains(err.Error(), "was not written with") {
			t.Errorf("a forged entry gives %v", err)
		}
		if _, err := i.runner(nil).Replay(t.Context(), i.store); err == nil {
			t.Error("a forged entry was replayed")
		}
	})
}

// A process may die, or be overtaken by a decision, between the entry of the ledger and the start.
func TestLedger_ACancelledErasureIsNotRepeated(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.ask(request, store.EraseTenant, "")
		cancelled := i.backup()
		_, err := i.runner(func(string, string) error { return errKilled }).Run(t.Context(), request)
		if !errors.Is(err, errKilled) {
			t.Fatalf("the erasure ended with %v, want the death at its first step", err)
		}
		ledger := must[*erasure.Ledger](t)(erasure.OpenLedger(t.Context(), i.ledger, i.keys))
		t.Cleanup(func() { _ = ledger.Close() })
		if err := ledger.Check(t.Context(), cancelled.store); err == nil {
			t.Error("a store that lacks the start of an erasure passes the check")
		}
		before := cancelled.scan(gone)
		_, err = cancelled.store.DecideErasure(t.Context(), "tenant-"+gone, request, "bo", false)
		check(t, err)
		check(t, ledger.Check(t.Context(), cancelled.store))
		out := must[erasure.Replayed](t)(cancelled.runner(nil).Replay(t.Context(), cancelled.store))
		if out.Erasures != 0 || len(cancelled.scan(gone)) < len(before) {
			t.Errorf("the replay erased the tenant although two people had cancelled it: %+v", out)
		}
	})
}

// Two administrators start the same purge. One certificate is signed, and it counts everything.
func TestRun_OfTwoProcessesOneStops(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.seed(kept)
		preview := must[map[string]int64](t)(i.runner(nil).Preview(t.Context(), owner.Scope{TenantID: "tenant-" + gone}))
		i.ask(request, store.EraseTenant, "")
		other := *i
		other.owner = owner.New(i.db, owner.SQLite)
		if i.pg {
			other.owner = owner.New(i.db, owner.Postgres)
		}
		var doc json.RawMessage
		_, err := i.runner(func(phase, _ string) error {
			if phase == erasure.PhaseRows && doc == nil {
				doc = must[json.RawMessage](t)(other.runner(nil).Run(t.Context(), request))
			}
			return nil
		}).Run(t.Context(), request)
		if !errors.Is(err, owner.ErrOvertaken) {
			t.Errorf("the process that was overtaken ended with %v, want an error that says so", err)
		}
		c := i.certificate(doc)
		for place, n := range preview {
			if place != "bucket bytes" && c.Erased[place] < n {
				t.Errorf("the certificate counts %d of %s, the preview %d", c.Erased[place], place, n)
			}
		}
		if again := must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request)); string(again) != string(doc) {
			t.Errorf("the store has the certificate %s, want the one that was signed: %s", again, doc)
		}
		i.checkNothingLeft(gone)
	})
}
