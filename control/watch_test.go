package control_test

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
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// open returns a stream that is closed at the end of the test.
func open[T any](t *testing.T) func(control.Stream[T], error) control.Stream[T] {
	return func(s control.Stream[T], err error) control.Stream[T] {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
}

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
	w.directory.SetGrants("acme", id, nil)
	if err := w.authz.Swap(authz.DefaultPolicy()); err != nil {
		w.t.Error(err)
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
			id := w.running("s16", "s1")
			w.send(w.eng(), signal(id, "u1", run.Pause))

			pending, err := watch(w, w.who("dev-viewer"), id) // has a first frame that was not read
			if err != nil {
				t.Fatal(err)
			}
			blocked, err := watch(w, w.who("shop-viewer"), id) // waits in Next when the right is lost
			if err != nil {
				t.Fatal(err)
			}
			result := make(chan error, 1)
			go func() { _, err := blocked(); result <- err }()
			time.Sleep(100 * time.Millisecond)
			w.demote("dev-viewer")
			w.append(id, runtest.Draft(run.RunPaused, "", 1))
			if n, err := pending(); n != 0 {
				t.Errorf("%d frames followed the loss of the right, want none", n)
			} else {
				refusal(t, err, run.CodeForbidden)
			}
			began := time.Now()
			w.demote("shop-viewer")
			refusal(t, <-result, run.CodeForbidden)
			if took := time.Since(began); took > testtime.Of(time.Second) {
				t.Errorf("the stream ended after %s, want it at once", took)
			}
			if !w.audited("acme", "dev-viewer READ DENIED FORBIDDEN") {
				t.Errorf("the audit has no row of the lost right: %v", w.audit("acme"))
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
	id := w.running("s16", "s1")
	s := open[watch.StepLogFrame](t)(w.WatchStepLog(t.Context(), w.who("dev-viewer"),
		reads.StepLogQuery{RunID: id, StepID: "s1"}))
	n, err := ends(s)
	refusal(t, err, run.CodeForbidden)
	if n != 0 {
		t.Errorf("%d frames followed the loss of the right, want none", n)
	}
}

// contract: T178
func TestWatchRun_EndsWhenTheTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("expiry", "s1")
	p := w.eng()
	w.clock.hold() // until the first frame was read
	p.ExpiresAt = w.clock.now().Add(500 * time.Millisecond)
	s := open[live.Frame](t)(w.WatchRun(t.Context(), p, watch.WatchRun{RunID: id}))
	take(t, s, "the first frame", func(live.Frame) bool { return true })
	w.clock.release()
	_, err := ends(s)
	refusal(t, err, run.CodeTokenExpired)
	if late := w.clock.now().Sub(p.ExpiresAt); late < 0 || late > testtime.Of(time.Second) {
		t.Errorf("the stream ended %s after the token expired, want at once", late)
	}
}

// contract: T178
func TestWatchRun_RechecksRightsWithoutANotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.RightsCheckInterval = 50 * time.Millisecond })
	id := w.running("recheck", "s1")
	s := open[live.Frame](t)(w.WatchRun(t.Context(), w.who("dev-viewer"), watch.WatchRun{RunID: id}))
	w.directory.SetGrants("acme", "dev-viewer", nil) // without a notification
	began := time.Now()
	_, err := ends(s)
	refusal(t, err, run.CodeForbidden)
	if took := time.Since(began); took > testtime.Of(time.Second) {
		t.Errorf("the stream ended after %s, want within Recheck", took)
	}
}

func TestWatchRun_ShowsChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("watch", "s1")
	s := open[live.Frame](t)(w.WatchRun(t.Context(), w.eng(), watch.WatchRun{RunID: id}))
	take(t, s, "running", func(f live.Frame) bool { return f.Sync == live.Live && f.State.Status == run.Running })
	w.finish(id, "s1", 1, run.StepCompletedEvent)
	w.append(id, runtest.Draft(run.RunCompleted, "", 1))
	take(t, s, "completed", func(f live.Frame) bool { return f.Sync == live.Live && f.State.Status == run.Completed })
}

