package notifier_test

import (
	"encoding/hex"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
)

// cutAt records and carries out a cut of a tenant's audit.
func (f *fixture) cutAt(tenant string, no int64) {
	f.Helper()
	links, err := f.store.AuditLinks(f.Context(), store.AuditFilter{TenantID: tenant, After: no - 1, Limit: 1})
	if err != nil || len(links) != 1 || links[0].No != no {
		f.Fatalf("%d links, error %v, want number %d", len(links), err, no)
	}
	row := store.AuditRow{ID: recordID(tenant, 900), TenantID: tenant, Actor: "dvt", Action: store.ActionCutAudit,
		Outcome: "ACCEPTED", Object: store.AuditCutObject(no), Digest: hex.EncodeToString(links[0].Hash[:])}
	if err := f.store.Audit(f.Context(), row); err != nil {
		f.Fatal(err)
	}
	if _, err := f.store.LinkAudit(f.Context(), 100); err != nil {
		f.Fatal(err)
	}
	if _, err := f.store.CutAudit(f.Context(), tenant, row.ID, 0, 1000); err != nil {
		f.Fatal(err)
	}
}

// A SIEM that was away while the retention cut the audit gets what is left: the link of the cut, said to be cut, and
// every record behind it, so that the receiver can verify the chain from there on.
func TestAudit_ADestinationThatWasAwayDuringACutGoesOn(t *testing.T) {
	t.Parallel()
	var young atomic.Bool
	now := func() time.Time {
		if young.Load() {
			return time.Now()
		}
		return time.Now().AddDate(-2, 0, 0)
	}
	f := newFixtureAt(t, now, destination.Config{Name: "all", Kind: destination.Webhook, Route: auditRoute})
	f.act("acme", 0, 4)
	stop := f.start(f.store, "one")
	arrived := func(n int64) func() bool {
		return func() bool {
			docs := docsOf(t, f.receivers["all"].messages(), "acme")
			return len(docs) > 0 && docs[len(docs)-1].No >= n
		}
	}
	f.waitFor("the records before the cut", arrived(4))
	time.Sleep(f.timing.Lease) // until the position is saved
	stop()
	f.act("acme", 4, 16)
	young.Store(true)
	f.cutAt("acme", 15)
	f.act("acme", 20, 3) // 21 is the record of the cut, and 22 to 24 are these
	before := len(docsOf(t, f.receivers["all"].messages(), "acme"))
	f.start(f.store, "two")
	f.waitFor("the records behind the cut", arrived(24))
	got := docsOf(t, f.receivers["all"].messages(), "acme")[before:]
	if len(got) != 10 {
		t.Fatalf("%d records arrived, want those from 15, of the cut, to 24", len(got))
	}
	previous := ""
	for i, d := range got {
		if d.No != int64(15+i) || d.Cut != (i == 0) {
			t.Errorf("record %d arrived at place %d, cut: %t; want number %d, and the first one cut", d.No, i, d.Cut, 15+i)
		}
		if err := d.Verify(); err != nil {
			t.Errorf("record %d: %v", d.No, err)
		}
		if i > 0 && d.Previous != previous {
			t.Errorf("record %d does not continue the one before", d.No)
		}
		previous = d.Hash
	}
}
