package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// history returns Temporal's history of a run's current execution.
func (h *harness) history(runID string) *historypb.History {
	h.t.Helper()
	d, err := h.engine.Describe(h.t.Context(), h.identity(runID))
	must(h.t, err)
	it := h.client.GetWorkflowHistory(h.t.Context(), d.Ref.WorkflowID, d.Ref.EngineRunID, false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	out := &historypb.History{}
	for it.HasNext() {
		e, err := it.Next()
		must(h.t, err)
		out.Events = append(out.Events, e)
	}
	return out
}

func (h *harness) identity(runID string) run.Identity {
	h.t.Helper()
	r, err := h.store.Get(h.t.Context(), runID)
	must(h.t, err)
	return r.Identity
}

// dispatches returns the activity ids of executions in the order of their dispatch, and the queues by step name.
func (h *harness) dispatches(runID string) (ids []string, queues map[string]string) {
	h.t.Helper()
	queues = map[string]string{}
	for _, e := range h.history(runID).Events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil && a.ActivityType.Name == "dvt.execute" {
			ids = append(ids, a.ActivityId)
			queues[strings.Split(a.ActivityId, "/")[0]] = a.TaskQueue.Name
		}
	}
	return ids, queues
}

// contract: E-01
func TestSchedule_DispatchesInCanonicalOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	plain, ordered := []step{}, []step{}
	for i, id := range []string{"b", "B", "a", "_x", "s10", "s2", "A"} {
		plain = append(plain, step{id: id})
		ordered = append(ordered, step{id: id, extra: map[string]any{"order": i + 1}})
	}
	first, second := h.start(document(0, plain...)), h.start(document(0, ordered...))
	h.waitForEnd(first)
	h.waitForEnd(second)
	got, _ := h.dispatches(first)
	if d := cmp.Diff([]string{"A/1.1", "B/1.1", "_x/1.1", "a/1.1", "b/1.1", "s10/1.1", "s2/1.1"}, got); d != "" {
		t.Errorf("dispatches without an order (-want +got):\n%s", d)
	}
	got, _ = h.dispatches(second)
	if d := cmp.Diff([]string{"b/1.1", "B/1.1", "a/1.1", "_x/1.1", "s10/1.1", "s2/1.1", "A/1.1"}, got); d != "" {
		t.Errorf("dispatches with an order (-want +got):\n%s", d)
	}
}

// contract: E-13, T218
func TestSchedule_UsesTheQueueOfTheWorkload(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	extra := h.queues.Known[2]
	id := h.start(document(0,
		step{id: "command"},
		step{id: "http", extra: map[string]any{"type": "HTTP_NOTIFY",
			"inputs": map[string]any{"url": "https://example.com/"}}},
		step{id: "sleep", extra: map[string]any{"type": "SLEEP", "inputs": map[string]any{"ms": 1}}},
		step{id: "noop", extra: map[string]any{"type": "NOOP", "inputs": map[string]any{}}},
		step{id: "dbt", extra: dbts},
		step{id: "named", extra: map[string]any{"dispatch": map[string]any{"taskQueue": extra}}},
		step{id: "signals"}, // a name that the driver uses for its own activities
	))
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Fatalf("the run ended %s with %+v, want COMPLETED", st.Status, st.Failure)
	}
	_, queues := h.dispatches(id)
	want := map[string]string{
		"command": h.queues.Data, "http": h.queues.Data + ":http", "dbt": h.queues.Data + ":dbt", "noop": h.queues.Control,
		"named": extra, "signals": h.queues.Data,
	}
	if d := cmp.Diff(want, queues); d != "" {
		t.Errorf("queues by step (-want +got):\n%s", d)
	}
	_, err := h.control.StartRun(t.Context(), h.who, runs.StartRun{
		RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev",
		Inline: document(0, step{id: "s1", extra: map[string]any{"dispatch": map[string]any{"taskQueue": "tq-unknown"}}}),
	})
	refusedWith(t, err, run.CodePlanInvalid)
}

