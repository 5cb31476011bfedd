package retention_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// report stores what a process says about a destination: since when its oldest message waits, and since when it fails.
func report(t *testing.T, w *controltest.World, name string, c destination.Config, waits, fails time.Duration) {
	t.Helper()
	entry := controltest.Must[[]byte](t)(json.Marshal(c.Entry()))
	r := store.DestinationReport{Name: name, Entry: entry, Digest: "d", Waiting: 1}
	ago := func(d time.Duration) *time.Time {
		if d == 0 {
			return nil
		}
		at := w.Clock.Now().Add(-d)
		return &at
	}
	r.OldestWaiting, r.FailingSince = ago(waits), ago(fails)
	if err := w.Raw.ReportDestination(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func webhook(r destination.Route) destination.Config {
	return destination.Config{Kind: destination.Webhook, URL: "https://example.com/", Route: r}
}

// passWith makes one pass over the store of w with a document of the installation, and returns what it did for acme.
func passWith(t *testing.T, w *controltest.World, doc retention.Document) retention.Pass {
	t.Helper()
	return passOf(t, w, retention.WorkerConfig{Store: w.Raw, Archive: archive.Archive{Store: w.Raw,
		Objects: w.Artifacts}, Bucket: w.Artifacts}, doc)
}

// passOf is passWith for the parts of cfg.
func passOf(t *testing.T, w *controltest.World, cfg retention.WorkerConfig,
	doc retention.Document) (out retention.Pass) {
	t.Helper()
	cfg.Owner, cfg.Now, cfg.Metrics = "a", w.Clock.Now, prometheus.NewRegistry()
	cfg.Installed = retention.Installation{RunsPerMinute: 1_000_000, Share: 1, Document: doc}
	if err := retention.NewWorker(cfg).PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored := controltest.Must[json.RawMessage](t)(w.Raw.RetentionPass(t.Context(), "acme"))
	if err := json.Unmarshal(stored, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A destination that does not answer keeps the runs of the tenants whose events it gets, and not for ever.
func TestPass_ADeadDestinationHoldsBackItsTenantsForAWeek(t *testing.T) {
	t.Parallel()
	only := func(tenants ...string) destination.Config { return webhook(destination.Route{Tenants: tenants}) }
	topics := func(topics ...destination.Topic) destination.Config {
		return webhook(destination.Route{Topics: topics})
	}
	const waits = 200 * day // since before the end of the run, which was 100 days ago
	for name, c := range map[string]struct {
		config       destination.Config
		fails        time.Duration
		archiveAfter int
		want         int64 // archived runs
	}{
		"fails since yesterday":          {webhook(destination.Route{}), day, 95, 0},
		"is slow and does not fail":      {webhook(destination.Route{}), 0, 95, 0},
		"fails for eight days":           {webhook(destination.Route{}), 8 * day, 95, 1},
		"is slow, and the run is late":   {webhook(destination.Route{}), 0, 90, 1},
		"gets the events of the tenant":  {only("globex", "acme"), day, 95, 0},
		"gets those of other tenants":    {only("globex"), day, 95, 1},
		"gets alerts alone":              {topics(destination.Alerts), day, 95, 1},
		"gets the audit alone":           {topics(destination.Audit), day, 95, 1},
		"gets events and the audit":      {topics(destination.Events, destination.Audit), day, 95, 0},
		"is a chat, which has no events": {destination.Config{Kind: destination.Slack}, day, 95, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			oldRun(t, w, "old-1")
			report(t, w, "hook", c.config, waits, c.fails)
			out := passWith(t, w, retention.Document{Runs: retention.RunDays{ArchiveAfterDays: days(c.archiveAfter)}})
			if out.Archived != c.want {
				t.Errorf("a destination that %s: %d runs were archived, want %d", name, out.Archived, c.want)
			}
		})
	}
}

// What a destination can no longer get, because its run was deleted, is counted where its state is shown.
func TestPass_CountsRunsThatADestinationMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 3 {
		oldRun(t, w, fmt.Sprint("old-", n))
	}
	report(t, w, "dead", webhook(destination.Route{}), 200*day, 150*day)
	report(t, w, "ahead", webhook(destination.Route{}), 50*day, 40*day)
	report(t, w, "done", webhook(destination.Route{}), 0, 0)
	report(t, w, "others", webhook(destination.Route{Tenants: []string{"globex"}}), 200*day, 150*day)
	out := passWith(t, w, retention.Document{Runs: retention.RunDays{ArchiveAfterDays: days(20),
		DeleteArchiveAfterDays: days(30)}})
	if out.Deleted != 3 {
		t.Fatalf("the pass deleted %d runs, want 3", out.Deleted)
	}
	states := controltest.Must[[]store.DestinationState](t)(w.Raw.DestinationStates(t.Context()))
	var got []string
	for _, d := range states {
		got = append(got, fmt.Sprint(d.Name, " ", d.MissedRuns))
	}
	if want := []string{"ahead 0", "dead 3", "done 0", "others 0"}; !slices.Equal(got, want) {
		t.Errorf("destinations with their missed runs are %q, want %q", got, want)
	}
}
