package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// harness is a whole dvt around a real Temporal server, with scripted steps.
type harness struct {
	t       *testing.T
	store   store.Store
	control *control.Service
	journal *control.Journal
	client  client.Client
	queues  plan.Queues
	steps   *script
	who     authz.Principal
	root    string
}

// script answers executions by step id; a step without an entry succeeds at once.
type script struct {
	mu    sync.Mutex
	do    map[string]func(context.Context, executor.Task) error
	calls []string // stepId/la.ea, in order
}

func (s *script) on(step string, f func(context.Context, executor.Task) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do[step] = f
}

func (s *script) Execute(ctx context.Context, t executor.Task, h executor.Host) (executor.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%s/%d.%d", t.Step.StepID, t.LogicalAttempt, t.EngineAttempt))
	f := s.do[t.Step.StepID]
	s.mu.Unlock()
	h.Print("stdout", "running "+t.Step.StepID)
	if f == nil {
		return executor.Result{}, nil
	}
	return executor.Result{}, f(ctx, t)
}

func (s *script) count(step string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.HasPrefix(c, step+"/") {
			n++
		}
	}
	return n
}

type options struct {
	server   *testserver.TemporalServer
	policy   run.Policy
	workers  int // 1 when zero
	slots    int // executions at once per worker on the data queue
	maxSteps int
}

