package storeclock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/store"
)

// world has three clocks that a test moves: the store's, the machine's, and the time that really passes.
type world struct {
	store, wall time.Time
	elapsed     time.Duration
	latency     time.Duration // of an answer of the store, which has the time of its begin
	down        bool
	log         bytes.Buffer
	clock       *Clock
}

var epoch = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newWorld(ahead time.Duration) *world {
	w := &world{store: epoch, wall: epoch.Add(ahead)}
	w.clock = newClock(w, func() time.Time { return w.wall }, func() time.Duration { return w.elapsed },
		prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&w.log, nil)))
	return w
}

// Heads implements Store.
func (w *world) Heads(context.Context, []string) (store.Heads, error) {
	if w.down {
		return store.Heads{}, errors.New("down")
	}
	out := store.Heads{Now: w.store}
	w.pass(w.latency)
	return out, nil
}

func (w *world) pass(d time.Duration) {
	w.store, w.wall, w.elapsed = w.store.Add(d), w.wall.Add(d), w.elapsed+d
}

// differs returns how far the clock is ahead of the store.
func (w *world) differs() time.Duration { return w.clock.Now().Sub(w.store) }

func (w *world) measure(t *testing.T) {
	t.Helper()
	if err := w.clock.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestClock_AWrongClockOfTheMachineChangesNothing(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		w := newWorld(ahead)
		w.measure(t)
		w.pass(7 * time.Second)
		if d := w.differs(); d != 0 {
			t.Errorf("with a machine %s ahead the clock differs from the store's by %s, want 0s", ahead, d)
		}
		w.wall = w.wall.Add(-2 * time.Hour) // somebody sets it
		if d := w.differs(); d != 0 {
			t.Errorf("after a jump of the machine's clock the clock differs by %s, want 0s", d)
		}
		if got, want := w.clock.skew(), ahead-2*time.Hour; got != want {
			t.Errorf("the metric says %s ahead, want %s", got, want)
		}
	}
}

func TestClock_FollowsAJumpOfTheStore(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		w := newWorld(0)
		w.measure(t)
		w.store = w.store.Add(jump)
		w.measure(t)
		if d := w.differs(); d != 0 {
			t.Errorf("after a jump of the store's clock by %s the clock differs by %s, want 0s", jump, d)
		}
	}
}

func TestClock_ALateAnswerDoesNotSetItBack(t *testing.T) {
	t.Parallel()
	w := newWorld(0)
	w.measure(t)
	w.latency = 3 * time.Second
	before := w.clock.Now()
	w.measure(t)
	if got, want := w.clock.Now(), before.Add(3*time.Second); !got.Equal(want) {
		t.Errorf("an answer that took 3s set the clock to %s, want %s", got, want)
	}
}

func TestClock_RunsOnWithoutTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(time.Hour)
	if got := w.clock.Now(); !got.Equal(w.wall) {
		t.Errorf("before the first measure the clock says %s, want the machine's %s", got, w.wall)
	}
	w.measure(t)
	w.down = true
	w.pass(time.Minute)
	if err := w.clock.Measure(t.Context()); err == nil {
		t.Error("a store that is down gave a time")
	}
	if d := w.differs(); d != 0 {
		t.Errorf("a minute after the store's end the clock differs by %s, want 0s", d)
	}
}

func TestClock_LogsOnceThatTheClocksDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(time.Hour)
	w.measure(t)
	w.measure(t)
	if n := strings.Count(w.log.String(), "set up time synchronisation"); n != 1 || !strings.Contains(w.log.String(),
		"ahead=1h0m0s") {
		t.Errorf("%d lines name the difference, want 1 with ahead=1h0m0s: %s", n, w.log.String())
	}
	w.wall = w.store
	w.measure(t)
	if n := strings.Count(w.log.String(), "agrees with the store's again"); n != 1 {
		t.Errorf("%d lines say that the clocks agree again, want 1: %s", n, w.log.String())
	}
}
