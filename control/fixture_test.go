package control_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	_ "modernc.org/sqlite" // the audit table is read beside the port, which is insert-only

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// fakeEngine is an engine whose answers a test sets. By default it accepts everything.
type fakeEngine struct {
	mu        sync.Mutex
	start     func(run.Identity) error
	signal    func(run.Identity, engine.Signal) error
	terminate func(run.Identity) error
	describe  error
	started   map[string]int
	signals   map[string][]engine.Signal
}

func (e *fakeEngine) Start(_ context.Context, id run.Identity, _ plan.Queues) (engine.Started, error) {
	e.mu.Lock()
	e.started[id.RunID]++
	f := e.start
	e.mu.Unlock()
	if f != nil {
		return engine.Started{}, f(id)
	}
	return engine.Started{Ref: run.EngineRunRef{Provider: "fake", WorkflowID: id.RunID}}, nil
}

func (e *fakeEngine) Signal(_ context.Context, id run.Identity, s engine.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.signal != nil {
		if err := e.signal(id, s); err != nil {
			return err
		}
	}
	e.signals[id.RunID] = append(e.signals[id.RunID], s)
	return nil
}

func (e *fakeEngine) Terminate(_ context.Context, id run.Identity, _ string) error {
	e.mu.Lock()
	f := e.terminate
	e.mu.Unlock()
	if f != nil {
		return f(id)
	}
	return nil
}

func (e *fakeEngine) Describe(context.Context, run.Identity) (engine.Description, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.describe != nil {
		return engine.Description{}, e.describe
	}
	return engine.Description{}, engine.ErrNotStarted
}

func (e *fakeEngine) Capabilities() []engine.Capability { return nil }

func (e *fakeEngine) set(f func(*fakeEngine)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e)
}

func (e *fakeEngine) starts(runID string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started[runID]
}

func (e *fakeEngine) delivered(runID string) []engine.Signal {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]engine.Signal(nil), e.signals[runID]...)
}

// clock is a clock that a test can advance and hold.
type clock struct {
	mu   sync.Mutex
	off  time.Duration
	held time.Time // zero while the clock runs
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *clock) read() time.Time {
	if !c.held.IsZero() {
		return c.held.Add(c.off)
	}
	return time.Now().Add(c.off)
}

// hold stops the time. Only advance moves it, however long the test takes.
func (c *clock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.off = c.read().Truncate(time.Microsecond), 0 // the precision of the stores
}

