package interp_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// bucket is what the heavy steps of a world take tokens of: those whose id begins with h.
type bucket struct {
	w      *world
	tokens int
	every  time.Duration
	fresh  time.Time // since when there is one more
	asked  int
}

func (b *bucket) take(stepID string) time.Duration {
	if stepID[0] != 'h' {
		return 0
	}
	b.asked++
	for b.tokens == 0 && !b.w.now.Before(b.fresh) {
		b.tokens, b.fresh = 1, b.fresh.Add(b.every)
	}
	if b.tokens == 0 {
		return b.fresh.Sub(b.w.now)
	}
	b.tokens--
	return 0
}

func throttledWorld(t *testing.T, tokens int, policy run.Policy, specs ...string) (*world, *bucket) {
	t.Helper()
	w := newWorld(t, steps(specs...), policy)
	w.doubled = true
	b := &bucket{w: w, tokens: tokens, every: 2 * time.Second, fresh: w.now.Add(2 * time.Second)}
	w.throttle = b.take
	return w.start(), b
}

// arriveAll lets every execution that was dispatched ask whether to begin.
func (w *world) arriveAll() {
	w.tb.Helper()
	for more := true; more; {
		more = false
		for _, f := range w.flights {
			if !f.began {
				w.arrive(f)
				w.record()
				more = true
				break
			}
		}
	}
}

func (w *world) isState(status run.Status, flights string) {
	w.tb.Helper()
	if w.state.Status != status || w.inFlight() != flights {
		w.tb.Fatalf("%s with %q in flight, want %s with %q", w.state.Status, w.inFlight(), status, flights)
	}
}

// Q10: a step over the quota waits by timer and is executed as the same attempt; others go on.
// contract: Q10, T113
func TestThrottled_WaitsByTimerAndRuns(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 2, calm, "h1", "h2", "h3", "x", "y<h3")
	w.arriveAll()
	w.isState(run.Running, "h1 h2 x")
	if s, _ := w.state.Step("h3"); s != nil && s.Status != run.StepPending {
		t.Fatalf("h3 is %s", s.Status)
	}
	if at := w.timers[interp.TimerDelay]; !at.Equal(w.now.Add(2 * time.Second)) {
		t.Fatalf("the timer is at %v", at)
	}
	w.succeed("h1", "h2", "x")
	w.isState(run.Running, "")
	w.fire(interp.TimerDelay)
	w.isState(run.Running, "h3")
	w.arriveAll()
	w.succeed("h3", "y")
	w.isState(run.Completed, "")
	for _, line := range w.story() {
		if line == "9 StepStarted(h3,2)" {
			t.Error("it is another attempt")
		}
	}
}

// A step without a token takes no place of the width.
// contract: T113
func TestThrottled_TakesNoPlace(t *testing.T) {
	t.Parallel()
	narrow := calm
	narrow.MaxParallelSteps = 1
	w, _ := throttledWorld(t, 0, narrow, "h1", "h2", "x", "y")
	w.arriveAll()
	w.isState(run.Running, "x")
	w.succeed("x")
	w.isState(run.Running, "y")
	w.fire(interp.TimerDelay)
	w.isState(run.Running, "y")
	w.succeed("y")
	w.isState(run.Running, "h1")
}

// T175: it does not hold up a pause, starts nothing while it lasts, and goes on after it.
// contract: T175
func TestThrottled_PauseDoesNotDrainIt(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, calm, "h1", "x")
	w.arriveAll()
	w.signal(run.Pause, "p", "")
	w.succeed("x")
	w.isState(run.Paused, "")
	w.fire(interp.TimerDelay)
	w.isState(run.Paused, "")
	w.signal(run.Resume, "r", "")
	w.isState(run.Running, "h1")
	w.arriveAll()
	w.succeed("h1")
	w.isState(run.Completed, "")
}

