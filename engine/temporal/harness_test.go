package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.temporal.io/sdk/client"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/duty"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/enginetest"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/namespaces"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// harness is a complete dvt around a real Temporal server, with scripted steps.
type harness struct {
	t        *testing.T
	store    store.Store
	control  *usecases.UseCases
	journal  engine.Journal
	engine   *temporal.Router
	strategy namespaces.Strategy
	clients  map[string]temporal.Client
	client   client.Client
	keys     ticket.Keys
	queues   plan.Queues
	steps    *script
	evidence *artifact.Store // the logs and artifacts of steps
	who      authz.Principal
	root     string
	// patience is the time in which a run must reach an expected state.
	patience time.Duration
}

// script answers executions by step id; a step without an entry succeeds at once.
type script struct {
	mu     sync.Mutex
	do     map[string]func(context.Context, executor.Task) error
	calls  []string        // stepId/logicalAttempt.engineAttempt, in order
	keys   []string        // idempotency keys, in order
	result json.RawMessage // of every step that succeeds
}

func (s *script) on(step string, f func(context.Context, executor.Task) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do[step] = f
}

func (s *script) Execute(ctx context.Context, t executor.Task, h executor.Host) (executor.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, fmt.Sprintf("%s/%d.%d", t.Step.StepID, t.LogicalAttempt, t.EngineAttempt))
	s.keys = append(s.keys, t.IdempotencyKey)
	f := s.do[t.Step.StepID]
	s.mu.Unlock()
	h.Print("stdout", "running "+t.Step.StepID)
	if f == nil {
		return executor.Result{Value: s.result}, nil
	}
	return executor.Result{Value: s.result}, f(ctx, t)
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

// called returns the executions so far, as stepId/logicalAttempt.engineAttempt, in order.
func (s *script) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// gate holds executions until it is opened.
type gate chan struct{}

func (g gate) wait(ctx context.Context, _ executor.Task) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hold makes executions of a step wait until open is called, or until the test ends.
func (h *harness) hold(step string) (open func()) {
	g := make(gate)
	h.steps.on(step, g.wait)
	open = sync.OnceFunc(func() { close(g) })
	h.t.Cleanup(open)
	return open
}

func failure(code string, retryable bool, class string) *executor.Failure {
	return &executor.Failure{Code: code, Message: "it failed", Retryable: retryable, Class: class,
		Category: run.CategorySystem}
}

// failing returns a step that fails in logical attempts up to upTo and then succeeds.
func failing(upTo int, f *executor.Failure) func(context.Context, executor.Task) error {
	return func(_ context.Context, t executor.Task) error {
		if t.LogicalAttempt <= upTo {
			return f
		}
		return nil
	}
}

// options configures a harness; the zero value means one worker with 32 slots on each queue.
type options struct {
	server  *testserver.TemporalServer
	policy  run.Policy
	workers int // -1 for none
	slots   int // executions at once per worker on the data queue
	limits  runs.Limits
	wrap    func(engine.Journal) engine.Journal // between workers and the store
	store   store.Store                         // SQLite when nil
	config  func(*journal.Config)               // changes the configuration of the workers' journal
	// noStarts and noDeliveries switch off the duties of the server that start runs and deliver signals.
	noStarts, noDeliveries bool
	sweeping               duty.ReconcileSettings
	// heartbeat is the heartbeat timeout; zero means 30 s.
	heartbeat time.Duration
	// rotateAfter is temporal.Config.RotateAfter; zero means 50.
	rotateAfter int
	payloads    *temporal.Payloads // nil: no encryption
	log         *slog.Logger       // of the client; quietLog when nil
	// strategy has further namespaces of the server; its default is that of the server.
	strategy namespaces.Strategy
}

