package notifier_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/lineage"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// receiver is a destination that keeps what it accepts. answer may refuse a try.
type receiver struct {
	mu     sync.Mutex
	answer func(ctx context.Context, m destination.Message) error
	got    []destination.Message
	tries  int
}

func (r *receiver) Send(ctx context.Context, m destination.Message) error {
	r.mu.Lock()
	r.tries++
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, m); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, m)
	return nil
}

func (*receiver) Close() error { return nil }

// messages returns what was accepted, as "type run.seq" for events and "type subject" for alerts.
func (r *receiver) messages() []destination.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// seqsOf returns the seqs of a run in the order of their arrival.
func (r *receiver) seqsOf(runID string) (out []uint64) {
	for _, m := range r.messages() {
		if m.RunID == runID && m.Topic == destination.Events {
			out = append(out, m.Seq)
		}
	}
	return out
}

func (r *receiver) typesOf(topic destination.Topic) (out []string) {
	for _, m := range r.messages() {
		if m.Topic == topic {
			out = append(out, m.Type)
		}
	}
	return out
}

// raiser raises alerts in the store as control does.
type raiser struct{ store store.Store }

func (r raiser) Raise(ctx context.Context, a store.Alert) (store.AlertRaised, error) {
	return r.store.RaiseAlert(ctx, a)
}

func (r raiser) Resolve(ctx context.Context, why string, alerts ...store.Alert) error {
	for _, a := range alerts {
		if _, err := r.store.ResolveAlerts(ctx, []string{a.Fingerprint()}, why); err != nil {
			return err
		}
	}
	return nil
}

type fixture struct {
	*testing.T
	now       func() time.Time // the clock of the store
	store     store.Store
	receivers map[string]*receiver
	configs   atomic.Pointer[[]destination.Config]
	loadErr   atomic.Pointer[error]
	timing    notifier.Timing
	reload    chan os.Signal
	registry  *prometheus.Registry
	newSender func(destination.Config) (destination.Sender, error)
	// readManifest may be nil.
	readManifest func(context.Context, run.Identity, run.ArtifactRef) (*lineage.Manifest, error)
}

func newFixture(t *testing.T, configs ...destination.Config) *fixture {
	t.Helper()
	return newFixtureAt(t, time.Now, configs...)
}

// newFixtureAt is newFixture with a store whose clock is now.
func newFixtureAt(t *testing.T, now func() time.Time, configs ...destination.Config) *fixture {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &fixture{T: t, now: now, store: s, receivers: map[string]*receiver{}, timing: notifier.Timing{
		Idle: 10 * time.Millisecond, Lease: 400 * time.Millisecond, Reload: 20 * time.Millisecond,
		FirstRetry: 10 * time.Millisecond, LastRetry: 40 * time.Millisecond, FailingAfter: 200 * time.Millisecond,
		SendTimeout: 300 * time.Millisecond,
	}}
	for _, c := range configs {
		f.receivers[c.Name] = &receiver{}
	}
	f.newSender = func(c destination.Config) (destination.Sender, error) { return f.receivers[c.Name], nil }
	f.configs.Store(&configs)
	return f
}

