package notifier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// state returns what the store says about a destination.
func (f *fixture) state(name string) store.DestinationState {
	f.Helper()
	d, err := f.store.GetDestination(f.Context(), name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		f.Fatal(err)
	}
	return d
}

func (f *fixture) switchTo(name, disabledFor string) {
	f.Helper()
	err := f.store.SwitchDestination(f.Context(), store.DestinationSwitch{Name: name, For: disabledFor, Why: "a test",
		By: "ann"})
	if err != nil {
		f.Fatal(err)
	}
}

// order stores an order to the destination a.
func (f *fixture) order(id string, kind store.DestinationOrderKind, asked any) {
	f.Helper()
	doc, err := json.Marshal(asked)
	if err == nil {
		_, err = f.store.PutDestinationOrder(f.Context(), store.DestinationOrder{ID: id, Destination: "a", Kind: kind,
			TenantID: "ops", Actor: "ann", RequestID: id, Reason: "a test", Doc: doc})
	}
	if err != nil {
		f.Fatal(err)
	}
}

// waitForOrder returns an order that has ended.
func (f *fixture) waitForOrder(id string) (o store.DestinationOrder) {
	f.Helper()
	f.waitFor("the end of the order "+id, func() bool {
		var err error
		if o, err = f.store.GetDestinationOrder(f.Context(), id); err != nil {
			f.Fatal(err)
		}
		return o.State.IsFinal()
	})
	return o
}

func counts(o store.DestinationOrder) string {
	return fmt.Sprintf("%s %d %d %d", o.State, o.Messages, o.Sent, o.Failed)
}

func TestNotifier_ADisabledDestinationGoesOnWhereItStood(t *testing.T) {
	f := newFixture(t, hook("a"))
	stop := f.start(f.store, "p")
	f.startRun("r1", "acme", 2)
	f.waitForRun("a", "r1")
	f.switchTo("a", store.DisabledByPerson)
	time.Sleep(300 * time.Millisecond) // the process obeys within a quarter of its lease
	before := len(f.receivers["a"].messages())
	f.startRun("r2", "acme", 2)
	time.Sleep(300 * time.Millisecond)
	stop() // another process is as good
	f.start(f.store, "q")
	f.startRun("r3", "acme", 2)
	time.Sleep(300 * time.Millisecond)
	if got := len(f.receivers["a"].messages()); got != before {
		t.Fatalf("a disabled destination got %d messages; want none", got-before)
	}
	begins := f.state("a").BeginsAt
	if first, err := f.store.Events(t.Context(), "r2", 0, 1); err != nil || begins == nil ||
		begins.After(first[0].PersistedAt) {
		t.Errorf("the destination says that it begins at %v; want before its first message that waits", begins)
	}
	f.switchTo("a", "")
	f.waitForRun("a", "r2")
	f.waitForRun("a", "r3")
}

func TestNotifier_EnableUndoesA410(t *testing.T) {
	f := newFixture(t, hook("a"))
	var gone atomic.Bool
	gone.Store(true)
	f.receivers["a"].answer = func(context.Context, destination.Message) error {
		if gone.Load() {
			return destination.ErrGone
		}
		return nil
	}
	f.start(f.store, "p")
	f.startRun("r", "acme", 2)
	f.waitFor("the end of deliveries", func() bool { return f.state("a").DisabledFor != "" })
	gone.Store(false)
	time.Sleep(200 * time.Millisecond)
	if got := len(f.receivers["a"].messages()); got != 0 {
		t.Fatalf("a destination that is gone got %d messages; want none", got)
	}
	f.switchTo("a", "")
	f.waitForRun("a", "r")
}

func TestNotifier_EnableTriesAtOnce(t *testing.T) {
	f := newFixture(t, hook("a"))
	f.timing.FirstRetry, f.timing.LastRetry = time.Minute, time.Minute
	var away atomic.Bool
	away.Store(true)
	f.receivers["a"].answer = func(context.Context, destination.Message) error {
		if away.Load() {
			return errors.New("no answer")
		}
		return nil
	}
	f.start(f.store, "p")
	f.startRun("r", "acme", 2)
	f.waitFor("the failure", func() bool { return f.state("a").FailingSince != nil })
	f.switchTo("a", store.DisabledByPerson)
	time.Sleep(300 * time.Millisecond)
	away.Store(false)
	f.switchTo("a", "")
	began := time.Now()
	f.waitForRun("a", "r")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the first message after enable took %s; want no wait for its next try", took)
	}
}

