package control_test

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// unlinkable is a store whose LinkAudit fails.
type unlinkable struct{ store.Store }

func (unlinkable) LinkAudit(context.Context, int) (int, error) {
	return 0, errors.New("tenant acme: the head is damaged")
}

func TestLinkAudit_AnOldRowWithoutALinkRaisesOneAlert(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *usecases.Config) { c.Metrics, c.Store = registry, unlinkable{c.Store} })
	if err := w.Raw.Audit(t.Context(), store.AuditRow{ID: uuid.NewString(), TenantID: "acme", Actor: "ana",
		Action: "PAUSE"}); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(11 * time.Second)
	w.Spawn(w.LinkAudit)
	controltest.Eventually(t, "the age of the oldest row is 11 s or more",
		func() bool { return controltest.MetricValues(t, registry)["dvt_audit_unlinked_seconds"] >= 11 })
	var alerts []store.AlertState
	controltest.Eventually(t, "an alert after the second round", func() bool {
		alerts = controltest.Must[[]store.AlertState](t)(w.Raw.ListAlerts(t.Context(),
			store.AlertFilter{TenantID: "acme", Limit: 10}))
		return len(alerts) > 0
	})
	if len(alerts) != 1 || alerts[0].Code != run.CodeAuditUnlinked || alerts[0].Level != store.AlertHigh ||
		!strings.Contains(alerts[0].Note, "has no link after 1") {
		t.Errorf("alerts %+v; want one AUDIT_UNLINKED", alerts)
	}
	if n := controltest.MetricValues(t, registry)["dvt_audit_link_failures_total"]; n < 1 {
		t.Errorf("dvt_audit_link_failures_total is %v, want 1 or more", n)
	}
	page := controltest.Must[control.AuditPage](t)(w.Audit(t.Context(), w.Principal("dev-admin"),
		control.AuditQuery{Loose: true}))
	if page.Waiting != 1 || page.Oldest < 11*time.Second {
		t.Errorf("%d rows wait, the oldest for %s; want 1 and 11 s or more", page.Waiting, page.Oldest)
	}
}

// outage is a store that answers nothing about the audit and heartbeats while it is down. Its first answer about the
// audit after that fails too, as that of a connection that broke.
type outage struct {
	store.Store
	down, broken atomic.Bool
}

func (o *outage) err() error {
	if o.down.Load() {
		return store.ErrUnavailable
	}
	return nil
}

func (o *outage) LinkAudit(ctx context.Context, limit int) (int, error) {
	if o.down.Load() || o.broken.Swap(false) {
		return 0, store.ErrUnavailable
	}
	return o.Store.LinkAudit(ctx, limit)
}

func (o *outage) AuditBacklog(ctx context.Context, limit int) ([]store.AuditBacklog, error) {
	if err := o.err(); err != nil {
		return nil, err
	}
	return o.Store.AuditBacklog(ctx, limit)
}

func (o *outage) Beat(ctx context.Context, process string, duties []string) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Store.Beat(ctx, process, duties)
}

func (o *outage) Heartbeats(ctx context.Context) ([]store.Heartbeat, error) {
	if err := o.err(); err != nil {
		return nil, err
	}
	return o.Store.Heartbeats(ctx)
}

// Rows that were committed just before an outage of the store are old when it is back, and are linked at once. An alert
// of the highest severity would wake somebody for nothing.
func TestLinkAudit_AnOutageOfTheStoreRaisesNoAlert(t *testing.T) {
	t.Parallel()
	registry, o := prometheus.NewRegistry(), &outage{}
	o.down.Store(true)
	o.broken.Store(true)
	w := newWorld(t, func(c *usecases.Config) { o.Store, c.Metrics, c.Store = c.Store, registry, o })
	if err := w.Raw.Audit(t.Context(), store.AuditRow{ID: uuid.NewString(), TenantID: "acme", Actor: "ana",
		Action: "PAUSE"}); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(30 * time.Second)
	o.down.Store(false)
	w.Spawn(w.LinkAudit)
	controltest.Eventually(t, "the link of the row", func() bool {
		backlog := controltest.Must[[]store.AuditBacklog](t)(w.Raw.AuditBacklog(t.Context(), 10))
		return len(backlog) == 0 && controltest.MetricValues(t, registry)["dvt_audit_link_failures_total"] == 1
	})
	if alerts := controltest.Must[[]store.AlertState](t)(w.Raw.ListAlerts(t.Context(),
		store.AlertFilter{TenantID: "acme", Limit: 10})); len(alerts) != 0 {
		t.Errorf("the outage raised %+v, want no alert", alerts)
	}
}