func refusedWith(t *testing.T, err error, code run.Code) {
	t.Helper()
	var refused *control.Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

// A step ends a second after all ten have started. It also ends when they do not: a schedule that starts fewer must
// fail the test and not hold it up.
// contract: E-15
func TestSchedule_ParallelStepsOverlap(t *testing.T) {
	t.Parallel()
	const width, long = 10, time.Second
	h := newHarness(t, options{})
	var steps []step
	all := make(chan struct{})
	var started atomic.Int32
	for i := range width {
		id := fmt.Sprintf("s%d", i)
		steps = append(steps, step{id: id})
		h.steps.on(id, func(ctx context.Context, _ executor.Task) error {
			if started.Add(1) == width {
				close(all)
			}
			select {
			case <-all:
			case <-time.After(testtime.Of(5 * long)):
			case <-ctx.Done():
			}
			time.Sleep(long)
			return context.Cause(ctx)
		})
	}
	id := h.start(document(0, steps...))
	st := h.waitForEnd(id)
	overlap := 0
	for _, e := range h.events(id) {
		if e.Type == run.StepCompletedEvent {
			break
		}
		if e.Type == run.StepStartedEvent {
			overlap++
		}
	}
	if overlap != width || st.Status != run.Completed {
		t.Errorf("the run ended %s, and %d steps started before the first one completed, want COMPLETED and %d", st.Status,
			overlap, width)
	}
	if took, most := h.took(id), testtime.Of(width*long*11/10); took >= most {
		t.Errorf("%d steps of %v took %v together, want less than %v", width, long, took, most)
	}
}

// took returns the time from the start of a run to its end, by the clock of the store.
func (h *harness) took(id string) time.Duration {
	h.t.Helper()
	events := h.events(id)
	begun := slices.IndexFunc(events, func(e run.Event) bool { return e.Type == run.RunStarted })
	return events[len(events)-1].PersistedAt.Sub(events[begun].PersistedAt)
}

// contract: E-15
func TestSchedule_ThreeStepsInARowTakeSeconds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	three := document(0, step{id: "s1"}, step{id: "s2", deps: "s1"}, step{id: "s3", deps: "s2"})
	var took []time.Duration
	for range 20 {
		id := h.start(three)
		h.waitForEnd(id)
		took = append(took, h.took(id))
	}
	slices.Sort(took)
	if p95, most := took[18], testtime.Of(5*time.Second); p95 >= most {
		t.Errorf("the 95th percentile of 20 runs of three steps is %v, want less than %v", p95, most)
	}
}

// contract: E-15
func TestSchedule_AHundredRunsCompleteAtOnce(t *testing.T) {
	h := newHarness(t, options{})
	h.patience = 3 * time.Minute
	three := document(0, step{id: "s1", extra: spare}, step{id: "s2", deps: "s1", extra: spare},
		step{id: "s3", deps: "s2", extra: spare})
	var ids []string
	for range 100 {
		ids = append(ids, h.start(three))
	}
	for _, id := range ids {
		if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 3 {
			t.Errorf("the run %s ended %s with %+v, want COMPLETED with 3 successes", id, st.Status, st.Failure)
		}
	}
}

// A run with 100 dispatched steps on two workers with two slots each pauses after ten starts.
// contract: T185
func TestSchedule_NothingStartsAfterRunPaused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: 2, slots: 2, rotateAfter: 200})
	h.patience = 2 * time.Minute
	var steps []step
	var mu sync.Mutex
	began, ten, paused := 0, make(chan struct{}), make(chan struct{})
	for i := range 100 {
		id := fmt.Sprintf("s%03d", i)
		steps = append(steps, step{id: id, extra: spare})
		h.steps.on(id, func(context.Context, executor.Task) error {
			mu.Lock()
			began++
			n := began
			mu.Unlock()
			if n == 10 {
				close(ten)
			}
			if n > 10 { // keep all slots busy until the pause is in the log
				<-paused
			}
			return nil
		})
	}
	id := h.start(document(0, steps...))
	<-ten
	h.pause(id)
	close(paused)
	st := h.waitFor(id, "drained", func(s run.State) bool { return s.RunningSteps() == 0 })
	if st.Status != run.Paused || st.Counts.Success < 10 || st.Counts.Success > 14 {
		t.Errorf("the run is %s with %d successes, want PAUSED with 10 to 14", st.Status, st.Counts.Success)
	}
	time.Sleep(time.Second) // the workers get the remaining dispatches and must not start them
	resume := h.signal(id, run.Signal{Type: run.Resume})
	h.waitUntilApplied(id, resume.Signal.ID)
	if st = h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 100 {
		t.Fatalf("the run ended %s with %d successes, want COMPLETED", st.Status, st.Counts.Success)
	}
	isPaused := false
	for _, e := range h.log(id) {
		switch {
		case e == "RunPaused(1)":
			isPaused = true
		case e == "RunResumed(1)":
			isPaused = false
		case isPaused && strings.HasPrefix(e, "StepStarted"):
			t.Errorf("the log has %s while the run was paused", e)
		}
	}
	seen := h.steps.called()
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 100 || len(seen) != 100 {
		t.Errorf("%d executions of 100 steps, want one of each", len(seen))
	}
}

