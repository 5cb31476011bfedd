// Package storetest is the conformance suite that every adapter of store passes. It imports no adapter. A DB opens its
// database several times, so that the suite can act as several processes. Every subtest has a database of its own.
package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// DB is one database. It is empty and migrated when a subtest receives it.
type DB interface {
	// Open opens the database as another process would, and closes the store when the test ends. Each call returns a new
	// store.
	Open(t testing.TB) store.Store
	// Exec executes one SQL statement without the store, with the rights of the server.
	Exec(t testing.TB, statement string) error
	// Count executes a query that returns one number, and returns that number.
	Count(t testing.TB, query string) int
}

// Run runs the suite. It calls newDB once for each subtest, from several goroutines at once.
func Run(t *testing.T, newDB func(t testing.TB) DB) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDB(t)
			c.test(&fixture{T: t, db: db, store: db.Open(t)})
		})
	}
}

type testCase struct {
	name string
	test func(*fixture)
}

func cases() []testCase {
	var all []testCase
	for _, part := range [][]testCase{
		logCases, guardCases, modelCases, gateCases, receiptCases, deliveryCases, queueCases, admissionCases,
		admissionRaceCases, stateCases, dirtyCases, outboxCases, maintenanceCases, tailCases, listCases, attentionCases,
		annotationCases, viewCases, changedCases, planCases, sweepCases,
		raceCases, overlayCases, authorityCases, settingCases, bucketCases, approvalCases, bulkCases, workerCases,
		cursorCases, destinationCases, retentionCases, alertCases, incidentCases, auditCases, subjectKeyCases, opsCases,
	} {
		all = append(all, part...)
	}
	return all
}

// fixture is one subtest and its database.
type fixture struct {
	*testing.T
	db    DB
	store store.Store
	runs  int
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("unexpected error: %v", err)
	}
}

func (f *fixture) wantError(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error is %v, want %v", err, want)
	}
}

func (f *fixture) equal(want, got any, what string) {
	f.Helper()
	if diff := cmp.Diff(want, got, alike); diff != "" {
		f.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// alike are the options for values that a store returns: nil equals empty, and JSON is compared by its value.
var alike = cmp.Options{
	cmp.Comparer(sameJSON),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[json.RawMessage]() },
		cmpopts.EquateEmpty()),
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// ctx returns a context that ends with the test.
func (f *fixture) ctx() context.Context { return f.Context() }

// identity returns the identity of the n-th run of project p1 of tenant t1.
func identity(n int) run.Identity {
	id := runtest.ID
	id.RunID = fmt.Sprintf("run-%03d", n)
	return id
}

func newRun(id run.Identity, events ...run.Draft) store.NewRun {
	return store.NewRun{
		Run: store.Run{
			Identity: id, RequestID: "req-" + id.RunID, TriggeredBy: "ola", TriggerSource: "api",
			RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, "req-"+id.RunID),
			PlanRef:    plan.Ref{SHA256: sha, SchemaVersion: "v1.2", PlanID: id.PlanID, PlanVersion: id.PlanVersion},
			Params:     json.RawMessage(`{"day":"2026-02-16"}`),
			Policy:     run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
		},
		Plan: []byte(`{"plan":1}`), Events: events,
	}
}

const sha = "6f0f1c7a3f0d4c0c5be9c6b62e5b5e5f4d3f0a1b2c3d4e5f60718293a4b5c6d7"

// run creates the next run, approved and started with the steps s1, s2 and s3. Its head is at 2.
func (f *fixture) run() run.Identity {
	f.Helper()
	f.runs++
	return f.create(newRun(identity(f.runs), runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1", "s2<s1", "s3<s2")))
}

func (f *fixture) create(n store.NewRun) run.Identity {
	f.Helper()
	_, created, err := f.store.CreateRun(f.ctx(), n)
	f.ok(err)
	if !created {
		f.Fatalf("run %s existed already, want a new one", n.Run.RunID)
	}
	return n.Run.Identity
}

// append appends drafts. The store must insert or deduplicate each of them.
func (f *fixture) append(id run.Identity, drafts ...run.Draft) store.Appended {
	f.Helper()
	out := f.appendAny(store.Append{RunID: id.RunID, Events: drafts})
	for i, o := range out.Outcomes {
		if o.Refused != "" {
			f.Fatalf("%s was refused with %s, want it inserted", drafts[i].Type, o.Refused)
		}
	}
	return out
}

func (f *fixture) appendAny(a store.Append) store.Appended {
	f.Helper()
	out, err := f.store.Append(f.ctx(), a)
	f.ok(err)
	if len(out.Outcomes) != len(a.Events) {
		f.Fatalf("Append() returned %d outcomes, want one for each of %d drafts", len(out.Outcomes), len(a.Events))
	}
	return out
}

func (f *fixture) startAttempt(id run.Identity, step string, attempt int) store.AttemptStarted {
	f.Helper()
	return f.startAny(store.StartAttempt{RunID: id.RunID, StepID: step, LogicalAttempt: attempt})
}

func (f *fixture) startAny(b store.StartAttempt) store.AttemptStarted {
	f.Helper()
	b.EngineAttempt, b.EmittedAt = 1, runtest.Epoch
	out, err := f.store.StartAttempt(f.ctx(), b)
	f.ok(err)
	return out
}

// log reads the complete log of a run in pages.
func (f *fixture) log(id run.Identity) []run.Event {
	f.Helper()
	var out []run.Event
	for {
		var after run.Seq
		if len(out) > 0 {
			after = out[len(out)-1].Seq
		}
		evs, err := f.store.Events(f.ctx(), id.RunID, after, 100)
		f.ok(err)
		if len(evs) == 0 {
			return out
		}
		out = append(out, evs...)
	}
}

// lines formats each event of a log as "3 StepStarted(s1,1)".
func lines(evs []run.Event) []string {
	out := make([]string, len(evs))
	for i, e := range evs {
		out[i] = fmt.Sprintf("%d %s", e.Seq, e.Type)
		if e.StepID != "" {
			out[i] += fmt.Sprintf("(%s,%d)", e.StepID, e.LogicalAttempt)
		}
	}
	return out
}

func (f *fixture) head(id run.Identity) store.Head {
	f.Helper()
	h, err := f.store.Heads(f.ctx(), []string{id.RunID})
	f.ok(err)
	return h.ByRun[id.RunID]
}

func (f *fixture) load(id run.Identity) store.Loaded {
	f.Helper()
	l, err := f.store.Load(f.ctx(), id.RunID)
	f.ok(err)
	return l
}

// eventually repeats a check until it holds, because the clock of the store cannot be faked. It fails the test after d.
func (f *fixture) eventually(d time.Duration, what string, holds func() bool) {
	f.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > testtime.Of(d) {
			f.Fatalf("timeout after %v: %s", d, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func stepStarted(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepStartedEvent, step, attempt)
}
func stepCompleted(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepCompletedEvent, step, attempt)
}
func stepFailed(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepFailedEvent, step, attempt)
}
