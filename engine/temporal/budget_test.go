package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// faulty is a store in front of the real one that stalls, refuses and loses answers. Its functions are called for the
// writes below, with the number of the try, from 1; nil writes at once.
type faulty struct {
	store.Store
	registry *prometheus.Registry
	// completed is called for a batch with StepCompleted.
	completed func(ctx context.Context, try int, write func(context.Context) error) error
	// failed is called for a batch with STATE_WRITE_BUDGET_EXCEEDED.
	failed func(ctx context.Context, try int, write func(context.Context) error) error
	// begin is called for StartAttempt.
	begin func(ctx context.Context, try int, write func(context.Context) error) error

	tries [3]atomic.Int64
	mu    sync.Mutex
	found []store.EventOutcome // outcomes of batches with StepCompleted, in the order of the answers
}

func (f *faulty) Append(ctx context.Context, a store.Append) (out store.Appended, err error) {
	write := func(ctx context.Context) error {
		out, err = f.Store.Append(ctx, a)
		return err
	}
	switch {
	case slices.ContainsFunc(a.Events, func(d run.Draft) bool { return d.Type == run.StepCompletedEvent }):
		err = f.pass(ctx, 0, f.completed, write)
		f.mu.Lock()
		f.found = append(f.found, out.Outcomes...)
		f.mu.Unlock()
	case slices.ContainsFunc(a.Events, func(d run.Draft) bool {
		return d.Type == run.StepFailedEvent && strings.Contains(string(d.Payload), string(run.CodeWriteBudget))
	}):
		err = f.pass(ctx, 1, f.failed, write)
	default:
		err = write(ctx)
	}
	return out, err
}

func (f *faulty) StartAttempt(ctx context.Context, b store.StartAttempt) (out store.AttemptStarted, err error) {
	err = f.pass(ctx, 2, f.begin, func(ctx context.Context) error {
		out, err = f.Store.StartAttempt(ctx, b)
		return err
	})
	return out, err
}

func (f *faulty) pass(ctx context.Context, kind int, fault func(context.Context, int,
	func(context.Context) error) error, write func(context.Context) error) error {
	try := int(f.tries[kind].Add(1))
	if fault == nil {
		return write(ctx)
	}
	return fault(ctx, try, write)
}

// harness returns a harness whose workers' journal writes through f with this write budget. Without a Store, f uses the
// harness's store.
func (f *faulty) harness(t *testing.T, budget time.Duration, o options) *harness {
	t.Helper()
	f.registry = prometheus.NewRegistry()
	o.config = func(cfg *journal.Config) {
		if f.Store == nil {
			f.Store = cfg.Store.Log.(store.Store)
		}
		cfg.Store, cfg.WriteBudget, cfg.Metrics = journal.On(f), budget, f.registry
	}
	return newHarness(t, o)
}