func TestWatchEvents_EachOnceInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var steps []string
	for i := range 60 {
		steps = append(steps, fmt.Sprintf("p%d", i))
	}
	id := w.running("events", steps...)
	after := run.Seq(1)
	first := open[watch.EventsFrame](t)(w.WatchEvents(t.Context(), w.eng(), watch.WatchRun{RunID: id}))
	second := open[watch.EventsFrame](t)(w.WatchEvents(t.Context(), w.eng(),
		watch.WatchRun{RunID: id, After: &after}))
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for _, s := range steps[i*15 : (i+1)*15] {
				w.finish(id, s, 1, run.StepCompletedEvent)
			}
		})
	}
	const last = 2 + 2*60
	read := func(s control.Stream[watch.EventsFrame], from run.Seq) {
		next := from + 1
		take(t, s, "every event", func(f watch.EventsFrame) bool {
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
	eventually(t, "the store answers a busy machine", func() bool {
		opened, err := w.WatchEvents(t.Context(), w.eng(), watch.WatchRun{RunID: id, After: &ahead})
		if err != nil {
			refusal(t, err, run.CodeStoreUnavailable)
		}
		third = opened
		return err == nil
	})
	t.Cleanup(third.Close)
	f := take(t, third, "a reset", func(f watch.EventsFrame) bool { return f.Reset || len(f.Events) > 0 })
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
	id := w.running("down", "s1")
	s := open[watch.EventsFrame](t)(w.WatchEvents(t.Context(), w.eng(), watch.WatchRun{RunID: id}))
	if err := w.raw.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		take(t, s, "STALE(STORE_DOWN)", func(f watch.EventsFrame) bool {
			return f.Sync == live.Stale &&
				f.Reason == live.StoreDown
		})
	}
}

func runIDs(f watch.RunsFrame) (out []string) {
	for _, r := range f.Runs {
		out = append(out, r.State.RunID)
	}
	return out
}

func TestWatchRuns_RowsEnterChangeAndLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running("a", "s1")
	eventually(t, "projected", func() bool {
		return len(must[control.RunsPage](t)(
			w.Runs(t.Context(), w.eng(), control.RunsQuery{
				Filter: control.RunFilter{Statuses: []run.Status{run.Running}}})).Runs) == 1
	})
	all := open[watch.RunsFrame](t)(w.WatchRuns(t.Context(), w.who("two-viewer"), control.RunsQuery{First: 2}))
	only := open[watch.RunsFrame](t)(w.WatchRuns(t.Context(), w.who("shop-viewer"),
		control.RunsQuery{Filter: control.RunFilter{Statuses: []run.Status{run.Running}}}))
	for _, s := range []control.Stream[watch.RunsFrame]{all, only} {
		f := take(t, s, "the page", func(watch.RunsFrame) bool { return true })
		if diff := cmp.Diff([]string{a}, runIDs(f)); diff != "" || !f.Reset || f.Sync != live.Live {
			t.Errorf("the first frame is %+v, want a LIVE reset with the run", f)
		}
	}
	b := w.queued("b", "s1")
	take(t, all, "b enters", func(f watch.RunsFrame) bool { return cmp.Equal(runIDs(f), []string{b}) && !f.Reset })
	w.finish(a, "s1", 1, run.StepCompletedEvent)
	w.append(a, runtest.Draft(run.RunCompleted, "", 1))
	take(t, all, "a changes", func(f watch.RunsFrame) bool {
		return len(f.Runs) == 1 && f.Runs[0].State.RunID == a && f.Runs[0].State.Status == run.Completed
	})
	take(t, only, "a leaves", func(f watch.RunsFrame) bool { return cmp.Equal(f.Removed, []string{a}) })
	c := w.queued("c", "s1")
	take(t, all, "c pushes a out", func(f watch.RunsFrame) bool {
		return cmp.Equal(runIDs(f), []string{c}) && cmp.Equal(f.Removed, []string{a})
	})
	w.inProject("hidden", "bank", "dev")

	// The rights shrink to one project: the page is sent again without the lost rows.
	d := w.inProject("d", "store", "dev")
	take(t, all, "d enters", func(f watch.RunsFrame) bool { return cmp.Equal(runIDs(f), []string{d}) })
	w.directory.SetGrants("acme", "two-viewer", []authz.Grant{{Role: authz.Viewer, ProjectID: "shop",
		EnvironmentID: "*"}})
	if err := w.authz.Swap(authz.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	f := take(t, all, "a reset", func(f watch.RunsFrame) bool { return f.Reset })
	if diff := cmp.Diff([]string{c, b}, runIDs(f)); diff != "" {
		t.Errorf("after the loss (-want +got):\n%s", diff)
	}

	// The store gets another history.
	if err := w.raw.BumpEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	take(t, all, "another epoch", func(f watch.RunsFrame) bool { return f.Reset })
	if err := w.raw.Close(); err != nil {
		t.Fatal(err)
	}
	take(t, all, "STALE", func(f watch.RunsFrame) bool { return f.Sync == live.Stale && f.Reason == live.StoreDown })

	_, err := w.WatchRuns(t.Context(), w.who("nobody"), control.RunsQuery{})
	refusal(t, err, run.CodeForbidden)
}

func TestWatchReceipts_SendsEachChangeOfAReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("receipts", "s1")
	w.send(w.eng(), signal(id, "u1", run.Pause))
	one := open[runs.SignalReceipt](t)(w.WatchReceipts(t.Context(), w.who("dev-viewer"), id, "u1"))
	all := open[runs.SignalReceipt](t)(w.WatchReceipts(t.Context(), w.eng(), id, ""))
	for _, s := range []control.Stream[runs.SignalReceipt]{one, all} {
		take(t, s, "u1 pending", func(r runs.SignalReceipt) bool {
			return r.Signal.ID == "u1" &&
				r.Application == run.SignalPending
		})
	}
	w.spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	take(t, one, "delivered", func(r runs.SignalReceipt) bool { return r.Application == run.SignalDelivered })
	applied := runtest.Draft(run.RunPaused, "u1", 1)
	applied.EmittedAt = w.clock.now()
	w.applied(id, "u1", applied)
	for _, s := range []control.Stream[runs.SignalReceipt]{one, all} {
		take(t, s, "u1 applied", func(r runs.SignalReceipt) bool {
			return r.Application == run.SignalApplied &&
				r.AppliedSeq == 4
		})
	}
	w.send(w.eng(), signal(id, "u2", run.Resume))
	take(t, all, "u2", func(r runs.SignalReceipt) bool { return r.Signal.ID == "u2" })
	_, err := w.WatchReceipts(t.Context(), w.eng(), id, "nothing")
	refusal(t, err, run.CodeNotFound)
}

