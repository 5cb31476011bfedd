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

// bucket has the tokens for the heavy steps of a world, whose ids begin with h.
type bucket struct {
	w      *world
	tokens int
	every  time.Duration
	fresh  time.Time // when the next token becomes available
	asked  int       // number of requests for a token
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

// throttledWorld returns a world of a started run whose heavy steps need tokens. A new one becomes available every two
// seconds.
func throttledWorld(t *testing.T, tokens int, policy run.Policy, specs ...string) (*world, *bucket) {
	t.Helper()
	w := newWorld(t, steps(specs...), policy)
	w.compareTwins = true
	b := &bucket{w: w, tokens: tokens, every: 2 * time.Second, fresh: w.now.Add(2 * time.Second)}
	w.throttle = b.take
	return w.start(), b
}

// arriveAll lets workers receive every dispatch, until no attempt is left that they have not tried to start.
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

// expectState checks the status of the run and the steps in flight.
func (w *world) expectState(status run.Status, flights string) {
	w.tb.Helper()
	if w.state.Status != status || w.inFlight() != flights {
		w.tb.Fatalf("the run is %s with %q in flight, want %s with %q", w.state.Status, w.inFlight(), status, flights)
	}
}

// A step over the quota waits for a timer and is then executed as the same attempt. Other steps run meanwhile.
//
// contract: Q10, T113
func TestThrottled_AStepWaitsForItsTimerAndRuns(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 2, basePolicy, "h1", "h2", "h3", "x", "y<h3")
	w.arriveAll()
	w.expectState(run.Running, "h1 h2 x")
	if s, _ := w.state.Step("h3"); s != nil && s.Status != run.StepPending {
		t.Fatalf("h3 is %s, want PENDING", s.Status)
	}
	if at, want := w.timers[interp.TimerDelay], w.now.Add(2*time.Second); !at.Equal(want) {
		t.Fatalf("the timer is at %v, want %v", at, want)
	}
	w.succeed("h1", "h2", "x")
	w.expectState(run.Running, "")
	w.fire(interp.TimerDelay)
	w.expectState(run.Running, "h3")
	w.arriveAll()
	w.succeed("h3", "y")
	w.expectState(run.Completed, "")
	for _, line := range w.logLines() {
		if line == "9 StepStarted(h3,2)" {
			t.Error("h3 ran as attempt 2, want attempt 1")
		}
	}
}

// contract: T113
func TestThrottled_AStepWithoutATokenTakesNoSlot(t *testing.T) {
	t.Parallel()
	narrow := basePolicy
	narrow.MaxParallelSteps = 1
	w, _ := throttledWorld(t, 0, narrow, "h1", "h2", "x", "y")
	w.arriveAll()
	w.expectState(run.Running, "x")
	w.succeed("x")
	w.expectState(run.Running, "y")
	w.fire(interp.TimerDelay)
	w.expectState(run.Running, "y")
	w.succeed("y")
	w.expectState(run.Running, "h1")
}

// A step that waits for a token does not delay the drain of a pause. It does not start during the pause, but after it.
//
// contract: T175
func TestThrottled_APauseDoesNotWaitForTheStep(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, basePolicy, "h1", "x")
	w.arriveAll()
	w.signal(run.Pause, "p", "")
	w.succeed("x")
	w.expectState(run.Paused, "")
	w.fire(interp.TimerDelay)
	w.expectState(run.Paused, "")
	w.signal(run.Resume, "r", "")
	w.expectState(run.Running, "h1")
	w.arriveAll()
	w.succeed("h1")
	w.expectState(run.Completed, "")
}

// contract: T175
func TestThrottled_AStepWaitsThroughAPauseAndAResume(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, basePolicy, "h1")
	w.arriveAll()
	w.signal(run.Pause, "p", "")
	w.signal(run.Resume, "r", "")
	w.expectState(run.Running, "")
	w.fire(interp.TimerDelay)
	w.arriveAll()
	w.succeed("h1")
	w.expectState(run.Completed, "")
}

