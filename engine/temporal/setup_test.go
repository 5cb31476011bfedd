package temporal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// kinds returns the kinds of drift with their attributes.
func kinds(drift []temporal.Drift) []string {
	out := []string{}
	for _, d := range drift {
		out = append(out, strings.TrimSpace(string(d.Kind)+" "+d.Name))
	}
	return out
}

// contract: R305, R310, R313, R576
func TestSetup_ANewNamespaceIsCreatedAndHasNoDrift(t *testing.T) {
	t.Parallel()
	server := testserver.Temporal(t)
	to := temporal.Connection{HostPort: server.Addr, Namespace: "fresh-" + uuid.NewString()[:8]}
	want := temporal.Wanted{Retention: 7 * 24 * time.Hour, Shortest: shortest, Attributes: temporal.Attributes()}
	expect := func(what string, want temporal.Wanted, all ...string) {
		t.Helper()
		_, drift, err := to.Drift(t.Context(), want)
		for began := time.Now(); err != nil && time.Since(began) < testtime.Of(time.Minute); {
			time.Sleep(200 * time.Millisecond) // parts of the server learn of a namespace after a while
			_, drift, err = to.Drift(t.Context(), want)
		}
		must(t, err)
		if d := cmp.Diff(append([]string{}, all...), kinds(drift)); d != "" {
			t.Fatalf("drift %s (-want +got):\n%s", what, d)
		}
	}
	expect("before", want, "namespace")
	dry, err := to.Setup(t.Context(), want, true)
	must(t, err)
	expect("after a dry run", want, "namespace")
	done, err := to.Setup(t.Context(), want, false)
	must(t, err)
	if d := cmp.Diff(dry.Changes, done.Changes); d != "" || len(done.Changes) != 2 {
		t.Errorf("the setup changed other things than its dry run (-dry +done):\n%s", d)
	}
	expect("after the setup", want)
	again, err := to.Setup(t.Context(), want, false)
	must(t, err)
	if len(again.Changes)+len(again.Left) > 0 {
		t.Errorf("a second setup did %+v, want nothing", again)
	}
	longer := want
	longer.Retention = 90 * 24 * time.Hour
	expect("with another retention", longer, "retention")
	_, err = to.Setup(t.Context(), longer, false)
	must(t, err)
	expectSoon(t, to, longer)
	c, err := temporal.Dial(server.Addr, to.Namespace, quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	_, err = c.OperatorService().RemoveSearchAttributes(t.Context(), &operatorservice.RemoveSearchAttributesRequest{
		Namespace: to.Namespace, SearchAttributes: []string{"DvtPlanId", "DvtTenantId"}})
	must(t, err)
	expectSoon(t, to, longer, "attribute DvtTenantId", "attribute DvtPlanId")
	_, err = to.Setup(t.Context(), longer, false)
	must(t, err)
	expectSoon(t, to, longer)
}

// expectSoon waits for a drift, because the server caches namespaces.
func expectSoon(t *testing.T, to temporal.Connection, want temporal.Wanted, all ...string) {
	t.Helper()
	for deadline := time.Now().Add(testtime.Of(time.Minute)); ; time.Sleep(200 * time.Millisecond) {
		_, drift, err := to.Drift(t.Context(), want)
		must(t, err)
		d := cmp.Diff(append([]string{}, all...), kinds(drift))
		if d == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("drift (-want +got):\n%s", d)
		}
	}
}

func TestFacts_Compare(t *testing.T) {
	t.Parallel()
	type (
		facts  = temporal.Facts
		wanted = temporal.Wanted
	)
	none := map[string]string{}
	const day = 24 * time.Hour
	right := temporal.Facts{Retention: 30 * day, Attributes: map[string]string{"A": "Keyword"}}
	want := temporal.Wanted{Retention: 30 * day, Shortest: shortest, Attributes: []string{"A"}}
	for name, c := range map[string]struct {
		change func(*facts, *wanted)
		kinds  []string
		blocks bool
	}{
		"right":   {func(*facts, *wanted) {}, []string{}, false},
		"shorter": {func(f *facts, _ *wanted) { f.Retention = 7 * day }, []string{"retention"}, true},
		"longer":  {func(f *facts, _ *wanted) { f.Retention = 90 * day }, []string{"retention"}, false},
		"any":     {func(f *facts, w *wanted) { f.Retention, w.Retention = 3*day, 0 }, []string{}, false},
		"too short": {func(f *facts, w *wanted) { f.Retention, w.Retention = day, 0 }, []string{"retention"},
			true},
		"missing": {func(f *facts, _ *wanted) { f.Attributes = none }, []string{"attribute A"}, true},
		"type": {func(f *facts, _ *wanted) { f.Attributes = map[string]string{"A": "Text"} }, []string{"type A"},
			true},
		"archival": {func(f *facts, _ *wanted) { f.Archival = true }, []string{"archival"}, false},
		"accepted": {func(f *facts, w *wanted) { f.Archival, w.Archival = true, true }, []string{}, false},
		"unlisted": {func(f *facts, _ *wanted) { f.AttributesErr = errors.New("denied") }, []string{"unknown"},
			false},
	} {
		f, w := right, want
		c.change(&f, &w)
		got := f.Compare("n", w)
		if d := cmp.Diff(c.kinds, kinds(got)); d != "" {
			t.Errorf("%s: drift (-want +got):\n%s", name, d)
		}
		if len(got) == 1 && (got[0].Blocks != c.blocks || got[0].Remedy == "" || got[0].Namespace != "n") {
			t.Errorf("%s: the drift is %+v, want Blocks = %v and a remedy", name, got[0], c.blocks)
		}
	}
}

func TestRightError_NamesTheRight(t *testing.T) {
	t.Parallel()
	e := &temporal.RightError{Err: serviceerror.NewPermissionDenied("no", ""),
		Drift: temporal.Drift{Namespace: "prod", Kind: temporal.DriftRetention, Remedy: "temporal x"}}
	for _, want := range []string{"prod:", "UpdateNamespace", "`temporal x`"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("the error is %q, want it to name %s", e, want)
		}
	}
}
