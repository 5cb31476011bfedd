package main

import (
	"strings"
	"testing"
	"time"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func TestAlerts_AreListedTakenOnAndSilenced(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	raised, err := s.RaiseAlert(t.Context(), store.Alert{TenantID: "acme", ProjectID: "shop", RunID: "r1", StepID: "s1",
		Level: store.AlertHigh, Code: log.CodeTimeout, Note: "s1 runs too long", Actor: "dvt"})
	if err != nil {
		t.Fatal(err)
	}
	id := raised.State.ID
	as := func(who, args string, status int, says ...string) {
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
	as("dev-viewer", "alerts list", 0, id, "high", "open", "TIMEOUT", "s1 runs too long")
	as("dev-viewer", "alerts show "+id, 0, "s1 runs too long", "who can help", "dev-engineer")
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