// contract: T175
func TestThrottled_PauseAndResumeWhileItWaits(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, calm, "h1")
	w.arriveAll()
	w.signal(run.Pause, "p", "")
	w.signal(run.Resume, "r", "")
	w.isState(run.Running, "")
	w.fire(interp.TimerDelay)
	w.arriveAll()
	w.succeed("h1")
	w.isState(run.Completed, "")
}

// contract: T113
func TestThrottled_StopSkipAndFailure(t *testing.T) {
	t.Parallel()
	for _, stop := range []run.SignalType{run.Cancel, run.EmergencyStop} {
		w, _ := throttledWorld(t, 0, calm, "h1", "h2")
		w.arriveAll()
		w.signal(stop, "s", "")
		w.isState(run.Cancelled, "")
	}
	w, _ := throttledWorld(t, 0, calm, "h1", "h2<h1")
	w.arriveAll()
	w.signal(run.SkipStep, "s", "h1")
	w.isState(run.Running, "h2")
	if r := w.receipts["s"]; r.app != run.SignalApplied {
		t.Fatalf("skip is %+v", r)
	}
	if at := w.timers[interp.TimerDelay]; !at.IsZero() {
		t.Errorf("the timer is at %v though nobody waits", at)
	}
	w.now = w.now.Add(time.Minute)
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerDelay}) // of the wait that the skip ended
	w.isState(run.Running, "h2")
	w.arriveAll()
	w.succeed("h2")
	w.isState(run.Completed, "")

	short := calm
	short.RetryWindowMS = 0
	w, _ = throttledWorld(t, 0, short, "h1", "x")
	w.arriveAll()
	w.fail("x", "BROKEN") // fail-fast: what waits for a token never starts, and is not waited for
	w.isState(run.Failed, "")
}

// A step that somebody retries waits as the attempt that the signal caused, and the run
// does not end meanwhile.
// contract: T217
func TestThrottled_ARetryWaitsToo(t *testing.T) {
	t.Parallel()
	w, b := throttledWorld(t, 1, calm, "h1", "x<h1")
	w.fail("h1", "BROKEN")
	b.every, b.fresh = time.Hour, w.now.Add(time.Hour)
	w.signal(run.RetryStep, "again", "h1")
	w.arriveAll()
	w.isState(run.Running, "")
	if r := w.receipts["again"]; r.app.Final() {
		t.Fatalf("the retry is %+v before it begins", r)
	}
	for range 3 { // asked again each minute, whatever the bucket said
		before := w.now
		w.fire(interp.TimerDelay)
		w.arriveAll()
		if w.now.Sub(before) > time.Minute {
			t.Fatalf("asked again after %v", w.now.Sub(before))
		}
		w.isState(run.Running, "")
	}
	b.tokens = 1
	w.fire(interp.TimerDelay)
	w.arriveAll()
	if r := w.receipts["again"]; r.app != run.SignalApplied {
		t.Fatalf("the retry is %+v", r)
	}
	w.succeed("h1", "x")
	w.isState(run.Completed, "")
}

// What goes into the history grows with the tokens: a hundred that wait ask about once
// for each token, not each of them for each.
// contract: T113
func TestThrottled_AsksAsOftenAsThereAreTokens(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 100 {
		specs = append(specs, fmt.Sprintf("h%03d", i))
	}
	w, b := throttledWorld(t, 10, calm, specs...)
	for fired := 0; w.state.Status == run.Running; fired++ {
		if w.arriveAll(); len(w.flights) > 0 {
			w.succeed(w.flights[0].stepID)
			continue
		}
		if fired > 1000 {
			t.Fatalf("no end; the log is %v", w.story())
		}
		w.fire(interp.TimerDelay)
	}
	if w.state.Status != run.Completed {
		t.Fatalf("the run is %s", w.state.Status)
	}
	if took, most := w.now.Sub(epoch), 92*2*time.Second; took > most {
		t.Errorf("90 tokens took %v, at most %v", took, most)
	}
	if b.asked > 100+2*90 {
		t.Errorf("asked %d times", b.asked)
	}
}

