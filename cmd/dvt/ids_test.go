package main

import (
	"strings"
	"testing"
	"time"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func TestRunID_AUniquePrefixIsEnough(t *testing.T) {
	t.Parallel()
	address, requests := serveThreeRuns(t)
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"run show cafe", 0, runC},
		{"run show " + runA[:35] + "1", 0, runA},
		{"run show deadbeef", 2, "2 runs begin with deadbeef"},
		{"run show deadbeef", 2, runB},
		{"run show dea", 4, "NOT_FOUND"},
		{"run show beef", 4, "NOT_FOUND"}, // in the middle of ids
		{"run logs cafe none", 4, "NOT_FOUND"},
		{"run pause cafe --dry-run", 0, "the run is paused"},
		{"manual list --run cafe", 0, "No step waits"},
		{"manual list --run deadbeef", 2, "2 runs"},
	} {
		out, status, err := dvt(t, address, "dev-engineer", strings.Fields(c.args)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("dvt %s: %d, want %d and %q\n%s", c.args, status, c.status, c.says, out)
		}
	}
	if out, status, _ := dvt(t, address, "dev-mallory", "run", "show", "cafe"); status != 4 {
		t.Errorf("another tenant's run: status %d, want 4\n%s", status, out)
	}
	for id, want := range map[string]int64{runC: 1, "cafe0000": 2} {
		before := requests.Load()
		if out, status, err := dvt(t, address, "dev-viewer", "run", "note", id); status != 0 {
			t.Fatalf("%d, %v\n%s", status, err, out)
		}
		if n := requests.Load() - before; n != want {
			t.Errorf("%s cost %d requests, want %d", id, n, want)
		}
	}
}

// @last is the caller's newest run, @failed the newest run that failed or waits with a failed step. The command prints
// which run it is.
func TestRunID_NamesStandForRuns(t *testing.T) {
	t.Parallel()
	address, r := serve(t)
	s, _ := r.Outbox.(store.Store)
	for _, x := range []struct {
		id, by string
		more   []log.Draft
	}{
		{runA, "dev-engineer", []log.Draft{runtest.Draft(log.StepStartedEvent, "load", 1),
			runtest.Draft(log.StepFailedEvent, "load", 1)}},
		{runB, "dev-engineer", []log.Draft{runtest.Draft(log.StepStartedEvent, "load", 1)}},
		{runC, "ana", nil},
	} {
		id := runtest.ID
		id.RunID, id.TenantID, id.ProjectID = x.id, "acme", "shop"
		if _, _, err := s.CreateRun(t.Context(), store.NewRun{
			Run: store.Run{Identity: id, RequestKey: log.Key(x.id), TriggeredBy: x.by},
			Events: append([]log.Draft{
				runtest.Draft(log.RunApproved, "", 1),
				runtest.Draft(log.RunStarted, "", 1, runtest.M{"steps": []runtest.M{{"stepId": "load", "type": "NOOP"}},
					"triggeredBy": x.by}),
			}, x.more...),
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // runs are ordered by their creation times
	}
	for _, c := range []struct {
		token, args string
		status      int
		says        string
	}{
		{"dev-engineer", "run show @last", 0, "@last is " + runB + "  RUNNING"},
		{"dev-engineer", "run show @failed", 0, "@failed is " + runA},
		{"dev-viewer", "run show @failed", 0, runA},
		{"dev-viewer", "run show @last", 4, "NOT_FOUND: there is no @last, the newest run that you started"},
		{"dev-mallory", "run show @failed", 4, "NOT_FOUND"},
		{"dev-engineer", "run show @first", 2, "no run is called @first; the names are:\n  @last"},
		{"dev-engineer", "manual list --run @last", 0, "@last is " + runB},
		{"dev-engineer", "run skip @failed load --preview", 0, "load  failed -> skipped"},
	} {
		out, status, err := dvt(t, address, c.token, strings.Fields(c.args)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("dvt %s as %s: %d, want %d and %q\n%s", c.args, c.token, status, c.status, c.says, out)
		}
	}
	if out, said, status := runSplit(t, address, "dev-engineer", "run", "show", "@last", "-o", "json"); status != 0 ||
		strings.Contains(out, "@last") || said != "" { // standard error is for the document of an error
		t.Errorf("%d, standard error %q, standard output\n%s", status, said, out)
	}
}
