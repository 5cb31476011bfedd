package main

import (
	"strings"
	"testing"
	"time"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// commands returns a function that runs a command as a principal, and checks its status and parts of its output.
func commands(t *testing.T, address string) func(who, args string, status int, says ...string) {
	return func(who, args string, status int, says ...string) {
		t.Helper()
		out, got, err := dvt(t, address, who, strings.Fields(args)...)
		if err != nil {
			out += err.Error()
		}
		for _, text := range says {
			if !strings.Contains(out, text) {
				t.Errorf("dvt %s does not say %q:\n%s", args, text, out)
			}
		}
		if got != status {
			t.Errorf("dvt %s: status %d, want %d:\n%s", args, got, status, out)
		}
	}
}

func TestAlerts_AreListedTakenOnAndSilenced(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	raised, err := s.RaiseAlert(t.Context(), store.Alert{TenantID: "acme", ProjectID: "shop", RunID: "r1", StepID: "s1",
		Level: store.AlertHigh, Code: log.CodeTimeout, Note: "s1 runs too long\ncode HIGH\n", Actor: "dvt"})
	if err != nil {
		t.Fatal(err)
	}
	id := raised.State.ID
	as := commands(t, address)
	as("dev-viewer", "alerts list", 0, id, "high", "open", "TIMEOUT", "s1 runs too long")
	as("dev-viewer", "alerts show "+id, 0, "why            s1 runs too long\n               code HIGH\n", "who can help",
		"dev-engineer")
	as("dev-viewer", "alerts ack "+id+" --note mine", 3, "FORBIDDEN")
	as("dev-mallory", "alerts show "+id, 4, "NOT_FOUND")
	as("dev-mallory", "alerts ack "+id, 4, "NOT_FOUND")
	as("dev-engineer", "alerts ack "+id+" --note mine", 0, "acknowledged", "by dev-engineer", "mine")
	as("dev-viewer", "alerts list --acknowledged", 0, "acknowledged")
	as("dev-engineer", "alerts silence --code TIMEOUT --for 2h --reason known", 0, "silenced until")
	as("dev-viewer", "alerts show "+id[:8], 0, "s1 runs too long")
	as("dev-viewer", "alerts show "+id[:3], 4, "NOT_FOUND")
	as("dev-viewer", "alerts silences", 0, "TIMEOUT", "known", "dev-engineer")
	as("dev-engineer", "alerts silence --code TIMEOUT --for 721h --reason known", 2, "30 days")
	if a, err := s.GetAlert(t.Context(), id); err != nil || a.SilencedUntil == nil ||
		time.Until(*a.SilencedUntil) > 2*time.Hour {
		t.Errorf("the alert is %+v (%v), want one that is silenced for 2 hours", a, err)
	}
}

func TestIncidents_AreRaisedAndClosedWithTheirNotes(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	if _, err := s.RaiseAlert(t.Context(), store.Alert{TenantID: "acme", ProjectID: "shop", RunID: "r1", StepID: "s1",
		Level: store.AlertHigh, Code: log.CodeStepStuck, Note: "s1 hangs", Actor: "dvt"}); err != nil {
		t.Fatal(err)
	}
	severity := func(store.AlertState) store.Severity { return store.Sev2 }
	if _, err := s.OpenIncidents(t.Context(), 10, severity); err != nil {
		t.Fatal(err)
	}
	rows, err := s.ListIncidents(t.Context(), store.IncidentFilter{TenantID: "acme", RunID: "r1", Limit: 1})
	if err != nil || len(rows) != 1 {
		t.Fatalf("the incidents of the run are %v, %v, want one", rows, err)
	}
	id := rows[0].ID
	as := commands(t, address)
	as("dev-viewer", "incidents list", 0, id, "sev 2", "open", "s1 hangs")
	as("dev-viewer", "incidents severity "+id+" sev-1 --note worse", 3, "FORBIDDEN")
	as("dev-mallory", "incidents severity "+id+" sev-1 --note worse", 4, "NOT_FOUND")
	as("dev-engineer", "incidents severity "+id+" sev-1", 2, "--note must say why")
	as("dev-engineer", "incidents severity "+id+" sev-7 --note worse", 2, "sev-0, sev-1, sev-2, sev-3")
	as("dev-engineer", "incidents severity "+id+" sev-2 --note same", 2, "severity")
	as("dev-engineer", "incidents severity "+id+" sev-1 --note worse", 0, "sev 1", "worse", "docs/runbooks/stuck-run.md")
	as("dev-engineer", "incidents close "+id+" --note mended", 0, "closed", "mended")
	as("dev-engineer", "incidents severity "+id+" sev-0 --note late", 3, "INCIDENT_CLOSED")
}
