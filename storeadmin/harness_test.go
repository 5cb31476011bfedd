package storeadmin_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin"
)

// db is a store, and exec to change its database past it.
type db struct {
	*testing.T
	store.Store
	exec func(statement string) error
}

// adapters are the constructors of an empty store, by name.
var adapters = map[string]func(*testing.T) *db{"sqlite": newSQLite, "postgres": newPostgres}

// onEach runs f on each adapter.
func onEach(t *testing.T, f func(*db)) {
	t.Parallel()
	for name, fresh := range adapters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(fresh(t))
		})
	}
}

func newSQLite(t *testing.T) *db {
	t.Helper()
	return openSQLite(t, filepath.Join(t.TempDir(), "dvt.db"))
}

func openSQLite(t *testing.T, path string) *db {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	raw, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	must(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	return &db{T: t, Store: s, exec: func(q string) error {
		_, err := raw.ExecContext(context.WithoutCancel(t.Context()), q)
		return err
	}}
}

func newPostgres(t *testing.T) *db {
	t.Helper()
	dsn := testserver.Postgres(t)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true, MaxConns: 4})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return &db{T: t, Store: s, exec: func(q string) error {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), q)
		return err
	}}
}

// unlock drops the triggers and constraints of the database that would refuse a corrupt log.
func (d *db) unlock() {
	d.Helper()
	if _, pg := d.Store.(*postgres.Store); pg {
		for _, table := range []string{"event", "audit"} {
			must(d.T, d.exec(`ALTER TABLE `+table+` DISABLE TRIGGER ALL`))
		}
		must(d.T, d.exec(`ALTER TABLE event DROP CONSTRAINT event_key`))
	} else {
		must(d.T, d.exec(`DROP TRIGGER event_no_update`))
		must(d.T, d.exec(`DROP TRIGGER event_no_delete`))
		must(d.T, d.exec(`DROP TRIGGER step_state_lost`))
		must(d.T, d.exec(`DROP INDEX event_key`))
	}
	must(d.T, d.exec(`DROP INDEX event_attempt_end`))
	must(d.T, d.exec(`DROP INDEX event_run_end`))
}

// document is the notation of a JSON document in the SQL of the tests.
var document = regexp.MustCompile(`DOC\((.*?')\)`)

// dialect converts the SQL of the tests into that of the database.
func (d *db) dialect(q string) string {
	if _, pg := d.Store.(*postgres.Store); pg {
		return document.ReplaceAllString(q, "$1::json")
	}
	return strings.ReplaceAll(document.ReplaceAllString(q, "CAST($1 AS BLOB)"), "::json", "")
}

func identity(n int) run.Identity {
	id := runtest.ID
	id.RunID = fmt.Sprintf("run-%03d", n)
	return id
}

var planBody = []byte(`{ "a plan" : 3 }`)

func newRun(id run.Identity) store.NewRun {
	return store.NewRun{
		Run: store.Run{
			Identity: id, RequestID: "req-" + id.RunID, TriggeredBy: "ola", TriggerSource: "api",
			RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, "req-"+id.RunID),
			PlanRef:    plan.RefOf(planBody, plan.Plan{}, "file:///plan.json"),
			Params:     json.RawMessage(`{"day" : "2026-02-16"}`),
			Policy:     run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
		},
		Plan: planBody,
	}
}

// createRandom makes the n-th run by the methods that servers use: a random log that an engine could have written, with
// receipts of its signals.
func (d *db) createRandom(n int) run.Identity {
	d.Helper()
	id := identity(n)
	_, _, err := d.CreateRun(d.Context(), newRun(id))
	must(d.T, err)
	for _, e := range runtest.RandomLog(uint64(n)) {
		d.write(id, e)
	}
	return id
}