func TestDenials_AreCountedByAction(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *usecases.Config) { c.Metrics = registry })
	p := w.Principal("dev-viewer")
	p.Address, p.Via, p.TokenID = "192.0.2.7", authz.ViaHTTP, ""
	for range 3 {
		_, err := w.FreezeTenant(t.Context(), p, admission.FreezeTenant{RequestID: "r", Frozen: true, Reason: "because"})
		controltest.Refusal(t, err, run.CodeForbidden)
	}
	counted := map[string]float64{}
	for _, f := range controltest.Must[[]*dto](t)(gather(registry)) {
		if f.name == "dvt_denials_total" && f.value > 0 {
			counted[f.label] += f.value
		}
	}
	if diff := cmp.Diff(map[string]float64{"FREEZE_TENANT": 3}, counted); diff != "" {
		t.Errorf("dvt_denials_total (-want +got):\n%s", diff)
	}
	row := w.CheckAuditChain("acme")[0].Row
	if row.Credential != "account" || row.Address != "192.0.2.7" || row.Via != "http" {
		t.Errorf("the row names the credential %q, the address %q and the way %q; want account, 192.0.2.7 and http",
			row.Credential, row.Address, row.Via)
	}
}

// dto is one series of a metric.
type dto struct {
	name, label string
	value       float64
}

func gather(r *prometheus.Registry) (out []*dto, err error) {
	families, err := r.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := ""
			if l := m.GetLabel(); len(l) > 0 {
				label = l[0].GetValue()
			}
			out = append(out, &dto{f.GetName(), label, m.GetCounter().GetValue()})
		}
	}
	return out, err
}

// shelf keeps documents in memory. It refuses them while it is broken.
type shelf struct {
	mu     sync.Mutex
	docs   map[string][]byte
	broken error
}

func (s *shelf) Write(_ context.Context, name string, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	if s.docs[name] != nil {
		return fs.ErrExist
	}
	s.docs[name] = body
	return nil
}

func (s *shelf) list() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.docs))
}

func TestWriteAuditHeads_OneSignedDocumentForAllServers(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	place := &shelf{docs: map[string][]byte{}}
	change := func(c *usecases.Config) {
		c.AuditHeads = control.AuditHeads{Archive: place, Key: func() ed25519.PrivateKey { return private },
			Every:        time.Hour,
			Installation: "here"}
	}
	w := newWorld(t, change)
	w.Clock.Hold() // within one hour
	if err := w.Raw.Audit(t.Context(), store.AuditRow{ID: uuid.NewString(), TenantID: "acme", Actor: "ana",
		Action: "PAUSE"}); err != nil {
		t.Fatal(err)
	}
	links := w.CheckAuditChain("acme")
	w.Spawn(w.WriteAuditHeads)
	w.Spawn(usecases.New(w.Config).WriteAuditHeads)
	controltest.Eventually(t, "a document", func() bool { return len(place.list()) > 0 })
	time.Sleep(100 * time.Millisecond) // time for the other server to write
	docs := place.list()
	if len(docs) != 1 {
		t.Fatalf("%d documents in one interval, want 1", len(docs))
	}
	heads, err := store.DecodeHeads(docs[0], public)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.AuditHead{{TenantID: "acme", No: 1, Hash: hex.EncodeToString(links[0].Hash[:])}}
	if diff := cmp.Diff(want, heads.Heads); diff != "" || heads.Installation != "here" {
		t.Errorf("heads of %q (-want +got):\n%s", heads.Installation, diff)
	}
	forged := []byte(strings.Replace(string(docs[0]), `"no":1`, `"no":2`, 1))
	if _, err := store.DecodeHeads(forged, public); !errors.Is(err, store.ErrSignature) {
		t.Errorf("a changed document: %v, want ErrSignature", err)
	}
}

