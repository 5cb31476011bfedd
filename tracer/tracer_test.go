package tracer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/tracer"
)

// sink keeps the spans that it accepts. answer may refuse a call.
type sink struct {
	mu     sync.Mutex
	answer func(spans []trace.Span) error
	got    map[trace.SpanID]trace.Span
	calls  int
	most   int // spans of one call
}

func (s *sink) Send(_ context.Context, spans []trace.Span) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.most = max(s.most, len(spans))
	if s.answer != nil {
		if err := s.answer(spans); err != nil {
			return err
		}
	}
	for _, span := range spans {
		s.got[span.ID] = span
	}
	return nil
}

func (s *sink) has(id trace.SpanID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.got[id]
	return found
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// watched counts the saves of the position. The first one says that an exporter works: runs that ended before are not
// exported.
type watched struct {
	store.Store
	saves atomic.Int64
}

func (w *watched) SaveCursor(ctx context.Context, c store.Cursor, ttl time.Duration) error {
	err := w.Store.SaveCursor(ctx, c, ttl)
	w.saves.Add(1)
	return err
}

type fixture struct {
	*testing.T
	now   func() time.Time // the clock of the store
	store *watched
	sink  *sink
	log   *bytes.Buffer
	reg   *prometheus.Registry
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureAt(t, time.Now)
}

// newFixtureAt is newFixture with a store whose clock is now.
func newFixtureAt(t *testing.T, now func() time.Time) *fixture {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &fixture{T: t, now: now, store: &watched{Store: s}, sink: &sink{got: map[trace.SpanID]trace.Span{}},
		log: &bytes.Buffer{}, reg: prometheus.NewRegistry()}
}

// startRun creates a run with one step, and saves its checkpoint as a projector does.
func (f *fixture) startRun(runID string, more ...run.Draft) {
	f.Helper()
	id := runtest.ID
	id.RunID = runID
	_, _, err := f.store.CreateRun(f.Context(), store.NewRun{
		Run: store.Run{Identity: id, RequestKey: run.Key("request " + runID)},
		Events: append([]run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"),
			runtest.Draft(run.StepStartedEvent, "s1", 1)}, more...),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.save(runID)
}

func (f *fixture) append(runID string, drafts ...run.Draft) {
	f.Helper()
	if _, err := f.store.Append(f.Context(), store.Append{RunID: runID, Events: drafts}); err != nil {
		f.Fatal(err)
	}
	f.save(runID)
}

func (f *fixture) save(runID string) {
	f.Helper()
	l, err := f.store.Load(f.Context(), runID)
	if err == nil {
		_, err = f.store.Save(f.Context(), l.State, l.Changes)
	}
	if err != nil {
		f.Fatal(err)
	}
}

// export runs an exporter until stop is called. It returns when an exporter works.
func (f *fixture) export(owner string, ratio float64) (stop func()) {
	x := tracer.New(tracer.Config{Store: f.store, Sender: f.sink, Owner: owner, Ratio: ratio, Metrics: f.reg,
		Now: f.now, Logger: slog.New(slog.NewTextHandler(f.log, nil))})
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = x.Run(ctx)
	}()
	f.await("an exporter", func() bool { return f.store.saves.Load() > 0 })
	return func() {
		cancel()
		<-done
		f.reg = prometheus.NewRegistry()
	}
}

func (f *fixture) await(what string, is func() bool) {
	f.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("%s: not within 30 s", what)
		}
	}
}

func done() []run.Draft {
	return []run.Draft{runtest.Draft(run.StepCompletedEvent, "s1", 1), runtest.Draft(run.RunCompleted, "", 1)}
}

func failed() []run.Draft {
	return []run.Draft{runtest.Draft(run.StepFailedEvent, "s1", 1), runtest.Draft(run.RunFailed, "", 1)}
}

// hasWholeTrace checks that every span of the run's log was sent.
func (f *fixture) hasWholeTrace(runID string) {
	f.Helper()
	events, err := f.store.Events(f.Context(), runID, 0, 100)
	if err != nil {
		f.Fatal(err)
	}
	facts, err := f.store.Get(f.Context(), runID)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range trace.Of(facts.Identity, facts.CreatedAt, events) {
		if !f.sink.has(s.ID) {
			f.Errorf("run %s: the span %s was not sent", runID, s.Name)
		}
	}
}

// The next exporter continues where the last one saved: it sends what is new, and the parents of what was sent before.
func TestExporter_ContinuesAfterAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stop := f.export("a", 1)
	f.startRun("r1")
	f.append("r1", runtest.Draft(run.SignalRejected, "sig-1", 1)) // finished, and the run goes on
	f.await("the first spans", func() bool { return f.sink.count() >= 2 })
	stop()
	f.append("r1", done()...)
	f.startRun("r2", done()...)
	stop = f.export("b", 1)
	defer stop()
	for _, id := range []string{"r1", "r2"} {
		f.await("the root of "+id, func() bool { return f.sink.has(trace.RootSpan(id)) })
		f.hasWholeTrace(id)
	}
}