// release lets the time go on from where it was held.
func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off, c.held = time.Until(c.read()), time.Time{}
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// world has the use cases on a real store, bus, hub and projector.
type world struct {
	t         *testing.T
	dir       string
	clock     *clock
	raw       *sqlite.Store
	store     store.Store
	redis     *miniredis.Miniredis
	bus       *redisbus.Bus
	engine    *fakeEngine
	artifacts *artifact.Store
	directory *authz.Directory
	authz     *authz.Authorizer
	config    usecases.Config
	*usecases.UseCases
	journal *journal.Journal
	tickets ticket.Keys
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// accounts are the principals of `dvt dev` and some with fewer rights.
func accounts() []authz.Account {
	all := authz.DevAccounts(func(name string) string { return name })
	narrow := func(token, id string, like authz.Account, grants ...authz.Grant) {
		for _, a := range all {
			if a.ID == token {
				like = a
			}
		}
		like.ID, like.Grants = id, grants
		like.TokenSHA256 = hash(id)
		all = append(all, like)
	}
	narrow("dev-viewer", "shop-viewer", authz.Account{}, authz.Grant{Role: authz.Viewer, ProjectID: "shop",
		EnvironmentID: "*"})
	narrow("dev-viewer", "two-viewer", authz.Account{},
		authz.Grant{Role: authz.Viewer, ProjectID: "shop", EnvironmentID: "*"}, authz.Grant{Role: authz.Viewer,
			ProjectID: "store", EnvironmentID: "*"},
		authz.Grant{Role: authz.Operator, ProjectID: "shop", EnvironmentID: "*"})
	narrow("dev-viewer", "env-viewer", authz.Account{}, authz.Grant{Role: authz.Viewer, ProjectID: "*",
		EnvironmentID: "dev"})
	narrow("dev-viewer", "nobody", authz.Account{})
	return all
}

func newWorld(t *testing.T, change ...func(*usecases.Config)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{}, engine: &fakeEngine{started: map[string]int{},
		signals: map[string][]engine.Signal{}}}
	w.raw = must[*sqlite.Store](t)(sqlite.Open(t.Context(), filepath.Join(w.dir, "dvt.db"),
		sqlite.Options{Now: w.clock.now, Readers: 2}))
	t.Cleanup(func() { _ = w.raw.Close() })
	w.redis = miniredis.RunT(t)
	w.bus = must[*redisbus.Bus](t)(
		redisbus.Open(redisbus.Config{URL: "redis://" + w.redis.Addr() + "/0", PingInterval: 50 * time.Millisecond}))
	t.Cleanup(func() { _ = w.bus.Close() })
	w.artifacts = must[*artifact.Store](t)(artifact.Open(t.Context(), "mem://"))
	t.Cleanup(func() { _ = w.artifacts.Close() })
	w.directory = must[*authz.Directory](t)(authz.NewDirectory(accounts(), w.clock.now))
	w.authz = must[*authz.Authorizer](t)(authz.New(authz.DefaultPolicy(), w.directory))
	pr := projector.New(w.raw, w.bus, projector.Config{Window: 50 * time.Millisecond, SweepAge: 100 * time.Millisecond})
	w.store = decorate.WakeOnCommit(w.raw, pr)
	// A head check that takes 3/4 of its interval reports that the store is down and refuses new streams.
	hub := live.New(w.raw, w.bus, live.Config{HeadInterval: 4 * time.Second, ReadTimeout: time.Minute,
		KeepAlive: 2 * time.Second})
	w.spawn(hub.Run)
	w.spawn(pr.Run)
	w.config = usecases.Config{
		Store: w.store, Engine: w.engine, Hub: hub, Bus: w.bus, Authz: w.authz, Logs: w.artifacts, Blobs: w.artifacts,
		Queues: plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"}, Now: w.clock.now, KeepAlive: 2 * time.Second,
	}
	for _, f := range change {
		f(&w.config)
	}
	w.UseCases = usecases.New(w.config)
	w.tickets = ticketKeys(t, "k1")
	w.journal = w.newJournal()
	return w
}

// newJournal returns the Journal of another process on the same store.
func (w *world) newJournal(change ...func(*journal.Config)) *journal.Journal {
	cfg := journal.Config{
		Store: journal.On(w.store), Logs: w.artifacts, Blobs: w.artifacts, Queues: w.config.Queues, MaxSteps: w.MaxSteps(),
		Tickets: w.tickets, Now: w.clock.now,
		Fetch: journal.NewFetcher([]string{w.dir}, nil), WriteBudget: time.Minute, // no caller retries in these tests
	}
	for _, f := range change {
		f(&cfg)
	}
	return journal.New(cfg)
}

// ticketKeys returns keys whose secrets are derived from their ids.
func ticketKeys(t testing.TB, ids ...string) ticket.Keys {
	t.Helper()
	for i, id := range ids {
		ids[i] = id + ":" + secret(id)
	}
	return must[ticket.Keys](t)(ticket.ParseKeys(ids))
}