func newHarness(t *testing.T, o options) *harness {
	t.Helper()
	ctx := t.Context()
	if o.server == nil {
		o.server = testserver.Temporal(t)
	}
	dir := t.TempDir()
	st, err := sqlite.Open(ctx, filepath.Join(dir, "dvt.db"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	bus, err := redisbus.Open(redisbus.Config{URL: "redis://" + miniredis.RunT(t).Addr() + "/0"})
	must(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	logs, err := artifact.Open(ctx, "mem://")
	must(t, err)
	directory, err := authz.NewDirectory(authz.DevAccounts(), time.Now)
	must(t, err)
	az, err := authz.New(authz.DefaultPolicy(), directory)
	must(t, err)
	c, err := temporal.Dial(o.server.Addr, o.server.Namespace, quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	id := uuid.NewString()[:8]
	h := &harness{
		t: t, store: st, client: c, root: dir, steps: &script{do: map[string]func(context.Context, executor.Task) error{}},
		queues: plan.Queues{Control: "tq-control-" + id, Data: "tq-data-" + id, Known: []string{"tq-control-" + id, "tq-data-" + id, "tq-extra-" + id}},
	}
	h.who, err = directory.Authenticate("dev-engineer")
	must(t, err)
	h.control = control.New(control.Config{
		Store: st, Engine: temporal.New(c, o.server.Namespace, temporal.Config{HeartbeatTimeout: 3 * time.Second}), Bus: bus,
		Hub: live.New(st, bus, live.Config{}), Authz: az, Logs: logs, Queues: h.queues, Policy: o.policy,
		Limits: control.Limits{MaxSteps: o.maxSteps},
	})
	h.journal = control.NewJournal(control.JournalConfig{
		Store: st, Logs: logs, Blobs: logs, Queues: h.queues, MaxSteps: h.control.MaxSteps(), Fetch: control.NewFetcher([]string{dir}, true),
	})
	h.spawn(func(ctx context.Context) error { return h.control.Reconcile(ctx, "test") })
	h.spawn(func(ctx context.Context) error { return h.control.Deliver(ctx, "test") })
	for range max(1, o.workers) {
		h.worker(o.slots)
	}
	return h
}

// spawn runs f until the test ends, or until the returned function is called.
func (h *harness) spawn(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			h.t.Errorf("background: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	h.t.Cleanup(stop)
	return stop
}

// worker serves both queues with scripted executors.
func (h *harness) worker(slots int) (stop func()) {
	if slots == 0 {
		slots = 32
	}
	all := map[plan.StepType]executor.Executor{}
	for _, t := range []plan.StepType{plan.Command, plan.HTTPNotify, plan.DBTRun, plan.DBTCompile, plan.DBTTest, plan.Noop, plan.Sleep} {
		all[t] = h.steps
	}
	return h.spawn(func(ctx context.Context) error {
		return temporal.Run(ctx, h.client, temporal.WorkerConfig{
			Namespace: "dvt", Control: []string{h.queues.Control}, Data: []string{h.queues.Data, h.queues.Known[2]},
			DataConcurrency: slots, StopTimeout: 2 * time.Second,
		}, h.journal, &executor.Runner{Journal: h.journal, Executors: all, WorkspaceRoot: filepath.Join(h.root, "ws"), ProjectRoot: h.root, Log: quietLog})
	})
}

// step is one line of a test plan.
type step struct {
	id, deps string
	extra    map[string]any
}

// document writes a plan of COMMAND steps with one attempt and no retry window
// unless a step or window says otherwise.
func document(window int, steps ...step) []byte {
	var list []map[string]any
	for _, s := range steps {
		m := map[string]any{
			"stepId": s.id, "type": "COMMAND", "inputs": map[string]any{"argv": []string{"true"}}, "timeout": "1m",
			"dependsOn": strings.Fields(s.deps), "retry": map[string]any{"maxAttempts": 1},
		}
		for k, v := range s.extra {
			m[k] = v
		}
		list = append(list, m)
	}
	doc, err := json.Marshal(map[string]any{
		"schemaVersion": "v1.2",
		"metadata": map[string]any{
			"planId": "plan-3", "planVersion": "1.0", "createdAt": "2026-01-01T00:00:00Z", "createdBy": "test", "schemaVersion": "v1.2",
			"failurePolicy": map[string]any{"retryWindowSeconds": window},
		},
		"scope": map[string]any{"tenantId": "acme", "projectId": "shop", "environmentId": "dev", "repoSha": strings.Repeat("0", 40)},
		"steps": list,
	})
	if err != nil {
		panic(err)
	}
	return doc
}

func (h *harness) start(doc []byte) string {
	h.t.Helper()
	out, err := h.control.StartRun(h.t.Context(), h.who, control.StartRun{
		RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev", Inline: doc,
	})
	must(h.t, err)
	return out.View.State.RunID
}

func (h *harness) signal(runID string, sig run.Signal) control.Receipt {
	h.t.Helper()
	if sig.ID == "" {
		sig.ID = uuid.NewString()
	}
	out, err := h.control.SignalRun(h.t.Context(), h.who, control.SignalRun{RunID: runID, Signal: sig, Payload: []byte(`{}`), Reason: "a test"})
	must(h.t, err)
	return out
}

// until waits for the run's state to satisfy ok.
func (h *harness) until(runID, what string, ok func(run.State) bool) run.State {
	h.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		l, err := h.store.Load(h.t.Context(), runID)
		must(h.t, err)
		if ok(l.State) {
			return l.State
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("run did not come to be %s; its log:\n%s", what, strings.Join(h.log(runID), "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (h *harness) ended(runID string) run.State {
	h.t.Helper()
	return h.until(runID, "over", func(s run.State) bool { return s.Status.Terminal() })
}

// applied waits until a receipt is final.
func (h *harness) applied(runID, signalID string) run.Receipt {
	h.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		r, err := h.store.Receipt(h.t.Context(), runID, signalID)
		must(h.t, err)
		if r.Application.Final() {
			return r
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("receipt %s stayed %s; log:\n%s", signalID, r.Application, strings.Join(h.log(runID), "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (h *harness) events(runID string) []run.Event {
	h.t.Helper()
	evs, err := h.store.Events(h.t.Context(), runID, 0, store.MaxPage)
	must(h.t, err)
	return evs
}

// log is the run's events in the notation of the contract.
func (h *harness) log(runID string) []string {
	var out []string
	for _, e := range h.events(runID) {
		s := string(e.Type)
		switch {
		case e.StepID != "":
			s += fmt.Sprintf("(%s,%d)", e.StepID, e.LogicalAttempt)
		case e.Type == run.RunPaused || e.Type == run.RunResumed:
			s += fmt.Sprintf("(%d)", e.LogicalAttempt)
		}
		out = append(out, s)
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
