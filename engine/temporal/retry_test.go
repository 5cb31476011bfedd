package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
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

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func retry(attempts, backoffMS int, classes ...string) map[string]any {
	m := map[string]any{"maxAttempts": attempts, "initialBackoffMs": backoffMS}
	if len(classes) > 0 {
		m["retryableErrors"] = classes
	}
	return map[string]any{"retry": m}
}

// contract: E-10
func TestRetry_FailsOnceAfterTheLastTry(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	var mu sync.Mutex
	var at []time.Time
	h.steps.on("s1", func(context.Context, executor.Task) error {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		return failure("FLAKY", true, "transport")
	})
	id := h.start(document(0, step{id: "s1", extra: retry(3, 1000)}))
	st := h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepFailed(s1,1)", "RunFailed")
	if len(at) != 3 {
		t.Fatalf("%d executions, want 3", len(at))
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second} {
		if got := at[i+1].Sub(at[i]); got < want-50*time.Millisecond || got > want+testtime.Of(2*time.Second) {
			t.Errorf("delay %d is %s, want about %s", i+1, got, want)
		}
	}
	if a := st.Steps[0].Attempts[0]; a.Error.Code != "FLAKY" || a.EngineAttempt != 3 {
		t.Errorf("attempt %+v, error %+v; want FLAKY in engine attempt 3", a, a.Error)
	}
}

// contract: T67, T205
func TestRetry_DependsOnTheClassOfTheFailure(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	tests := map[string]struct {
		extra map[string]any
		err   error
		calls int
	}{
		"unknown":       {retry(2, 100), errors.New("a surprise"), 2},
		"final":         {retry(2, 100), failure("FINAL", false, "transport"), 1},
		"validation":    {retry(2, 100), failure("INVALID", true, "validation"), 1},
		"listed":        {retry(2, 100, "transport"), failure("NET", true, "transport"), 2},
		"notlisted":     {retry(2, 100, "transport"), failure("RATE", true, "rate_limit"), 1},
		"unknownlisted": {retry(2, 100, "transport"), errors.New("a surprise"), 2},
	}
	ids := map[string]string{}
	for name, tt := range tests {
		h.steps.on(name, func(context.Context, executor.Task) error { return tt.err })
		ids[name] = h.start(document(0, step{id: name, extra: tt.extra}))
	}
	for name, tt := range tests {
		st := h.waitForEnd(ids[name])
		if got := h.steps.count(name); st.Status != run.Failed || got != tt.calls {
			t.Errorf("%s: the run ended %s (%+v) after %d executions, want FAILED after %d", name, st.Status,
				st.Failure, got, tt.calls)
		}
	}
}

// contract: E-11
func TestRetry_ATimeoutIsRetriedIfThePolicyListsIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	for _, id := range []string{"s1", "once"} {
		h.steps.on(id, make(gate).wait)
	}
	with := func(m map[string]any) map[string]any { m["timeout"] = "100ms"; return m }
	three := h.start(document(0, step{id: "s1", extra: with(retry(3, 100))}))
	one := h.start(document(0, step{id: "once", extra: with(retry(3, 100, "transport"))}))
	for _, tt := range []struct {
		run   string
		calls int
	}{{three, 3}, {one, 1}} {
		st := h.waitForEnd(tt.run)
		h.expect(tt.run, 3, "StepStarted("+st.Steps[0].StepID+",1)", "StepFailed("+st.Steps[0].StepID+",1)", "RunFailed")
		a := st.Steps[0].Attempts[0]
		if a.Error.Code != "TIMEOUT" || a.Error.Category != run.CategoryTimeout || a.EngineAttempt != tt.calls {
			t.Errorf("attempt %+v, error %+v; want TIMEOUT in engine attempt %d", a, a.Error, tt.calls)
		}
		if got := h.steps.count(st.Steps[0].StepID); got != tt.calls {
			t.Errorf("%d executions, want %d", got, tt.calls)
		}
	}
}

// lossy is a Journal between workers and the store that loses calls or answers.
type lossy struct {
	engine.Journal
	begin  func() error                    // may refuse a StartAttempt
	append func(store.Append, error) error // may replace the answer to an Append
	begins atomic.Int64
}

func (l *lossy) StartAttempt(ctx context.Context, b engine.StartAttempt) (engine.AttemptStarted, error) {
	l.begins.Add(1)
	if l.begin != nil {
		if err := l.begin(); err != nil {
			return engine.AttemptStarted{}, err
		}
	}
	return l.Journal.StartAttempt(ctx, b)
}

func (l *lossy) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := l.Journal.Append(ctx, a)
	if l.append != nil {
		if err := l.append(a, err); err != nil {
			return store.Appended{}, err
		}
	}
	return out, err
}

