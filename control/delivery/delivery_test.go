package delivery_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/delivery"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// newWorld has one destination that a process reported, and a dead letter of a tenant for each name.
func newWorld(t *testing.T, operators string, deadOf ...string) *controltest.World {
	t.Helper()
	w := controltest.New(t, func(c *usecases.Config) { c.OperatorsTenant = operators })
	w.TestWait = 300 * time.Millisecond
	report(t, w, destination.Config{Name: "hook", Kind: destination.Webhook, URL: "https://hooks.example/secret?key=1",
		Route: destination.Route{Tenants: []string{"acme"}}})
	for i, tenant := range deadOf {
		check(t, w.Raw.BuryDelivery(t.Context(), store.DeadDelivery{Destination: "hook", MessageID: fmt.Sprint("m", i),
			TenantID: tenant, Tries: 10, Error: "no answer", Message: json.RawMessage(`{"Type":"StepFailed"}`)}, 10))
	}
	return w
}

func report(t *testing.T, w *controltest.World, c destination.Config) {
	t.Helper()
	entry, err := json.Marshal(c.Entry())
	check(t, err)
	check(t, w.Raw.ReportDestination(t.Context(), store.DestinationReport{Name: c.Name, Entry: entry, Digest: "d1"}))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDestinations_SayWhatTheyDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	sre := w.Principal("dev-sre")
	is := func(want delivery.State) delivery.Destination {
		t.Helper()
		d := controltest.Must[delivery.Destination](t)(w.Destination(t.Context(), sre, "hook"))
		if d.State != want || d.Why == "" {
			t.Errorf("the destination is %s, %q; want %s and why", d.State, d.Why, want)
		}
		return d
	}
	d := is(delivery.Sending)
	if d.Kind != destination.Webhook || d.Address != "https://hooks.example" {
		t.Errorf("the destination has the kind %s and the address %s; want scheme and host only", d.Kind, d.Address)
	}
	since := w.Clock.Now()
	failing := store.DestinationReport{Name: "hook", Digest: "d1", FailingSince: &since, LastError: "no answer"}
	check(t, w.Raw.ReportDestination(t.Context(), failing))
	is(delivery.Failing)
	check(t, w.Raw.SwitchDestination(t.Context(), store.DestinationSwitch{Name: "hook", For: "d1", Why: "410"}))
	is(delivery.Disabled)
	failing.Digest = "d2" // another entry in the file enables it
	check(t, w.Raw.ReportDestination(t.Context(), failing))
	is(delivery.Failing)
	w.Clock.Advance(2 * time.Minute)
	is(delivery.Waiting)
	check(t, w.Raw.MarkDestinationsRemoved(t.Context(), nil, time.Minute, time.Hour))
	is(delivery.Removed)
	_, err := w.TestDestination(t.Context(), sre, delivery.TestDestination{RequestID: "t", Name: "hook"})
	controltest.Refusal(t, err, run.CodeNotFound)
}

func TestDestinations_AreForOperatorsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "acme", "globex", "")
	sre, foreign := w.Principal("dev-sre"), w.ForeignPrincipal()
	foreignSRE := sre
	foreignSRE.TenantID = "globex"
	ctx := t.Context()
	for name, call := range map[string]func(authz.Principal, string) error{
		"destinations": func(p authz.Principal, _ string) error { _, err := w.Destinations(ctx, p); return err },
		"destination":  func(p authz.Principal, n string) error { _, err := w.Destination(ctx, p, n); return err },
		"dead letters": func(p authz.Principal, n string) error {
			_, err := w.DeadDeliveries(ctx, p, delivery.DeadDeliveriesQuery{Name: n})
			return err
		},
		"the preview of a replay": func(p authz.Principal, n string) error {
			_, err := w.PreviewReplay(ctx, p, n, destination.Replay{})
			return err
		},
		"test": func(p authz.Principal, n string) error {
			_, err := w.TestDestination(ctx, p, delivery.TestDestination{RequestID: "t", Name: n})
			return err
		},
		"disable": func(p authz.Principal, n string) error {
			_, err := w.SwitchDestination(ctx, p, delivery.SwitchDestination{RequestID: "s", Name: n, Reason: "why"})
			return err
		},
		"replay": func(p authz.Principal, n string) error {
			_, err := w.ReplayDestination(ctx, p, delivery.ReplayDestination{RequestID: "r", Name: n, Reason: "why"})
			return err
		},
		"redrive": func(p authz.Principal, n string) error {
			_, err := w.RedriveDeliveries(ctx, p, delivery.RedriveDeliveries{RequestID: "d", Name: n, Reason: "why",
				All: true})
			return err
		},
	} {
		for who, p := range map[string]authz.Principal{"a viewer": w.Principal("dev-viewer"),
			"an admin of another tenant": foreign, "an SRE of another tenant": foreignSRE} {
			for _, destination := range []string{"hook", "unknown"} { // who may not look learns of no name
				if err := call(p, destination); controltest.CodeOf(err) != run.CodeForbidden {
					t.Errorf("%s of %s for %s: %v, want FORBIDDEN", name, destination, who, err)
				}
			}
		}
		if err := call(sre, "hook"); err != nil {
			t.Errorf("%s for an SRE of the operators: %v", name, err)
		}
		if err := call(sre, "unknown"); name != "destinations" && controltest.CodeOf(err) != run.CodeNotFound {
			t.Errorf("%s of an unknown destination: %v, want NOT_FOUND", name, err)
		}
	}
	page := controltest.Must[delivery.DeadDeliveriesPage](t)(w.DeadDeliveries(ctx, sre,
		delivery.DeadDeliveriesQuery{Name: "hook", First: 2}))
	if len(page.Deliveries) != 2 || !page.HasNext {
		t.Errorf("the first page has %d dead letters, more %v; want 2 and more", len(page.Deliveries), page.HasNext)
	}
}

