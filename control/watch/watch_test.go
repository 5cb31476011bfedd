package watch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// ends reads until the stream ends. It returns the number of frames and the error.
func ends[T any](s control.Stream[T]) (frames int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if _, err = s.Next(ctx); err != nil {
			return frames, err
		}
		frames++
	}
}

// demote removes all rights of a principal.
func (w *world) demote(id string) {
	w.Directory.SetGrants("acme", id, nil)
	if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
		w.T.Error(err)
	}
}

// No frame follows the loss of the right, for every kind of stream.
// contract: S16
func TestWatch_NoFrameFollowsTheLossOfTheRight(t *testing.T) {
	t.Parallel()
	for name, watch := range map[string]func(*world, authz.Principal, string) (func() (int, error), error){
		"run": func(w *world, p authz.Principal, id string) (func() (int, error), error) {
			s, err := w.WatchRun(context.Background(), p, watch.WatchRun{RunID: id})
			return func() (int, error) { defer s.Close(); return ends(s) }, err
		},
		"events": func(w *world, p authz.Principal, id string) (func() (int, error), error) {
			s, err := w.WatchEvents(context.Background(), p, watch.WatchRun{RunID: id})
			return func() (int, error) { defer s.Close(); return ends(s) }, err
		},
		"runs": func(w *world, p authz.Principal, _ string) (func() (int, error), error) {
			s, err := w.WatchRuns(context.Background(), p, control.RunsQuery{})
			return func() (int, error) { defer s.Close(); return ends(s) }, err
		},
		"inbox": func(w *world, p authz.Principal, _ string) (func() (int, error), error) {
			s, err := w.WatchInbox(context.Background(), p)
			return func() (int, error) { defer s.Close(); return ends(s) }, err
		},
		"receipts": func(w *world, p authz.Principal, id string) (func() (int, error), error) {
			s, err := w.WatchReceipts(context.Background(), p, id, "")
			return func() (int, error) { defer s.Close(); return ends(s) }, err
		},
		"log": func(w *world, p authz.Principal, id string) (func() (int, error), error) {
			s, err := w.WatchStepLog(context.Background(), p, reads.StepLogQuery{RunID: id, StepID: "s1"})
			return func() (int, error) { defer s.Close(); return ends(s) }, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.CreateRunning("s16", "s1")
			w.Send(w.Engineer(), controltest.SignalOf(id, "u1", run.Pause))

			pending, err := watch(w, w.Principal("dev-viewer"), id) // has a first frame that was not read
			if err != nil {
				t.Fatal(err)
			}
			blocked, err := watch(w, w.Principal("shop-viewer"), id) // waits in Next when the right is lost
			if err != nil {
				t.Fatal(err)
			}
			result := make(chan error, 1)
			go func() { _, err := blocked(); result <- err }()
			time.Sleep(100 * time.Millisecond)
			w.demote("dev-viewer")
			w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
			if n, err := pending(); n != 0 {
				t.Errorf("%d frames followed the loss of the right, want none", n)
			} else {
				controltest.Refusal(t, err, run.CodeForbidden)
			}
			began := time.Now()
			w.demote("shop-viewer")
			controltest.Refusal(t, <-result, run.CodeForbidden)
			if took := time.Since(began); took > testtime.Of(time.Second) {
				t.Errorf("the stream ended after %s, want it at once", took)
			}
			if !w.HasAuditRow("acme", "dev-viewer READ DENIED FORBIDDEN") {
				t.Errorf("the audit has no row of the lost right: %v", w.AuditRows("acme"))
			}
		})
	}
}

// revokingLogs removes the viewer's rights while a frame is read.
type revokingLogs struct {
	artifact.Logs
	revoke func()
}

func (l revokingLogs) Read(ctx context.Context, id artifact.AttemptID, from int64, limit int) (artifact.Page, error) {
	l.revoke()
	return l.Logs.Read(context.WithoutCancel(ctx), id, from, limit)
}