// The journal does not answer a start for longer than the heartbeat timeout. Heartbeats keep the execution alive.
// contract: T216
func TestRetry_AnUnansweredStartOutlivesTheHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	silence := testtime.Of(3 * time.Second)
	var since atomic.Int64
	l := &lossy{begin: func() error {
		since.CompareAndSwap(0, time.Now().UnixNano())
		if time.Now().UnixNano()-since.Load() < int64(silence+time.Second) {
			return store.ErrUnavailable
		}
		return nil
	}}
	h := newHarness(t, options{heartbeat: silence, wrap: func(j engine.Journal) engine.Journal {
		l.Journal = j
		return l
	}})
	id := h.start(document(0, step{id: "s1"}))
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Steps[0].Attempts[0].EngineAttempt != 1 {
		t.Fatalf("the run ended %s, want COMPLETED", st.Status)
	}
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	if h.steps.count("s1") != 1 || l.begins.Load() < 3 {
		t.Errorf("%d executions after %d starts, want 1 after at least 3", h.steps.count("s1"), l.begins.Load())
	}
}

// The store commits every append, and its first answer is lost.
// contract: T120, E-09
func TestRetry_LostAnswersCauseNoSecondEvent(t *testing.T) {
	t.Parallel()
	lost := sync.Map{}
	l := &lossy{append: func(a store.Append, err error) error {
		b, _ := json.Marshal(a.Events)
		if _, again := lost.LoadOrStore(string(b), true); !again && err == nil {
			return store.ErrUnavailable
		}
		return err
	}}
	h := newHarness(t, options{wrap: func(j engine.Journal) engine.Journal { l.Journal = j; return l }})
	open := h.hold("s2")
	h.steps.on("s2", failing(1, failure("BROKEN", true, "")))
	id := h.start(document(60, step{id: "s1"}, step{id: "s2", deps: "s1"}, step{id: "s3", deps: "s2"}))
	open()
	h.waitFor(id, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	r := h.signal(id, run.Signal{Type: run.RetryStep, StepID: "s2"})
	h.waitForEnd(id)
	h.expect(id, 1, "RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"StepFailed(s2,1)",
		"SignalAccepted", "StepStarted(s2,2)", "StepCompleted(s2,2)", "StepStarted(s3,1)", "StepCompleted(s3,1)",
		"RunCompleted")
	if got := h.waitUntilApplied(id, r.Signal.ID); got.Application != run.SignalApplied || got.AppliedSeq != 8 {
		t.Errorf("receipt of the retry %+v, want it applied by event 8", got)
	}
	if d := cmp.Diff([]string{"s1/1.1", "s2/1.1", "s2/2.1", "s3/1.1"}, h.steps.called()); d != "" {
		t.Errorf("executions (-want +got):\n%s", d)
	}
}

// Temporal is down during a step, for longer than one heartbeat may take and for less than the heartbeat timeout.
// contract: T199
func TestRetry_AStepSurvivesAnOutageOfTemporal(t *testing.T) {
	t.Parallel()
	server := testserver.TemporalAlone(t)
	h := newHarness(t, options{server: server})
	open := h.hold("s1")
	id := h.start(document(0, step{id: "s1"}))
	h.waitUntilRunning(id, "s1")
	server.Kill(t)
	time.Sleep(6 * time.Second)
	server.Restart(t)
	open()
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	if got := h.steps.called(); cmp.Diff([]string{"s1/1.1"}, got) != "" {
		t.Errorf("executions %q, want s1/1.1 alone", got)
	}
}

const workerEnv = "DVT_TEST_TEMPORAL_WORKER"

// childConfig is the configuration of a worker in a process of its own. Keys is the file in which it records
// idempotency keys.
type childConfig struct {
	Addr, DB, Root, Keys string
	Queues               plan.Queues
}

// The process of a worker is killed during two steps. Another worker executes one again; the policy of the other step
// does not retry timeouts, so it fails.
// contract: E-08
func TestRetry_AStepOfAKilledWorkerIsExecutedAgain(t *testing.T) {
	t.Parallel()
	if cfg := os.Getenv(workerEnv); cfg != "" {
		hangingWorker(t, cfg)
		return
	}
	h := newHarness(t, options{workers: -1, heartbeat: testtime.Of(3 * time.Second)})
	h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
	cfg, err := json.Marshal(childConfig{
		Addr: testserver.Temporal(t).Addr, DB: filepath.Join(h.root, "dvt.db"), Root: h.root,
		Keys: filepath.Join(h.root, "keys"), Queues: h.queues,
	})
	must(t, err)
	child := exec.Command(os.Args[0], "-test.run=^TestRetry_AStepOfAKilledWorkerIsExecutedAgain$")
	child.Env = append(os.Environ(), workerEnv+"="+string(cfg))
	child.Stderr = os.Stderr
	must(t, child.Start())
	kill := sync.OnceFunc(func() { _ = child.Process.Kill(); _ = child.Wait() })
	t.Cleanup(kill)

	again := h.start(document(0, step{id: "again", extra: retry(3, 100)}))
	never := h.start(document(0, step{id: "never", extra: retry(3, 100, "transport")}))
	h.waitUntilRunning(again, "again")
	h.waitUntilRunning(never, "never")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if b, _ := os.ReadFile(filepath.Join(h.root, "keys")); strings.Count(string(b), "\n") == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker process did not start both steps within a minute")
		}
	}
	kill()
	h.serve(temporal.WorkerConfig{Data: h.queues.Known[1:]})

	st := h.waitForEnd(again)
	h.expect(again, 3, "StepStarted(again,1)", "StepCompleted(again,1)", "RunCompleted")
	if a := st.Steps[0].Attempts[0]; a.EngineAttempt != 2 {
		t.Errorf("engine attempt %d completed the step, want 2", a.EngineAttempt)
	}
	b, err := os.ReadFile(filepath.Join(h.root, "keys"))
	must(t, err)
	if key := again + ":again:1"; !strings.Contains(string(b), key+"\n") || !slices.Contains(h.steps.keys, key) {
		t.Errorf("the first worker has the keys %q, the second %q; want %s in both", b, h.steps.keys, key)
	}

	st = h.waitForEnd(never)
	h.expect(never, 3, "StepStarted(never,1)", "StepFailed(never,1)", "RunFailed")
	if a := st.Steps[0].Attempts[0]; a.Error.Code != "TIMEOUT" || a.EngineAttempt != 1 {
		t.Errorf("attempt %+v, error %+v; want TIMEOUT in engine attempt 1", a, a.Error)
	}
	if h.steps.count("never") != 0 {
		t.Error("the step never was retried, although its policy does not retry timeouts")
	}
}

