package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// Stages at which a server dies, in the order in which a signal passes them.
const (
	beforeAccept    = "before the accept commits"
	afterAccept     = "after the accept committed"
	beforeEngine    = "before the call of the engine"
	afterEngine     = "after the call of the engine"
	beforeDelivered = "before the delivery is recorded"
	afterDelivered  = "after the delivery was recorded"
	afterAppend     = "after the engine's append"
)

var errKilled = errors.New("the server was killed")

// doom simulates a server that dies at a stage. After that, nothing that it does has an effect.
type doom struct {
	stage   string
	killed  context.Context //nolint:containedctx // the lifetime of a process
	kill    context.CancelFunc
	accepts atomic.Int32
}

// at kills the server if stage is its stage. It returns errKilled when the server is dead.
func (d *doom) at(stage string) error {
	if stage == d.stage {
		d.kill()
	}
	if d.killed.Err() != nil {
		return errKilled
	}
	return nil
}

// doomedStore is the store of a server that dies.
type doomedStore struct {
	store.Store
	*doom
}

func (s doomedStore) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	before, after := beforeAccept, afterAccept
	if s.accepts.Add(1) > 1 {
		before, after = beforeDelivered, afterDelivered // the second one records a forced stop
	}
	err := s.Store.InRun(ctx, runID, func(tx store.RunTx) error {
		if err := f(tx); err != nil {
			return err
		}
		return s.at(before)
	})
	if err != nil {
		return err
	}
	return s.at(after)
}

func (s doomedStore) MarkDelivered(ctx context.Context, d store.Delivery, no int64) error {
	if err := s.at(beforeDelivered); err != nil {
		return err
	}
	if err := s.Store.MarkDelivered(ctx, d, no); err != nil {
		return err
	}
	return s.at(afterDelivered)
}

func (s doomedStore) ReleaseDelivery(ctx context.Context, d store.Delivery, delay time.Duration) error {
	if s.killed.Err() != nil {
		return errKilled
	}
	return s.Store.ReleaseDelivery(ctx, d, delay)
}

// doomedEngine is the engine of a server that dies.
type doomedEngine struct {
	engine.Engine
	*doom
}

func (e doomedEngine) Signal(ctx context.Context, id run.Identity, s engine.Signal) error {
	if err := e.at(beforeEngine); err != nil {
		return err
	}
	if err := e.Engine.Signal(ctx, id, s); err != nil {
		return err
	}
	return e.at(afterEngine)
}

func (e doomedEngine) Terminate(ctx context.Context, id run.Identity, reason string) error {
	if err := e.at(beforeEngine); err != nil {
		return err
	}
	if err := e.Engine.Terminate(ctx, id, reason); err != nil {
		return err
	}
	return e.at(afterEngine)
}

// forgetful is a Journal that loses its answer to the first append with the event.
type forgetful struct {
	engine.Journal
	event *atomic.Pointer[run.EventType]
}

func (j forgetful) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := j.Journal.Append(ctx, a)
	for _, d := range a.Events {
		if want := j.event.Load(); err == nil && want != nil && d.Type == *want && j.event.CompareAndSwap(want, nil) {
			return store.Appended{}, errKilled
		}
	}
	return out, err
}

// crashCase is one signal. prepare brings a run into a state in which the signal applies, and finish brings the run to
// its end after the crash. effect is the event whose append loses its answer at the stage afterAppend. For all signals
// but RETRY_STEP, it is also the event by which the signal applies.
type crashCase struct {
	name    string
	sig     run.Signal
	payload string
	token   string
	prepare func(h *harness, healthy func() func()) (runID string, release func())
	effect  run.EventType
	finish  func(h *harness, runID string, release func())
	stages  []string
	// log has the number of events by type in the final log.
	log map[string]int
}

