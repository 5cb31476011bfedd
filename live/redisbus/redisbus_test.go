package redisbus_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, addr string) *redisbus.Bus {
	t.Helper()
	b, err := redisbus.Open(redisbus.Config{URL: "redis://" + addr + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

func take(t *testing.T, s live.Subscription) live.Delivery {
	t.Helper()
	select {
	case d := <-s.C():
		return d
	case <-time.After(time.Minute):
		t.Fatal("nothing was delivered in a minute")
		return live.Delivery{}
	}
}

func confirmed(t *testing.T, s live.Subscription) {
	t.Helper()
	for {
		d := take(t, s)
		if d.Confirmed {
			return
		}
		if d.Message != nil {
			t.Fatalf("a message before the confirmation")
		}
	}
}

// eventually polls a condition and returns how long it took.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > testtime.Of(within) {
			t.Fatalf("condition %q was not met within %v", what, within)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

func message(runID string, to run.Seq) live.Message {
	return live.Message{
		V: live.MessageVersion, TenantID: "t1", ProjectID: "p1", RunID: runID, Epoch: "e", Rev: run.ReducerRev,
		From: to - 1, To: to, Delta: &run.Delta{From: to - 1, To: to},
	}
}

func publish(t *testing.T, b live.Bus, m live.Message) {
	t.Helper()
	if err := b.Publish(t.Context(), m); err != nil {
		t.Fatalf("Publish: %v", err)
	}
}

// servers are the two kinds of servers that dvt supports.
var servers = map[string]func(t *testing.T) string{
	"redis":     func(t *testing.T) string { return testserver.Redis(t).Addr },
	"miniredis": func(t *testing.T) string { return miniredis.RunT(t).Addr() },
}

// contract: T206
func TestBus_ConfirmsBeforeMessages(t *testing.T) {
	t.Parallel()
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := server(t)
			sender, b := open(t, addr), open(t, addr)
			one, list, all, other := b.Subscribe("r1"), b.SubscribeList("t1", "p1"), b.SubscribeList("t1", "*"),
				b.Subscribe("r2")
			for _, s := range []live.Subscription{one, list, all, other} {
				confirmed(t, s)
			}
			again := b.Subscribe("r1") // the channel is open already
			confirmed(t, again)
			publish(t, sender, message("r1", 7))
			if err := sender.WakeLists(t.Context(), live.List{TenantID: "t1", ProjectID: "p1"},
				live.List{TenantID: "t1", ProjectID: "p2"}); err != nil {
				t.Fatal(err)
			}
			for _, s := range []live.Subscription{one, again} {
				if d := take(t, s); d.Message == nil || d.Message.To != 7 || d.Message.Delta == nil {
					t.Errorf("unexpected delivery %+v", d)
				}
			}
			for _, s := range []live.Subscription{list, all} {
				if d := take(t, s); d != (live.Delivery{}) {
					t.Errorf("unexpected wake-up %+v", d)
				}
				if n := len(s.C()); n != 0 {
					t.Errorf("%d extra wake-ups, want 0", n)
				}
			}
			if n := len(other.C()); n != 0 {
				t.Errorf("%d deliveries for another run, want 0", n)
			}
		})
	}
}

func TestBus_UnsubscribesWithTheLastListener(t *testing.T) {
	t.Parallel()
	addr := testserver.Redis(t).Addr
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()
	b := open(t, addr)
	listeners := func(n int64) func() bool {
		return func() bool { return admin.PubSubNumSub(t.Context(), "dvt:run:r1").Val()["dvt:run:r1"] == n }
	}
	one, two := b.Subscribe("r1"), b.Subscribe("r1")
	confirmed(t, one)
	confirmed(t, two)
	one.Close()
	publish(t, b, message("r1", 7))
	if d := take(t, two); d.Message == nil {
		t.Errorf("unexpected delivery %+v", d)
	}
	two.Close()
	two.Close()
	eventually(t, 5*time.Second, "unsubscribed", listeners(0))
	three := b.Subscribe("r1")
	confirmed(t, three)
	three.Close() // close and reopen at once
	four := b.Subscribe("r1")
	confirmed(t, four)
	publish(t, b, message("r1", 8))
	for d := take(t, four); d.Message == nil; d = take(t, four) {
	}
}