func TestNotifier_ATestIsSentWhateverTheRoute(t *testing.T) {
	c := hook("a")
	c.Route.Types = []string{"Nothing"}
	f := newFixture(t, c)
	f.start(f.store, "p")
	f.switchTo("a", store.DisabledByPerson)
	f.order("t1", store.OrderTest, struct{}{})
	if got := counts(f.waitForOrder("t1")); got != "DONE 1 1 0" {
		t.Errorf("the test ended as %s; want DONE with its message", got)
	}
	if got := f.receivers["a"].typesOf(destination.Alerts); !slices.Equal(got, []string{"DestinationTest"}) {
		t.Errorf("the destination got %v; want the test", got)
	}
	f.receivers["a"].mu.Lock()
	f.receivers["a"].answer = func(context.Context, destination.Message) error { return errors.New("no route to it") }
	f.receivers["a"].mu.Unlock()
	f.order("t2", store.OrderTest, struct{}{})
	if o := f.waitForOrder("t2"); o.State != store.OrderFailed || o.Error != "no route to it" {
		t.Errorf("the test ended as %s, %q; want FAILED with the error", o.State, o.Error)
	}
	if d := f.state("a"); d.FailingSince != nil || d.Failed != 0 {
		t.Errorf("a test counts as a failed delivery: %+v", d)
	}
}