// held prepares a run whose first step runs until release.
func held(h *harness, _ func() func()) (string, func()) {
	release := h.hold("a")
	id := h.start(document(0, step{id: "a"}, step{id: "b", deps: "a"}, step{id: "c", deps: "b"}))
	h.waitUntilRunning(id, "a")
	return id, release
}

func crashCases() []crashCase {
	engineStages := []string{beforeAccept, afterAccept, beforeEngine, afterEngine, beforeDelivered, afterDelivered,
		afterAppend}
	ends := func(status run.Status) func(*harness, string, func()) {
		return func(h *harness, id string, release func()) {
			release()
			if st := h.waitForEnd(id); st.Status != status {
				h.t.Errorf("the run ended %s, want %s; log:\n%s", st.Status, status, strings.Join(h.log(id), "\n"))
			}
		}
	}
	return []crashCase{
		{
			name: "PAUSE", sig: run.Signal{Type: run.Pause}, token: "dev-operator", prepare: held, effect: run.RunPaused,
			stages: engineStages,
			finish: func(h *harness, id string, release func()) {
				release()
				h.waitForEvent(id, "StepCompleted(a,1)")
			},
			log: map[string]int{"RunPaused": 1, "StepStarted": 1, "StepCompleted": 1},
		},
		{
			name: "RESUME", sig: run.Signal{Type: run.Resume}, token: "dev-operator", effect: run.RunResumed,
			stages: engineStages,
			prepare: func(h *harness, healthy func() func()) (string, func()) {
				id, release := held(h, healthy)
				stop := healthy()
				r := h.signal(id, run.Signal{Type: run.Pause})
				h.waitUntilDelivered(id, r.Signal.ID) // otherwise the workflow fetches it later, together with the RESUME
				stop()
				release()
				h.waitForEvent(id, "StepCompleted(a,1)")
				return id, release
			},
			finish: ends(run.Completed), log: map[string]int{"RunPaused": 1, "RunResumed": 1, "StepStarted": 3,
				"RunCompleted": 1},
		},
		{
			name: "RETRY_STEP", sig: run.Signal{Type: run.RetryStep, StepID: "f"}, token: "dev-engineer",
			effect: run.StepCompletedEvent, stages: engineStages,
			prepare: func(h *harness, _ func() func()) (string, func()) {
				h.steps.on("f", failing(1, failure("E", true, "")))
				id := h.start(document(600, step{id: "f"}))
				h.waitForEvent(id, "StepFailed(f,1)")
				return id, func() {}
			},
			finish: ends(run.Completed), log: map[string]int{"StepStarted": 2, "StepFailed": 1, "StepCompleted": 1,
				"RunCompleted": 1},
		},
		{
			name: "SKIP_STEP", sig: run.Signal{Type: run.SkipStep, StepID: "b"}, token: "dev-engineer", prepare: held,
			effect: run.StepSkippedEvent, stages: engineStages,
			finish: ends(run.Completed), log: map[string]int{"StepSkipped": 1, "StepStarted": 2, "StepCompleted": 2,
				"RunCompleted": 1},
		},
		{
			name: "CANCEL", sig: run.Signal{Type: run.Cancel}, token: "dev-engineer", prepare: held, effect: run.RunCancelled,
			stages: engineStages,
			finish: ends(run.Cancelled), log: map[string]int{"StepFailed": 1, "RunCancelled": 1, "StepStarted": 1},
		},
		{
			name: "EMERGENCY_STOP", sig: run.Signal{Type: run.EmergencyStop}, token: "dev-admin", prepare: held,
			effect: run.RunCancelled, stages: engineStages,
			finish: ends(run.Cancelled), log: map[string]int{"StepFailed": 1, "RunCancelled": 1, "StepStarted": 1},
		},
		{
			name: "EMERGENCY_STOP force", sig: run.Signal{Type: run.EmergencyStop, Force: true}, token: "dev-admin",
			prepare: held, effect: run.RunCancelled,
			stages: engineStages[:len(engineStages)-1], // the server appends the effect, not the engine
			finish: ends(run.Cancelled), log: map[string]int{"StepFailed": 1, "RunCancelled": 1, "StepStarted": 1},
		},
		{
			name: "UPDATE_PARAMS", sig: run.Signal{Type: run.UpdateParams}, payload: `{"newParams":{"day":"tue"}}`,
			token: "dev-admin", prepare: held, effect: run.SignalAccepted,
			stages: []string{beforeAccept, afterAccept}, finish: ends(run.Completed), log: map[string]int{"StepStarted": 3,
				"RunCompleted": 1},
		},
		{
			name: "ESCALATE_ALERT", sig: run.Signal{Type: run.EscalateAlert}, payload: `{"level":"HIGH"}`, token: "dev-system",
			prepare: held, effect: run.SignalAccepted,
			stages: []string{beforeAccept, afterAccept}, finish: ends(run.Completed), log: map[string]int{"StepStarted": 3,
				"RunCompleted": 1},
		},
	}
}