// Data that was read under a right that is gone is not sent.
// contract: S16
func TestWatch_AFrameReadUnderALostRightIsNotSent(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, func(c *usecases.Config) {
		c.Logs = revokingLogs{c.Logs, func() { w.demote("dev-viewer") }}
	})
	id := w.CreateRunning("s16", "s1")
	s := controltest.OpenStream[watch.StepLogFrame](t)(w.WatchStepLog(t.Context(), w.Principal("dev-viewer"),
		reads.StepLogQuery{RunID: id, StepID: "s1"}))
	n, err := ends(s)
	controltest.Refusal(t, err, run.CodeForbidden)
	if n != 0 {
		t.Errorf("%d frames followed the loss of the right, want none", n)
	}
}

// contract: T178
func TestWatchRun_EndsWhenTheTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("expiry", "s1")
	p := w.Engineer()
	w.Clock.Hold() // until the first frame was read
	p.ExpiresAt = w.Clock.Now().Add(500 * time.Millisecond)
	s := controltest.OpenStream[live.Frame](t)(w.WatchRun(t.Context(), p, watch.WatchRun{RunID: id}))
	controltest.TakeFrame(t, s, "the first frame", func(live.Frame) bool { return true })
	w.Clock.Release()
	_, err := ends(s)
	controltest.Refusal(t, err, run.CodeTokenExpired)
	if late := w.Clock.Now().Sub(p.ExpiresAt); late < 0 || late > testtime.Of(time.Second) {
		t.Errorf("the stream ended %s after the token expired, want at once", late)
	}
}

// contract: T178
func TestWatchRun_RechecksRightsWithoutANotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.RightsCheckInterval = 50 * time.Millisecond })
	id := w.CreateRunning("recheck", "s1")
	s := controltest.OpenStream[live.Frame](t)(w.WatchRun(t.Context(), w.Principal("dev-viewer"),
		watch.WatchRun{RunID: id}))
	w.Directory.SetGrants("acme", "dev-viewer", nil) // without a notification
	began := time.Now()
	_, err := ends(s)
	controltest.Refusal(t, err, run.CodeForbidden)
	if took := time.Since(began); took > testtime.Of(time.Second) {
		t.Errorf("the stream ended after %s, want within Recheck", took)
	}
}

func TestWatchRun_ShowsChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("watch", "s1")
	s := controltest.OpenStream[live.Frame](t)(w.WatchRun(t.Context(), w.Engineer(), watch.WatchRun{RunID: id}))
	controltest.TakeFrame(t, s, "running", func(f live.Frame) bool {
		return f.Sync == live.Live &&
			f.State.Status == run.Running
	})
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	w.AppendEvents(id, runtest.Draft(run.RunCompleted, "", 1))
	controltest.TakeFrame(t, s, "completed", func(f live.Frame) bool {
		return f.Sync == live.Live &&
			f.State.Status == run.Completed
	})
}

