package temporaladmin_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/config/configtest"
	"github.com/dvt-engine/dvt/server/connect"
	"github.com/dvt-engine/dvt/server/temporaladmin"
)

// contract: R305, R310, R313, R511
func TestTemporalCommands_SetUpWhatTheSettingsName(t *testing.T) {
	t.Parallel()
	frontend, id := testserver.TemporalAlone(t), uuid.NewString()[:8]
	quiet := slog.New(slog.DiscardHandler)
	cfg := configtest.MustLoad(t, false, "temporal: "+frontend.Addr+"\ntemporal-namespace: dvt\ntemporal-namespaces: "+
		"{environments: {production: prod-"+id+", dev: dev-"+id+"}, tiers: {hospital: HIPAA}, regulated: {production: hipaa-"+
		id+"}}")
	dry, err := temporaladmin.SetUp(t.Context(), cfg, quiet, true)
	must(t, err)
	// the namespace dvt is there, with a retention of a day and without the attribute of tiers
	if len(dry.Changes) != 2+3*2 || !strings.Contains(dry.Changes[0], "keep closed executions of dvt for 30 days") {
		t.Errorf("the dry run would make %q, want two changes of each of four namespaces", dry.Changes)
	}
	before, err := temporaladmin.Status(t.Context(), cfg, quiet)
	must(t, err)
	for _, s := range before[1:] {
		if s.Exists {
			t.Errorf("the dry run created %s", s.Namespace)
		}
	}
	_, err = temporaladmin.SetUp(t.Context(), cfg, quiet, false)
	must(t, err)
	want := map[string]string{"dvt": "30 days", "prod-" + id: "90 days", "dev-" + id: "7 days", "hipaa-" + id: "90 days"}
	waitUntil(t, "the namespaces are as the settings say", time.Minute, func() bool {
		after, err := temporaladmin.Status(t.Context(), cfg, quiet)
		must(t, err)
		for _, s := range after {
			if len(s.Drift) > 0 || s.Retention != want[s.Namespace] {
				return false
			}
		}
		return len(after) == len(want)
	})
	again, err := temporaladmin.SetUp(t.Context(), cfg, quiet, false)
	must(t, err)
	if len(again.Changes)+len(again.Left) > 0 {
		t.Errorf("the second setup did %+v, want nothing", again)
	}
	// dev moves: its earlier namespace is still in use while a run is open there
	to, err := connect.Temporal(&cfg, quiet, false)
	must(t, err)
	e, err := connect.OpenEngine(&cfg, to, temporal.Config{}, quiet)
	must(t, err)
	t.Cleanup(e.Close)
	open := run.Identity{RunID: uuid.NewString(), TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p",
		PlanVersion: "1"}
	waitUntil(t, "the engine starts a run", time.Minute, func() bool {
		_, err := e.Start(t.Context(), open, plan.Queues{Control: "tq-control-dev"})
		return err == nil
	})
	moved := configtest.MustLoad(t, false, "temporal: "+frontend.Addr+"\ntemporal-namespace: dvt\ntemporal-namespaces: "+
		"{former: [dev-"+id+"]}")
	unused := func(state, reason string) func() bool {
		return func() bool {
			all, err := temporaladmin.Unused(t.Context(), moved, quiet)
			must(t, err)
			return len(all) == 1 && all[0].Namespace == "dev-"+id && all[0].State == state &&
				strings.Contains(all[0].Reason, reason)
		}
	}
	waitUntil(t, "the former namespace is USED by an open execution", time.Minute, unused("USED", "are open"))
	must(t, e.Terminate(t.Context(), open, "a test"))
	waitUntil(t, "the former namespace is USED by a young execution", time.Minute, unused("USED", "younger than 30 days"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func waitUntil(t *testing.T, what string, patience time.Duration, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); testtime.Pause(began, 20*time.Millisecond) {
		if time.Since(began) > testtime.Of(patience) {
			t.Fatalf("condition not met within %s: %s", patience, what)
		}
	}
}