// contract: O8
func TestBus_LargeDeltaBecomesANotice(t *testing.T) {
	t.Parallel()
	b := open(t, miniredis.RunT(t).Addr())
	s := b.Subscribe("r1")
	confirmed(t, s)
	m := message("r1", 7)
	m.Delta.Header.RunID = strings.Repeat("x", live.MaxMessage)
	publish(t, b, m)
	if d := take(t, s); d.Message == nil || d.Message.To != 7 || d.Message.Delta != nil {
		t.Errorf("unexpected delivery %+v", d)
	}
	if m.Delta == nil {
		t.Error("the caller's message was changed")
	}
}

// contract: T206
func TestBus_OverflowIsReportedWithoutAnotherMessage(t *testing.T) {
	t.Parallel()
	b := open(t, miniredis.RunT(t).Addr())
	s, probe := b.Subscribe("r1"), b.Subscribe("r1")
	confirmed(t, s)
	confirmed(t, probe)
	for seq := run.Seq(1); seq <= 40; seq++ { // nobody reads s
		publish(t, b, message("r1", seq))
		for d := take(t, probe); d.Message == nil; d = take(t, probe) {
		}
	}
	var last live.Delivery
	overflow, n := false, len(s.C())
	for range n {
		last = <-s.C()
		overflow = overflow || last.Overflow
	}
	if n > 16 || !overflow || last.Message == nil || last.Message.To != 40 {
		t.Errorf("%d deliveries, overflow %v, the last is %+v", n, overflow, last)
	}
}

func TestBus_UnreadableMessageIsACatchUp(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	b := open(t, server.Addr())
	s := b.Subscribe("r1")
	confirmed(t, s)
	server.Publish("dvt:run:r1", "{")
	if d := take(t, s); !d.Overflow || d.Message != nil {
		t.Errorf("unexpected delivery %+v", d)
	}
}

// contract: T125, S11
func TestBus_KilledConnectionConfirmsEveryChannelAgain(t *testing.T) {
	t.Parallel()
	addr := testserver.Redis(t).Addr
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()
	b := open(t, addr)
	one, two := b.Subscribe("r1"), b.Subscribe("r2")
	confirmed(t, one)
	confirmed(t, two)
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	confirmed(t, one)
	confirmed(t, two)
	if d := time.Since(began); d > testtime.Of(2*time.Second) {
		t.Errorf("reconnected after %v", d)
	}
	publish(t, b, message("r2", 9))
	if d := take(t, two); d.Message == nil {
		t.Errorf("unexpected delivery %+v", d)
	}
}

// contract: S12
func TestBus_RecoversWhenRedisReturns(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	b := open(t, server.Addr)
	one := b.Subscribe("r1")
	confirmed(t, one)
	server.Stop()
	eventually(t, time.Second, "down", func() bool { return !b.Up() })
	began := time.Now()
	two := b.Subscribe("r2") // returns at once
	err := b.Publish(t.Context(), message("r1", 9))
	if d := time.Since(began); err == nil || d > testtime.Of(100*time.Millisecond) {
		t.Errorf("Publish while Redis is down returned %v after %v", err, d)
	}
	time.Sleep(2 * time.Second)
	server.Start()
	back := eventually(t, 5*time.Second, "up", b.Up)
	t.Logf("up %v after the start", back)
	if back > testtime.Of(2*time.Second) {
		t.Errorf("up %v after the start", back)
	}
	confirmed(t, one)
	confirmed(t, two)
	publish(t, b, message("r2", 9))
	for d := take(t, two); d.Message == nil; d = take(t, two) {
	}
}

func TestBus_OpensWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	server.Stop()
	b := open(t, server.Addr)
	s := b.Subscribe("r1")
	if b.Up() {
		t.Error("Up is true while Redis is down")
	}
	server.Start()
	confirmed(t, s)
	eventually(t, 3*time.Second, "up", b.Up)
}

func TestOpen_RefusesAnUnreadableURLWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	_, err := redisbus.Open(redisbus.Config{URL: "http://user:secret@host"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open returned %v", err)
	}
}

// fixture is a store, a projector, a hub and a bus of one process.
type fixture struct {
	*testing.T
	store store.Store
	hub   *live.Hub
	bus   *redisbus.Bus
	id    run.Identity
	next  int
}