func TestWatchEvents_EachOnceInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var steps []string
	for i := range 60 {
		steps = append(steps, fmt.Sprintf("p%d", i))
	}
	id := w.CreateRunning("events", steps...)
	after := run.Seq(1)
	first := controltest.OpenStream[watch.EventsFrame](t)(w.WatchEvents(t.Context(), w.Engineer(),
		watch.WatchRun{RunID: id}))
	second := controltest.OpenStream[watch.EventsFrame](t)(w.WatchEvents(t.Context(), w.Engineer(),
		watch.WatchRun{RunID: id, After: &after}))
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for _, s := range steps[i*15 : (i+1)*15] {
				w.FinishStep(id, s, 1, run.StepCompletedEvent)
			}
		})
	}
	const last = 2 + 2*60
	read := func(s control.Stream[watch.EventsFrame], from run.Seq) {
		next := from + 1
		controltest.TakeFrame(t, s, "every event", func(f watch.EventsFrame) bool {
			for _, e := range f.Events {
				if e.Seq != next {
					t.Errorf("after %d: event %d, want %d", from, e.Seq, next)
				}
				next = e.Seq + 1
			}
			if f.HeadSeq < next-1 {
				t.Errorf("the frame has the head %d below the last event, %d", f.HeadSeq, next-1)
			}
			return next > last
		})
	}
	read(second, 1)
	read(first, 0)
	writers.Wait()

	ahead := run.Seq(9999)
	var third control.Stream[watch.EventsFrame]
	controltest.Eventually(t, "the store answers a busy machine", func() bool {
		opened, err := w.WatchEvents(t.Context(), w.Engineer(), watch.WatchRun{RunID: id, After: &ahead})
		if err != nil {
			controltest.Refusal(t, err, run.CodeStoreUnavailable)
		}
		third = opened
		return err == nil
	})
	t.Cleanup(third.Close)
	f := controltest.TakeFrame(t, third, "a reset", func(f watch.EventsFrame) bool { return f.Reset || len(f.Events) > 0 })
	if !f.Reset {
		t.Error("a position ahead of the log is not reset")
	}
	if len(f.Events) == 0 {
		read(third, 0)
	}
}

// While the store is unavailable, the stream is STALE and does not end.
func TestWatchEvents_IsStaleWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("down", "s1")
	s := controltest.OpenStream[watch.EventsFrame](t)(w.WatchEvents(t.Context(), w.Engineer(), watch.WatchRun{RunID: id}))
	if err := w.Raw.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		controltest.TakeFrame(t, s, "STALE(STORE_DOWN)", func(f watch.EventsFrame) bool {
			return f.Sync == live.Stale &&
				f.Reason == live.StoreDown
		})
	}
}

func TestWatchRuns_RowsEnterChangeAndLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.CreateRunning("a", "s1")
	controltest.Eventually(t, "projected", func() bool {
		return len(controltest.Must[control.RunsPage](t)(
			w.Runs(t.Context(), w.Engineer(), control.RunsQuery{
				Filter: control.RunFilter{Statuses: []run.Status{run.Running}}})).Runs) == 1
	})
	all := controltest.OpenStream[watch.RunsFrame](t)(w.WatchRuns(t.Context(), w.Principal("two-viewer"),
		control.RunsQuery{First: 2}))
	only := controltest.OpenStream[watch.RunsFrame](t)(w.WatchRuns(t.Context(), w.Principal("shop-viewer"),
		control.RunsQuery{Filter: control.RunFilter{Statuses: []run.Status{run.Running}}}))
	for _, s := range []control.Stream[watch.RunsFrame]{all, only} {
		f := controltest.TakeFrame(t, s, "the page", func(watch.RunsFrame) bool { return true })
		if diff := cmp.Diff([]string{a}, controltest.RunIDs(f)); diff != "" || !f.Reset || f.Sync != live.Live {
			t.Errorf("the first frame is %+v, want a LIVE reset with the run", f)
		}
	}
	b := w.CreateQueued("b", "s1")
	controltest.TakeFrame(t, all, "b enters", func(f watch.RunsFrame) bool {
		return cmp.Equal(controltest.RunIDs(f),
			[]string{b}) && !f.Reset
	})
	w.FinishStep(a, "s1", 1, run.StepCompletedEvent)
	w.AppendEvents(a, runtest.Draft(run.RunCompleted, "", 1))
	controltest.TakeFrame(t, all, "a changes", func(f watch.RunsFrame) bool {
		return len(f.Runs) == 1 && f.Runs[0].State.RunID == a && f.Runs[0].State.Status == run.Completed
	})
	controltest.TakeFrame(t, only, "a leaves", func(f watch.RunsFrame) bool { return cmp.Equal(f.Removed, []string{a}) })
	c := w.CreateQueued("c", "s1")
	controltest.TakeFrame(t, all, "c pushes a out", func(f watch.RunsFrame) bool {
		return cmp.Equal(controltest.RunIDs(f), []string{c}) && cmp.Equal(f.Removed, []string{a})
	})
	w.CreateInProject("hidden", "bank", "dev")

	// The rights shrink to one project: the page is sent again without the lost rows.
	d := w.CreateInProject("d", "store", "dev")
	controltest.TakeFrame(t, all, "d enters", func(f watch.RunsFrame) bool {
		return cmp.Equal(controltest.RunIDs(f),
			[]string{d})
	})
	w.Directory.SetGrants("acme", "two-viewer", []authz.Grant{{Role: authz.Viewer, ProjectID: "shop",
		EnvironmentID: "*"}})
	if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	f := controltest.TakeFrame(t, all, "a reset", func(f watch.RunsFrame) bool { return f.Reset })
	if diff := cmp.Diff([]string{c, b}, controltest.RunIDs(f)); diff != "" {
		t.Errorf("after the loss (-want +got):\n%s", diff)
	}

	// The store gets another history.
	if err := w.Raw.BumpEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	controltest.TakeFrame(t, all, "another epoch", func(f watch.RunsFrame) bool { return f.Reset })
	if err := w.Raw.Close(); err != nil {
		t.Fatal(err)
	}
	controltest.TakeFrame(t, all, "STALE", func(f watch.RunsFrame) bool {
		return f.Sync == live.Stale &&
			f.Reason == live.StoreDown
	})

	_, err := w.WatchRuns(t.Context(), w.Principal("nobody"), control.RunsQuery{})
	controltest.Refusal(t, err, run.CodeForbidden)
}