// hangingWorker serves the data queues for at most a minute and never ends a step.
func hangingWorker(t *testing.T, config string) {
	var cfg childConfig
	must(t, json.Unmarshal([]byte(config), &cfg))
	st, err := sqlite.Open(t.Context(), cfg.DB, sqlite.Options{})
	must(t, err)
	defer st.Close()
	logs, err := artifact.Open(t.Context(), "mem://")
	must(t, err)
	c, err := temporal.Dial(cfg.Addr, testserver.TemporalNamespace, slog.New(slog.DiscardHandler))
	must(t, err)
	defer c.Close()
	j := journal.New(journal.Config{Tickets: testKeys(), Store: journal.On(st), Logs: logs, Blobs: logs,
		Queues: cfg.Queues, MaxSteps: 1000})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, temporal.Run(ctx, c, temporal.WorkerConfig{
		Namespace: testserver.TemporalNamespace, Data: cfg.Queues.Known[1:], StopTimeout: time.Second,
	}, j, runner(j, cfg.Root, hanging{cfg.Keys})))
}

// hanging writes the idempotency key of each task and waits.
type hanging struct{ keys string }

func (x hanging) Execute(ctx context.Context, t executor.Task, _ executor.Host) (executor.Result, error) {
	f, err := os.OpenFile(x.keys, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return executor.Result{}, err
	}
	defer f.Close()
	if _, err := f.WriteString(t.IdempotencyKey + "\n"); err != nil {
		return executor.Result{}, err
	}
	<-ctx.Done()
	return executor.Result{}, context.Cause(ctx)
}

// A worker stops in an orderly way during a step. Another worker executes the step again.
// contract: T226
func TestRetry_AStepOfAStoppedWorkerIsExecutedAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
	stop := h.serve(temporal.WorkerConfig{Data: h.queues.Known[1:]})
	h.steps.on("s1", func(ctx context.Context, task executor.Task) error {
		if task.EngineAttempt > 1 {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	id := h.start(document(0, step{id: "s1", extra: retry(3, 100)}))
	h.waitUntilRunning(id, "s1")
	began := time.Now()
	stop()
	if took := time.Since(began); took > testtime.Of(5*time.Second) {
		t.Errorf("the worker stopped after %s, want at most 5 s", took)
	}
	h.serve(temporal.WorkerConfig{Data: h.queues.Known[1:]})
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "RunCompleted")
	if got := h.steps.called(); cmp.Diff([]string{"s1/1.1", "s1/1.2"}, got) != "" {
		t.Errorf("executions %q, want s1/1.1 and s1/1.2", got)
	}
}