// spawn runs f until the test ends or until stop is called.
func (w *world) spawn(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			w.t.Errorf("the background work returned %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

func (w *world) who(token string) authz.Principal {
	w.t.Helper()
	return must[authz.Principal](w.t)(w.directory.Authenticate(token))
}

// eng returns a principal that may do everything that most tests need.
func (w *world) eng() authz.Principal { return w.who("dev-engineer") }

type M = map[string]any

// document returns a plan of NOOP steps. A step "b<a" depends on a, and "b<" depends on nothing. If no step has a "<",
// each step depends on the one before.
func document(change M, steps ...string) []byte {
	var list []M
	for _, s := range steps {
		id, deps, says := strings.Cut(s, "<")
		m := M{"stepId": id, "type": "NOOP", "inputs": M{}, "timeout": "1m"}
		if says {
			m["dependsOn"] = strings.FieldsFunc(deps, func(r rune) bool { return r == ',' })
		}
		list = append(list, m)
	}
	doc := M{
		"schemaVersion": "v1.2",
		"metadata": M{"planId": "plan-3", "planVersion": "1.0", "createdAt": "2026-01-01T00:00:00Z", "createdBy": "test",
			"schemaVersion": "v1.2"},
		"scope": M{"tenantId": "acme", "projectId": "shop", "environmentId": "dev",
			"repoSha": strings.Repeat("0", 40)},
		"steps": list,
	}
	for k, v := range change {
		at, path := doc, strings.Split(k, ".")
		for _, p := range path[:len(path)-1] {
			at = at[p].(M)
		}
		at[path[len(path)-1]] = v
	}
	return runtest.JSON(doc)
}

func startOf(requestID string, doc []byte) runs.StartRun {
	var d struct {
		Scope struct{ ProjectID, EnvironmentID string }
	}
	_ = json.Unmarshal(doc, &d)
	return runs.StartRun{RequestID: requestID, ProjectID: d.Scope.ProjectID, EnvironmentID: d.Scope.EnvironmentID,
		Inline: doc}
}

// queued makes a run that no engine has seen.
func (w *world) queued(requestID string, steps ...string) string {
	w.t.Helper()
	return must[runs.StartedRun](w.t)(
		w.StartRun(w.t.Context(), w.eng(), startOf(requestID, document(nil, steps...)))).View.Run.RunID
}

// running makes a run in the state that an engine leaves after RunStarted.
func (w *world) running(requestID string, steps ...string) string {
	w.t.Helper()
	id := w.queued(requestID, steps...)
	w.handOver()
	w.append(id, runtest.Start())
	return id
}

// handOver marks every queued run as started in the engine.
func (w *world) handOver() {
	w.t.Helper()
	for {
		rows := must[[]store.QueueRow](w.t)(w.store.Lease(w.t.Context(), "fixture", time.Minute, 1))
		if len(rows) == 0 {
			return
		}
		if err := w.store.MarkStarted(w.t.Context(), rows[0].RunID, rows[0].Generation); err != nil {
			w.t.Fatal(err)
		}
	}
}

// append writes events like an engine. It can also complete runs whose steps did not run.
func (w *world) append(runID string, events ...run.Draft) store.Appended {
	w.t.Helper()
	put := w.journal.Append
	for i := range events {
		events[i].EmittedAt = w.clock.now()
		if events[i].Type == run.RunCompleted {
			put = w.store.Append
		}
	}
	out := must[store.Appended](w.t)(put(w.t.Context(), store.Append{RunID: runID, Events: events}))
	for i, o := range out.Outcomes {
		if o.Refused != "" {
			w.t.Fatalf("%s was refused: %s", events[i].Type, o.Refused)
		}
	}
	return out
}

// begin writes a StepStarted without checking the dependencies of the step.
func (w *world) begin(runID, stepID string, logicalAttempt int) {
	w.t.Helper()
	b := must[store.AttemptStarted](w.t)(
		w.store.StartAttempt(w.t.Context(), store.StartAttempt{RunID: runID, StepID: stepID, LogicalAttempt: logicalAttempt,
			EngineAttempt: 1,
			EmittedAt:     w.clock.now()}))
	if b.Verdict != store.StartGranted {
		w.t.Fatalf("StartAttempt of %s of run %s returned %s, want RUN", stepID, runID, b.Verdict)
	}
}

// finish starts one attempt and ends it with the event t.
func (w *world) finish(runID, stepID string, logicalAttempt int, t run.EventType, more ...M) {
	w.t.Helper()
	w.begin(runID, stepID, logicalAttempt)
	w.append(runID, runtest.Draft(t, stepID, logicalAttempt, more...))
}

// log returns the run's events as "seq Type(subject)".
func (w *world) log(runID string) (out []string) {
	w.t.Helper()
	for _, e := range must[[]run.Event](w.t)(w.raw.Events(context.Background(), runID, 0, store.MaxPage)) {
		subject := e.StepID + e.SignalID
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%d %s(%s)", e.Seq, e.Type, subject), "()"))
	}
	return out
}

func (w *world) count(runID string, t run.EventType) (n int) {
	for _, e := range w.log(runID) {
		if strings.HasPrefix(strings.SplitN(e, " ", 2)[1], string(t)) {
			n++
		}
	}
	return n
}

// state returns the state of a run at its head.
func (w *world) state(runID string) run.State {
	w.t.Helper()
	return must[store.Loaded](w.t)(w.raw.Load(w.t.Context(), runID)).State
}

// audit returns the rows of a tenant as "actor action outcome code runId detail".
func (w *world) audit(tenant string) (out []string) {
	w.t.Helper()
	db := must[*sql.DB](w.t)(sql.Open("sqlite", filepath.Join(w.dir, "dvt.db")))
	defer db.Close()
	rows, err := db.QueryContext(
		w.t.Context(), `SELECT actor, action, outcome, code, run_id, coalesce(detail, '') FROM audit WHERE tenant_id = ? ORDER BY at, rowid`, tenant)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var f [6]string
		if err := rows.Scan(&f[0], &f[1], &f[2], &f[3], &f[4], &f[5]); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, strings.TrimSpace(strings.Join(f[:], " ")))
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) audited(tenant, row string) bool {
	for _, r := range w.audit(tenant) {
		if strings.HasPrefix(r, row) {
			return true
		}
	}
	return false
}

// signal returns a valid signal of a type. Signals to a step are for s1.
func signal(runID, id string, t run.SignalType) runs.SignalRun {
	payload := M{}
	in := runs.SignalRun{RunID: runID, Signal: run.Signal{ID: id, Type: t}}
	about := func(stepID string) { in.Signal.StepID, payload["stepId"] = stepID, stepID }
	switch t {
	case run.RetryStep, run.SkipStep:
		about("s1")
	case run.UpdateParams:
		payload["newParams"] = M{"day": "2026-02-16"}
	case run.InjectOverride:
		about("s1")
		payload["override"] = M{"env": M{"MODE": "safe"}}
	case run.UpdateTarget:
		about("s1")
		payload["newTarget"] = M{"schema": "restored"}
	case run.EscalateAlert:
		payload["level"] = "HIGH"
	}
	if t == run.InjectOverride || t == run.UpdateTarget || t == run.EmergencyStop {
		in.Reason, payload["reason"] = "runaway", "runaway"
	}
	in.Payload = runtest.JSON(payload)
	return in
}

func (w *world) send(p authz.Principal, in runs.SignalRun) runs.SignalReceipt {
	w.t.Helper()
	return must[runs.SignalReceipt](w.t)(w.SignalRun(w.t.Context(), p, in))
}

// refusal returns err as the *control.Error with the code that it must have.
func refusal(t testing.TB, err error, code run.Code) *control.Error {
	t.Helper()
	var e *control.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	return e
}

// eventually polls until ok returns true, for at most a minute on an idle machine.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); {
		if time.Since(began) > testtime.Of(time.Minute) {
			t.Fatalf("this did not happen in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// take reads frames until want accepts one.
func take[T any](t testing.TB, s control.Stream[T], what string, want func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testtime.Of(time.Minute))
	defer cancel()
	for {
		f, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("the stream ended while the test waited for %s: %v", what, err)
		}
		if want(f) {
			return f
		}
	}
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// applied writes the effect of a signal like the interpreter.
func (w *world) applied(runID, signalID string, effect run.Draft) {
	w.t.Helper()
	must[store.Appended](w.t)(w.journal.Append(w.t.Context(), store.Append{
		RunID: runID, Events: []run.Draft{effect},
		Outcomes: []store.SignalOutcome{{SignalID: signalID, Application: run.SignalApplied, AppliedBy: 0}},
	}))
}