// contract: T113
func TestThrottled_AStopASkipAndAFailureEndTheWait(t *testing.T) {
	t.Parallel()
	for _, stop := range []run.SignalType{run.Cancel, run.EmergencyStop} {
		w, _ := throttledWorld(t, 0, basePolicy, "h1", "h2")
		w.arriveAll()
		w.signal(stop, "s", "")
		w.expectState(run.Cancelled, "")
	}
	w, _ := throttledWorld(t, 0, basePolicy, "h1", "h2<h1")
	w.arriveAll()
	w.signal(run.SkipStep, "s", "h1")
	w.expectState(run.Running, "h2")
	if r := w.receipts["s"]; r.app != run.SignalApplied {
		t.Fatalf("the receipt of the skip is %+v, want it applied", r)
	}
	if at := w.timers[interp.TimerDelay]; !at.IsZero() {
		t.Errorf("the timer is at %v, want none because no step waits", at)
	}
	w.now = w.now.Add(time.Minute)
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerDelay}) // the timer of the wait that the skip ended
	w.expectState(run.Running, "h2")
	w.arriveAll()
	w.succeed("h2")
	w.expectState(run.Completed, "")

	short := basePolicy
	short.RetryWindowMS = 0
	w, _ = throttledWorld(t, 0, short, "h1", "x")
	w.arriveAll()
	w.fail("x", "BROKEN") // because of fail-fast h1 never starts, and the run does not wait for it
	w.expectState(run.Failed, "")
}

// A retry that waits for a token keeps the run open, and its signal is applied when the attempt starts.
//
// contract: T217
func TestThrottled_ARetryWaitsForATokenToo(t *testing.T) {
	t.Parallel()
	w, b := throttledWorld(t, 1, basePolicy, "h1", "x<h1")
	w.fail("h1", "BROKEN")
	b.every, b.fresh = time.Hour, w.now.Add(time.Hour)
	w.signal(run.RetryStep, "again", "h1")
	w.arriveAll()
	w.expectState(run.Running, "")
	if r := w.receipts["again"]; r.app.Final() {
		t.Fatalf("the receipt of the retry is %+v before the attempt starts, want it not final", r)
	}
	for range 3 { // it asks each minute, even if the bucket names a later time
		before := w.now
		w.fire(interp.TimerDelay)
		w.arriveAll()
		if w.now.Sub(before) > time.Minute {
			t.Fatalf("the step asks again after %v, want at most a minute", w.now.Sub(before))
		}
		w.expectState(run.Running, "")
	}
	b.tokens = 1
	w.fire(interp.TimerDelay)
	w.arriveAll()
	if r := w.receipts["again"]; r.app != run.SignalApplied {
		t.Fatalf("the receipt of the retry is %+v, want it applied", r)
	}
	w.succeed("h1", "x")
	w.expectState(run.Completed, "")
}

// The engine's history grows with the number of tokens: a hundred waiting steps together ask about once for each token.
//
// contract: T113
func TestThrottled_RequestsGrowWithTheTokens(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 100 {
		specs = append(specs, fmt.Sprintf("h%03d", i))
	}
	w, b := throttledWorld(t, 10, basePolicy, specs...)
	for fired := 0; w.state.Status == run.Running; fired++ {
		if w.arriveAll(); len(w.flights) > 0 {
			w.succeed(w.flights[0].stepID)
			continue
		}
		if fired > 1000 {
			t.Fatalf("the run does not end; the log is %v", w.logLines())
		}
		w.fire(interp.TimerDelay)
	}
	if w.state.Status != run.Completed {
		t.Fatalf("the run is %s, want COMPLETED", w.state.Status)
	}
	if took, most := w.now.Sub(epoch), 92*2*time.Second; took > most {
		t.Errorf("90 tokens took %v, want at most %v", took, most)
	}
	if b.asked > 100+2*90 {
		t.Errorf("the steps asked %d times for a token, want at most 280", b.asked)
	}
}

