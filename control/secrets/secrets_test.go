package secrets_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/secrets"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// world has the use cases with short waits for workers.
func newWorld(t *testing.T) *controltest.World {
	t.Helper()
	w := controltest.New(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	w.CheckWait, w.RevokeWait = 2*time.Second, 2*time.Second
	return w
}

// planWithSecrets has a step that names two secrets.
func planWithSecrets(t *testing.T) json.RawMessage {
	t.Helper()
	var doc controltest.M
	if err := json.Unmarshal(controltest.Document(nil, "s1<", "s2<"), &doc); err != nil {
		t.Fatal(err)
	}
	step := doc["steps"].([]any)[0].(controltest.M)
	step["type"], step["inputs"] = "COMMAND", controltest.M{"argv": []string{"true"}}
	step["secretRefs"] = []any{
		controltest.M{"provider": "vault", "key": "db#user", "as": controltest.M{"env": "DB_USER"}},
		controltest.M{"provider": "vault", "key": "db#password", "version": "3", "as": controltest.M{"file": "password"}},
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(tenant, runID string, attempt, no int, key, version string, code run.Code) store.SecretRead {
	as := map[string]string{"db#user": "env:DB_USER", "db#password": "file:password"}[key]
	return store.SecretRead{TenantID: tenant, RunID: runID, StepID: "s1", LogicalAttempt: attempt, EngineAttempt: 1,
		No: no, Account: "w", Worker: "host-1", Provider: "vault", Key: key, Version: version, As: as, Code: code}
}

func wantCode(t *testing.T, what string, err error, want run.Code) {
	t.Helper()
	if own := (*control.Error)(nil); !errors.As(err, &own) || own.Code != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestSecretAccess_IsForReadersOfTheAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for no := range 3 {
		check(t, w.Raw.PutSecretReads(t.Context(), []store.SecretRead{read("acme", "r1", 1, no+1, "db#user", "", "")}))
	}
	check(t, w.Raw.PutSecretReads(t.Context(), []store.SecretRead{read("globex", "r2", 1, 1, "db#user", "", "")}))
	admin := w.Principal("dev-admin")
	var numbers []int
	q := secrets.AccessQuery{Key: "db#user", First: 2}
	for {
		page := controltest.Must[secrets.AccessPage](t)(w.SecretAccess(t.Context(), admin, q))
		for _, r := range page.Reads {
			numbers = append(numbers, r.No)
		}
		if !page.HasNext {
			break
		}
		q.After = secrets.AccessCursor(page.Reads[len(page.Reads)-1])
	}
	if diff := cmp.Diff([]int{3, 2, 1}, numbers); diff != "" {
		t.Errorf("reads of the tenant, the newest first (-want +got):\n%s", diff)
	}
	_, err := w.SecretAccess(t.Context(), w.Engineer(), secrets.AccessQuery{})
	wantCode(t, "an engineer", err, run.CodeForbidden)
	_, err = w.SecretAccess(t.Context(), admin, secrets.AccessQuery{After: "x"})
	wantCode(t, "a wrong cursor", err, run.CodeCursorInvalid)
	_, err = w.SecretAccess(t.Context(), admin, secrets.AccessQuery{Key: strings.Repeat("x", 2000)})
	wantCode(t, "a long key", err, run.CodeBadInput)
	_, err = w.SecretAccess(t.Context(), w.ForeignPrincipal(), secrets.AccessQuery{})
	if err == nil {
		t.Error("a stranger reads who read secrets of its own tenant without the right")
	}
}

func TestStepSecrets_SayWhatTheLatestAttemptGot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("secrets", planWithSecrets(t))
	of := func(attempt int) string {
		t.Helper()
		var out []string
		for _, s := range controltest.Must[[]secrets.StepSecret](t)(w.StepSecrets(t.Context(), w.Engineer(), id, "s1",
			attempt)) {
			code := run.Code("not read")
			if s.Read != nil {
				code = s.Read.Code
			}
			out = append(out, fmt.Sprintf("%s %s %t %s", s.Key, s.As, s.Resolved(), code))
		}
		return strings.Join(out, ", ")
	}
	if got, want := of(0), "db#user env:DB_USER false not read, db#password file:password false not read"; got != want {
		t.Errorf("before an attempt: %s, want %s", got, want)
	}
	check(t, w.Raw.PutSecretReads(t.Context(), []store.SecretRead{read("acme", id, 1, 1, "db#user", "", ""),
		read("acme", id, 1, 2, "db#password", "3", run.CodeSecretDenied)}))
	check(t, w.Raw.PutSecretReads(t.Context(), []store.SecretRead{read("acme", id, 2, 1, "db#user", "", ""),
		read("acme", id, 2, 2, "db#password", "3", "")}))
	for attempt, want := range map[int]string{
		0: "db#user env:DB_USER true , db#password file:password true ",
		1: "db#user env:DB_USER true , db#password file:password false SECRET_DENIED",
		3: "db#user env:DB_USER false not read, db#password file:password false not read",
	} {
		if got := of(attempt); got != want {
			t.Errorf("attempt %d: %s, want %s", attempt, got, want)
		}
	}
	if got := controltest.Must[[]secrets.StepSecret](t)(w.StepSecrets(t.Context(), w.Engineer(), id, "s2",
		0)); len(got) != 0 {
		t.Errorf("a step without secrets has %d", len(got))
	}
	_, err := w.StepSecrets(t.Context(), w.ForeignPrincipal(), id, "s1", 0)
	wantCode(t, "a stranger", err, run.CodeNotFound)
	_, err = w.StepSecrets(t.Context(), w.Engineer(), id, "s1", -1)
	wantCode(t, "a wrong attempt", err, run.CodeBadInput)
}

// worker answers the orders of a tenant until the test ends.
func worker(t *testing.T, w *controltest.World, tenant, name string, queues ...string) {
	t.Helper()
	d := w.Journal.For(authz.Worker{ID: "steps", Serves: []string{tenant},
		Queues: []string{"*"}}).(engine.SecretDispatcher)
	doc, err := json.Marshal(engine.WorkerReport{Worker: name, OK: true})
	check(t, err)
	check(t, w.Raw.PutWorkerReports(t.Context(), []store.WorkerReport{{Account: "steps", Worker: name, Queue: "q",
		Doc: doc}}))
	done := map[string]bool{}
	w.Spawn(func(ctx context.Context) error {
		var answers []engine.SecretAnswer
		for ctx.Err() == nil {
			orders, err := d.SecretOrders(ctx, engine.SecretPoll{Worker: name, Queues: queues, Answers: answers})
			if err != nil {
				return err
			}
			answers = nil
			for _, o := range orders {
				if done[o.ID] {
					continue
				}
				done[o.ID] = true
				a := engine.SecretAnswer{OrderID: o.ID, Dropped: 2, Ended: 1}
				if o.Check != nil {
					for _, ref := range o.Check.Refs {
						c := engine.CheckedSecret{Answered: "7"}
						if ref.Version != "" {
							c = engine.CheckedSecret{Code: run.CodeSecretNotFound, Message: "there is no such version"}
						}
						a.Checked = append(a.Checked, c)
					}
				}
				answers = append(answers, a)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		return nil
	})
}

func TestCheckSecrets_AsksAWorkerOfTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker(t, w, "acme", "host-1", "tq-data-dev")
	worker(t, w, "globex", "host-2", "tq-data-dev") // of another tenant
	in := secrets.CheckSecrets{RequestID: "c1", Plan: planWithSecrets(t)}
	got := controltest.Must[[]secrets.CheckedSecret](t)(w.CheckSecrets(t.Context(), w.Engineer(), in))
	var lines []string
	for _, c := range got {
		lines = append(lines, fmt.Sprintf("%s %v %s %t %s %s", c.Key, c.Steps, c.Worker, c.CanRead(), c.Code, c.Answered))
	}
	want := []string{"db#user [s1] steps/host-1 true  7", "db#password [s1] steps/host-1 false SECRET_NOT_FOUND "}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("checked secrets (-want +got):\n%s", diff)
	}
	if n := audited(t, w, secrets.ActionCheck); n != 1 {
		t.Errorf("the audit has %d rows of the check, want 1", n)
	}
	_, err := w.CheckSecrets(t.Context(), w.Principal("dev-viewer"), secrets.CheckSecrets{RequestID: "c2",
		Plan: in.Plan})
	wantCode(t, "a viewer", err, run.CodeForbidden)
	_, err = w.CheckSecrets(t.Context(), w.ForeignPrincipal(), secrets.CheckSecrets{RequestID: "c3", Plan: in.Plan})
	if err == nil {
		t.Error("a stranger checked the secrets of a plan of acme")
	}
	_, err = w.CheckSecrets(t.Context(), w.Engineer(), secrets.CheckSecrets{RequestID: "c1",
		Plan: json.RawMessage(strings.Replace(string(in.Plan), "db#user", "db#other", 1))})
	wantCode(t, "the same request with another plan", err, run.CodeRequestConflict)
	_, err = w.CheckSecrets(t.Context(), w.Engineer(), secrets.CheckSecrets{RequestID: "c4", Plan: json.RawMessage(`{}`)})
	wantCode(t, "no plan", err, run.CodePlanInvalid)
}

func TestCheckSecrets_WithoutAWorkerSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.CheckWait = 500 * time.Millisecond
	worker(t, w, "acme", "host-1", "another-queue")
	got := controltest.Must[[]secrets.CheckedSecret](t)(w.CheckSecrets(t.Context(), w.Engineer(),
		secrets.CheckSecrets{RequestID: "c1", Plan: planWithSecrets(t)}))
	if len(got) != 2 || got[0].CanRead() || got[0].Worker != "" {
		t.Errorf("the check says %+v, want two secrets that nobody was asked about", got)
	}
	for i := range store.MaxSecretChecks {
		_, err := w.Raw.PutSecretOrder(t.Context(), store.SecretOrder{ID: fmt.Sprint(i), Kind: store.SecretCheck,
			TenantID: "acme", Doc: json.RawMessage(`{}`)})
		if err != nil && !errors.Is(err, store.ErrTooMany) {
			t.Fatal(err)
		}
	}
	_, err := w.CheckSecrets(t.Context(), w.Engineer(), secrets.CheckSecrets{RequestID: "c2", Plan: planWithSecrets(t)})
	wantCode(t, "too many checks", err, run.CodeTooManyOrders)
}

func TestRevokeSecrets_SaysWhichWorkersCarriedItOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker(t, w, "acme", "host-1")
	worker(t, w, "acme", "host-2")
	check(t, w.Raw.PutWorkerReports(t.Context(), []store.WorkerReport{{Account: "steps", Worker: "deaf", Queue: "q",
		Doc: json.RawMessage(`{}`)}}))
	admin := w.Principal("dev-admin")
	in := secrets.RevokeSecrets{RequestID: "v1", Reason: "it leaked"}
	got := controltest.Must[secrets.Revocation](t)(w.RevokeSecrets(t.Context(), admin, in))
	if got.Workers != 3 || got.Done != 2 || !slices.Equal(got.Waiting, []string{"steps/deaf"}) || got.Dropped != 4 ||
		got.Ended != 2 {
		t.Errorf("the revocation is %+v, want 2 of 3 workers and 4 values", got)
	}
	again := controltest.Must[secrets.Revocation](t)(w.RevokeSecrets(t.Context(), admin, in))
	if again.Done != 2 || !again.At.Equal(got.At) {
		t.Errorf("the same request again is %+v, want the same order", again)
	}
	if n := audited(t, w, secrets.ActionRevoke); n != 1 {
		t.Errorf("the audit has %d accepted rows of the revocation, want 1", n)
	}
	_, err := w.RevokeSecrets(t.Context(), w.Engineer(), secrets.RevokeSecrets{RequestID: "v2", Reason: "x"})
	wantCode(t, "an engineer", err, run.CodeForbidden)
	_, err = w.RevokeSecrets(t.Context(), admin, secrets.RevokeSecrets{RequestID: "v3"})
	wantCode(t, "without a reason", err, run.CodeBadInput)
	_, err = w.RevokeSecrets(t.Context(), admin, secrets.RevokeSecrets{RequestID: "v4", Reason: "x",
		RunID: "0a1b2c3d-1111-4222-8333-444455556666"})
	wantCode(t, "an unknown run", err, run.CodeNotFound)
	_, err = w.RevokeSecrets(t.Context(), admin, secrets.RevokeSecrets{RequestID: "v5", Reason: "x", TenantID: "globex"})
	wantCode(t, "another tenant", err, run.CodeForbidden)
	_, err = w.RevokeSecrets(t.Context(), w.ForeignPrincipal(), secrets.RevokeSecrets{RequestID: "v6", Reason: "x",
		TenantID: "acme"})
	wantCode(t, "a stranger", err, run.CodeForbidden)
}

// audited counts the accepted audit rows of an action of acme.
func audited(t *testing.T, w *controltest.World, action string) int {
	t.Helper()
	for {
		n, err := w.Raw.LinkAudit(t.Context(), 1000)
		check(t, err)
		if n == 0 {
			break
		}
	}
	links := controltest.Must[[]store.AuditLink](t)(w.Raw.AuditLinks(t.Context(), store.AuditFilter{TenantID: "acme",
		Action: action, Outcome: "ACCEPTED", Limit: 100}))
	return len(links)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