func TestWatchReceipts_SendsEachChangeOfAReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("receipts", "s1")
	w.Send(w.Engineer(), controltest.SignalOf(id, "u1", run.Pause))
	one := controltest.OpenStream[runs.SignalReceipt](t)(w.WatchReceipts(t.Context(), w.Principal("dev-viewer"), id, "u1"))
	all := controltest.OpenStream[runs.SignalReceipt](t)(w.WatchReceipts(t.Context(), w.Engineer(), id, ""))
	for _, s := range []control.Stream[runs.SignalReceipt]{one, all} {
		controltest.TakeFrame(t, s, "u1 pending", func(r runs.SignalReceipt) bool {
			return r.Signal.ID == "u1" &&
				r.Application == run.SignalPending
		})
	}
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	controltest.TakeFrame(t, one, "delivered",
		func(r runs.SignalReceipt) bool { return r.Application == run.SignalDelivered })
	applied := runtest.Draft(run.RunPaused, "u1", 1)
	applied.EmittedAt = w.Clock.Now()
	w.ApplySignal(id, "u1", applied)
	for _, s := range []control.Stream[runs.SignalReceipt]{one, all} {
		controltest.TakeFrame(t, s, "u1 applied", func(r runs.SignalReceipt) bool {
			return r.Application == run.SignalApplied &&
				r.AppliedSeq == 4
		})
	}
	w.Send(w.Engineer(), controltest.SignalOf(id, "u2", run.Resume))
	controltest.TakeFrame(t, all, "u2", func(r runs.SignalReceipt) bool { return r.Signal.ID == "u2" })
	_, err := w.WatchReceipts(t.Context(), w.Engineer(), id, "nothing")
	controltest.Refusal(t, err, run.CodeNotFound)
}

