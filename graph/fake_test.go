package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake implements graph.UseCases with functions that a test sets. A use case that is not set panics, which the edge
// answers with INTERNAL.
type fake struct {
	graph.UseCases
	approvalReads atomic.Int64
	stepWaits     map[string]reads.StepWait
	runWaits      []reads.RunWait

	startRun   func(authz.Principal, runs.StartRun) (runs.StartedRun, error)
	signalRun  func(authz.Principal, runs.SignalRun) (runs.SignalReceipt, error)
	run        func(p authz.Principal, runID string, at *run.Seq) (control.RunView, error)
	events     func(runID string, page reads.EventPage) (reads.EventsPage, error)
	receipt    func(runID, signalID string) (runs.SignalReceipt, error)
	receipts   func(runID, after string, limit int) (runs.ReceiptsPage, error)
	stepLog    func(reads.StepLogQuery) (reads.StepLog, error)
	searchLogs func(reads.LogSearchQuery) (reads.LogSearchPage, error)
	runs       func(control.RunsQuery) (control.RunsPage, error)
	letters    func(reads.DeadLettersQuery) (reads.DeadLettersPage, error)
	letter     func(id string) (reads.DeadLetter, error)
	redrive    func(reads.RedriveDeadLetters) (reads.RedrivenDeadLetters, error)
	watchRun   func(watch.WatchRun) (graph.Stream[live.Frame], error)
	watchEvent func(watch.WatchRun) (graph.Stream[watch.EventsFrame], error)
	watchRuns  func(control.RunsQuery) (graph.Stream[watch.RunsFrame], error)
	watchSigs  func(runID, signalID string) (graph.Stream[runs.SignalReceipt], error)
	watchLog   func(reads.StepLogQuery) (graph.Stream[watch.StepLogFrame], error)
	medians    atomic.Int32                                  // number of reads
	openRun    func() (graph.Stream[live.Frame], error)      // default: watchRun from the beginning
	openRuns   func() (graph.Stream[watch.RunsFrame], error) // default: watchRuns
}

func (f *fake) StartRun(_ context.Context, p authz.Principal, in runs.StartRun) (runs.StartedRun, error) {
	return f.startRun(p, in)
}

func (f *fake) SignalRun(_ context.Context, p authz.Principal, in runs.SignalRun) (runs.SignalReceipt, error) {
	return f.signalRun(p, in)
}

func (f *fake) Run(_ context.Context, p authz.Principal, runID string, at *run.Seq) (control.RunView, error) {
	return f.run(p, runID, at)
}

func (f *fake) DiffRun(_ context.Context, p authz.Principal, runID string, a, b run.Seq) (reads.RunDiff, error) {
	v, err := f.run(p, runID, &b)
	d := reads.RunDiff{From: v, To: v}
	for _, s := range v.State.Steps {
		d.Steps = append(d.Steps, reads.StepDiff{To: s})
	}
	return d, err
}

func (f *fake) Events(_ context.Context, _ authz.Principal, runID string, page reads.EventPage) (reads.EventsPage,
	error) {
	return f.events(runID, page)
}

func (f *fake) Receipt(_ context.Context, _ authz.Principal, runID, signalID string) (runs.SignalReceipt, error) {
	return f.receipt(runID, signalID)
}

func (f *fake) Receipts(_ context.Context, _ authz.Principal, runID, after string, limit int) (runs.ReceiptsPage,
	error) {
	return f.receipts(runID, after, limit)
}

func (f *fake) StepLog(_ context.Context, _ authz.Principal, in reads.StepLogQuery) (reads.StepLog, error) {
	return f.stepLog(in)
}

func (f *fake) ListArtifacts(_ context.Context, _ authz.Principal, q reads.ArtifactsQuery) (reads.ArtifactsPage,
	error) {
	return reads.ArtifactsPage{TenantID: "acme", Artifacts: []run.ArtifactRef{{URI: "artifact:acme/" + q.RunID +
		"/s/1/1/rows.csv", Kind: run.KindDatasetSample, SizeBytes: 12}}, Cursors: []string{"c"}, Total: 1}, nil
}

func (f *fake) SearchLogs(_ context.Context, _ authz.Principal, q reads.LogSearchQuery) (reads.LogSearchPage, error) {
	return f.searchLogs(q)
}