// A server dies at any stage of any signal. After its restart, when the client repeats the signal, the effect has
// happened once and the receipt is correct.
// contract: G06, W-18
func TestSignals_ApplyOnceWhenTheServerDies(t *testing.T) {
	t.Parallel()
	for _, c := range crashCases() {
		for _, adapter := range []string{"sqlite", "postgres"} {
			t.Run(strings.ReplaceAll(c.name, " ", "_")+"/"+adapter, func(t *testing.T) {
				t.Parallel()
				event := new(atomic.Pointer[run.EventType])
				o := options{noDeliveries: true, policy: run.Policy{DrainTimeoutMS: 60_000},
					wrap: func(j engine.Journal) engine.Journal { return forgetful{j, event} }}
				if adapter == "postgres" {
					dsn := testserver.Postgres(t)
					must(t, postgres.Migrate(t.Context(), dsn))
					s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
					must(t, err)
					t.Cleanup(func() { _ = s.Close() })
					o.store = s
				}
				h := newHarness(t, o)
				for _, stage := range c.stages {
					t.Run(strings.ReplaceAll(stage, " ", "_"), func(t *testing.T) {
						own := *h
						own.t = t
						own.runCaseWithKill(c, stage, event)
					})
				}
			})
		}
	}
}

// server makes new use cases, like a process that starts.
func (h *harness) server(s store.Store, e engine.Engine) (*usecases.UseCases, *authz.Directory) {
	t := h.t
	t.Helper()
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	must(t, err)
	rights, err := authz.New(authz.DefaultPolicy(), directory)
	must(t, err)
	return usecases.New(usecases.Config{
		Store: s, Engine: e, Authz: rights, Blobs: h.evidence, Queues: h.queues,
		Leases: admission.Leases{TTL: time.Second},
	}), directory
}