func TestNotifier_RedriveSendsDeadLettersWithTheirIDs(t *testing.T) {
	f := newFixture(t, hook("a"))
	var refuse atomic.Bool
	refuse.Store(true)
	f.receivers["a"].answer = func(_ context.Context, m destination.Message) error {
		if refuse.Load() || m.RunID == "bad" {
			return &destination.RejectedError{Reason: "400"}
		}
		return nil
	}
	f.start(f.store, "p")
	f.startRun("good", "acme", 3)
	f.startRun("bad", "acme", 1)
	dead := func() []store.DeadDelivery {
		out, err := f.store.DeadDeliveries(t.Context(), store.DeadDeliveryFilter{Destination: "a", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := int(f.head("good") + f.head("bad"))
	f.waitFor("all dead letters", func() bool { return len(dead()) == all })
	refuse.Store(false)
	f.order("some", store.OrderRedrive, destination.Redrive{IDs: []int64{slices.MinFunc(dead(),
		func(a, b store.DeadDelivery) int { return int(a.N - b.N) }).N}})
	f.waitForOrder("some")
	f.order("all", store.OrderRedrive, destination.Redrive{})
	o := f.waitForOrder("all")
	f.wantInOrder("a", "good")
	if left := dead(); len(left) != int(f.head("bad")) || left[0].RunID != "bad" {
		t.Errorf("%d dead letters are left; want those of the run that is refused", len(left))
	}
	if o.Failed != int64(f.head("bad")) || o.Sent+o.Failed != o.Messages {
		t.Errorf("the order ended as %s; want the refused ones as failed", counts(o))
	}
	for _, m := range f.receivers["a"].messages() {
		events, err := f.store.Events(t.Context(), m.RunID, run.Seq(m.Seq-1), 1)
		if err != nil || events[0].EventID != m.ID {
			t.Errorf("message %d of %s has the id %s; want that of the event", m.Seq, m.RunID, m.ID)
		}
	}
}

func TestNotifier_AReplaySelectsItsRangeAndMarksIt(t *testing.T) {
	f := newFixture(t, hook("a"))
	f.start(f.store, "p")
	f.startRun("before", "acme", 2)
	f.waitForRun("a", "before")
	time.Sleep(5 * time.Millisecond)
	since := time.Now()
	f.startRun("in", "acme", 2)
	f.startRun("other", "other", 2)
	f.raise(store.Alert{Code: run.CodeLagHigh, Level: store.AlertHigh, Subject: "s"})
	f.waitForRun("a", "in")
	f.waitForRun("a", "other")
	f.waitFor("the alert", func() bool { return len(f.receivers["a"].typesOf(destination.Alerts)) == 1 })
	first := len(f.receivers["a"].messages())
	replay := destination.Replay{Since: since, Filter: destination.Route{Tenants: []string{"acme"},
		Topics: []destination.Topic{destination.Events}}}
	f.order("events", store.OrderReplay, replay)
	o := f.waitForOrder("events")
	again := f.receivers["a"].messages()[first:]
	if want := fmt.Sprintf("DONE %[1]d %[1]d 0", f.head("in")); counts(o) != want {
		t.Errorf("the replay ended as %s; want %s", counts(o), want)
	}
	for i, m := range again {
		if m.RunID != "in" || m.Seq != uint64(i+1) || !m.Replayed {
			t.Errorf("message %d of the replay is %s/%d, replayed %v; want the run in order", i, m.RunID, m.Seq, m.Replayed)
		}
	}
	f.order("alerts", store.OrderReplay, destination.Replay{Since: since, Filter: destination.Route{
		Topics: []destination.Topic{destination.Alerts}}})
	if got := counts(f.waitForOrder("alerts")); got != "DONE 1 1 0" {
		t.Errorf("the replay of alerts ended as %s; want the one", got)
	}
	replay.Until = time.Now()
	count, err := notifier.NewReplayCounter(f.store)(t.Context(), hook("a").Entry(), replay)
	if err != nil || count.Messages != int(f.head("in")) || count.More || count.First.Before(since) {
		t.Errorf("the preview counts %+v, %v; want what the replay sent", count, err)
	}
}

// New messages of other runs arrive while a replay waits for a slow destination.
func TestNotifier_AReplayDoesNotDelayNewMessages(t *testing.T) {
	f := newFixture(t, hook("a"))
	f.timing.Concurrency = 2
	var replaying atomic.Bool
	f.receivers["a"].answer = func(ctx context.Context, m destination.Message) error {
		if m.Replayed && replaying.Load() {
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
		}
		return nil
	}
	f.start(f.store, "p")
	for i := range 6 {
		f.startRun(fmt.Sprint("old", i), "acme", 5)
	}
	for i := range 6 {
		f.waitForRun("a", fmt.Sprint("old", i))
	}
	replaying.Store(true)
	f.order("slow", store.OrderReplay, destination.Replay{})
	f.waitFor("the replay", func() bool {
		return slices.ContainsFunc(f.receivers["a"].messages(), func(m destination.Message) bool { return m.Replayed })
	})
	began := time.Now()
	f.startRun("new", "acme", 8)
	f.waitForRun("a", "new")
	if took := time.Since(began); took > time.Second {
		t.Errorf("the new run arrived after %s; want no wait for the replay, whose messages take 250 ms each", took)
	}
	o, err := f.store.GetDestinationOrder(t.Context(), "slow")
	if err != nil || o.State != store.OrderRunning {
		t.Errorf("the replay is %s, %v when the new run has arrived; want RUNNING", o.State, err)
	}
	replaying.Store(false)
	f.waitForOrder("slow")
}

func TestNotifier_RemovedDestinationsAreMarked(t *testing.T) {
	f := newFixture(t, hook("a"), hook("b"))
	f.timing.Report = 20 * time.Millisecond
	f.start(f.store, "p")
	f.waitFor("the reports", func() bool { return f.state("a").ReportedAt != nil && f.state("b").ReportedAt != nil })
	var entry destination.Entry
	if err := json.Unmarshal(f.state("b").Entry, &entry); err != nil || entry.Kind != destination.Webhook ||
		entry.Address != "https://b.example" {
		t.Errorf("the entry is reported as %+v, %v; want its kind and address", entry, err)
	}
	f.configs.Store(&[]destination.Config{hook("a")})
	f.waitFor("the mark", func() bool { return f.state("b").RemovedAt != nil })
	if f.state("a").RemovedAt != nil {
		t.Error("a destination that is in the file is marked as removed")
	}
}

// Changes of alerts about one thing of the installation become one message for people.
func TestNotifier_GroupsFlappingAlertsForPeople(t *testing.T) {
	people, program := hook("mail"), hook("hook")
	people.Kind = destination.Slack
	f := newFixture(t, people, program)
	f.timing.Group = time.Second
	f.start(f.store, "p")
	flap := store.Alert{Code: run.CodeWorkerAbsent, Level: store.AlertMedium, Subject: "w1"}
	for range 3 {
		f.raise(flap)
		if _, err := f.store.ResolveAlerts(t.Context(), []string{flap.Fingerprint()}, "back"); err != nil {
			t.Fatal(err)
		}
	}
	other := flap
	other.Subject = "w2"
	f.raise(other)
	f.waitFor("all changes at the program", func() bool {
		return len(f.receivers["hook"].typesOf(destination.Alerts)) == 7
	})
	f.waitFor("three messages for people", func() bool { return len(f.receivers["mail"].messages()) >= 3 })
	time.Sleep(100 * time.Millisecond)
	var w1 []string
	for _, m := range f.receivers["mail"].messages() {
		if m.Alert.Subject == "w1" {
			w1 = append(w1, fmt.Sprint(m.Type, " ", m.Alert.Changes))
		}
	}
	if want := []string{"AlertOpened 0", "AlertResolved 5"}; !slices.Equal(w1, want) {
		t.Errorf("people got %v about one worker; want %v", w1, want)
	}
	flap.Subject = "w3"
	f.raise(flap)
	if _, err := f.store.ResolveAlerts(t.Context(), []string{flap.Fingerprint()}, "back"); err != nil {
		t.Fatal(err)
	}
	flap.Level = store.AlertHigh
	began := time.Now()
	f.raise(flap)
	f.waitFor("the worse alert", func() bool {
		return slices.ContainsFunc(f.receivers["mail"].messages(), func(m destination.Message) bool {
			return m.Alert.Subject == "w3" && m.Level == "HIGH"
		})
	})
	if took := time.Since(began); took > 700*time.Millisecond {
		t.Errorf("an alert with a worse level waited %s; want no wait for its group", took)
	}
}

// A replay goes on after its process was killed: all messages arrive, and repetitions have equal ids.
func TestProcess_AKilledReplayIsComplete(t *testing.T) {
	const runs, kills = 12, 4
	path := filepath.Join(t.TempDir(), "dvt.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &fixture{T: t, store: s, receivers: map[string]*receiver{}}
	a := &accepter{}
	var slow atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			time.Sleep(3 * time.Millisecond) // so that a kill comes in the middle
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	spawn := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), childStore+"="+path, childURL+"="+srv.URL)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	kill := func(c *exec.Cmd) {
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
	}
	c := spawn()
	f.waitFor("the report of the process", func() bool { return f.state("a").ReportedAt != nil })
	total := 0
	for i := range runs {
		f.startRun(fmt.Sprint("r", i), "acme", 40)
		total += int(f.head(fmt.Sprint("r", i)))
	}
	f.waitFor("the first delivery", func() bool { return len(a.messages()) >= total })
	first := map[string]bool{}
	for _, m := range a.messages() {
		first[m.ID] = true
	}
	slow.Store(true)
	f.order("replay", store.OrderReplay, destination.Replay{})
	for range kills {
		before := len(a.messages())
		f.waitFor("a part of the replay", func() bool { return len(a.messages()) > before+total/8 })
		kill(c)
		if o, err := s.GetDestinationOrder(t.Context(), "replay"); err != nil || o.State.IsFinal() {
			t.Fatalf("the replay is %s, %v; the kill must come before its end", o.State, err)
		}
		c = spawn()
	}
	o := f.waitForOrder("replay")
	kill(c)
	if want := fmt.Sprintf("DONE %[1]d %[1]d 0", total); counts(o) != want {
		t.Errorf("the replay ended as %s; want %s, each message counted once", counts(o), want)
	}
	again, last, repeated := map[string]bool{}, map[string]uint64{}, 0
	for _, m := range a.messages() {
		if !first[m.ID] {
			t.Errorf("the replay sent %s, which is no id of a first delivery", m.ID)
		}
		if !m.Replayed {
			continue
		}
		if again[m.ID] {
			repeated++
		}
		again[m.ID] = true
		if m.Seq > last[m.RunID]+1 {
			t.Errorf("event %d of %s was replayed after %d; want no gap", m.Seq, m.RunID, last[m.RunID])
		}
		last[m.RunID] = max(last[m.RunID], m.Seq)
	}
	if len(again) != total {
		t.Errorf("the replay sent %d of %d messages", len(again), total)
	}
	t.Logf("%d messages, %d repetitions over %d kills", total, repeated, kills)
}