// sample makes run-001: step a with two attempts, step b running, one receipt. The comments are the seqs.
func (d *db) sample() string {
	d.Helper()
	id := identity(1)
	_, _, err := d.CreateRun(d.Context(), newRun(id))
	must(d.T, err)
	for _, e := range runtest.Log(
		runtest.Draft(run.RunApproved, "", 1), runtest.Start("a", "b"), // 1, 2
		runtest.Draft(run.StepStartedEvent, "a", 1), runtest.Draft(run.StepFailedEvent, "a", 1), // 3, 4
		runtest.Draft(run.SignalAccepted, "sig-1", 1),                                              // 5
		runtest.Draft(run.StepStartedEvent, "a", 2), runtest.Draft(run.StepCompletedEvent, "a", 2), // 6, 7
		runtest.Draft(run.StepStartedEvent, "b", 1), // 8
	) {
		d.write(id, e)
	}
	return id.RunID
}

// write appends an event as a server does, with its gate and its receipt.
func (d *db) write(id run.Identity, e run.Event) {
	d.Helper()
	a := store.Append{RunID: id.RunID, Events: []run.Draft{{
		Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt,
		EngineAttempt: e.EngineAttempt,
		EmittedAt:     e.EmittedAt, EmittedBy: e.EmittedBy, Payload: e.Payload,
	}}}
	switch e.Type {
	case run.RunPaused:
		a.SetGate = run.GatePaused
	case run.RunResumed:
		a.ClearGate = run.GatePaused
	}
	if !e.Type.OfSignal() {
		_, err := d.Append(d.Context(), a)
		must(d.T, err)
		return
	}
	must(d.T, d.InRun(d.Context(), id.RunID, func(tx store.RunTx) error {
		done, err := tx.Append(d.Context(), a)
		if err != nil {
			return err
		}
		p, _ := run.PayloadOf[run.SignalPayload](e.Payload)
		_, err = tx.PutReceipt(d.Context(), run.SignalReceipt{
			Signal: run.Signal{ID: e.SignalID, Type: p.SignalType, StepID: p.StepID, ExpectedAttempt: 1}, Actor: p.Actor,
			Reason:  "because",
			Payload: json.RawMessage(`{"reason": "because"}`), Rejected: e.Type == run.SignalRejected, Rejection: p.Code,
			AcceptedSeq: done.Outcomes[0].Seq,
		}, true)
		return err
	}))
}

// project saves the checkpoint of a run at its head.
func (d *db) project(runID string) {
	d.Helper()
	l, err := d.Load(d.Context(), runID)
	must(d.T, err)
	_, err = d.Save(d.Context(), l.State, l.Changes)
	must(d.T, err)
}

func (d *db) log(runID string) (out []run.Event) {
	d.Helper()
	for {
		var after run.Seq
		if len(out) > 0 {
			after = out[len(out)-1].Seq
		}
		page, err := d.Events(d.Context(), runID, after, store.MaxPage)
		must(d.T, err)
		if out = append(out, page...); len(page) < store.MaxPage {
			return out
		}
	}
}

func (d *db) head(runID string) store.Head {
	d.Helper()
	h, err := d.Heads(d.Context(), []string{runID})
	must(d.T, err)
	return h.ByRun[runID]
}

func (d *db) state(runID string) run.State {
	d.Helper()
	l, err := d.Load(d.Context(), runID)
	must(d.T, err)
	return l.State
}

func (d *db) verify(runs ...string) storeadmin.Verified {
	d.Helper()
	out, err := storeadmin.Verify(d.Context(), d.Store, storeadmin.VerifyOptions{Runs: runs}, nil)
	must(d.T, err)
	return out
}

// clean fails the test unless Verify finds no difference.
func (d *db) clean() {
	d.Helper()
	if out := d.verify(); out.Differences > 0 {
		d.Fatalf("%d differences, want none: %v", out.Differences, out.Found)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, alike); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// alike treats empty and nil as equal, except that JSON documents must have the same bytes.
var alike = cmp.Options{
	cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[json.RawMessage]() },
		cmpopts.EquateEmpty()),
}

// paths returns the paths that findings name, sorted and each once.
func paths(found []storeadmin.Finding) (out []string) {
	for _, f := range found {
		out = append(out, f.What)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