func TestWriteAuditHeads_AFailureRaisesAnAlertOfTheOperators(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(c *usecases.Config) {
		c.Metrics, c.OperatorsTenant = registry, "acme"
		c.AuditHeads = control.AuditHeads{
			Archive: &shelf{broken: errors.New("the bucket is full")}, Key: func() ed25519.PrivateKey { return private },
			Every: time.Hour,
		}
	})
	if err := w.Raw.Audit(t.Context(), store.AuditRow{ID: uuid.NewString(), TenantID: "acme", Actor: "ana",
		Action: "PAUSE"}); err != nil {
		t.Fatal(err)
	}
	w.CheckAuditChain("acme")
	w.Spawn(w.WriteAuditHeads)
	controltest.Eventually(t, "an alert", func() bool {
		alerts := controltest.Must[[]store.AlertState](t)(w.Raw.ListAlerts(t.Context(), store.AlertFilter{TenantID: "acme",
			Limit: 10}))
		return len(alerts) == 1 && alerts[0].Code == run.CodeAuditHeads && alerts[0].Note == "the bucket is full"
	})
	if n := controltest.MetricValues(t, registry)["dvt_audit_heads_failures_total"]; n != 1 {
		t.Errorf("dvt_audit_heads_failures_total is %v, want 1", n)
	}
}

// Each use case that makes an object writes the row that accounts for it.
func TestCheckAudit_EachUseCaseAccountsForItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	p := w.Principal("dev-admin")
	made := controltest.Must[access.CreatedToken](t)(
		w.CreateToken(t.Context(), p, access.CreateToken{RequestID: "t", Name: "ci", Grants: p.Grants[:1]}))
	controltest.Must[access.RevokedToken](t)(
		w.RevokeToken(t.Context(), p, access.RevokeToken{RequestID: "r", ID: made.Token.ID, Reason: "lost"}))
	policy := controltest.Must[access.Policy](t)(w.Policy(t.Context(), p))
	controltest.Must[access.Policy](t)(
		w.SetPolicy(t.Context(), p, access.SetPolicy{RequestID: "p", ExpectedVersion: policy.Version,
			Document: policy.Document, Reason: "because"}))
	controltest.Must[admission.ModeChange](t)(
		w.FreezeTenant(t.Context(), p, admission.FreezeTenant{RequestID: "f", Frozen: true, Reason: "because"}))
	controltest.Must[admission.ModeChange](t)(
		w.SetEngineMode(t.Context(), w.Principal("dev-sre"), admission.SetEngineMode{RequestID: "m",
			Mode: admission.ModeNormal, Reason: "because"}))
	checked, after := 0, ""
	for {
		page := controltest.Must[control.AuditCheckPage](t)(w.CheckAudit(t.Context(), p, after))
		for _, problem := range page.Problems {
			t.Error(problem)
		}
		checked += page.Checked
		if after = page.Next; after == "" {
			break
		}
	}
	if checked != 4 {
		t.Errorf("%d objects were checked, want a token, a policy, a freeze and a mode", checked)
	}
	for _, cursor := range []string{"9:", "0:x", "5:x", "6:x"} {
		_, err := w.CheckAudit(t.Context(), p, cursor)
		controltest.Refusal(t, err, run.CodeCursorInvalid)
	}
	_, err := w.CheckAudit(t.Context(), w.Principal("dev-viewer"), "")
	controltest.Refusal(t, err, run.CodeForbidden)
}