// start starts a notifier, waits until it works, and returns the function that stops it.
func (f *fixture) start(s notifier.Store, owner string) (stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	var metrics prometheus.Registerer
	if f.registry != nil {
		metrics = f.registry
	}
	n := notifier.New(notifier.Config{
		Metrics: metrics, Store: s, Alerts: raiser{f.store}, Owner: owner, Timing: f.timing,
		Load: func() ([]destination.Config, error) {
			if err := f.loadErr.Load(); err != nil {
				return nil, *err
			}
			return *f.configs.Load(), nil
		},
		ReadManifest: f.readManifest, Reload: f.reload, NewSender: f.newSender, Now: f.now,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	f.Cleanup(stop)
	for _, c := range *f.configs.Load() { // only what happens after the first lease is sent
		f.waitFor("the lease of "+c.Name, func() bool {
			_, err := f.store.LeaseCursor(f.Context(), "notify/"+c.Name, "stranger", time.Millisecond)
			return errors.Is(err, store.ErrConflict)
		})
	}
	time.Sleep(20 * time.Millisecond)
	return stop
}

func (f *fixture) waitFor(what string, is func() bool) {
	f.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			f.Fatalf("%s did not happen within a minute", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// startRun creates a run of a tenant with 3 events and those given, and saves its checkpoint as a projector does.
func (f *fixture) startRun(runID, tenantID string, steps int) {
	f.Helper()
	id := runtest.ID
	id.RunID, id.TenantID = runID, tenantID
	events := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1")}
	for i := range steps {
		events = append(events, runtest.Draft(run.StepStartedEvent, "s1", i+1))
	}
	_, _, err := f.store.CreateRun(f.Context(), store.NewRun{
		Run: store.Run{Identity: id, RequestKey: run.Key("request " + runID)}, Events: events})
	if err != nil {
		f.Fatal(err)
	}
	f.save(runID)
}

func (f *fixture) save(runID string) {
	f.Helper()
	l, err := f.store.Load(f.Context(), runID)
	if err == nil {
		_, err = f.store.Save(f.Context(), l.State, l.Changes)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// head returns the last seq of a run.
func (f *fixture) head(runID string) uint64 {
	f.Helper()
	h, err := f.store.Heads(f.Context(), []string{runID})
	if err != nil {
		f.Fatal(err)
	}
	return uint64(h.ByRun[runID].LastSeq)
}

// wantInOrder checks that a destination has every event of a run, in order; repetitions are allowed.
func (f *fixture) wantInOrder(name, runID string) {
	f.Helper()
	last := uint64(0)
	for _, seq := range f.receivers[name].seqsOf(runID) {
		if seq > last+1 {
			f.Fatalf("%s got event %d of %s after %d; want no gap", name, seq, runID, last)
		}
		last = max(last, seq)
	}
	if head := f.head(runID); last != head {
		f.Fatalf("%s got the events of %s up to %d; want %d", name, runID, last, head)
	}
}

func (f *fixture) waitForRun(name, runID string) {
	f.Helper()
	f.waitFor("the last event of "+runID+" at "+name, func() bool {
		return slices.Contains(f.receivers[name].seqsOf(runID), f.head(runID))
	})
	f.wantInOrder(name, runID)
}

func (f *fixture) raise(a store.Alert) store.AlertState {
	f.Helper()
	out, err := f.store.RaiseAlert(f.Context(), a)
	if err != nil {
		f.Fatal(err)
	}
	return out.State
}

func hook(name string) destination.Config {
	return destination.Config{Name: name, Kind: destination.Webhook, URL: "https://" + name + ".example"}
}

func TestNotifier_OneRunWaitsAndOthersGoOn(t *testing.T) {
	f := newFixture(t, hook("a"))
	f.receivers["a"].answer = func(_ context.Context, m destination.Message) error {
		if m.RunID == "bad" && m.Seq == 2 {
			return errors.New("no answer")
		}
		return nil
	}
	f.start(f.store, "p")
	f.startRun("bad", "acme", 3)
	f.startRun("good", "acme", 3)
	f.waitForRun("a", "good")
	f.startRun("later", "acme", 1)
	f.waitFor("the rest of the run after its dead letter", func() bool {
		return slices.Contains(f.receivers["a"].seqsOf("bad"), f.head("bad"))
	})
	if got := f.receivers["a"].seqsOf("bad"); got[0] != 1 || got[1] != 3 || !slices.IsSorted(got) {
		t.Errorf("the run with a dead letter arrived as %v; want 1, 3 and on", got)
	}
	dead, err := f.store.DeadDeliveries(t.Context(), store.DeadDeliveryFilter{Destination: "a", Limit: 10})
	if err != nil || len(dead) != 1 || dead[0].RunID != "bad" || dead[0].Tries != 10 {
		t.Errorf("dead letters are %+v, %v; want event 2 after 10 tries", dead, err)
	}
}

// A destination that is away for longer than all tries of a message take loses nothing, and gets everything soon after
// it is back.
func TestNotifier_AnOutageLosesNothing(t *testing.T) {
	f := newFixture(t, hook("a"))
	f.timing.LastRetry = time.Minute
	var away atomic.Bool
	away.Store(true)
	f.receivers["a"].answer = func(context.Context, destination.Message) error {
		if away.Load() {
			return errors.New("no answer")
		}
		return nil
	}
	f.timing.Tries = 2
	f.start(f.store, "p")
	for _, id := range []string{"r1", "r2", "r3"} {
		f.startRun(id, "acme", 3)
	}
	f.waitFor("many tries", func() bool {
		f.receivers["a"].mu.Lock()
		defer f.receivers["a"].mu.Unlock()
		return f.receivers["a"].tries > 12
	})
	away.Store(false)
	f.startRun("r4", "acme", 1) // its first try is the first success
	for _, id := range []string{"r1", "r2", "r3", "r4"} {
		f.waitForRun("a", id)
	}
	dead, err := f.store.DeadDeliveries(t.Context(), store.DeadDeliveryFilter{Destination: "a", Limit: 10})
	if err != nil || len(dead) != 0 {
		t.Errorf("dead letters after the outage are %+v, %v; want none", dead, err)
	}
}

func TestNotifier_ARejectionIsADeadLetterAtOnce(t *testing.T) {
	f := newFixture(t, hook("a"))
	f.receivers["a"].answer = func(_ context.Context, m destination.Message) error {
		if m.Seq == 1 {
			return &destination.RejectedError{Reason: "400"}
		}
		return nil
	}
	f.start(f.store, "p")
	f.startRun("r", "acme", 1)
	f.waitFor("the last event", func() bool { return slices.Contains(f.receivers["a"].seqsOf("r"), f.head("r")) })
	dead, err := f.store.DeadDeliveries(t.Context(), store.DeadDeliveryFilter{Destination: "a", Limit: 10})
	if err != nil || len(dead) != 1 || dead[0].Tries != 1 {
		t.Errorf("dead letters are %+v, %v; want one after one try", dead, err)
	}
}

// A destination that refuses everything, because its key was changed for example, answers and loses every message. It
// must be noticed like one that does not answer, until a test arrives.
func TestNotifier_ADestinationThatRefusesEverythingFails(t *testing.T) {
	var mended atomic.Bool
	f := newFixture(t, hook("a"))
	f.receivers["a"].answer = func(context.Context, destination.Message) error {
		if mended.Load() {
			return nil
		}
		return &destination.RejectedError{Reason: "the key is unknown"}
	}
	f.start(f.store, "p")
	f.startRun("r", "acme", 1)
	open := func() []store.AlertState {
		alerts, err := f.store.ListOpenAlerts(t.Context(), []run.Code{run.CodeDestinationFailing}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return alerts
	}
	f.waitFor("the alert", func() bool { return len(open()) == 1 })
	if note := open()[0].Note; !strings.Contains(note, "dead letters") {
		t.Errorf("the alert says %q; want where the messages are", note)
	}
	if f.state("a").FailingSince == nil {
		t.Error("the destination does not count as failing")
	}
	if err := f.store.CountMissedRun(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	f.waitFor("an alert that counts the missed run", func() bool {
		return strings.Contains(open()[0].Note, "before it took all their messages: 1.")
	})
	mended.Store(true)
	if _, err := f.store.PutDestinationOrder(t.Context(), store.DestinationOrder{ID: "t", Destination: "a",
		Kind: store.OrderTest, Doc: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	f.waitFor("the end of the alert", func() bool { return len(open()) == 0 && f.state("a").FailingSince == nil })
}

// A notifier that ends between a send and the save of its position stands for a process that was killed there.
func TestNotifier_RepeatsAfterACrashAndLosesNothing(t *testing.T) {
	f := newFixture(t, hook("a"))
	for i := range 6 {
		stop := f.start(f.store, fmt.Sprint("p", i))
		for j := range 4 {
			f.startRun(fmt.Sprintf("r%d.%d", i, j), "acme", 5)
		}
		f.waitFor("a first message", func() bool { return len(f.receivers["a"].messages()) > 20*i })
		stop()
	}
	f.start(f.store, "last")
	ids := map[string]string{}
	for i := range 6 {
		for j := range 4 {
			f.waitForRun("a", fmt.Sprintf("r%d.%d", i, j))
		}
	}
	for _, m := range f.receivers["a"].messages() {
		key := fmt.Sprint(m.RunID, "/", m.Seq)
		if known, found := ids[key]; found && known != m.ID {
			t.Errorf("event %s arrived with the ids %s and %s; want one", key, known, m.ID)
		}
		ids[key] = m.ID
	}
}

func TestNotifier_SendsAlertsOnceAndRepeatsThemUntilAcknowledged(t *testing.T) {
	f := newFixture(t, destination.Config{Name: "pager", Kind: destination.PagerDuty})
	f.timing.RepeatAlerts = 300 * time.Millisecond
	f.start(f.store, "p")
	pager := f.receivers["pager"]
	f.raise(store.Alert{TenantID: "acme", Code: run.CodeLagHigh, Level: store.AlertMedium, Subject: "not for pagers"})
	alert := f.raise(store.Alert{TenantID: "acme", Code: run.CodeLagHigh, Level: store.AlertHigh, Subject: "x"})
	f.waitFor("a repetition", func() bool { return len(pager.messages()) >= 2 })
	if _, err := f.store.AcknowledgeAlert(t.Context(), alert.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	f.waitFor("the acknowledgement", func() bool {
		return slices.Contains(pager.typesOf(destination.Alerts), "AlertAcknowledged")
	})
	n := len(pager.messages())
	time.Sleep(900 * time.Millisecond) // three repetitions
	if more := len(pager.messages()) - n; more != 0 {
		t.Errorf("%d messages came after the acknowledgement; want none", more)
	}
	if _, err := f.store.ResolveAlerts(t.Context(), []string{alert.Fingerprint()}, "gone"); err != nil {
		t.Fatal(err)
	}
	f.waitFor("the end", func() bool { return slices.Contains(pager.typesOf(destination.Alerts), "AlertResolved") })
	types, ids := pager.typesOf(destination.Alerts), map[string]bool{}
	for _, m := range pager.messages() {
		if ids[m.ID] {
			t.Errorf("message %s came twice", m.ID)
		}
		ids[m.ID] = true
		if m.Alert.Key != alert.ID || m.Level != "HIGH" {
			t.Errorf("message %s is about %s with level %s; want the HIGH alert", m.ID, m.Alert.Key, m.Level)
		}
	}
	if types[0] != "AlertOpened" || types[1] != "AlertRepeated" || types[len(types)-1] != "AlertResolved" {
		t.Errorf("messages were %v; want opened, repeated, acknowledged, resolved", types)
	}
}

func TestNotifier_SilencedAlertsAreNotSent(t *testing.T) {
	f := newFixture(t, hook("a"))
	_, err := f.store.Silence(t.Context(), store.AlertSilence{ID: "7d0c6a1e-58a4-4a7e-9d5b-0b8d6d7a1c11",
		TenantID: "acme", Code: run.CodeLagHigh, Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	f.start(f.store, "p")
	f.raise(store.Alert{TenantID: "acme", Code: run.CodeLagHigh, Level: store.AlertHigh})
	f.raise(store.Alert{TenantID: "acme", Code: run.CodeTimeout, Level: store.AlertHigh})
	f.waitFor("the other alert", func() bool { return len(f.receivers["a"].messages()) > 0 })
	for _, m := range f.receivers["a"].messages() {
		if m.Alert.Code == string(run.CodeLagHigh) {
			t.Error("a silenced alert was sent")
		}
	}
}

func TestNotifier_OtherTenantsAreNotTold(t *testing.T) {
	a, b := hook("a"), hook("b")
	a.Route.Tenants, b.Route.Tenants = []string{"acme"}, []string{"bolt"}
	b.Route.Installation = true
	f := newFixture(t, a, b)
	f.start(f.store, "p")
	f.startRun("ra", "acme", 2)
	f.startRun("rb", "bolt", 2)
	f.raise(store.Alert{TenantID: "acme", Code: run.CodeTimeout, Level: store.AlertHigh})
	f.raise(store.Alert{Code: run.CodeLagHigh, Level: store.AlertHigh})
	f.raise(store.Alert{TenantID: "bolt", Code: run.CodeTimeout, Level: store.AlertHigh})
	f.waitForRun("a", "ra")
	f.waitForRun("b", "rb")
	f.waitFor("alerts", func() bool {
		return len(f.receivers["a"].typesOf(destination.Alerts)) >= 1 &&
			len(f.receivers["b"].typesOf(destination.Alerts)) >= 2
	})
	for name, allowed := range map[string][]string{"a": {"acme"}, "b": {"bolt", ""}} {
		for _, m := range f.receivers[name].messages() {
			if !slices.Contains(allowed, m.TenantID) {
				t.Errorf("%s got %s of tenant %q; want only %q", name, m.Type, m.TenantID, allowed)
			}
		}
	}
}

func TestNotifier_AFailingDestinationIsReportedToTheOthers(t *testing.T) {
	f := newFixture(t, hook("sick"), hook("well"))
	f.timing.Tries = 1000
	var isDown atomic.Bool
	isDown.Store(true)
	sick, well := f.receivers["sick"], f.receivers["well"]
	sick.answer = func(context.Context, destination.Message) error {
		if isDown.Load() {
			return errors.New("no answer")
		}
		return nil
	}
	f.start(f.store, "p")
	f.startRun("r", "acme", 1)
	f.waitFor("the alert about the failing destination", func() bool {
		return slices.Contains(well.typesOf(destination.Alerts), "AlertOpened")
	})
	isDown.Store(false)
	f.waitFor("the end of the alert", func() bool {
		return slices.Contains(well.typesOf(destination.Alerts), "AlertResolved")
	})
	f.waitForRun("sick", "r")
	if got := sick.typesOf(destination.Alerts); len(got) > 0 {
		t.Errorf("the failing destination got %v about itself; want nothing", got)
	}
}

func TestNotifier_GoneDisablesUntilTheEntryChanges(t *testing.T) {
	f := newFixture(t, hook("a"))
	var isGone atomic.Bool
	isGone.Store(true)
	a := f.receivers["a"]
	a.answer = func(context.Context, destination.Message) error {
		if isGone.Load() {
			return fmt.Errorf("410: %w", destination.ErrGone)
		}
		return nil
	}
	f.start(f.store, "p")
	f.startRun("r", "acme", 1)
	f.waitFor("the end of the destination", func() bool {
		states, err := f.store.DestinationStates(t.Context())
		return err == nil && len(states) == 1 && states[0].DisabledFor != ""
	})
	isGone.Store(false)
	time.Sleep(200 * time.Millisecond)
	a.mu.Lock()
	tries := a.tries
	a.mu.Unlock()
	f.startRun("r2", "acme", 1)
	time.Sleep(200 * time.Millisecond)
	a.mu.Lock()
	more := a.tries - tries
	a.mu.Unlock()
	if more != 0 {
		t.Errorf("%d messages were tried after the destination was gone; want none", more)
	}
	c := hook("a")
	c.URL += "/new"
	f.configs.Store(&[]destination.Config{c})
	f.waitForRun("a", "r")
	f.waitForRun("a", "r2")
}

func TestNotifier_ABrokenFileKeepsTheDestinationsAndRaisesAnAlert(t *testing.T) {
	f := newFixture(t, hook("a"))
	f.start(f.store, "p")
	broken := errors.New("destinations[0].url: it is missing (REQUIRED)")
	f.loadErr.Store(&broken)
	a := f.receivers["a"]
	f.waitFor("the alert", func() bool { return slices.Contains(a.typesOf(destination.Alerts), "AlertOpened") })
	f.startRun("r", "acme", 1)
	f.waitForRun("a", "r")
	f.loadErr.Store(nil)
	f.waitFor("the end of the alert", func() bool {
		return slices.Contains(a.typesOf(destination.Alerts), "AlertResolved")
	})
	if m := a.messages()[0]; m.Alert == nil || !strings.Contains(string(m.Data), "it is missing") {
		t.Errorf("the alert says %s; want what is wrong", m.Data)
	}
}

// replaced is a store whose epoch can change, as a restore changes it.
type replaced struct {
	store.Store
	epoch atomic.Int64
}

func (r *replaced) Epoch(ctx context.Context) (string, error) {
	e, err := r.Store.Epoch(ctx)
	return fmt.Sprint(e, "/", r.epoch.Load()), err
}

func TestNotifier_AfterARestoreMessagesSayThatTheyAreReplayed(t *testing.T) {
	f := newFixture(t, hook("a"))
	s := &replaced{Store: f.store}
	f.start(s, "p")
	f.startRun("r", "acme", 1)
	f.waitForRun("a", "r")
	first := f.receivers["a"].messages()
	s.epoch.Add(1)
	f.waitFor("the same events again", func() bool { return len(f.receivers["a"].messages()) >= 2*len(first) })
	for i, m := range f.receivers["a"].messages()[len(first):] {
		if i < len(first) && (!m.Replayed || m.ID != first[i].ID) {
			t.Errorf("message %d after the restore is %s, replayed %t; want %s, replayed", i, m.ID, m.Replayed, first[i].ID)
		}
	}
}

// reads counts the reads of the feed.
type reads struct {
	store.Store
	pages, tails atomic.Int64
}

func (r *reads) ListChanged(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string, error) {
	r.pages.Add(1)
	return r.Store.ListChanged(ctx, f, cursor)
}

func (r *reads) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	r.tails.Add(1)
	return r.Store.Tails(ctx, known)
}

// One that hangs reads nothing, and the others read together.
func TestNotifier_DestinationsReadTheFeedTogether(t *testing.T) {
	const all = 20
	configs := make([]destination.Config, all)
	for i := range configs {
		configs[i] = hook(fmt.Sprint("d", i))
	}
	f := newFixture(t, configs...)
	f.timing.Idle, f.timing.SendTimeout, f.timing.Lease = time.Second, 20*time.Second, 4*time.Second
	f.receivers["d0"].answer = func(ctx context.Context, _ destination.Message) error {
		<-ctx.Done()
		return ctx.Err()
	}
	r := &reads{Store: f.store}
	first := configs[:1]
	f.configs.Store(&first)
	f.start(r, "p")
	for n := range all - 1 { // they begin one after the other
		time.Sleep(f.timing.Idle / all)
		more := configs[:n+2]
		f.configs.Store(&more)
	}
	time.Sleep(2 * f.timing.Idle) // and come to look at the same time
	r.pages.Store(0)
	r.tails.Store(0)
	began := time.Now()
	const runs = 3
	for i := range runs {
		id := fmt.Sprint("r", i)
		f.startRun(id, "acme", 5)
		for _, c := range configs[1:] {
			f.waitForRun(c.Name, id)
		}
	}
	looks := int64(time.Since(began)/f.timing.Idle) + 2
	if pages, tails := r.pages.Load(), r.tails.Load(); pages > 2*looks || tails > 3*runs {
		t.Errorf("%d destinations read %d pages of changes and %d times events in %d looks at %d runs; want at most "+
			"%d and %d", all, pages, tails, looks, runs, 2*looks, 3*runs)
	}
}
