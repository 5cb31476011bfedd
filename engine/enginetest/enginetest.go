// Package enginetest is the one conformance suite that every engine passes: the
// same plans, scripts and signals must give the same logs, whatever executes them
// (C03). An engine's own tests open a Fixture around it and call Run.
package enginetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// Fixture is a whole dvt around the engine under test: a store, the use cases,
// the duties and workers that do what Options.Steps says.
type Fixture interface {
	// Start starts a run of a plan in tenant acme, project shop, environment dev.
	Start(doc []byte) (runID string)
	// Signal sends a signal by somebody who may; one without an id gets one.
	Signal(runID string, sig run.Signal) run.Receipt
	State(runID string) run.State
	Events(runID string) []run.Event
	Receipt(runID, signalID string) run.Receipt
	// Pass lets time go by: on a virtual clock at once. Pass(0) lets what waits go on.
	Pass(d time.Duration)
}

// Options say what a test asks of its Fixture.
type Options struct {
	Policy run.Policy
	Steps  *Steps
	// RotateAfter is how many dispatches one execution of the workflow makes.
	RotateAfter int
}

// Try is what one execution of a step does; the zero value succeeds at once.
type Try struct {
	Takes        time.Duration
	Fails        string // an error code
	NotRetryable bool
	Class        string
}

// Steps are scripted executions, by step. Safe for concurrent use.
type Steps struct {
	mu    sync.Mutex
	tries map[string][]Try
	held  map[string]bool
	calls []string
}

// Do says what the next executions of a step do.
func (s *Steps) Do(stepID string, tries ...Try) *Steps {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[stepID] = append(s.tries[stepID], tries...)
	return s
}

// Hold keeps executions of a step going until Release.
func (s *Steps) Hold(stepIDs ...string) *Steps {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range stepIDs {
		s.held[id] = true
	}
	return s
}

// Release lets a held step go on.
func (s *Steps) Release(stepID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, stepID)
}

// Held reports whether executions of the step go on for now.
func (s *Steps) Held(stepID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[stepID]
}

// Next is what an execution that begins now does. hook says that it is the
// compensation of the step, whose script stands under "stepId:compensate".
func (s *Steps) Next(stepID string, la, ea int, hook bool) Try {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hook {
		stepID += ":compensate"
	}
	s.calls = append(s.calls, fmt.Sprintf("%s/%d.%d", stepID, la, ea))
	list := s.tries[stepID]
	if len(list) == 0 {
		return Try{}
	}
	s.tries[stepID] = list[1:]
	return list[0]
}

// Calls are the executions so far, as "stepId/la.ea".
func (s *Steps) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// world is a test with its fixture.
type world struct {
	t testing.TB
	Fixture
	steps *Steps
}

// await reads until ok says so; vain says what did not come.
func await[T any](w *world, runID string, read func() T, ok func(T) bool, vain func(T) string) T {
	w.t.Helper()
	for began := time.Now(); ; {
		w.Pass(0)
		got := read()
		if ok(got) {
			return got
		}
		if time.Since(began) > testtime.Of(30*time.Second) {
			w.t.Fatalf("%s; its log:\n%s", vain(got), strings.Join(w.log(runID), "\n"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// until waits for the run's state to satisfy ok.
func (w *world) until(runID, what string, ok func(run.State) bool) run.State {
	w.t.Helper()
	return await(w, runID, func() run.State { return w.State(runID) }, ok,
		func(run.State) string { return "run did not come to be " + what })
}

func (w *world) ended(runID string) run.State {
	w.t.Helper()
	return w.until(runID, "over", func(s run.State) bool { return s.Status.Terminal() })
}

// step waits for the latest attempt of a step to have a status.
func (w *world) step(runID, stepID string, want run.StepStatus) {
	w.t.Helper()
	w.until(runID, fmt.Sprintf("at %s %s", stepID, want), func(s run.State) bool {
		step, ok := s.Step(stepID)
		return ok && step.Status == want
	})
}

// receipt waits for the receipt of a signal to satisfy ok.
func (w *world) receipt(runID string, sent run.Receipt, ok func(run.Receipt) bool) run.Receipt {
	w.t.Helper()
	return await(w, runID, func() run.Receipt { return w.Receipt(runID, sent.Signal.ID) }, ok, func(r run.Receipt) string {
		return fmt.Sprintf("receipt of %s stayed %s", r.Signal.Type, r.Application)
	})
}

// applied waits until a receipt is final.
func (w *world) applied(runID string, sent run.Receipt) run.Receipt {
	w.t.Helper()
	return w.receipt(runID, sent, func(r run.Receipt) bool { return r.Application.Final() })
}

// delivered waits until the engine has a signal.
func (w *world) delivered(runID string, sent run.Receipt) run.Receipt {
	w.t.Helper()
	return w.receipt(runID, sent, func(r run.Receipt) bool { return r.Application != run.SignalPending })
}

// log is the run's events in the notation of the contract.
func (w *world) log(runID string) (out []string) {
	for _, e := range w.Events(runID) {
		out = append(out, e.Word())
	}
	return out
}

// expect compares the log after "RunApproved RunStarted".
func (w *world) expect(runID, want string) {
	w.t.Helper()
	got := w.log(runID)
	if d := cmp.Diff(append([]string{"RunApproved", "RunStarted"}, strings.Fields(want)...), got); d != "" {
		w.t.Fatalf("log, -want +got:\n%s", d)
	}
}

// Document is a plan of COMMAND steps "id<dep,dep", one attempt each; more says
// what else the steps have, by id. The retry window is in seconds.
func Document(window int, more map[string]map[string]any, steps ...string) []byte {
	var list []map[string]any
	for _, s := range steps {
		id, deps, _ := strings.Cut(s, "<")
		m := map[string]any{
			"stepId": id, "type": "COMMAND", "inputs": map[string]any{"argv": []string{"true"}}, "timeout": "1m",
			"dependsOn": strings.FieldsFunc(deps, func(r rune) bool { return r == ',' }),
			"retry":     map[string]any{"maxAttempts": 1},
		}
		for k, v := range more[id] {
			m[k] = v
		}
		list = append(list, m)
	}
	doc, err := json.Marshal(map[string]any{
		"schemaVersion": "v1.2",
		"metadata": map[string]any{
			"planId": "plan-3", "planVersion": "1.0", "createdAt": "2026-01-01T00:00:00Z", "createdBy": "test",
			"schemaVersion": "v1.2",
			"failurePolicy": map[string]any{"retryWindowSeconds": window},
		},
		"scope": map[string]any{"tenantId": "acme", "projectId": "shop", "environmentId": "dev",
			"repoSha": strings.Repeat("0", 40)},
		"steps": list,
	})
	if err != nil {
		panic(err)
	}
	return doc
}
