// Package storetest is the one conformance suite that every adapter of store
// passes. It knows no adapter: a DB opens the same database as often as asked,
// which is what several processes would do. Every subtest has a database of its
// own and carries the contract ids that it proves.
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

// DB is one database, empty and migrated when a subtest gets it.
type DB interface {
	// Open opens the database once more, as a process of its own would, and closes
	// it when the test ends.
	Open(t testing.TB) store.Store
	// Exec runs one statement of plain SQL past the store, with the rights that
	// the server has.
	Exec(t testing.TB, statement string) error
	// Count answers a query for one number.
	Count(t testing.TB, query string) int
}

// Run runs the suite; fresh makes the database of one subtest.
func Run(t *testing.T, fresh func(t testing.TB) DB) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
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
		admissionRaceCases, stateCases, dirtyCases, outboxCases, upkeepCases, tailCases, listCases, changedCases, sweepCases,
		raceCases, overlayCases, authorityCases, settingCases, bucketCases, approvalCases, bulkCases, workerCases, auditCases,
		opsCases,
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

func (f *fixture) is(err, want error) {
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

// alike compares what a store gave back: empty is nil, JSON by meaning.
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

// ctx ends with the test.
func (f *fixture) ctx() context.Context { return f.Context() }

// identity is that of the n-th run of t1, p1.
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

// run makes the next run, approved and started with s1, s2 and s3: the head is 2.
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
		f.Fatalf("run %s was there already", n.Run.RunID)
	}
	return n.Run.Identity
}

// append appends drafts that must all be inserted or deduplicated.
func (f *fixture) append(id run.Identity, drafts ...run.Draft) store.Appended {
	f.Helper()
	out := f.appendAny(store.Append{RunID: id.RunID, Events: drafts})
	for i, o := range out.Outcomes {
		if o.Refused != "" {
			f.Fatalf("%s refused: %s", drafts[i].Type, o.Refused)
		}
	}
	return out
}

func (f *fixture) appendAny(a store.Append) store.Appended {
	f.Helper()
	out, err := f.store.Append(f.ctx(), a)
	f.ok(err)
	if len(out.Outcomes) != len(a.Events) {
		f.Fatalf("%d outcomes for %d drafts", len(out.Outcomes), len(a.Events))
	}
	return out
}

func (f *fixture) begin(id run.Identity, step string, attempt int) store.AttemptStarted {
	f.Helper()
	return f.beginAny(store.StartAttempt{RunID: id.RunID, StepID: step, LogicalAttempt: attempt})
}

func (f *fixture) beginAny(b store.StartAttempt) store.AttemptStarted {
	f.Helper()
	b.EngineAttempt, b.EmittedAt = 1, runtest.Epoch
	out, err := f.store.StartAttempt(f.ctx(), b)
	f.ok(err)
	return out
}

// log reads the whole log of a run.
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

// lines renders a log for comparison.
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

// within repeats a check until it holds; the store's clock moves on its own.
func (f *fixture) within(d time.Duration, what string, holds func() bool) {
	f.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > testtime.Of(d) {
			f.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func started(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepStartedEvent, step, attempt)
}
func completed(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepCompletedEvent, step, attempt)
}
func failed(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepFailedEvent, step, attempt)
}
