package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/notifier"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// hookSender accepts messages, or refuses them for good.
type hookSender struct{ refuses atomic.Bool }

func (s *hookSender) Send(context.Context, destination.Message) error {
	if s.refuses.Load() {
		return &destination.RejectedError{Reason: "the body is too modern"}
	}
	return nil
}

func (*hookSender) Close() error { return nil }

// quietAlerts raises nothing.
type quietAlerts struct{}

func (quietAlerts) Raise(context.Context, store.Alert) (store.AlertRaised, error) {
	return store.AlertRaised{}, nil
}
func (quietAlerts) Resolve(context.Context, string, ...store.Alert) error { return nil }

// serveDestination starts an API and a notifier with the destination hook, and has three messages of it refused.
func serveDestination(t *testing.T) (address string, sender *hookSender) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	sender = &hookSender{}
	sender.refuses.Store(true)
	n := notifier.New(notifier.Config{Store: s, Alerts: quietAlerts{}, Owner: "n",
		Timing: notifier.Timing{Idle: 10 * time.Millisecond, Lease: 200 * time.Millisecond},
		Load: func() ([]destination.Config, error) {
			return []destination.Config{{Name: "hook", Kind: destination.Webhook, URL: "https://hooks.example/x"}}, nil
		},
		NewSender: func(destination.Config) (destination.Sender, error) { return sender, nil },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = n.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	waitForDestination := func(is func(store.DestinationState) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if d, err := s.GetDestination(t.Context(), "hook"); err == nil && is(d) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the notifier does not deliver")
			}
		}
	}
	waitForDestination(func(d store.DestinationState) bool { return d.ReportedAt != nil })
	id := runtest.ID
	id.RunID = "r1"
	_, _, err = s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestKey: "k"},
		Events: []log.Draft{runtest.Draft(log.RunApproved, "", 1), runtest.Start("s1")}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Load(t.Context(), "r1")
	if err == nil {
		_, err = s.Save(t.Context(), l.State, l.Changes)
	}
	if err != nil {
		t.Fatal(err)
	}
	waitForDestination(func(d store.DestinationState) bool { return d.Dead >= 2 })
	address, _ = serveStore(t, s, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	return address, sender
}

func TestDestinations_AreListedTestedAndSteered(t *testing.T) {
	address, sender := serveDestination(t)
	isolateEnvironment(t)
	run := func(want int, args ...string) string {
		t.Helper()
		out, status, err := dvt(t, address, "dev-sre", append([]string{"destinations"}, args...)...)
		if err != nil {
			out += err.Error()
		}
		if status != want {
			t.Errorf("dvt destinations %s: status %d, %v, want %d\n%s", strings.Join(args, " "), status, err, want, out)
		}
		return out
	}
	expect := func(want int, words string, args ...string) {
		t.Helper()
		if out := run(want, args...); !strings.Contains(out, words) {
			t.Errorf("dvt destinations %s printed\n%s\nwant %q in it", strings.Join(args, " "), out, words)
		}
	}
	expect(0, "https://hooks.example", "list")
	expect(0, "All events and alerts.", "show", "hook")
	expect(4, "destination", "show", "none")
	expect(1, "did not accept the test: the message was refused: the body is too modern", "test", "hook")
	expect(1, "then: dvt destinations test hook", "test", "hook") // what to do next
	expect(0, "the body is too modern", "dead-letters", "hook")
	expect(0, "would get 2 dead letters again", "redrive", "hook", "--all", "--preview")
	expect(2, "either numbers of dead letters or --all", "redrive", "hook", "--reason", "x")
	expect(2, "--reason", "redrive", "hook", "--all")
	sender.refuses.Store(false)
	expect(0, "accepted the test", "test", "hook")
	expect(0, "dvt destinations show hook", "redrive", "hook", "--all", "--reason", "the receiver is corrected")
	expect(0, "would get 2 messages again", "replay", "hook", "--since", "1h", "--preview")
	expect(0, "no message of this range", "replay", "hook", "--since", "1h", "--type", "RunFailed", "--reason", "x")
	expect(2, "--since must say", "replay", "hook", "--reason", "x")
	expect(0, "is ordered", "replay", "hook", "--since", "1h", "--topic", "events", "--reason", "lost")
	expect(0, "would get no messages until somebody enables it", "disable", "hook", "--preview")
	expect(0, "disabled", "disable", "hook", "--reason", "it moves")
	expect(0, "would get the messages since", "enable", "hook", "--preview")
	expect(0, "sending", "enable", "hook", "--reason", "it is there")
	expect(0, "nothing changed", "enable", "hook", "--reason", "again")
	if _, status, err := dvt(t, address, "dev-viewer", "destinations", "list"); status != 3 || err == nil {
		t.Errorf("a viewer lists destinations: status %d, %v, want 3", status, err)
	}
	for _, args := range [][]string{{"list"}, {"show", "hook"}, {"test", "hook"}, {"dead-letters", "hook"},
		{"replay", "hook", "--since", "1h", "--preview"}, {"redrive", "hook", "--all", "--preview"},
		{"enable", "hook", "--reason", "x"}, {"disable", "hook", "--reason", "x"}} {
		out := run(0, append(args, "-o", "json")...)
		if !json.Valid([]byte(out)) {
			t.Errorf("dvt destinations %s -o json printed no JSON:\n%s", strings.Join(args, " "), out)
		}
	}
}
