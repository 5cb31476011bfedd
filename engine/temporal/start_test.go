package temporal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
)

// contract: T111, T130, T107
func TestStart_FindsTheExecutionOfTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := h.hold("s2")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s2")
	at := h.identity(id)
	started, err := h.engine.Start(t.Context(), at, h.queues)
	must(t, err)
	first := started.Ref
	want := first
	want.PauseAhead = true // the workflow adds this capability
	begun := payload[run.RunStartedPayload](h, id, "RunStarted")
	if begun.Engine != want || begun.Engine.TaskQueue != h.queues.For(at.TenantID, at.EnvironmentID).Control {
		t.Errorf("RunStarted has the reference %+v, want %+v of Start, with the queue of the workflow", begun.Engine, want)
	}
	if begun.EngineType != "temporal" || begun.Context == nil || begun.Context.TriggerSource == "" {
		t.Errorf("RunStarted has the engine type %q and the context %+v, want temporal and the source of the request",
			begun.EngineType, begun.Context)
	}
	open()
	h.waitForEnd(id)
	h.waitFor(id, "closed", func(run.State) bool {
		d, err := h.engine.Describe(t.Context(), at)
		must(t, err)
		return !d.Open
	})
	again, err := h.engine.Start(t.Context(), at, h.queues)
	must(t, err)
	if again.Ref != first || len(again.Foreign) > 0 {
		t.Errorf("the second Start returned %+v, want %+v", again, first)
	}
	d, err := h.engine.Describe(t.Context(), at)
	if err != nil || d.Open || d.ClosedAs != "Completed" {
		t.Errorf("Describe returned %+v, %v; want a completed execution", d, err)
	}
	if err := h.engine.Signal(t.Context(), at, engine.Signal{No: 1}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a signal to a closed run returned %v, want ErrClosed", err)
	}
	if err := h.engine.Terminate(t.Context(), at, "test"); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a termination of a closed run returned %v, want ErrClosed", err)
	}
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)", "StepCompleted(s2,1)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")

	at.RunID = uuid.NewString()
	if err := h.engine.Signal(t.Context(), at, engine.Signal{No: 1}); !errors.Is(err, engine.ErrNotStarted) {
		t.Errorf("a signal to a run that was never started returned %v, want ErrNotStarted", err)
	}
}

// A start that Temporal refuses is not the silence of Temporal: repeating it does not help.
// contract: R357
func TestStart_SaysThatTemporalRefusesTheInput(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	at := run.Identity{TenantID: "acme", ProjectID: "p", EnvironmentID: "dev", RunID: uuid.NewString()}
	long := h.queues
	long.Control = strings.Repeat("q", 2000)
	if _, err := h.engine.Start(t.Context(), at, long); !errors.Is(err, engine.ErrRejected) {
		t.Errorf("a start on a queue with a name of 2,000 bytes returned %v, want ErrRejected", err)
	}
	server := testserver.Temporal(t)
	c, err := temporal.Dial(server.Addr, "no-such-namespace", quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	elsewhere := temporal.New(c, "no-such-namespace", temporal.Config{Tickets: h.keys})
	if _, err := elsewhere.Start(t.Context(), at, h.queues); !errors.Is(err, engine.ErrRejected) {
		t.Errorf("a start in a namespace that does not exist returned %v, want ErrRejected", err)
	}
}
