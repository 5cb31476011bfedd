// Package enginetest is the conformance suite for engines: the same plans, scripts and signals must produce the same
// logs on every engine (contract C03). An engine's tests build a Fixture and call Run.
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

// Fixture is a complete dvt around the engine under test: a store, the use cases, the duties, and workers that execute
// Options.Steps. An error in any method ends the test.
type Fixture interface {
	// Start starts a run of a plan in tenant acme, project shop, environment dev.
	Start(doc []byte) (runID string)
	// Signal sends a signal as a user with the right to do so. It adds a missing id.
	Signal(runID string, sig run.Signal) run.SignalReceipt
	// State returns the fold of the run's log.
	State(runID string) run.State
	// Events returns the run's events in the order of the log.
	Events(runID string) []run.Event
	Receipt(runID, signalID string) run.SignalReceipt
	// Pass lets time pass; a virtual clock does so at once. Pass(0) runs everything that is due.
	Pass(d time.Duration)
}

// Options are a test's requirements for its Fixture.
type Options struct {
	Policy run.Policy
	Steps  *Steps
	// RotateAfter is the number of steps that one execution of the workflow dispatches; 0 means the engine's default.
	RotateAfter int
}

// Try is the behaviour of one execution of a step; the zero value succeeds at once.
type Try struct {
	Takes        time.Duration
	Fails        string // an error code; empty means success
	NotRetryable bool
	Class        string // error class of the retry policy
}

// Steps scripts the executions of a test's steps. Run creates it; the fixture's workers call Next and Held. Safe for
// concurrent use.
type Steps struct {
	mu    sync.Mutex
	tries map[string][]Try
	held  map[string]bool
	calls []string
}

// Do appends the behaviour of the next executions of a step.
func (s *Steps) Do(stepID string, tries ...Try) *Steps {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[stepID] = append(s.tries[stepID], tries...)
	return s
}

// Hold keeps executions of a step running until Release.
func (s *Steps) Hold(stepIDs ...string) *Steps {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range stepIDs {
		s.held[id] = true
	}
	return s
}

// Release lets a held step finish.
func (s *Steps) Release(stepID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, stepID)
}

// Held reports whether executions of the step keep running.
func (s *Steps) Held(stepID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[stepID]
}

// Next returns the behaviour of an execution that starts now. hook means the compensation of the step, whose script
// has the key "stepId:compensate".
func (s *Steps) Next(stepID string, logicalAttempt, engineAttempt int, hook bool) Try {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hook {
		stepID += ":compensate"
	}
	s.calls = append(s.calls, fmt.Sprintf("%s/%d.%d", stepID, logicalAttempt, engineAttempt))
	list := s.tries[stepID]
	if len(list) == 0 {
		return Try{}
	}
	s.tries[stepID] = list[1:]
	return list[0]
}

// Calls returns the executions so far, as "stepId/logicalAttempt.engineAttempt".
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

// await reads until ok returns true, for at most 30 s. describe returns the message of a timeout.
func await[T any](w *world, runID string, read func() T, ok func(T) bool, describe func(T) string) T {
	w.t.Helper()
	for began := time.Now(); ; {
		w.Pass(0)
		got := read()
		if ok(got) {
			return got
		}
		if time.Since(began) > testtime.Of(30*time.Second) {
			w.t.Fatalf("%s; its log:\n%s", describe(got), strings.Join(w.log(runID), "\n"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// until waits for a state of the run.
func (w *world) until(runID, what string, ok func(run.State) bool) run.State {
	w.t.Helper()
	return await(w, runID, func() run.State { return w.State(runID) }, ok,
		func(run.State) string { return "the run did not become " + what })
}

func (w *world) waitForEnd(runID string) run.State {
	w.t.Helper()
	return w.until(runID, "over", func(s run.State) bool { return s.Status.Terminal() })
}

// waitForStep waits until the latest attempt of a step has a status.
func (w *world) waitForStep(runID, stepID string, want run.StepStatus) {
	w.t.Helper()
	w.until(runID, fmt.Sprintf("at %s %s", stepID, want), func(s run.State) bool {
		step, ok := s.Step(stepID)
		return ok && step.Status == want
	})
}

// waitForReceipt waits for a state of a signal's receipt.
func (w *world) waitForReceipt(runID string, sent run.SignalReceipt,
	ok func(run.SignalReceipt) bool) run.SignalReceipt {
	w.t.Helper()
	return await(w, runID, func() run.SignalReceipt { return w.Receipt(runID, sent.Signal.ID) }, ok,
		func(r run.SignalReceipt) string {
			return fmt.Sprintf("receipt of %s stayed %s", r.Signal.Type, r.Application)
		})
}

// waitUntilApplied waits until a receipt is final.
func (w *world) waitUntilApplied(runID string, sent run.SignalReceipt) run.SignalReceipt {
	w.t.Helper()
	return w.waitForReceipt(runID, sent, func(r run.SignalReceipt) bool { return r.Application.Final() })
}

// waitUntilDelivered waits until the engine has a signal.
func (w *world) waitUntilDelivered(runID string, sent run.SignalReceipt) run.SignalReceipt {
	w.t.Helper()
	return w.waitForReceipt(runID, sent, func(r run.SignalReceipt) bool { return r.Application != run.SignalPending })
}

// log returns the run's events in the notation of the contract.
func (w *world) log(runID string) (out []string) {
	for _, e := range w.Events(runID) {
		out = append(out, e.Notation())
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

// Document returns a plan of COMMAND steps "id<dep,dep" with one attempt each. more has further fields of the steps
// by id. window is the retry window in seconds.
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