func (f *fake) Actions(_ authz.Principal, v control.RunView) runs.Availability {
	refused := runs.ActionAvailability{
		Action: authz.Pause, Outcome: "REFUSED", Code: run.CodeForbidden,
		Reason:       "You need the Operator role on shop / dev to pause a run.",
		Rule:         "operator-pause",
		RequiredRole: authz.Operator, WhoCould: []string{"olga"}, Strength: "REVERSIBLE",
	}
	out := runs.Availability{Run: []runs.ActionAvailability{refused},
		Steps: map[string][]runs.ActionAvailability{}}
	for _, s := range v.State.Steps {
		out.Steps[s.StepID] = []runs.ActionAvailability{{Action: authz.RetryStep, Outcome: "APPLY", Strength: "NORMAL"}}
	}
	return out
}

func (f *fake) Runs(_ context.Context, _ authz.Principal, q control.RunsQuery) (control.RunsPage, error) {
	return f.runs(q)
}

func (f *fake) DeadLetters(_ context.Context, _ authz.Principal, q reads.DeadLettersQuery) (reads.DeadLettersPage,
	error) {
	return f.letters(q)
}

func (f *fake) DeadLetter(_ context.Context, _ authz.Principal, id string) (reads.DeadLetter, error) {
	return f.letter(id)
}

func (f *fake) RedriveDeadLetters(_ context.Context, _ authz.Principal, in reads.RedriveDeadLetters) (
	reads.RedrivenDeadLetters, error) {
	return f.redrive(in)
}

func (f *fake) MySignals(_ context.Context, _ authz.Principal, _ bool, limit int) ([]runs.SignalReceipt,
	error) {
	return []runs.SignalReceipt{receipt(run.Pause)}[:min(1, limit)], nil
}

func (f *fake) Viewer(p authz.Principal) access.Viewer {
	return access.Viewer{Principal: p, Grants: []access.ViewerGrant{
		{Grant: authz.Grant{Role: authz.Engineer, ProjectID: "shop", EnvironmentID: "*"},
			Actions: []authz.Action{authz.Read, authz.Pause, "FUTURE_ACTION"}},
		{Grant: authz.Grant{Role: authz.Engineer, ProjectID: "lab", EnvironmentID: "dev"}},
	}}
}

func (f *fake) Capabilities(authz.Principal) []access.EngineCapability {
	return []access.EngineCapability{{Engine: "temporal", Name: "PAUSE", Support: "FULL"}}
}

func (f *fake) SampledHealth(context.Context) health.Health {
	return health.Health{Status: "DEGRADED", Checks: []health.HealthCheck{
		{Name: "store", Status: "HEALTHY", Latency: 1500 * time.Microsecond}, {Name: "bus", Status: "UNHEALTHY",
			Message: "The bus does not answer."},
	}}
}

func (f *fake) Workers(context.Context, authz.Principal) ([]health.WorkerState, error) {
	return []health.WorkerState{{
		Account: "acme-worker", Queue: "tq-data-dev", ReportedAt: instant, Live: true, Overdue: true,
		WorkerReport: engine.WorkerReport{
			Worker: "host/7", Runtime: "process", Digest: "ab", Parts: []plan.SandboxPart{plan.SandboxFiles}, UID: 1000,
			Missing: map[plan.SandboxPart]string{plan.SandboxPIDs: "no delegated cgroup"}, Problem: "the probe could connect",
			Version: "v1", StartedAt: instant, Slots: 24, InUse: 1, Drained: true,
			Steps: []engine.WorkerStep{{TenantID: "acme", RunID: "r1", StepID: "s1", Since: instant}},
		},
		Drain: &health.WorkerDrain{Actor: "sam", Reason: "a new kernel", At: instant}, Last: true,
	}}, nil
}

func (f *fake) DrainWorker(context.Context, authz.Principal, health.DrainWorker) (health.DrainedWorker, error) {
	return health.DrainedWorker{}, nil
}

func (f *fake) HealthHistory(_ context.Context, _ authz.Principal, last int) (health.HealthHistory, error) {
	samples := []health.HealthSample{
		{At: instant, Status: "HEALTHY", LagP50: new(1200 * time.Microsecond), LagP99: new(40 * time.Millisecond),
			FrameRate: 12.5, Viewers: 40, Streams: 3, Store: new(900 * time.Microsecond), Engine: new(4 * time.Millisecond)},
		{At: instant.Add(15 * time.Second), Status: "UNHEALTHY", Viewers: 40, Streams: 3, Stale: 3},
	}
	return health.HealthHistory{Server: "host/7", Since: instant.Add(-15 * time.Second), Every: 15 * time.Second,
		Samples: samples[:min(last, 2)]}, nil
}

func (f *fake) WatchRun(_ context.Context, _ authz.Principal, in watch.WatchRun) (graph.Stream[live.Frame], error) {
	return f.watchRun(in)
}