// After a quota was raised, few rounds suffice to start all waiting steps.
//
// contract: T113
func TestThrottled_ARaisedQuotaIsNoticed(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 200 {
		specs = append(specs, fmt.Sprintf("h%03d", i))
	}
	w, b := throttledWorld(t, 0, basePolicy, specs...)
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
	t.Fatal("the run has not completed after 20 rounds, want more steps to ask in each round")
}

// contract: T195
func TestResume_DelayedStepsKeepTheirDueTimes(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("h1", "x", "y<x"), basePolicy, 2)
	b := &bucket{w: w, every: 2 * time.Second, fresh: w.now.Add(2 * time.Second)}
	w.throttle = b.take
	w.start()
	w.arriveAll()
	w.succeed("x")
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1", w.rotations)
	}
	w.expectState(run.Running, "y")
	if at, want := w.timers[interp.TimerDelay], epoch.Add(2*time.Second); !at.Equal(want) {
		t.Fatalf("the timer is at %v, want %v", at, want)
	}
	w.succeed("y")
	w.fire(interp.TimerDelay)
	w.expectState(run.Running, "h1")
	w.arriveAll()
	w.succeed("h1")
	w.expectState(run.Completed, "")
}

// contract: T195
func TestResume_RefusesDelayedStepsOfAnotherPlan(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, basePolicy, "h1", "h2")
	w.arriveAll()
	c := w.m.Carry()
	c.Delayed = []byte{4}
	if _, err := interp.Resume(w.sk, w.cfg, c); !errors.Is(err, interp.ErrCarried) {
		t.Errorf("Resume returns %v, want ErrCarried", err)
	}
	var none plan.Skeleton
	if _, err := interp.Resume(none, w.cfg, interp.CarriedState{Version: c.Version, Delayed: []byte{1}}); !errors.Is(err,
		interp.ErrCarried) {
		t.Errorf("Resume returns %v, want ErrCarried", err)
	}
}

// contract: T184
func TestThrottled_ALateOrRepeatedReturnHasNoEffect(t *testing.T) {
	t.Parallel()
	w, _ := throttledWorld(t, 0, basePolicy, "h1")
	w.arriveAll()
	again := engine.Return{StepID: "h1", LogicalAttempt: 1, N: 1, Kind: engine.ReturnThrottled, RetryAfter: time.Hour}
	at := w.timers[interp.TimerDelay]
	w.feed(interp.Returned{At: w.now, Return: again})
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerDelay}) // before its time
	w.expectState(run.Running, "")
	if !w.timers[interp.TimerDelay].Equal(at) {
		t.Errorf("the timer is at %v, want it still at %v", w.timers[interp.TimerDelay], at)
	}
}

// While a retry waits for a token, the retry window of another failed step stays closed. It opens when the retry has
// ended.
//
// contract: T217
func TestThrottled_ARetryThatWaitsKeepsTheWindowClosed(t *testing.T) {
	t.Parallel()
	w, b := throttledWorld(t, 1, basePolicy, "h1", "x", "y<h1")
	w.begin("h1", "x")
	w.fail("h1", "BROKEN")
	w.fail("x", "BROKEN")
	if w.timers[interp.TimerRetryWindow].IsZero() {
		t.Fatal("no retry window is open after both failures")
	}
	b.tokens = 0
	w.signal(run.RetryStep, "again", "h1")
	w.arriveAll()
	w.expectState(run.Running, "")
	if at := w.timers[interp.TimerRetryWindow]; !at.IsZero() {
		t.Fatalf("the window is open until %v, want it closed while the retry waits", at)
	}
	w.fire(interp.TimerDelay)
	w.arriveAll()
	w.succeed("h1", "y")
	if w.timers[interp.TimerRetryWindow].IsZero() {
		t.Fatal("no retry window is open after the end of the retry")
	}
	w.fire(interp.TimerRetryWindow)
	w.expectState(run.Failed, "")
}