func newHarness(t *testing.T, o options) *harness {
	t.Helper()
	ctx := t.Context()
	if o.server == nil {
		o.server = testserver.Temporal(t)
	}
	if o.log == nil {
		o.log = quietLog
	}
	dir := t.TempDir()
	st := o.store
	if st == nil {
		file, err := sqlite.Open(ctx, filepath.Join(dir, "dvt.db"), sqlite.Options{})
		must(t, err)
		t.Cleanup(func() { _ = file.Close() })
		st = file
	}
	bus, err := redisbus.Open(redisbus.Config{URL: "redis://" + miniredis.RunT(t).Addr() + "/0"})
	must(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	logs, err := artifact.Open(ctx, "mem://")
	must(t, err)
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	must(t, err)
	az, err := authz.New(authz.DefaultPolicy(), directory)
	must(t, err)
	c, err := temporal.Connect(temporal.Connection{HostPort: o.server.Addr, Namespace: o.server.Namespace,
		Payloads: o.payloads}, o.log)
	must(t, err)
	t.Cleanup(c.Close)
	id := uuid.NewString()[:8]
	h := &harness{
		evidence: logs, t: t, patience: 40 * time.Second, store: st, client: c, root: dir,
		steps: &script{do: map[string]func(context.Context, executor.Task) error{}},
		queues: plan.Queues{Control: "tq-control-" + id, Data: "tq-data-" + id, Known: []string{"tq-control-" + id,
			"tq-data-" + id, "tq-extra-" + id}},
	}
	h.who, err = directory.Authenticate("dev-engineer")
	must(t, err)
	h.keys = testKeys()
	h.route(o)
	keys, err := runs.ParseManualKeys([]string{"test:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="})
	must(t, err)
	h.control = usecases.New(usecases.Config{
		ManualKeys: keys, Store: st, Engine: h.engine, Bus: bus,
		Hub: live.New(st, bus, live.Config{}), Authz: az, Logs: logs, Queues: h.queues, Policy: o.policy,
		Limits: o.limits, Reconcile: o.sweeping,
	})
	cfg := journal.Config{
		Tickets: h.keys, Store: journal.On(st), Logs: logs, Blobs: logs, Queues: h.queues, MaxSteps: h.control.MaxSteps(),
		Fetch: journal.NewFetcher([]string{dir}, nil),
	}
	if o.config != nil {
		o.config(&cfg)
	}
	h.journal = journal.New(cfg)
	if !o.noStarts {
		h.spawn(func(ctx context.Context) error { return h.control.Dispatch(ctx, "test") })
	}
	if !o.noDeliveries {
		h.spawn(func(ctx context.Context) error { return h.control.Deliver(ctx, "test") })
	}
	if o.wrap != nil {
		h.journal = o.wrap(h.journal)
	}
	if o.workers == 0 {
		o.workers = 1
	}
	for range o.workers {
		h.worker(o.slots)
	}
	return h
}

// route opens the engine over every namespace.
func (h *harness) route(o options) {
	h.t.Helper()
	h.strategy, h.clients = o.strategy, map[string]temporal.Client{o.server.Namespace: h.client}
	h.strategy.Default = o.server.Namespace
	var engines []*temporal.Engine
	for _, name := range h.strategy.All() {
		if h.clients[name] == nil {
			c, err := temporal.Connect(temporal.Connection{HostPort: o.server.Addr, Namespace: name, Payloads: o.payloads},
				o.log)
			must(h.t, err)
			h.t.Cleanup(c.Close)
			h.clients[name] = c
		}
		engines = append(engines, temporal.New(h.clients[name], name, temporal.Config{HeartbeatTimeout: o.heartbeat,
			RotateAfter: o.rotateAfter, Tickets: h.keys, Payloads: o.payloads, Tier: h.strategy.Tier}))
	}
	h.engine = temporal.NewRouter(engines, temporal.Route{Of: h.strategy.Of,
		Serving: func(queue string) []string { return h.strategy.Serving(queue, h.queues) }})
}

// testKeys returns the ticket keys of all processes of these tests.
func testKeys() ticket.Keys {
	keys, err := ticket.ParseKeys([]string{"test:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="})
	if err != nil {
		panic(err) // unreachable: the key is a constant
	}
	return keys
}

// spawn runs f until the test ends, or until the returned function is called.
func (h *harness) spawn(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			h.t.Errorf("a background function of the harness ended with %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	h.t.Cleanup(stop)
	return stop
}

// worker serves all queues with scripted executors.
func (h *harness) worker(slots int) (stop func()) {
	return h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}, Data: h.queues.Known[1:],
		DataConcurrency: slots})
}

func (h *harness) serve(w temporal.WorkerConfig) (stop func()) {
	w.Namespace, w.StopTimeout, w.Tickets = testserver.TemporalNamespace, time.Second, h.keys
	if w.DataConcurrency == 0 {
		w.DataConcurrency = 32
	}
	for _, name := range h.strategy.All()[1:] {
		w.Elsewhere = append(w.Elsewhere, temporal.Served{Client: h.clients[name], Namespace: name, Control: w.Control,
			Data: w.Data})
	}
	return h.spawn(func(ctx context.Context) error {
		return temporal.Run(ctx, h.client, w, h.journal, runner(h.journal, h.root, h.steps))
	})
}

// runner returns a Runner that runs steps of every type with one executor.
func runner(j engine.Journal, root string, x executor.Executor) *executor.Runner {
	all := map[plan.StepType]executor.Executor{}
	for _, t := range []plan.StepType{plan.Command, plan.HTTPNotify, plan.DBTRun, plan.DBTCompile, plan.DBTTest, plan.Noop,
		plan.Sleep} {
		all[t] = x
	}
	return &executor.Runner{Journal: j, Executors: all, WorkspaceRoot: filepath.Join(root, "ws"), ProjectRoot: root,
		Log: quietLog}
}

// step is one step of a test plan. deps are ids separated by spaces.
type step struct {
	id, deps string
	extra    map[string]any
}