// runCaseWithKill runs one case with a server that dies at a stage, and one that replaces it.
func (h *harness) runCaseWithKill(c crashCase, stage string, event *atomic.Pointer[run.EventType]) {
	t := h.t
	healthy := func() func() {
		s, _ := h.server(h.store, h.engine)
		return h.spawn(func(ctx context.Context) error { return s.Deliver(ctx, "healthy") })
	}
	runID, release := c.prepare(h, healthy)
	seen := len(h.log(runID))

	d := &doom{stage: stage}
	d.killed, d.kill = context.WithCancel(t.Context())
	defer d.kill()
	doomed, directory := h.server(doomedStore{h.store, d}, doomedEngine{h.engine, d})
	who, err := directory.Authenticate(c.token)
	must(t, err)
	payload := c.payload
	if payload == "" {
		payload = `{}`
	}
	in := runs.SignalRun{RunID: runID, Signal: c.sig, Payload: json.RawMessage(payload), Reason: "a test"}
	in.Signal.ID = uuid.NewString()
	_, err = doomed.SignalRun(d.killed, who, in)
	if died := stage == beforeAccept || stage == afterAccept; died != (err != nil) {
		t.Fatalf("the first signal returned %v, want an error: %t", err, died)
	}
	if stage == beforeAccept {
		if got := len(h.log(runID)); got != seen {
			t.Errorf("the log has %d events, want the %d from before the signal", got, seen)
		}
	}
	if stage == afterAppend {
		event.Store(&c.effect)
	} else {
		if err == nil {
			go func() { _ = doomed.Deliver(d.killed, "doomed") }()
		}
		select {
		case <-d.killed.Done():
		case <-time.After(testtime.Of(20 * time.Second)):
			t.Fatalf("the server did not die %s", stage)
		}
	}

	// A new server is up, and the client repeats the signal.
	stop := healthy()
	defer stop()
	s, _ := h.server(h.store, h.engine)
	r, err := s.SignalRun(t.Context(), who, in)
	must(t, err)
	if r.Duplicate != (stage != beforeAccept) || r.Rejected {
		t.Errorf("receipt of the repeated signal %+v, want it accepted, as a duplicate unless the first was lost", r)
	}
	final := h.waitUntilApplied(runID, in.Signal.ID)
	c.finish(h, runID, release)
	log := h.log(runID)
	var at run.Seq
	for _, e := range h.events(runID) {
		if e.SignalID == in.Signal.ID || e.Type == c.effect && e.Type != run.SignalAccepted &&
			e.Type != run.StepCompletedEvent {
			at = e.Seq
		}
		if c.sig.Type == run.RetryStep && e.Type == run.StepStartedEvent {
			at = e.Seq // the last one
		}
	}
	if final.Application != run.SignalApplied || final.AppliedSeq != at {
		t.Errorf("receipt %+v, want it applied at %d; log:\n%s", final, at, strings.Join(log, "\n"))
	}
	want := map[string]int{"SignalAccepted": 1, "SignalRejected": 0, "RunCancelled": 0, "RunFailed": 0}
	for name, n := range c.log {
		want[name] = n
	}
	if c.name == "RESUME" {
		want["SignalAccepted"] = 2
	}
	for name, n := range want {
		got := 0
		for _, line := range log {
			if strings.HasPrefix(line, name+"(") || line == name {
				got++
			}
		}
		if got != n {
			t.Errorf("the log has %d %s, want %d:\n%s", got, name, n, strings.Join(log, "\n"))
		}
	}
	if c.sig.Type == run.EscalateAlert {
		alerts, err := h.store.ListAlerts(t.Context(), store.AlertFilter{TenantID: "acme", RunID: runID})
		must(t, err)
		if len(alerts) != 1 {
			t.Errorf("%d alerts, want 1", len(alerts))
		}
	}
	if c.sig.Force {
		i := slices.IndexFunc(h.events(runID), func(e run.Event) bool { return e.Type == run.StepFailedEvent })
		p := payloadOf[run.FailurePayload](t, h.events(runID)[i])
		if p.ErrorCode != string(run.CodeTerminated) {
			t.Errorf("the step failed with %s, want %s", p.ErrorCode, run.CodeTerminated)
		}
	}
	if c.sig.Type == run.Pause {
		h.quiescent(t, runID, in.Signal.ID, log)
	}
}

// quiescent checks that the receipt of a pause names the end of the last running step.
func (h *harness) quiescent(t *testing.T, runID, signalID string, log []string) {
	t.Helper()
	r, err := h.store.Receipt(t.Context(), runID, signalID)
	must(t, err)
	if i := slices.Index(log, "StepCompleted(a,1)"); r.QuiescentSeq != run.Seq(i+1) {
		t.Errorf("QuiescentSeq is %d, want that of StepCompleted(a,1):\n%s", r.QuiescentSeq, strings.Join(log, "\n"))
	}
}

func payloadOf[P any](t *testing.T, e run.Event) P {
	t.Helper()
	p, err := run.PayloadOf[P](e.Payload)
	must(t, err)
	return p
}
