package notifier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// All workers of a tenant die, and each of its runs raises an alert. People get the first one, and one message with the
// number of the others. A program gets all of them.
func TestNotifier_ManyAlertsOfATenantAreTwoMessagesForPeople(t *testing.T) {
	const alerts = 1500 // more than one read, and than may wait
	people, program := hook("chat"), hook("hook")
	people.Kind = destination.Slack
	f := newFixture(t, people, program)
	f.timing.Group = 3 * time.Second
	stuck := func(n int) store.Alert {
		return store.Alert{TenantID: "acme", ProjectID: "shop", RunID: fmt.Sprint("run-", n), StepID: "s1",
			Code: run.CodeStepStuck, Level: store.AlertHigh, Subject: "attempt 1", Note: fmt.Sprint("note ", n)}
	}
	f.start(f.store, "p")
	f.raise(stuck(0))
	f.waitFor("the first alert", func() bool { return len(f.receivers["chat"].messages()) == 1 })
	for n := range alerts - 1 {
		f.raise(stuck(n + 1))
	}
	asked := stuck(0) // an escalation by a person has no code
	asked.Code, asked.Note, asked.Subject = "", "please look", "a signal"
	f.raise(asked)
	other := stuck(0)
	other.TenantID = "globex"
	f.raise(other)
	f.waitFor("all alerts at the program", func() bool {
		return len(f.receivers["hook"].typesOf(destination.Alerts)) == alerts+2
	})
	count := func() (stood, messages int) {
		for _, m := range f.receivers["chat"].messages() {
			if m.Alert.Code != "" && m.TenantID == "acme" {
				stood, messages = stood+max(1, m.Alert.Changes), messages+1
			}
		}
		return stood, messages
	}
	f.waitFor("all alerts for people", func() bool { stood, _ := count(); return stood == alerts })
	_, messages := count()
	// A machine that is slower than the group gets one more message for each time that it ends.
	if messages > 10 {
		t.Errorf("people got %d messages about %d alerts of one cause; want few", messages, alerts)
	}
	var others int
	var notes []string
	for _, m := range f.receivers["chat"].messages() {
		others = max(others, m.Alert.Others)
		if m.Alert.Code == "" || m.TenantID == "globex" {
			notes = append(notes, m.TenantID+": "+strings.SplitN(m.Alert.Detail, "\n", 2)[0])
		}
	}
	if others < alerts/messages-2 {
		t.Errorf("the largest message says that it is about %d other alerts; want most of %d", others, alerts)
	}
	if len(notes) != 2 {
		t.Errorf("people got %q beside them; want the escalation and the alert of the other tenant, each by itself", notes)
	}
}