// spare gives a step further engine attempts, because a busy Temporal server sometimes loses an execution.
var spare = map[string]any{"retry": map[string]any{"maxAttempts": 5, "initialBackoffMs": 100}}

// The test does not run in parallel with others, because it keeps the server busy.
func TestSchedule_CompletesALongAndAWidePlan(t *testing.T) {
	h := newHarness(t, options{})
	h.patience = 5 * time.Minute
	length := 250
	if testing.Short() {
		length = 50
	}
	var long, wide []step
	for i := range length {
		s := step{id: fmt.Sprintf("s%03d", i), extra: spare}
		if i > 0 {
			s.deps = fmt.Sprintf("s%03d", i-1)
		}
		long = append(long, s)
	}
	for i := range 200 {
		wide = append(wide, step{id: fmt.Sprintf("w%03d", i), extra: spare})
	}
	began := time.Now()
	first, second := h.start(document(0, long...)), h.start(document(0, wide...))
	if st := h.waitForEnd(second); st.Status != run.Completed || st.Counts.Success != 200 {
		t.Errorf("the wide run ended %s with %d successes, want COMPLETED with all", st.Status, st.Counts.Success)
	}
	if st := h.waitForEnd(first); st.Status != run.Completed || st.Counts.Success != length {
		t.Errorf("the long run ended %s with %d successes, want COMPLETED with all", st.Status, st.Counts.Success)
	}
	t.Logf("%d steps in a row and 200 at once took %s", length, time.Since(began))
}

// While an append is slow, 140 steps return the largest permitted results. Together these exceed Temporal's limit for
// one activity input.
func TestSchedule_ManyLargeResultsFitTheLimitsOfTemporal(t *testing.T) {
	var slow atomic.Bool
	l := &lossy{append: func(_ store.Append, err error) error {
		if slow.CompareAndSwap(true, false) {
			time.Sleep(5 * time.Second)
		}
		return err
	}}
	h := newHarness(t, options{
		slots: 140, policy: run.Policy{MaxParallelSteps: 140}, rotateAfter: 200,
		wrap: func(j engine.Journal) engine.Journal { l.Journal = j; return l },
	})
	h.patience = 4 * time.Minute
	h.steps.result = json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", 16<<10-2)))
	open := make(gate)
	var steps []step
	for i := range 140 {
		steps = append(steps, step{id: fmt.Sprintf("s%03d", i), extra: spare})
		h.steps.on(steps[i].id, open.wait)
	}
	id := h.start(document(0, steps...))
	h.waitFor(id, "running all", func(s run.State) bool { return s.Counts.Running == 140 })
	slow.Store(true)
	close(open)
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 140 {
		t.Errorf("the run ended %s with %d successes and %+v, want COMPLETED with 140", st.Status, st.Counts.Success,
			st.Failure)
	}
}

func TestSchedule_RejectsAPlanAboveTheLimitOfSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1, limits: runs.Limits{MaxSteps: 1000}})
	var steps []step
	for i := range 1001 {
		steps = append(steps, step{id: fmt.Sprintf("s%04d", i)})
	}
	start := func(steps []step) error {
		_, err := h.control.StartRun(t.Context(), h.who, runs.StartRun{
			RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev", Inline: document(0, steps...),
		})
		return err
	}
	refusedWith(t, start(steps), run.CodePlanTooManySteps)
	must(t, start(steps[:1000]))
}