// A receiver that fails delays spans and costs one line of the log.
func TestExporter_WaitsForTheReceiver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fails := 3
	f.sink.answer = func([]trace.Span) error {
		if fails--; fails >= 0 {
			return errors.New("connection refused")
		}
		return nil
	}
	stop := f.export("a", 1)
	f.startRun("r1", done()...)
	f.await("the root", func() bool { return f.sink.has(trace.RootSpan("r1")) })
	stop()
	log := f.log.String()
	if n := strings.Count(log, "level=WARN"); n != 1 || !strings.Contains(log, "accepts spans again") {
		t.Errorf("the log has %d warnings, want one, and a line for the end:\n%s", n, log)
	}
}

// A span that the receiver will never accept costs no other span, and does not block the export.
func TestExporter_DropsOnlyWhatIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad := trace.AttemptSpan("r1", "s1", 1)
	f.sink.answer = func(spans []trace.Span) error {
		for _, s := range spans {
			if s.ID == bad {
				return &otlp.RefusedError{Spans: len(spans), Cause: errors.New("400")}
			}
		}
		return nil
	}
	reg := f.reg
	stop := f.export("a", 1)
	f.startRun("r1", done()...)
	f.await("the root", func() bool { return f.sink.has(trace.RootSpan("r1")) })
	f.startRun("r2", done()...)
	f.await("the next run", func() bool { return f.sink.has(trace.RootSpan("r2")) })
	if f.sink.has(bad) || !f.sink.has(trace.StepSpan("r1", "s1")) {
		t.Error("the refused span was sent, or its neighbour was not")
	}
	if n := value(t, reg, "dvt_trace_spans_refused_total"); n != 1 {
		t.Errorf("%.0f spans count as refused, want 1", n)
	}
	stop()
}

// A receiver that refuses even a request without spans is another service, or speaks TLS. No span is dropped for that.
func TestExporter_DropsNothingForAReceiverThatRefusesAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	refusals := 6
	f.sink.answer = func(spans []trace.Span) error {
		if refusals--; refusals >= 0 {
			return &otlp.RefusedError{Spans: len(spans),
				Cause: errors.New("400 Client sent an HTTP request to an HTTPS server")}
		}
		return nil
	}
	reg := f.reg
	stop := f.export("a", 1)
	f.startRun("r1", done()...)
	f.await("the root", func() bool { return f.sink.has(trace.RootSpan("r1")) })
	stop()
	f.hasWholeTrace("r1")
	if n := value(t, reg, "dvt_trace_spans_refused_total"); n != 0 {
		t.Errorf("%.0f spans count as refused, want none", n)
	}
	if log := f.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "check its address") {
		t.Errorf("the log does not say once that the address is wrong:\n%s", log)
	}
}

// hanging hangs in the first call until its context ends, and accepts the others.
type hanging struct {
	*sink
	calls atomic.Int64
}

func (h *hanging) Send(ctx context.Context, spans []trace.Span) error {
	if h.calls.Add(1) == 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.sink.Send(ctx, spans)
}

// A receiver that hangs costs neither the lease nor the spans, also when its timeout is set to hours.
func TestExporter_SurvivesAReceiverThatHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	x := tracer.New(tracer.Config{Store: f.store, Sender: &hanging{sink: f.sink}, Owner: "a", Ratio: 1})
	go func() { _ = x.Run(t.Context()) }()
	f.await("an exporter", func() bool { return f.store.saves.Load() > 0 })
	f.startRun("r1", done()...)
	f.await("the root", func() bool {
		if _, err := f.store.LeaseCursor(t.Context(), "trace", "b", time.Second); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("another process got the lease (%v), want that the exporter keeps it", err)
		}
		return f.sink.has(trace.RootSpan("r1"))
	})
	f.hasWholeTrace("r1")
}

func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// Of runs outside the sampled share, those with a failure are exported whole, and no others.
func TestExporter_SamplesButKeepsFailures(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stop := f.export("a", 0)
	defer stop()
	f.startRun("good", done()...)
	f.startRun("bad")
	read := f.store.saves.Load() + 2 // a save that began after the exporter had read the first events
	f.await("the first events", func() bool { return f.store.saves.Load() >= read })
	f.append("bad", failed()...)
	f.await("the root of the failed run", func() bool { return f.sink.has(trace.RootSpan("bad")) })
	f.hasWholeTrace("bad")
	if f.sink.has(trace.RootSpan("good")) {
		t.Error("the trace of the good run was sent, want only that of the failed one")
	}
}

// Two servers: one exports, and each request is bounded.
func TestExporter_OneAtATimeInBoundedRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stop := f.export("a", 1)
	defer stop()
	f.reg = prometheus.NewRegistry()
	other := f.export("b", 1)
	defer other()
	const runs = 300
	for i := range runs {
		f.startRun(fmt.Sprintf("r%d", i), done()...)
	}
	for i := range runs {
		f.await("a root", func() bool { return f.sink.has(trace.RootSpan(fmt.Sprintf("r%d", i))) })
	}
	f.sink.mu.Lock()
	defer f.sink.mu.Unlock()
	if f.sink.most > tracer.MaxBatch {
		t.Errorf("a request had %d spans, want at most %d", f.sink.most, tracer.MaxBatch)
	}
	if len(f.sink.got) < runs*4 || f.sink.calls > runs {
		t.Errorf("%d spans in %d requests, want at least %d and few requests", len(f.sink.got), f.sink.calls, runs*4)
	}
}
