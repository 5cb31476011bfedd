package destination_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
)

func TestEntry_SaysWhatItSelectsAndHidesTheRest(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]destination.Config{
		"Alerts with the level HIGH.":           {Kind: destination.PagerDuty},
		"Alerts with the level MEDIUM or HIGH.": {Kind: destination.Slack},
		"All events and alerts.":                {Kind: destination.Syslog},
		"Events; tenants: acme, globex; types: RunFailed.": {Kind: destination.Webhook, Route: destination.Route{
			Topics: []destination.Topic{destination.Events}, Tenants: []string{"acme", "globex"},
			Types: []string{"RunFailed"}}},
		"Alerts; tenants: acme; and alerts about the installation.": {Kind: destination.Email, Route: destination.Route{
			Tenants: []string{"acme"}, Installation: true}},
		"Records of the audit; tenants: acme; and records about the installation.": {Kind: destination.File,
			Route: destination.Route{Topics: []destination.Topic{destination.Audit}, Tenants: []string{"acme"},
				Installation: true}},
		"Events, alerts and records of the audit.": {Kind: destination.Webhook, Route: destination.Route{
			Topics: []destination.Topic{destination.Audit, destination.Events, destination.Alerts}}},
	} {
		if got := c.Entry().Words(); got != want {
			t.Errorf("a destination of the kind %s with %+v says %q, want %q", c.Kind, c.Route, got, want)
		}
	}
	for url, want := range map[string]string{
		"https://hooks.example:8443/services/secret?key=1": "https://hooks.example:8443",
		"smtp://mail.example":                              "smtp://mail.example", "": "", "%zz": "",
	} {
		if got := (destination.Config{URL: url}).Entry().Address; got != want {
			t.Errorf("the address of %q is %q, want %q", url, got, want)
		}
	}
}

func TestReplay_CoversItsRangeWithoutItsEnd(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	r := destination.Replay{Since: since, Until: since.Add(time.Hour),
		Filter: destination.Route{Tenants: []string{"acme"}}}
	for name, c := range map[string]struct {
		after  time.Duration
		tenant string
		want   bool
	}{
		"at its begin": {0, "acme", true}, "before it": {-1, "acme", false},
		"at its end": {time.Hour, "acme", false}, "just before its end": {time.Hour - 1, "acme", true},
		"of another tenant": {0, "globex", false},
	} {
		m := destination.Message{Topic: destination.Events, At: since.Add(c.after), TenantID: c.tenant}
		if got := r.Selects(m); got != c.want {
			t.Errorf("a message %s: %t, want %t", name, got, c.want)
		}
	}
}