func (f *fake) WatchEvents(_ context.Context, _ authz.Principal, in watch.WatchRun) (
	graph.Stream[watch.EventsFrame], error) {
	return f.watchEvent(in)
}

func (f *fake) WatchRuns(_ context.Context, _ authz.Principal, q control.RunsQuery) (graph.Stream[watch.RunsFrame],
	error) {
	return f.watchRuns(q)
}

func (f *fake) WatchReceipts(_ context.Context, _ authz.Principal, runID, signalID string) (
	graph.Stream[runs.SignalReceipt], error) {
	return f.watchSigs(runID, signalID)
}

func (f *fake) WatchStepLog(_ context.Context, _ authz.Principal, in reads.StepLogQuery) (
	graph.Stream[watch.StepLogFrame], error) {
	return f.watchLog(in)
}

// frames is a stream of a list of frames. It ends with err, or with ctx when err is nil.
type frames[T any] struct {
	list   []T
	err    error
	closed chan struct{}
}

func stream[T any](err error, list ...T) (graph.Stream[T], error) {
	return &frames[T]{list: list, err: err}, nil
}

func (f *frames[T]) Next(ctx context.Context) (T, error) {
	var none T
	if len(f.list) == 0 {
		if f.err != nil {
			return none, f.err
		}
		<-ctx.Done()
		return none, ctx.Err()
	}
	next := f.list[0]
	f.list = f.list[1:]
	return next, nil
}

func (f *frames[T]) Close() {
	if f.closed != nil {
		close(f.closed)
	}
}

var (
	instant     = time.Date(2026, 11, 21, 3, 12, 7, 123e6, time.UTC)
	errNotFound = &control.Error{Code: run.CodeNotFound, Message: "There is no such run, or it is not yours."}
)

func after(d time.Duration) *time.Time { return new(instant.Add(d)) }

func identity(runID string) run.Identity {
	return run.Identity{RunID: runID, TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "nightly",
		PlanVersion: "1.0"}
}

// failedRun returns a RUNNING run whose second step has failed, with its retry window open.
func failedRun() control.RunView {
	outline := func(id string, deps ...string) run.StepOutline {
		return run.StepOutline{StepID: id, Type: "COMMAND", DependsOn: deps, TaskQueue: "tq-data-dev"}
	}
	failure := &run.StepError{Code: "EXIT_STATUS", Message: "exit status 1", Retryable: true, Category: run.CategoryUser,
		Source: "executor"}
	s := run.State{Header: run.Header{
		Identity: identity("r1"), Rev: 1, Seq: 7, Status: run.Running, CreatedAt: instant, StartedAt: after(time.Second),
		TriggeredBy: "eva",
		PlanRef: &run.PlanRef{SHA256: strings.Repeat("0", 64), SchemaVersion: "v1.2", PlanID: "nightly",
			PlanVersion: "1.0"},
		Engine: &run.EngineRunRef{Provider: "temporal", Namespace: "default", WorkflowID: "dvt-r1",
			EngineRunID: "first"},
		RetryDeadline: after(10 * time.Minute), Counts: run.StepCounts{Total: 4, Success: 1, Failed: 1, Pending: 2},
		RootCause: &run.StepRef{StepID: "build", LogicalAttempt: 1, Seq: 7, Error: failure}, StatusSeq: 1,
		Artifacts: []run.ArtifactRef{{URI: "file:///a", Kind: "manifest", SizeBytes: 12}},
	}}
	s.Steps = []*run.Step{
		{StepOutline: outline("compile"), Ord: 0, ChangedSeq: 5, Status: run.StepSuccess, LogicalAttempt: 1,
			Attempts: []run.Attempt{{
				LogicalAttempt: 1, EngineAttempt: 2, Status: run.StepSuccess, StartedSeq: 4, EndedSeq: 5,
				StartedAt:   after(time.Second),
				CompletedAt: after(3 * time.Second), DurationMS: 2000,
				Result:    json.RawMessage("{\"rows\":\n 12345678901234567890}"),
				Artifacts: []run.ArtifactRef{{URI: "file:///a", Kind: "manifest", SizeBytes: 12}},
			}}},
		{StepOutline: outline("build", "compile"), Ord: 1, ChangedSeq: 7, Status: run.StepFailed, LogicalAttempt: 1,
			Attempts: []run.Attempt{{
				LogicalAttempt: 1, EngineAttempt: 1, Status: run.StepFailed, StartedSeq: 6, EndedSeq: 7,
				StartedAt:   after(4 * time.Second),
				CompletedAt: after(5 * time.Second), DurationMS: 1000, Error: failure,
			}}},
		{StepOutline: outline("test", "build"), Ord: 2, ChangedSeq: 3, Status: run.StepPending},
		{StepOutline: outline("ship", "test"), Ord: 3, ChangedSeq: 3, Status: run.StepPending},
	}
	v := control.RunView{State: s, Epoch: "e1", OpsRev: 3, AsOf: instant}
	v.Run.ParentRunID = "r0"
	v.Queue = newOf(v.Queue)
	v.Queue.Status, v.Queue.CreatedAt, v.Queue.Attempts = "PENDING", instant, 1
	return v
}