func TestWatchStepLog_CompleteAfterTheLastLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("log", "s1")
	w.BeginStep(id, "s1", 1)
	log := artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}
	s := controltest.OpenStream[watch.StepLogFrame](t)(w.WatchStepLog(t.Context(), w.Principal("dev-viewer"),
		reads.StepLogQuery{RunID: id, StepID: "s1", FromLine: 2}))
	var got int64
	write := func() {
		for i := 1; i <= 2500; i += 50 {
			if err := w.Artifacts.Append(t.Context(), log, 1, int64(i), controltest.LogLines(i, i+49)); err != nil {
				t.Error(err)
			}
		}
		w.AppendEvents(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
	}
	var writing sync.WaitGroup
	writing.Go(write)
	next := int64(2)
	controltest.TakeFrame(t, s, "complete", func(f watch.StepLogFrame) bool {
		for _, l := range f.Lines {
			if l.No != next {
				t.Fatalf("line %d, want %d", l.No, next)
			}
			next++
		}
		got = f.Total
		return f.Complete
	})
	writing.Wait()
	if next != 2501 || got != 2500 {
		t.Errorf("the stream is complete before line %d of %d", next, got)
	}
	// A finished log that is longer than a frame is complete only with its last frame.
	long := controltest.OpenStream[watch.StepLogFrame](t)(
		w.WatchStepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id, StepID: "s1"}))
	seen := 0
	controltest.TakeFrame(t, long, "complete", func(f watch.StepLogFrame) bool { seen += len(f.Lines); return f.Complete })
	if seen != 2500 {
		t.Errorf("the stream is complete after %d lines, want all", seen)
	}
	// A finished log is complete in the first frame.
	again := controltest.OpenStream[watch.StepLogFrame](t)(
		w.WatchStepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id, StepID: "s1", FromLine: 2400}))
	f := controltest.TakeFrame(t, again, "the end", func(watch.StepLogFrame) bool { return true })
	if !f.Complete || len(f.Lines) != 101 {
		t.Errorf("the first frame is complete: %t, with %d lines; want it complete with the last lines",
			f.Complete, len(f.Lines))
	}
}

// A viewer of a log reads the whole state once and then only the changes of the run.
// contract: T212
func TestWatchStepLog_ReadsOnlyTheChangesOfTheRun(t *testing.T) {
	t.Parallel()
	var counted *controltest.ReadCounter
	restored := &restoredStore{}
	w := newWorld(t, func(c *usecases.Config) {
		counted = &controltest.ReadCounter{Store: c.Store}
		restored.Store = counted
		c.Store, c.KeepAlive = restored, 10*time.Millisecond
	})
	for name, end := range map[string]func(id string){
		"step-ends": func(id string) { w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "s1", 1)) },
		"put-back": func(id string) {
			restored.ahead.Store(false)
			if err := w.Raw.BumpEpoch(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.AppendEvents(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
		},
		"run-ends": func(id string) { w.AppendEvents(id, runtest.Draft(run.RunCancelled, "", 1)) },
	} {
		id := w.CreateRunning(name, "s1", "s2")
		w.BeginStep(id, "s1", 1)
		restored.ahead.Store(name == "put-back")
		counted.Loads.Store(0)
		s := controltest.OpenStream[watch.StepLogFrame](t)(
			w.WatchStepLog(t.Context(), w.Engineer(), reads.StepLogQuery{RunID: id, StepID: "s1"}))
		if took := counted.Loads.Swap(0); took != 1 {
			t.Errorf("%s: opening the stream read the state %d times, want once", name, took)
		}
		for asked := time.Now(); time.Since(asked) < 1100*time.Millisecond; {
			if controltest.TakeFrame(t, s, "a frame", func(watch.StepLogFrame) bool { return true }).Complete {
				t.Fatalf("%s: the stream is complete too early", name)
			}
		}
		w.FinishStep(id, "s2", 1, run.StepCompletedEvent)
		end(id)
		controltest.TakeFrame(t, s, "complete", func(f watch.StepLogFrame) bool { return f.Complete })
		if more := counted.Loads.Load(); more != 0 {
			t.Errorf("%s: the stream read the whole state %d times more, want none", name, more)
		}
	}
}

func TestWatch_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("ctx", "s1")
	s := controltest.OpenStream[live.Frame](t)(w.WatchRun(t.Context(), w.Engineer(), watch.WatchRun{RunID: id}))
	controltest.TakeFrame(t, s, "the first", func(live.Frame) bool { return true })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var err error
	for err == nil { // frames that were ready may come first
		_, err = s.Next(ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream ended with %v, want DeadlineExceeded", err)
	}
}