// document returns a plan of COMMAND steps with one attempt each, unless the extra fields of a step differ. window is
// the retry window in seconds.
func document(window int, steps ...step) []byte {
	var list []string
	more := map[string]map[string]any{}
	for _, s := range steps {
		list = append(list, s.id+"<"+strings.Join(strings.Fields(s.deps), ","))
		more[s.id] = s.extra
	}
	return enginetest.Document(window, more, list...)
}

// operator returns the operator that starts and reads the harness's runs.
func (h *harness) operator() enginetest.Operator {
	return enginetest.Operator{T: h.t, Store: h.store, Control: h.control, Who: h.who}
}

func (h *harness) start(doc []byte) string {
	h.t.Helper()
	return h.operator().Start(doc)
}

func (h *harness) signal(runID string, sig run.Signal) runs.SignalReceipt {
	h.t.Helper()
	if sig.ID == "" {
		sig.ID = uuid.NewString()
	}
	out, err := h.control.SignalRun(h.t.Context(), h.who, runs.SignalRun{RunID: runID, Signal: sig,
		Payload: []byte(`{}`), Reason: "a test"})
	must(h.t, err)
	return out
}

// waitFor waits for the run's state to satisfy ok.
func (h *harness) waitFor(runID, what string, ok func(run.State) bool) run.State {
	h.t.Helper()
	began := time.Now()
	for deadline := began.Add(testtime.Of(h.patience)); ; testtime.Pause(began, h.patience/1000) {
		l, err := h.store.Load(h.t.Context(), runID)
		must(h.t, err)
		if ok(l.State) {
			return l.State
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the run did not become %s; its log:\n%s", what, strings.Join(h.log(runID), "\n"))
		}
	}
}

// waitUntilRunning waits for steps to be RUNNING in the log.
func (h *harness) waitUntilRunning(runID string, steps ...string) {
	h.t.Helper()
	h.waitFor(runID, "running "+strings.Join(steps, " and "), func(s run.State) bool {
		return !slices.ContainsFunc(steps, func(id string) bool {
			step, ok := s.Step(id)
			return !ok || step.Status != run.StepRunning
		})
	})
}

// waitForEvent waits for an event in the notation of the contract.
func (h *harness) waitForEvent(runID, event string) {
	h.t.Helper()
	h.waitFor(runID, "logging "+event, func(run.State) bool { return slices.Contains(h.log(runID), event) })
}

// waitForEnd waits for the end of a run. It also checks that no end of a step has a later EmittedAt than the end of the
// run.
func (h *harness) waitForEnd(runID string) run.State {
	h.t.Helper()
	st := h.waitFor(runID, "over", func(s run.State) bool { return s.Status.Terminal() })
	events := h.events(runID)
	end := events[len(events)-1]
	for _, e := range events {
		if (e.Type.EndsAttempt() || e.Type.EndsHook()) && end.EmittedBy == run.ByEngine && end.EmittedAt.Before(e.EmittedAt) {
			h.t.Errorf("%s has EmittedAt %v, earlier than %v of %s", end.Notation(), end.EmittedAt, e.EmittedAt, e.Notation())
		}
	}
	return st
}

// waitUntilApplied waits until a receipt is final.
func (h *harness) waitUntilApplied(runID, signalID string) run.SignalReceipt {
	h.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		r, err := h.store.Receipt(h.t.Context(), runID, signalID)
		must(h.t, err)
		if r.Application.Final() {
			return r
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the receipt %s stayed %s; log:\n%s", signalID, r.Application, strings.Join(h.log(runID), "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// waitUntilDelivered waits until the engine has a signal.
func (h *harness) waitUntilDelivered(runID, signalID string) {
	h.t.Helper()
	h.waitFor(runID, "a receiver of "+signalID, func(run.State) bool {
		return h.operator().Receipt(runID, signalID).DeliveredAt != nil
	})
}

func (h *harness) events(runID string) []run.Event {
	h.t.Helper()
	return h.operator().Events(runID)
}

// log returns the run's events in the notation of the contract.
func (h *harness) log(runID string) []string {
	var out []string
	for _, e := range h.events(runID) {
		out = append(out, e.Notation())
	}
	return out
}

// expect compares the log from the event with the number first, counted from 1.
func (h *harness) expect(runID string, first int, want ...string) {
	h.t.Helper()
	got := h.log(runID)
	if d := cmp.Diff(want, got[min(first-1, len(got)):]); d != "" {
		h.t.Fatalf("log from event %d on, -want +got:\n%s", first, d)
	}
}

// payload decodes the payload of the only event with this notation.
func payload[P any](h *harness, runID, event string) P {
	h.t.Helper()
	var found []run.Event
	for i, s := range h.log(runID) {
		if s == event {
			found = append(found, h.events(runID)[i])
		}
	}
	if len(found) != 1 {
		h.t.Fatalf("the log has %d events %s, want 1; log:\n%s", len(found), event, strings.Join(h.log(runID), "\n"))
	}
	p, err := run.PayloadOf[P](found[0].Payload)
	must(h.t, err)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