// Without an operators' tenant everybody who may DEBUG the own tenant sees the installation, but no messages of others.
func TestDeadDeliveries_OfOtherTenantsNeedAnOperatorsTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "acme", "globex", "")
	page := controltest.Must[delivery.DeadDeliveriesPage](t)(w.DeadDeliveries(t.Context(), w.Principal("dev-sre"),
		delivery.DeadDeliveriesQuery{Name: "hook"}))
	var of []string
	for _, d := range page.Deliveries {
		of = append(of, d.TenantID)
	}
	if !slices.Equal(of, []string{"", "acme"}) {
		t.Errorf("the dead letters are of %q; want those of the own tenant and of the installation", of)
	}
}

// A preview of a long log says how far it came.
func TestPreviewReplay_IsBoundedInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	preview := func() destination.ReplayCount {
		t.Helper()
		return controltest.Must[destination.ReplayCount](t)(w.PreviewReplay(t.Context(), w.Principal("dev-sre"), "hook",
			destination.Replay{}))
	}
	if got := preview(); got.More || got.Messages != 0 {
		t.Errorf("the preview of an empty log is %+v; want none, and no more", got)
	}
	w.CountFor = time.Nanosecond
	if got := preview(); !got.More {
		t.Errorf("the preview of a log that could not be read in time is %+v; want more", got)
	}
}

func TestSteer_OrdersAreTakenOnceAndAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme", "acme")
	sre, ctx := w.Principal("dev-sre"), t.Context()
	dead := controltest.Must[delivery.DeadDeliveriesPage](t)(w.DeadDeliveries(ctx, sre,
		delivery.DeadDeliveriesQuery{Name: "hook"})).Deliveries[0].N
	redrive := delivery.RedriveDeliveries{RequestID: "d1", Name: "hook", Reason: "mended", IDs: []int64{dead}}
	first := controltest.Must[delivery.MadeOrder](t)(w.RedriveDeliveries(ctx, sre, redrive))
	check(t, w.Raw.EndDeadDelivery(ctx, "hook", "m0")) // as the redrive does
	again := controltest.Must[delivery.MadeOrder](t)(w.RedriveDeliveries(ctx, sre, redrive))
	if first.Order.ID != again.Order.ID || first.Change.Action != delivery.ActionRedrive {
		t.Errorf("the orders are %s and %s with %+v; want one with a receipt", first.Order.ID, again.Order.ID, first.Change)
	}
	redrive.IDs, redrive.All = nil, true
	_, err := w.RedriveDeliveries(ctx, sre, redrive)
	controltest.Refusal(t, err, run.CodeRequestConflict)

	began := time.Now()
	test := controltest.Must[delivery.MadeOrder](t)(w.TestDestination(ctx, sre, delivery.TestDestination{RequestID: "t1",
		Name: "hook"}))
	if test.Order.State != store.OrderWaiting || time.Since(began) < w.TestWait {
		t.Errorf("a test that nobody carries out is %s after %s; want WAITING after the wait", test.Order.State,
			time.Since(began))
	}
	done := test.Order.DestinationOrder
	done.State, done.Error = store.OrderFailed, "no answer"
	check(t, w.Raw.ReportDestinationOrder(ctx, done))
	if got := controltest.Must[delivery.MadeOrder](t)(w.TestDestination(ctx, sre, delivery.TestDestination{RequestID: "t1",
		Name: "hook"})).Order; got.State != store.OrderFailed || got.Error != "no answer" {
		t.Errorf("the repeated test is %s, %q; want the answer of the first", got.State, got.Error)
	}

	off := delivery.SwitchDestination{RequestID: "s1", Name: "hook", Reason: "it moves"}
	out := controltest.Must[delivery.SwitchedDestination](t)(w.SwitchDestination(ctx, sre, off))
	if out.Destination.State != delivery.Disabled || out.Destination.DisabledBy != sre.ID ||
		out.Destination.Why != "it moves" {
		t.Errorf("the destination is %s by %s: %q; want who disabled it and why", out.Destination.State,
			out.Destination.DisabledBy, out.Destination.Why)
	}
	off.RequestID = "s2"
	if out := controltest.Must[delivery.SwitchedDestination](t)(w.SwitchDestination(ctx, sre,
		off)); out.Change != (control.Change{}) {
		t.Errorf("disabling a disabled destination changed %+v; want nothing", out.Change)
	}
	on := off
	on.RequestID, on.Enable = "s3", true
	if out := controltest.Must[delivery.SwitchedDestination](t)(w.SwitchDestination(ctx, sre,
		on)); out.Destination.State != delivery.Sending || out.Change.Action != delivery.ActionEnable {
		t.Errorf("the enabled destination is %s with %+v; want it to send, with a receipt", out.Destination.State, out.Change)
	}

	_, err = w.RedriveDeliveries(ctx, w.Principal("dev-viewer"), redrive)
	controltest.Refusal(t, err, run.CodeForbidden)
	var rows []string
	controltest.Must[int](t)(w.Raw.LinkAudit(ctx, 100))
	for _, link := range controltest.Must[[]store.AuditLink](t)(w.Raw.AuditLinks(ctx, store.AuditFilter{TenantID: "acme",
		Limit: 50})) {
		rows = append(rows, link.Row.Action+" "+link.Row.Outcome)
	}
	slices.Sort(rows)
	want := []string{"DISABLE_DESTINATION ACCEPTED", "ENABLE_DESTINATION ACCEPTED", "REDRIVE_DELIVERIES ACCEPTED",
		"REDRIVE_DELIVERIES DENIED", "TEST_DESTINATION ACCEPTED"}
	if !slices.Equal(rows, want) {
		t.Errorf("the audit has %v; want %v", rows, want)
	}
}

