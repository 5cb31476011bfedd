package projector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
)

// quickConfig returns a configuration with short delays.
func quickConfig(change ...func(*projector.Config)) projector.Config {
	cfg := projector.Config{Window: time.Millisecond, SweepAge: 20 * time.Millisecond, Backoff: time.Millisecond,
		MaxBackoff: 20 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// registerMetrics registers the metrics and returns a function that reads one of them: the sum over its labels,
// restricted by name=value pairs.
func registerMetrics(cfg *projector.Config) func(t *testing.T, name string, labels ...string) float64 {
	r := prometheus.NewRegistry()
	cfg.Metrics = r
	return func(t *testing.T, name string, labels ...string) (sum float64) {
		t.Helper()
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range families {
			for _, m := range f.GetMetric() {
				fits := f.GetName() == name
				for _, want := range labels {
					has := false
					for _, l := range m.GetLabel() {
						has = has || l.GetName()+"="+l.GetValue() == want
					}
					fits = fits && has
				}
				if fits {
					found = true
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		if !found {
			t.Fatalf("metric %s%v is missing", name, labels)
		}
		return sum
	}
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

// lines returns the lines that contain all of the given texts.
func (j *logBuffer) lines(what ...string) (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
lines:
	for line := range strings.Lines(j.b.String()) {
		for _, w := range what {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		out = append(out, line)
	}
	return out
}

func logTo(j *logBuffer) *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

func deadLetters(t *testing.T, s store.Outbox) []store.DeadLetter {
	t.Helper()
	out, err := s.DeadLetters(t.Context(), store.DeadLetterFilter{TenantID: runtest.ID.TenantID, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// contract: O02, T124
func TestProjector_OutageCausesNoDeadLetters(t *testing.T) {
	t.Parallel()
	const runs, events = 50, 20
	s, bus := openSQLite(t), &fakeBus{down: true, err: errors.New("connection refused")}
	var metric func(*testing.T, string, ...string) float64
	p := projector.New(s, bus, quickConfig(func(c *projector.Config) { metric = registerMetrics(c); c.MaxRefusals = 2 }))
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	var ids []string
	for i := range runs {
		ids = append(ids, create(t, w, i))
	}
	for batch := range 2 {
		for _, id := range ids {
			var drafts []run.Draft
			for i := range events / 2 {
				drafts = append(drafts, runtest.Draft(run.StepStartedEvent, steps[batch*events/2+i], 1))
			}
			if _, err := w.Append(t.Context(), store.Append{RunID: id, Events: drafts}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The bus may answer pings and still be unusable: probes continue.
	bus.set(func() { bus.down = false })
	eventually(t, 20*time.Second, "many probes", func() bool {
		return metric(t, "eventbus_publish_failures_total",
			"bus=redis") > 50
	})
	if state := p.Breaker(); state == projector.Closed {
		t.Errorf("breaker is %s, want OPEN or HALF_OPEN", state)
	}
	if metric(t, "eventbus_breaker_state", "state=CLOSED") != 0 {
		t.Error("the metrics show the breaker as CLOSED")
	}
	// Probes change it between OPEN and HALF_OPEN, also while the metrics are collected.
	eventually(t, 10*time.Second, "the metrics show the state of the breaker",
		func() bool { return metric(t, "eventbus_breaker_state") == 1 })
	eventually(t, 10*time.Second, "checkpoints continue", func() bool {
		for _, id := range ids {
			if l, err := s.Load(t.Context(), id); err != nil || l.CheckpointAt != events+2 {
				return false
			}
		}
		return true
	})
	if n := len(deadLetters(t, s)); n != 0 {
		t.Fatalf("%d dead letters while the bus is down", n)
	}
	bus.set(func() { bus.err = nil })
	eventually(t, 20*time.Second, "the dirty marks are cleared", clean(t, s))
	for _, id := range ids {
		replay(t, s, id, bus.of(id))
	}
	if n := len(deadLetters(t, s)); n != 0 || metric(t, "eventbus_dead_letters_total") != 0 {
		t.Errorf("%d dead letters, want 0", n)
	}
	if state := p.Breaker(); state != projector.Closed || metric(t, "eventbus_breaker_state", "state=CLOSED") != 1 {
		t.Errorf("breaker is %s, want CLOSED", state)
	}
}

// contract: O06, T124
func TestProjector_ReturningBusIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{down: true, err: errors.New("connection refused")}
	cfg := quickConfig(func(c *projector.Config) {
		c.Backoff, c.MaxBackoff, c.Random = time.Hour, time.Hour, func() float64 { return 0 }
	})
	p := projector.New(s, bus, cfg)
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	runID := create(t, w, 1)
	eventually(t, 5*time.Second, "open", func() bool { return p.Breaker() == projector.Open })
	tried := bus.count()
	for i := range 5 {
		begin(t, w, runID, i)
	}
	time.Sleep(100 * time.Millisecond)
	if n := bus.count() - tried; n > 1 {
		t.Errorf("%d attempts while the breaker is open", n)
	}
	bus.set(func() { bus.down, bus.err = false, nil })
	eventually(t, 2*time.Second, "the dirty mark is cleared", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// refusingBus is a bus that refuses messages with one event of a run.
type refusingBus struct {
	live.Bus
	seq run.Seq

	mu    sync.Mutex
	tries []time.Time
	cured bool
}

func (p *refusingBus) Publish(ctx context.Context, m live.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.From < p.seq && p.seq <= m.To && !p.cured {
		p.tries = append(p.tries, time.Now())
		return fmt.Errorf("%w: payload too large", live.ErrRefused)
	}
	return p.Bus.Publish(ctx, m)
}

func (p *refusingBus) tried() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries
}

// framesUntil returns frames until one fits. It fails when a frame is older than the previous one.
func framesUntil(t *testing.T, st *live.Stream, ok func(live.Frame) bool) (frames []live.Frame) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		f, err := st.Next(ctx)
		if err != nil {
			t.Fatalf("no matching frame: %v; got %d frames", err, len(frames))
		}
		if n := len(frames); n > 0 && f.State.Seq < frames[n-1].State.Seq {
			t.Errorf("frame at seq %d after seq %d", f.State.Seq, frames[n-1].State.Seq)
		}
		if frames = append(frames, f); ok(f) {
			return frames
		}
	}
}

func liveAt(seq run.Seq) func(live.Frame) bool {
	return func(f live.Frame) bool { return f.Sync == live.Live && f.State.Seq == seq }
}

func openRedis(t *testing.T) *redisbus.Bus {
	t.Helper()
	b, err := redisbus.Open(redisbus.Config{URL: "redis://" + testserver.Redis(t).Addr + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// watch opens a viewer of a run whose hub learns of events only from the bus.
func watch(t *testing.T, s store.Store, bus live.Bus, runID string) *live.Stream {
	t.Helper()
	hub := live.New(s, bus, live.Config{HeadInterval: time.Hour, ReadTimeout: time.Minute, KeepAlive: time.Hour})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hub.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	st, err := hub.Watch(t.Context(), runID, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return st
}

// contract: O03, O04, W-16
func TestProjector_RefusedMessageBecomesADeadLetterAndIsRedriven(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) store.Store{"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, redis := open(t), openRedis(t)
			runID, other := create(t, s, 1), create(t, s, 2)
			bus, log := &refusingBus{Bus: redis, seq: 6}, &logBuffer{}
			var metric func(*testing.T, string, ...string) float64
			p := projector.New(s, bus, quickConfig(func(c *projector.Config) {
				metric = registerMetrics(c)
				c.Random, c.Logger = func() float64 { return 0 }, logTo(log)
			}))
			start(t, p)
			w := decorate.WakeOnCommit(s, p)
			st := watch(t, s, redis, runID)
			for i := range 3 {
				begin(t, w, runID, i)
			}
			framesUntil(t, st, liveAt(5))

			begin(t, w, runID, 3) // event 6, which is always refused
			eventually(t, 5*time.Second, "the first refusal", func() bool { return len(bus.tried()) > 0 })
			begin(t, w, runID, 4)
			begin(t, w, runID, 5)
			begin(t, w, other, 0)
			eventually(t, 10*time.Second, "the dead letter", func() bool { return len(deadLetters(t, s)) == 1 })
			frames := framesUntil(t, st, liveAt(8))
			stale := false
			for _, f := range frames {
				stale = stale || f.Sync == live.Stale && f.Reason == live.Gap && f.State.Seq == 5
			}
			// A viewer that takes no frame for one second gets only the newest, with a reason.
			if !stale && frames[len(frames)-1].Reason != live.SlowConsumer {
				t.Errorf("no frame shows the missing events; got %d frames", len(frames))
			}
			eventually(t, 5*time.Second, "the dirty marks are cleared", clean(t, s))

			tries := bus.tried()
			if len(tries) != 10 {
				t.Errorf("%d attempts, want MaxRefusals", len(tries))
			}
			for i := 1; i < len(tries); i++ { // 1, 2, 4, 8, 16, 20, 20, … ms plus the time until the next sweep
				if least := min(time.Millisecond<<(i-1), 20*time.Millisecond); tries[i].Sub(tries[i-1]) < least {
					t.Errorf("attempt %d came after %v, want at least %v", i+1, tries[i].Sub(tries[i-1]), least)
				}
			}
			letter := deadLetters(t, s)[0]
			if letter.RunID != runID || letter.From != 5 || letter.To != 6 || letter.Attempts != 10 ||
				letter.RedrivenAt != nil ||
				!strings.Contains(letter.Cause, "payload too large") {
				t.Errorf("dead letter is %+v", letter)
			}
			if n := log.lines("EVENT_BUS_DELIVERY_FAILED", `"level":"ERROR"`, `"severity":"P1"`, runID); len(n) != 1 {
				t.Errorf("alerts are %v, want one", n)
			}
			if metric(t, "eventbus_dead_letters_total") != 1 || metric(t, "projector_alerts_total",
				"alert=EVENT_BUS_DELIVERY_FAILED") != 1 {
				t.Error("the dead letter is not in the metrics")
			}
			if p.Breaker() != projector.Closed {
				t.Errorf("breaker is %s, want CLOSED after refusals", p.Breaker())
			}

			if err := p.Redrive(t.Context(), letter); !errors.Is(err, live.ErrRefused) || deadLetters(t,
				s)[0].RedrivenAt != nil {
				t.Errorf("Redrive of a refused message returned %v", err)
			}
			bus.mu.Lock()
			bus.cured = true
			bus.mu.Unlock()
			heard := redis.Subscribe(runID)
			defer heard.Close()
			for d := range heard.C() {
				if d.Confirmed {
					break
				}
			}
			for range 2 { // it is idempotent
				if err := p.Redrive(t.Context(), letter); err != nil {
					t.Fatal(err)
				}
			}
			d := <-heard.C()
			if d.Message == nil || d.Message.From != 5 || d.Message.To < 6 || d.Message.Delta == nil ||
				len(d.Message.Delta.Steps) != 3 {
				t.Errorf("redriven message %+v", d.Message)
			}
			if deadLetters(t, s)[0].RedrivenAt == nil {
				t.Error("the dead letter is not marked as redriven")
			}
			begin(t, w, runID, 6)
			for _, f := range framesUntil(t, st, liveAt(9)) { // viewers ignore the redriven message
				if f.Sync != live.Live || f.State.Seq < 8 {
					t.Errorf("unexpected frame %s(%s) at seq %d", f.Sync, f.Reason, f.State.Seq)
				}
			}
		})
	}
}

// A wake does not repeat a refused message before its delay has passed.
// contract: T123
func TestProjector_WakeRespectsTheRefusalDelay(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	bus := &refusingBus{Bus: &fakeBus{}, seq: 1}
	p := projector.New(s, bus, quickConfig(func(c *projector.Config) {
		c.Backoff, c.MaxBackoff, c.Random = time.Hour, time.Hour, func() float64 { return 0 }
	}))
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	runID := create(t, w, 1)
	eventually(t, 5*time.Second, "the refusal", func() bool { return len(bus.tried()) == 1 })
	for i := range 5 {
		begin(t, w, runID, i)
	}
	eventually(t, 5*time.Second, "the checkpoint advances", func() bool {
		l, err := s.Load(t.Context(), runID)
		return err == nil && l.CheckpointAt == 7
	})
	if err := projector.New(s, bus, quickConfig()).Project(t.Context(), runID); err != nil { // nor does another projector
		t.Fatal(err)
	}
	if n := len(bus.tried()); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

// A message with only receipts and queue can be refused, too; it becomes no dead letter.
// contract: T204
func TestProjector_RefusedOperationalChangeIsGivenUp(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	p := projector.New(s, bus, quickConfig(func(c *projector.Config) { c.MaxRefusals = 3 }))
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	runID := create(t, w, 1)
	eventually(t, 5*time.Second, "published", clean(t, s))
	bus.set(func() {
		bus.refusal = func(m live.Message) error {
			if m.From == m.To {
				return live.ErrRefused
			}
			return nil
		}
	})
	if _, err := w.Lease(t.Context(), "me", time.Minute, 10); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
	begin(t, w, runID, 0)
	eventually(t, 5*time.Second, "published", func() bool { to, _ := bus.latest(runID); return to == 3 })
	if n := len(deadLetters(t, s)); n != 0 {
		t.Errorf("%d dead letters, want 0", n)
	}
}

// contract: O07
func TestProjector_RolledBackTransactionSendsNothing(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	p := projector.New(s, bus, quickConfig())
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	runID := create(t, w, 1)
	eventually(t, 5*time.Second, "published", clean(t, s))
	before, refused := len(bus.of(runID)), errors.New("no")
	err := w.InRun(t.Context(), runID, func(tx store.RunTx) error {
		if _, err := tx.Append(
			t.Context(), store.Append{
				RunID: runID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, steps[0], 1)}}); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if n := len(bus.of(runID)) - before; n != 0 || !clean(t, s)() {
		t.Errorf("%d messages after the rollback, want 0", n)
	}
}

// contract: T125
func TestProjector_PublishingWithoutListenersSucceeds(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), openRedis(t)
	runID := create(t, s, 1)
	if err := projector.New(s, bus, projector.Config{}).Project(t.Context(), runID); err != nil || !clean(t, s)() {
		t.Errorf("Project: %v", err)
	}
}
