package control_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// openAlerts returns the codes of the open alerts about the installation, sorted.
func openAlerts(w *world) string {
	w.T.Helper()
	var out []string
	for _, a := range controltest.Must[[]store.AlertState](w.T)(w.Raw.ListAlerts(w.T.Context(), store.AlertFilter{
		TenantID: "nobody", Installation: true, States: []store.AlertStage{store.AlertOpen}})) {
		out = append(out, string(a.Code))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// A process that has only the API notices that no process reconciles or starts runs, and that they are back.
func TestBeat_AnotherProcessNoticesADeadDuty(t *testing.T) {
	t.Parallel()
	log := &safeBuffer{}
	w := newWorld(t, func(c *usecases.Config) {
		c.Beats = control.BeatSettings{Every: 20 * time.Millisecond, AbsentAfter: 30 * time.Second}
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	alive := usecases.New(w.Config) // the process whose duties die
	alive.Mark(control.DutyReconcile)
	stopDuties := []func(){w.Spawn(func(ctx context.Context) error { return alive.Dispatch(ctx, "alive") }),
		w.Spawn(func(ctx context.Context) error { return alive.Beat(ctx, "alive") })}
	// The third is the state of the breaker of starts.
	controltest.Eventually(t, "heartbeats of two duties and of the breaker", func() bool {
		return len(controltest.Must[[]store.Heartbeat](t)(w.Raw.Heartbeats(t.Context()))) == 3
	})
	for _, stop := range stopDuties {
		stop()
	}
	w.Spawn(func(ctx context.Context) error { return w.Beat(ctx, "watcher") })
	time.Sleep(100 * time.Millisecond) // the watcher begins
	w.CreateQueued("r1", "s1")
	w.Clock.Advance(25 * time.Second)
	time.Sleep(200 * time.Millisecond)
	if got := openAlerts(w); got != "" {
		t.Errorf("after 25 s the alerts are %q, want none", got)
	}
	w.Clock.Advance(10 * time.Second)
	controltest.Eventually(t, "alerts about the reconciler and the dispatcher", func() bool {
		got := openAlerts(w)
		return strings.Contains(got, string(run.CodeReconcilerAbsent)) &&
			strings.Contains(got, string(run.CodeDispatcherAbsent))
	})
	if got := openAlerts(w); strings.Contains(got, string(run.CodeWorkerAbsent)) {
		t.Errorf("the alerts are %q; no worker was ever there, so none is absent", got)
	}
	alive.Mark(control.DutyReconcile)
	w.Spawn(func(ctx context.Context) error { return alive.Beat(ctx, "alive") })
	controltest.Eventually(t, "the reconciler is back", func() bool {
		return !strings.Contains(openAlerts(w), string(run.CodeReconcilerAbsent))
	})
	controltest.Eventually(t, "one line of the log about the alert and one about its end", func() bool {
		return strings.Count(log.String(), string(run.CodeReconcilerAbsent)) >= 2
	})
	if lines := strings.Count(log.String(), string(run.CodeReconcilerAbsent)); lines != 2 {
		t.Errorf("%d lines of the log are about the reconciler, want 2:\n%s", lines, log.String())
	}
}

// Processes that were frozen together continue one after the other. The first one must not report the second one.
func TestBeat_AProcessThatWasFrozenDoesNotJudgeAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) {
		c.Beats = control.BeatSettings{Every: 500 * time.Millisecond, AbsentAfter: 30 * time.Second}
	})
	beatOfOther := func() {
		t.Helper()
		err := w.Raw.Beat(t.Context(), "other", []string{control.DutyProject, control.DutyDispatch, control.DutyDeliver,
			control.DutyReconcile})
		if err != nil {
			t.Fatal(err)
		}
	}
	afterRound := func(advance time.Duration) {
		t.Helper()
		w.Clock.Advance(advance)
		now := w.Clock.Now()
		controltest.Eventually(t, "the next round of the process", func() bool {
			return slices.ContainsFunc(controltest.Must[[]store.Heartbeat](t)(w.Raw.Heartbeats(t.Context())),
				func(b store.Heartbeat) bool { return b.Duty == "own" && !b.At.Before(now) })
		})
	}
	beatOfOther()
	w.Spawn(func(ctx context.Context) error { return w.Beat(ctx, "frozen", "own") })
	afterRound(100 * time.Millisecond)
	afterRound(40 * time.Second)
	beatOfOther()
	for range 2 { // the second round begins after the check of the first one
		afterRound(100 * time.Millisecond)
	}
	all := controltest.Must[[]store.AlertState](t)(w.Raw.ListAlerts(t.Context(), store.AlertFilter{
		TenantID: "nobody", Installation: true}))
	if len(all) > 0 {
		t.Errorf("the process that was frozen raised %s about processes that were frozen with it", all[0].Code)
	}
}

// While the store is away no process can write a heartbeat. When it is back, all heartbeats are old, and nobody is
// absent.
func TestBeat_AnOutageOfTheStoreIsNoAbsence(t *testing.T) {
	t.Parallel()
	o := &outage{}
	w := newWorld(t, func(c *usecases.Config) {
		o.Store, c.Store = c.Store, o
		c.Beats = control.BeatSettings{Every: 20 * time.Millisecond, AbsentAfter: 30 * time.Second}
	})
	if err := w.Raw.Beat(t.Context(), "alive", []string{control.DutyReconcile, control.DutyControlWorker}); err != nil {
		t.Fatal(err)
	}
	w.CreateRunning("r1", "s1")
	w.Spawn(func(ctx context.Context) error { return w.Beat(ctx, "watcher") })
	time.Sleep(100 * time.Millisecond)
	o.down.Store(true)
	w.Clock.Advance(45 * time.Second)
	time.Sleep(100 * time.Millisecond) // at least one round that fails
	o.down.Store(false)
	time.Sleep(200 * time.Millisecond) // the processes with the duties write their next heartbeat later
	if got := openAlerts(w); got != "" {
		t.Errorf("right after the outage the alerts are %q, want none", got)
	}
	w.Clock.Advance(31 * time.Second)
	controltest.Eventually(t, "the alerts about duties that do not come back", func() bool {
		got := openAlerts(w)
		return strings.Contains(got, string(run.CodeReconcilerAbsent)) && strings.Contains(got, string(run.CodeWorkerAbsent))
	})
}