func TestSteer_RefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "acme")
	sre, ctx := w.Principal("dev-sre"), t.Context()
	now := w.Clock.Now()
	for name, c := range map[string]struct {
		call func() error
		want run.Code
	}{
		"no reason": {func() error {
			_, err := w.SwitchDestination(ctx, sre, delivery.SwitchDestination{RequestID: "a", Name: "hook"})
			return err
		}, run.CodeBadInput},
		"a name that is no text": {func() error {
			_, err := w.TestDestination(ctx, sre, delivery.TestDestination{RequestID: "a", Name: "a\x00b"})
			return err
		}, run.CodeBadInput},
		"a range that ends before it begins": {func() error {
			_, err := w.ReplayDestination(ctx, sre, delivery.ReplayDestination{RequestID: "a", Name: "hook", Reason: "x",
				Replay: destination.Replay{Since: now, Until: now.Add(-time.Hour)}})
			return err
		}, run.CodeBadInput},
		"a topic that does not exist": {func() error {
			_, err := w.PreviewReplay(ctx, sre, "hook", destination.Replay{Filter: destination.Route{
				Topics: []destination.Topic{"weather"}}})
			return err
		}, run.CodeBadInput},
		"neither ids nor all": {func() error {
			_, err := w.RedriveDeliveries(ctx, sre, delivery.RedriveDeliveries{RequestID: "a", Name: "hook", Reason: "x"})
			return err
		}, run.CodeBadInput},
		"too many ids": {func() error {
			_, err := w.RedriveDeliveries(ctx, sre, delivery.RedriveDeliveries{RequestID: "a", Name: "hook", Reason: "x",
				IDs: make([]int64, delivery.MaxRedrive+1)})
			return err
		}, run.CodeBadInput},
		"an unknown dead letter": {func() error {
			_, err := w.RedriveDeliveries(ctx, sre, delivery.RedriveDeliveries{RequestID: "a", Name: "hook", Reason: "x",
				IDs: []int64{99}})
			return err
		}, run.CodeNotFound},
	} {
		if err := c.call(); controltest.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	for i := range store.MaxOpenOrders {
		_, err := w.ReplayDestination(ctx, sre, delivery.ReplayDestination{RequestID: fmt.Sprint("r", i), Name: "hook",
			Reason: "x"})
		check(t, err)
	}
	_, err := w.ReplayDestination(ctx, sre, delivery.ReplayDestination{RequestID: "over", Name: "hook", Reason: "x"})
	controltest.Refusal(t, err, run.CodeTooManyOrders)
}