// A quota that was raised is noticed, though each step that asks is let in.
// contract: T113
func TestThrottled_NoticesAHigherQuota(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 200 {
		specs = append(specs, fmt.Sprintf("h%03d", i))
	}
	w, b := throttledWorld(t, 0, calm, specs...)
	w.arriveAll()
	b.tokens = 1000
	for fired := range 20 {
		w.fire(interp.TimerDelay)
		w.arriveAll()
		for len(w.flights) > 0 {
			w.succeed(w.flights[0].stepID)
		}
		if w.state.Status == run.Completed {
			t.Logf("after %d firings", fired+1)
			return
		}
	}
	t.Fatal("they ask one by one")
}

// contract: T195
func TestResume_DelayedStepsWaitOn(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("h1", "x", "y<x"), calm, 2)
	b := &bucket{w: w, every: 2 * time.Second, fresh: w.now.Add(2 * time.Second)}
	w.throttle = b.take
	w.start()
	w.arriveAll()
	w.succeed("x")
	if w.rotations != 1 {
		t.Fatalf("%d rotations", w.rotations)
	}
	w.isState(run.Running, "y")
	if at := w.timers[interp.TimerDelay]; !at.Equal(epoch.Add(2 * time.Second)) {
		t.Fatalf("the timer is at %v", at)
	}
	w.succeed("y")
	w.fire(interp.TimerDelay)
	w.isState(run.Running, "h1")
	w.arriveAll()
	w.succeed("h1")
	w.isState(run.Completed, "")
}

// contract: T195
func TestResume_RefusesDelayedStepsOfAnotherPlan(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, calm, "h1", "h2")
	w.arriveAll()
	c := w.m.Carry()
	c.Delayed = []byte{4}
	if _, err := interp.Resume(w.sk, w.who, c); !errors.Is(err, interp.ErrCarried) {
		t.Errorf("%v", err)
	}
	var none plan.Skeleton
	if _, err := interp.Resume(none, w.who, interp.Carried{Version: c.Version, Delayed: []byte{1}}); !errors.Is(err,
		interp.ErrCarried) {
		t.Errorf("%v", err)
	}
}

// An answer that is late or repeated changes nothing.
// contract: T184
func TestThrottled_StaleEnds(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, calm, "h1")
	w.arriveAll()
	again := engine.Return{StepID: "h1", LogicalAttempt: 1, N: 1, Kind: engine.ReturnThrottled, RetryAfter: time.Hour}
	at := w.timers[interp.TimerDelay]
	w.feed(interp.Returned{At: w.now, Return: again})
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerDelay}) // before its time
	w.isState(run.Running, "")
	if !w.timers[interp.TimerDelay].Equal(at) {
		t.Errorf("the timer is at %v, was at %v", w.timers[interp.TimerDelay], at)
	}
}

// While a retry waits for a token the run does not begin to wait for somebody to retry another
// step: its window opens when the retried one has ended.
// contract: T217
func TestThrottled_ARetryThatWaitsHoldsTheWindow(t *testing.T) {
	t.Parallel()
	w, b := throttledWorld(t, 1, calm, "h1", "x", "y<h1")
	w.begin("h1", "x")
	w.fail("h1", "BROKEN")
	w.fail("x", "BROKEN")
	if w.timers[interp.TimerRetryWindow].IsZero() {
		t.Fatal("no retry window")
	}
	b.tokens = 0
	w.signal(run.RetryStep, "again", "h1")
	w.arriveAll()
	w.isState(run.Running, "")
	if at := w.timers[interp.TimerRetryWindow]; !at.IsZero() {
		t.Fatalf("the window is open until %v", at)
	}
	w.fire(interp.TimerDelay)
	w.arriveAll()
	w.succeed("h1", "y")
	if w.timers[interp.TimerRetryWindow].IsZero() {
		t.Fatal("no retry window at the end")
	}
	w.fire(interp.TimerRetryWindow)
	w.isState(run.Failed, "")
}