func TestWatchStepLog_CompleteAfterTheLastLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("log", "s1")
	w.begin(id, "s1", 1)
	log := artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}
	s := open[watch.StepLogFrame](t)(w.WatchStepLog(t.Context(), w.who("dev-viewer"),
		reads.StepLogQuery{RunID: id, StepID: "s1", FromLine: 2}))
	var got int64
	write := func() {
		for i := 1; i <= 2500; i += 50 {
			if err := w.artifacts.Append(t.Context(), log, 1, int64(i), lines(i, i+49)); err != nil {
				t.Error(err)
			}
		}
		w.append(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
	}
	var writing sync.WaitGroup
	writing.Go(write)
	next := int64(2)
	take(t, s, "complete", func(f watch.StepLogFrame) bool {
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
	long := open[watch.StepLogFrame](t)(
		w.WatchStepLog(t.Context(), w.eng(), reads.StepLogQuery{RunID: id, StepID: "s1"}))
	seen := 0
	take(t, long, "complete", func(f watch.StepLogFrame) bool { seen += len(f.Lines); return f.Complete })
	if seen != 2500 {
		t.Errorf("the stream is complete after %d lines, want all", seen)
	}
	// A finished log is complete in the first frame.
	again := open[watch.StepLogFrame](t)(
		w.WatchStepLog(t.Context(), w.eng(), reads.StepLogQuery{RunID: id, StepID: "s1", FromLine: 2400}))
	f := take(t, again, "the end", func(watch.StepLogFrame) bool { return true })
	if !f.Complete || len(f.Lines) != 101 {
		t.Errorf("the first frame is complete: %t, with %d lines; want it complete with the last lines",
			f.Complete, len(f.Lines))
	}
}

// A viewer of a log reads the whole state once and then only the changes of the run.
// contract: T212
func TestWatchStepLog_ReadsOnlyTheChangesOfTheRun(t *testing.T) {
	t.Parallel()
	var counted *readCounter
	restored := &restoredStore{}
	w := newWorld(t, func(c *usecases.Config) {
		counted = &readCounter{Store: c.Store}
		restored.Store = counted
		c.Store, c.KeepAlive = restored, 10*time.Millisecond
	})
	for name, end := range map[string]func(id string){
		"step-ends": func(id string) { w.append(id, runtest.Draft(run.StepFailedEvent, "s1", 1)) },
		"put-back": func(id string) {
			restored.ahead.Store(false)
			if err := w.raw.BumpEpoch(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.append(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
		},
		"run-ends": func(id string) { w.append(id, runtest.Draft(run.RunCancelled, "", 1)) },
	} {
		id := w.running(name, "s1", "s2")
		w.begin(id, "s1", 1)
		restored.ahead.Store(name == "put-back")
		counted.loads.Store(0)
		s := open[watch.StepLogFrame](t)(
			w.WatchStepLog(t.Context(), w.eng(), reads.StepLogQuery{RunID: id, StepID: "s1"}))
		if took := counted.loads.Swap(0); took != 1 {
			t.Errorf("%s: opening the stream read the state %d times, want once", name, took)
		}
		for asked := time.Now(); time.Since(asked) < 1100*time.Millisecond; {
			if take(t, s, "a frame", func(watch.StepLogFrame) bool { return true }).Complete {
				t.Fatalf("%s: the stream is complete too early", name)
			}
		}
		w.finish(id, "s2", 1, run.StepCompletedEvent)
		end(id)
		take(t, s, "complete", func(f watch.StepLogFrame) bool { return f.Complete })
		if more := counted.loads.Load(); more != 0 {
			t.Errorf("%s: the stream read the whole state %d times more, want none", name, more)
		}
	}
}

func TestWatch_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.running("ctx", "s1")
	s := open[live.Frame](t)(w.WatchRun(t.Context(), w.eng(), watch.WatchRun{RunID: id}))
	take(t, s, "the first", func(live.Frame) bool { return true })
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