func newFixture(t *testing.T, addr string) *fixture {
	t.Helper()
	raw, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	p := &fixture{T: t, bus: open(t, addr), id: runtest.ID}
	pr := projector.New(raw, p.bus, projector.Config{})
	p.store = decorate.WakeOnCommit(raw, pr)
	p.hub = live.New(raw, p.bus, live.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- pr.Run(ctx) }()
	go func() { done <- p.hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	steps := make([]string, 30)
	for i := range steps {
		steps[i] = p.step(i)
	}
	_, _, err = p.store.CreateRun(t.Context(), store.NewRun{
		Run: store.Run{
			Identity: p.id, RequestID: "r", TriggeredBy: "ola", TriggerSource: "api", Params: []byte(`{}`),
			RequestKey: run.RequestKey(p.id.TenantID, p.id.ProjectID, p.id.EnvironmentID, p.id.PlanID, p.id.PlanVersion, "r"),
			PlanRef: plan.Ref{SHA256: strings.Repeat("ab", 32), SchemaVersion: "v1.2", PlanID: p.id.PlanID,
				PlanVersion: p.id.PlanVersion},
			Policy: run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
		},
		Plan: []byte(`{}`), Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start(steps...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *fixture) step(i int) string { return string(rune('a'+i/26)) + string(rune('a'+i%26)) }

// append starts the next n steps.
func (p *fixture) append(n int) {
	p.Helper()
	for range n {
		if _, err := p.store.Append(p.Context(), store.Append{
			RunID: p.id.RunID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, p.step(p.next), 1)},
		}); err != nil {
			p.Fatal(err)
		}
		p.next++
	}
}

// until takes frames until one fits. It fails when a frame is older than the previous one.
func (p *fixture) until(st *live.Stream, within time.Duration, ok func(live.Frame) bool) []live.Frame {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), testtime.Of(within))
	defer cancel()
	var out []live.Frame
	for {
		f, err := st.Next(ctx)
		if err != nil {
			p.Fatalf("no matching frame within %v; got %d frames: %v", within, len(out), err)
		}
		if len(out) > 0 && f.State.Seq < out[len(out)-1].State.Seq {
			p.Errorf("frame at seq %d after seq %d", f.State.Seq, out[len(out)-1].State.Seq)
		}
		out = append(out, f)
		if ok(f) {
			return out
		}
	}
}

func reached(seq run.Seq, reason live.Reason) func(live.Frame) bool {
	return func(f live.Frame) bool { return f.Sync == live.Live && f.State.Seq == seq && f.Reason == reason }
}

// contract: S11
func TestHub_KilledRedisConnectionLosesNothing(t *testing.T) {
	t.Parallel()
	addr := testserver.Redis(t).Addr
	admin := redis.NewClient(&redis.Options{Addr: addr})
	defer admin.Close()
	p := newFixture(t, addr)
	st, err := p.hub.Watch(t.Context(), p.id.RunID, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	p.until(st, 5*time.Second, reached(2, ""))
	p.append(1)
	if err := admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	p.append(3)
	frames := p.until(st, 5*time.Second, func(f live.Frame) bool {
		// The appends took one second, so only the newest state is left.
		return f.Sync == live.Verifying || f.Reason == live.SlowConsumer
	})
	if last := frames[len(frames)-1]; last.State.Seq < 6 {
		p.until(st, 5*time.Second, reached(6, ""))
	}
}

// contract: S12
func TestHub_RedisDownIsDegradedAndRecovers(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	p := newFixture(t, server.Addr)
	st, err := p.hub.Watch(t.Context(), p.id.RunID, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	p.until(st, 5*time.Second, reached(2, ""))
	server.Stop()
	p.until(st, 2*time.Second, reached(2, live.BusDegraded))
	for seq := run.Seq(3); seq < 7; seq++ {
		p.append(1)
		p.until(st, 2*time.Second, reached(seq, live.BusDegraded))
	}
	server.Start()
	p.until(st, 3*time.Second, reached(6, ""))
	published := func() bool {
		dirty, err := p.store.Dirty(t.Context(), 0, 10)
		return err == nil && len(dirty) == 0
	}
	eventually(t, 5*time.Second, "the projector uses the bus again", published)
	p.append(1)
	for _, f := range p.until(st, 3*time.Second, reached(7, "")) {
		if f.Sync == live.Stale {
			t.Errorf("STALE(%s) after the return", f.Reason)
		}
	}
	eventually(t, 5*time.Second, "the dirty marks are cleared", published)
}
