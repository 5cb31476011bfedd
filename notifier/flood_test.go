package notifier_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Thousands of alerts that open at once are read as fast as a destination takes them, so that the alert behind them is
// told in time. People get one message at once and one at the end of the group.
func TestNotifier_AFloodOfAlertsDelaysNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "hook", Kind: destination.Webhook},
		destination.Config{Name: "chat", Kind: destination.Slack})
	const flood = 4000 // a page a second would take 20 s
	raise := func(a store.Alert) {
		if _, err := f.store.RaiseAlert(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	f.timing.Idle, f.timing.Lease = time.Second, 12*time.Second
	stop := f.start(f.store, "first") // the position stands before the flood
	stop()
	for i := range flood {
		raise(store.Alert{TenantID: "acme", ProjectID: "p", RunID: fmt.Sprintf("r%d", i), Level: store.AlertMedium,
			Code: run.CodeRunOverdue})
	}
	raise(store.Alert{TenantID: "globex", ProjectID: "q", RunID: "other", Level: store.AlertHigh, Code: run.CodeInternal})
	began := time.Now()
	f.start(f.store, "second")
	toldOf := func(name string) bool {
		for _, m := range f.receivers[name].messages() {
			if m.RunID == "other" {
				return true
			}
		}
		return false
	}
	f.waitFor("the alert behind the flood", func() bool { return toldOf("hook") && toldOf("chat") })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the alert behind %d others was told after %s, want a few seconds", flood, took)
	}
	f.waitFor("the whole flood", func() bool { return len(f.receivers["hook"].messages()) >= flood+1 })
	if n := len(f.receivers["chat"].messages()); n != 2 {
		t.Errorf("people got %d messages before the end of the group, want one about each of 2 tenants", n)
	}
}