// metric reads a counter or a gauge.
func (f *faulty) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	must(t, err)
	for _, m := range families {
		if m.GetName() == name {
			return m.GetMetric()[0].GetCounter().GetValue() + m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("the registry has no metric %s", name)
	return 0
}

// budget returns d, lengthened for a busy machine up to the largest permitted write budget.
func budget(d time.Duration) time.Duration { return min(testtime.Of(d), 5*time.Second) }

// short returns a budget that ends soon, but is long enough for a store that answers.
func short() time.Duration { return budget(1500 * time.Millisecond) }

// stalled returns only when ctx ends.
func stalled(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// after waits for d, or until ctx ends.
func after(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func expectOnce(t *testing.T, h *harness, executions ...string) {
	t.Helper()
	if d := cmp.Diff(executions, h.steps.called()); d != "" {
		t.Errorf("executions (-want +got):\n%s", d)
	}
}

// A store that takes 2 s of a budget of 3 s causes no second try.
// contract: B01
func TestBudget_AShortStallHasNoEffect(t *testing.T) {
	t.Parallel()
	f := &faulty{completed: func(ctx context.Context, _ int, write func(context.Context) error) error {
		if err := after(ctx, 2*time.Second); err != nil {
			return err
		}
		return write(ctx)
	}}
	h := f.harness(t, budget(3*time.Second), options{})
	id := h.start(document(0, step{id: "s1"}))
	h.waitForEnd(id)
	h.expect(id, 1, "RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	expectOnce(t, h, "s1/1.1")
	if n := f.tries[0].Load(); n != 1 {
		t.Errorf("%d tries of the completion, want 1", n)
	}
}

// The store delays the StepStarted for 4 s, longer than the default budget. The step must not run before the answer.
// contract: B02, T216
func TestBudget_AStepWaitsForAStalledStart(t *testing.T) {
	t.Parallel()
	var first atomic.Int64
	f := &faulty{begin: func(ctx context.Context, _ int, write func(context.Context) error) error {
		first.CompareAndSwap(0, time.Now().UnixNano())
		if err := after(ctx, time.Until(time.Unix(0, first.Load()).Add(4*time.Second))); err != nil {
			return err
		}
		return write(ctx)
	}}
	h := f.harness(t, 0, options{})
	var buffered atomic.Int64
	h.steps.on("s1", func(context.Context, executor.Task) error {
		if time.Since(time.Unix(0, first.Load())) < 4*time.Second {
			t.Error("the step ran before the store answered")
		}
		return nil
	})
	id := h.start(document(0, step{id: "s1"}))
	for h.waitFor(id, "begun", func(s run.State) bool {
		buffered.Store(max(buffered.Load(), int64(f.metric(t, "state_store_buffered_events_total"))))
		return s.Status.Terminal()
	}).Status != run.Completed {
		t.Fatalf("the run did not complete; log:\n%s", strings.Join(h.log(id), "\n"))
	}
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	expectOnce(t, h, "s1/1.1")
	if n := f.tries[2].Load(); n != 2 {
		t.Errorf("%d tries of the start, want 2", n)
	}
	if n := f.metric(t, "state_store_write_timeouts_total"); n < 1 || buffered.Load() != 1 {
		t.Errorf("metrics: %v timeouts, %d buffered; want the stall in both", n, buffered.Load())
	}
}

// The store commits the completion, but its answer is lost. The second try finds the first one.
// contract: B03, E-09
func TestBudget_ALostAnswerCausesNoSecondCompletion(t *testing.T) {
	t.Parallel()
	f := &faulty{completed: func(ctx context.Context, try int, write func(context.Context) error) error {
		if err := write(ctx); err != nil || try > 1 {
			return err
		}
		return stalled(ctx)
	}}
	h := f.harness(t, short(), options{})
	id := h.start(document(0, step{id: "s1"}))
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	expectOnce(t, h, "s1/1.1")
	if n := f.tries[0].Load(); n != 2 {
		t.Errorf("%d tries of the completion, want 2", n)
	}
	if o := f.found[len(f.found)-1]; !o.Deduplicated || o.Seq != 4 || o.PayloadMismatch {
		t.Errorf("outcome of the second try %+v, want the completion at 4", o)
	}
	if n := f.metric(t, "append_payload_mismatch_total"); n != 0 {
		t.Errorf("%v payload mismatches, want none", n)
	}
	h.waitUntilClosed(id)
	must(t, replay(h.history(id)))
}

// The store confirms no completion, and refuses the first tries of the failure that replaces it.
// contract: B04
func TestBudget_AnUnconfirmedCompletionBecomesAFailure(t *testing.T) {
	t.Parallel()
	var healed atomic.Bool
	f := &faulty{
		completed: func(ctx context.Context, _ int, write func(context.Context) error) error {
			if !healed.Load() {
				return stalled(ctx)
			}
			return write(ctx)
		},
		failed: func(ctx context.Context, try int, write func(context.Context) error) error {
			if try < 4 {
				return store.ErrUnavailable
			}
			return write(ctx)
		},
	}
	h := f.harness(t, short(), options{})
	id := h.start(document(60, step{id: "s1"}, step{id: "s2", deps: "s1"}))
	h.waitFor(id, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.expect(id, 3, "StepStarted(s1,1)", "StepFailed(s1,1)")
	p := payload[run.FailurePayload](h, id, "StepFailed(s1,1)")
	if p.ErrorCode != "STATE_WRITE_BUDGET_EXCEEDED" || p.FailureCategory != run.CategoryPlatform || !p.Retryable {
		t.Errorf("failure %+v, want a retryable STATE_WRITE_BUDGET_EXCEEDED of the platform", p)
	}
	if a, b := f.tries[0].Load(), f.tries[1].Load(); a != 2 || b != 4 {
		t.Errorf("%d tries of the completion, %d of the failure; want 2 and 4", a, b)
	}
	if n := f.metric(t, "state_store_write_timeouts_total"); n < 2 {
		t.Errorf("%v write timeouts, want at least 2", n)
	}
	healed.Store(true)
	h.signal(id, run.Signal{Type: run.RetryStep, StepID: "s1"})
	h.waitForEnd(id)
	h.expect(id, 5, "SignalAccepted", "StepStarted(s1,2)", "StepCompleted(s1,2)", "StepStarted(s2,1)",
		"StepCompleted(s2,1)", "RunCompleted")
	expectOnce(t, h, "s1/1.1", "s1/2.1", "s2/1.1")
	h.waitUntilClosed(id)
	must(t, replay(h.history(id)))
}

// A completion that the worker no longer waits for reaches the store before or after the failure.
// contract: T10, T120
func TestBudget_TheFirstTerminalWins(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		late bool // whether the store gets the completion after the failure
		want []string
	}{
		"completion first": {false, []string{"StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
			"StepCompleted(s2,1)", "RunCompleted"}},
		"failure first": {true, []string{"StepStarted(s1,1)", "StepFailed(s1,1)", "StepSkipped(s2,1)", "RunFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var late []func(context.Context) error
			land := func(ctx context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				for _, write := range late {
					if err := write(ctx); err != nil {
						return err
					}
				}
				late = nil
				return nil
			}
			f := &faulty{}
			f.completed = func(ctx context.Context, try int, write func(context.Context) error) error {
				if try > 2 {
					return write(ctx)
				}
				mu.Lock()
				late = append(late, write)
				mu.Unlock()
				return stalled(ctx)
			}
			f.failed = func(ctx context.Context, _ int, write func(context.Context) error) error {
				if tt.late {
					if err := write(ctx); err != nil {
						return err
					}
					return land(ctx)
				}
				if err := land(ctx); err != nil {
					return err
				}
				return write(ctx)
			}
			h := f.harness(t, short(), options{})
			id := h.start(document(0, step{id: "s1"}, step{id: "s2", deps: "s1"}))
			h.waitForEnd(id)
			h.expect(id, 3, tt.want...)
			if n := h.steps.count("s1"); n != 1 {
				t.Errorf("%d executions of s1, want 1", n)
			}
		})
	}
}

// A store that is down refuses calls, so it uses no budget: the completion waits for it.
// contract: T120
func TestBudget_AStoreThatIsDownUsesNoBudget(t *testing.T) {
	t.Parallel()
	lasts := short()
	var first atomic.Int64
	f := &faulty{completed: func(ctx context.Context, _ int, write func(context.Context) error) error {
		first.CompareAndSwap(0, time.Now().UnixNano())
		if time.Since(time.Unix(0, first.Load())) < 4*lasts {
			return store.ErrUnavailable
		}
		return write(ctx)
	}}
	h := f.harness(t, lasts, options{})
	id := h.start(document(0, step{id: "s1"}))
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	expectOnce(t, h, "s1/1.1")
}

// A store that is overloaded for a start and for an append names the delay of the next try.
func TestBudget_AnOverloadedStoreSetsTheDelay(t *testing.T) {
	t.Parallel()
	const wait = 2500 * time.Millisecond
	var asked sync.Map
	full := func(ctx context.Context, try int, write func(context.Context) error) error {
		if try == 1 {
			return fmt.Errorf("queue: %w", &store.OverloadedError{RetryAfter: wait})
		}
		return write(ctx)
	}
	timed := func(what string) func(context.Context, int, func(context.Context) error) error {
		return func(ctx context.Context, try int, write func(context.Context) error) error {
			asked.Store(fmt.Sprint(what, try), time.Now())
			return full(ctx, try, write)
		}
	}
	f := &faulty{begin: timed("begin"), completed: timed("completed")}
	h := f.harness(t, 0, options{})
	id := h.start(document(0, step{id: "s1", extra: map[string]any{"timeout": "1s"}}))
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Steps[0].Attempts[0].EngineAttempt != 1 {
		t.Fatalf("the run is %s, want COMPLETED in engine attempt 1; log:\n%s", st.Status,
			strings.Join(h.log(id), "\n"))
	}
	expectOnce(t, h, "s1/1.1")
	for _, what := range []string{"begin", "completed"} {
		a, _ := asked.Load(what + "1")
		b, again := asked.Load(what + "2")
		if !again || b.(time.Time).Sub(a.(time.Time)) < wait {
			t.Errorf("%s: tries at %v and %v, want %s between them", what, a, b, wait)
		}
	}
}

// A data worker dies between the commit of a completion and the end of the activity that wrote it.
// contract: E-09
func TestBudget_AWorkerDiesAfterTheCompletion(t *testing.T) {
	t.Parallel()
	if cfg := os.Getenv(workerEnv); cfg != "" {
		suicidalWorker(t, cfg)
		return
	}
	f := &faulty{}
	h := f.harness(t, 0, options{workers: -1, heartbeat: 3 * time.Second})
	h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
	cfg, err := json.Marshal(childConfig{
		Addr: testserver.Temporal(t).Addr, DB: filepath.Join(h.root, "dvt.db"), Root: h.root, Queues: h.queues,
	})
	must(t, err)
	child := exec.Command(os.Args[0], "-test.run=^TestBudget_AWorkerDiesAfterTheCompletion$")
	child.Env = append(os.Environ(), workerEnv+"="+string(cfg))
	must(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	id := h.start(document(0, step{id: "s1"}, step{id: "s2", deps: "s1"}))
	if state, err := child.Process.Wait(); err != nil || state.Success() {
		t.Fatalf("the worker process ended with %s, %v; want that it was killed", state, err)
	}
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)")
	h.serve(temporal.WorkerConfig{Data: h.queues.Known[1:]})
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)", "StepCompleted(s2,1)", "RunCompleted")
	expectOnce(t, h, "s2/1.1") // only the worker that died executed s1
}

// suicidalWorker serves the data queues and kills its process after the first completion is in the log.
func suicidalWorker(t *testing.T, config string) {
	var cfg childConfig
	must(t, json.Unmarshal([]byte(config), &cfg))
	st, err := sqlite.Open(t.Context(), cfg.DB, sqlite.Options{})
	must(t, err)
	defer st.Close()
	logs, err := artifact.Open(t.Context(), "mem://")
	must(t, err)
	c, err := temporal.Dial(cfg.Addr, testserver.TemporalNamespace, quietLog)
	must(t, err)
	defer c.Close()
	f := &faulty{Store: st, completed: func(ctx context.Context, _ int, write func(context.Context) error) error {
		must(t, write(ctx))
		self, err := os.FindProcess(os.Getpid())
		must(t, err)
		must(t, self.Kill())
		return stalled(ctx)
	}}
	var j engine.Journal = journal.New(journal.Config{Tickets: testKeys(), Store: journal.On(f), Logs: logs, Blobs: logs,
		Queues: cfg.Queues, MaxSteps: 1000})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, temporal.Run(ctx, c, temporal.WorkerConfig{
		Namespace: testserver.TemporalNamespace, Data: cfg.Queues.Known[1:], StopTimeout: time.Second,
	}, j, runner(j, cfg.Root, &script{})))
}