// newOf returns a value of a type of package store, which this package must not import.
func newOf[T any](*T) *T { return new(T) }

func receipt(kind run.SignalType) runs.SignalReceipt {
	return runs.SignalReceipt{SignalReceipt: run.SignalReceipt{
		RunID: "r1", Signal: run.Signal{ID: "s1", Type: kind}, Payload: json.RawMessage(`{"reason":"lunch"}`), Actor: "eva",
		Reason:      "lunch",
		Application: run.SignalApplied, AcceptedSeq: 4, AppliedSeq: 5, ReceivedAt: instant, DeliveredAt: after(time.Second),
		AppliedAt: after(time.Second),
	}}
}

func deadLetter(id string) reads.DeadLetter {
	return reads.DeadLetter{
		ID: id, TenantID: "acme", ProjectID: "shop", RunID: "r1", From: 5, To: 6, Attempts: 10, Cause: "message too large",
		CreatedAt: instant,
	}
}

func event(seq run.Seq) run.Event {
	return run.Event{
		Identity: identity("r1"), EventID: "6ba7b810-9dad-41d1-80b4-00c04fd430c8", Type: run.StepStartedEvent, Seq: seq,
		Key:    "k",
		StepID: "build", LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: instant, PersistedAt: instant.Add(time.Microsecond),
		EmittedBy: run.ByEngine,
		Payload:   json.RawMessage(`{"paramsSeq":9007199254740993,"text":"<b>"}`),
	}
}

func line(no int64) artifact.Line {
	return artifact.Line{No: no, At: instant, Stream: "stdout", EngineAttempt: 1, Text: "hello\nworld"}
}

// api is the handler on a real listener, with its log.
type api struct {
	t *testing.T
	*graph.Handler
	url  string
	logs *bytes.Buffer
}

func serve(t *testing.T, f *fake, change ...func(*graph.Config)) *api {
	t.Helper()
	a := &api{t: t, logs: &bytes.Buffer{}}
	cfg := graph.Config{
		Authenticate: func(token string) (authz.Principal, error) {
			switch token {
			case "good":
				return authz.Principal{ID: "eva", TenantID: "acme"}, nil
			case "old":
				return authz.Principal{}, authz.ErrExpired
			case "outage":
				return authz.Principal{}, authz.ErrUnavailable
			}
			return authz.Principal{}, authz.ErrUnauthenticated
		},
		Session: func(r *http.Request) (string, bool) {
			c, err := r.Cookie("session")
			if err != nil {
				return "", false
			}
			return c.Value, true
		},
		AllowedOrigins: []string{"https://ui.example"},
		DevPrincipals: func() []graph.DevPrincipal {
			return []graph.DevPrincipal{{Principal: "dev-viewer", TenantID: "acme", Role: authz.Viewer}}
		},
		Logger:    slog.New(slog.NewTextHandler(a.logs, nil)),
		RequestID: func(context.Context) string { return "req-1" },
	}
	for _, c := range change {
		c(&cfg)
	}
	a.Handler = graph.NewHandler(f, cfg)
	server := httptest.NewServer(a.Handler)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		server.Close()
	})
	a.url = server.URL
	return a
}

// answer is a response over HTTP.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a *api) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer good")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, strings.TrimSpace(string(got))}
}

func request(query string, variables any) string {
	body, _ := json.Marshal(map[string]any{"query": query, "variables": variables})
	return string(body)
}

// query posts one operation and returns the body of the answer.
func (a *api) query(query string, variables any) string {
	a.t.Helper()
	return a.do(http.MethodPost, "/graphql", request(query, variables)).body
}

// code returns the code of the first error of an answer, or "" when it has none.
func code(t *testing.T, body string) string {
	t.Helper()
	var r struct {
		Errors []struct {
			Extensions struct{ Code string }
		}
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if len(r.Errors) == 0 {
		return ""
	}
	return r.Errors[0].Extensions.Code
}
