package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

// withSecrets returns a plan of two steps. The first names secrets.
func withSecrets(t *testing.T) []byte {
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

func readsOf(e engine.End, reads ...engine.SecretRead) engine.SecretReads {
	return engine.SecretReads{
		RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N, EngineAttempt: e.EngineAttempt,
		Hook: e.Hook, StartedSeq: e.StartedSeq, Key: e.Key, Worker: "host-1", Reads: reads,
	}
}

// secretRows returns the records of the tenant acme without times and positions, the oldest first.
func (w *world) secretRows() (out []store.SecretRead) {
	w.T.Helper()
	for _, r := range controltest.Must[[]store.SecretRead](w.T)(w.Raw.SecretReads(w.T.Context(),
		store.SecretReadFilter{TenantID: "acme"})) {
		r.At, r.Pos = time.Time{}, 0
		out = append([]store.SecretRead{r}, out...)
	}
	return out
}

// contract: R085
func TestSecretReads_AreRowsOfTheirAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("reads", withSecrets(t))
	e := w.execute(id, "s1", 1)
	call := readsOf(e, engine.SecretRead{No: 1, Provider: "vault", Key: "db#user", Answered: "7", Cached: true},
		engine.SecretRead{No: 2, Provider: "vault", Key: "db#password", Version: "3", Code: "SECRET_DENIED"})
	for range 2 { // a repeated call writes nothing
		if err := w.Journal.SecretReads(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	got := w.secretRows()
	want := []store.SecretRead{
		{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1, No: 1, Account: "engine",
			Worker: "host-1", Provider: "vault", Key: "db#user", Answered: "7", As: "env:DB_USER", Cached: true},
		{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1, No: 2, Account: "engine",
			Worker: "host-1", Provider: "vault", Key: "db#password", Version: "3", As: "file:password",
			Code: "SECRET_DENIED"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// A hostile worker can record only reads that its attempt can make, and not without bounds.
func TestSecretReads_OfAHostileWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("hostile", withSecrets(t))
	e, other := w.execute(id, "s1", 1), w.execute(id, "s2", 1)
	good := engine.SecretRead{No: 1, Provider: "vault", Key: "db#user"}
	with := func(f func(*engine.SecretReads)) engine.SecretReads { c := readsOf(e, good); f(&c); return c }
	many := make([]engine.SecretRead, engine.MaxSecretReads+1)
	for name, c := range map[string]struct {
		call engine.SecretReads
		why  string
	}{
		"the key of another step": {with(func(c *engine.SecretReads) { c.Key = other.Key }), "the key is not that of"},
		"another attempt":         {with(func(c *engine.SecretReads) { c.LogicalAttempt = 2 }), "the key is not that of"},
		"another engine attempt":  {with(func(c *engine.SecretReads) { c.EngineAttempt = 2 }), "the key is not that of"},
		"a secret of nobody": {readsOf(e, engine.SecretRead{No: 1, Provider: "vault", Key: "db#other"}),
			"does not name this secret"},
		"another version": {readsOf(e, engine.SecretRead{No: 1, Provider: "vault", Key: "db#user", Version: "2"}),
			"does not name this secret"},
		"a step without secrets": {readsOf(other, good), "does not name this secret"},
		"the number 0":           {readsOf(e, engine.SecretRead{Provider: "vault", Key: "db#user"}), "must be between 1"},
		"a number beyond the limit": {readsOf(e, engine.SecretRead{No: engine.MaxSecretReads + 1, Provider: "vault",
			Key: "db#user"}), "must be between 1"},
		"no read":        {readsOf(e), "must record 1 to"},
		"too many reads": {readsOf(e, many...), "must record 1 to"},
	} {
		refusedFor(t, name, w.Journal.SecretReads(t.Context(), c.call), c.why)
	}
	if rows := w.secretRows(); len(rows) != 0 {
		t.Errorf("the refused calls wrote %d records, want none", len(rows))
	}
	foreign := w.Journal.For(authz.Worker{ID: "globex-worker", Serves: []string{"globex"}, Queues: []string{"*"}})
	if err := foreign.SecretReads(t.Context(), readsOf(e, good)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a worker of another tenant: %v, want NOT_FOUND", err)
	}
	for no := range engine.MaxSecretReads * 2 { // as many as it likes, with any number
		_ = w.Journal.SecretReads(t.Context(), readsOf(e, engine.SecretRead{No: no, Provider: "vault", Key: "db#user",
			Answered: strings.Repeat("x", 5000)}))
	}
	rows := w.secretRows()
	if len(rows) != engine.MaxSecretReads || len(rows[0].Answered) > 200 {
		t.Errorf("the worker wrote %d records with versions of %d bytes, want at most %d of 200 bytes", len(rows),
			len(rows[0].Answered), engine.MaxSecretReads)
	}
	w.end(e)
	refusedFor(t, "after the end", w.Journal.SecretReads(t.Context(), readsOf(e, good)), "after the end")
}

// order stores an order of acme.
func (w *world) order(id string, kind store.SecretOrderKind, doc engine.SecretOrder) {
	w.T.Helper()
	raw, err := json.Marshal(doc)
	if err != nil {
		w.T.Fatal(err)
	}
	controltest.Must[store.SecretOrder](w.T)(w.Raw.PutSecretOrder(w.T.Context(), store.SecretOrder{ID: id, Kind: kind,
		TenantID: "acme", Doc: raw}))
}

// A worker is given the orders about its tenants and queues, and its answers to others are dropped.
func TestSecretOrders_GoToTheWorkersOfTheTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.order("check", store.SecretCheck, engine.SecretOrder{Check: &engine.SecretCheck{EnvironmentID: "dev",
		Queues: []string{"q1"}, Refs: []engine.SecretRef{{Provider: "vault", Key: "a"}}}})
	w.order("revoke", store.SecretRevocation, engine.SecretOrder{Revoke: &engine.SecretRevoke{RunID: "r1"}})
	of := func(tenant string, queues ...string) engine.SecretDispatcher {
		return w.Journal.For(authz.Worker{ID: "a-" + tenant, Serves: []string{tenant},
			Queues: queues}).(engine.SecretDispatcher)
	}
	poll := func(d engine.SecretDispatcher, p engine.SecretPoll) string {
		t.Helper()
		p.Worker = "host-1"
		var ids []string
		for _, o := range controltest.Must[[]engine.SecretOrder](t)(d.SecretOrders(t.Context(), p)) {
			ids = append(ids, o.ID)
		}
		return fmt.Sprint(ids)
	}
	for _, c := range []struct{ tenant, queue, want string }{
		{"acme", "q1", "[check revoke]"}, {"acme", "q2", "[revoke]"}, {"globex", "q1", "[]"}, {"*", "q1", "[check revoke]"},
	} {
		if got := poll(of(c.tenant, c.queue), engine.SecretPoll{Queues: []string{c.queue}}); got != c.want {
			t.Errorf("a worker of %s on %s is given %s, want %s", c.tenant, c.queue, got, c.want)
		}
	}
	if _, err := of("acme", "q1").SecretOrders(t.Context(), engine.SecretPoll{Worker: "w",
		Queues: []string{"q2"}}); err == nil {
		t.Error("a poll for a queue of another worker was answered, want a refusal")
	}
	answers := []engine.SecretAnswer{
		{OrderID: "revoke", Dropped: 3, Ended: -1, Checked: []engine.CheckedSecret{{Message: "x"}}},
		{OrderID: "check", Dropped: 5, Checked: []engine.CheckedSecret{{Code: "SECRET_DENIED",
			Message: strings.Repeat("x", 5000)}, {Message: "one too many"}}},
		{OrderID: "another"},
	}
	poll(of("globex", "q1"), engine.SecretPoll{Queues: []string{"q1"}, Answers: answers})
	poll(of("acme", "q1"), engine.SecretPoll{Queues: []string{"q1"}, Answers: answers})
	var got engine.SecretAnswer
	for id, want := range map[string]engine.SecretAnswer{
		"revoke": {OrderID: "revoke", Dropped: 3},
		"check": {OrderID: "check", Checked: []engine.CheckedSecret{{Code: "SECRET_DENIED",
			Message: strings.Repeat("x", 1000)}}},
	} {
		list := controltest.Must[[]store.SecretAnswer](t)(w.Raw.SecretAnswers(t.Context(), id))
		if len(list) != 1 || list[0].Account != "a-acme" || list[0].Worker != "host-1" {
			t.Fatalf("the order %s has the answers %+v, want one of a-acme", id, list)
		}
		got = engine.SecretAnswer{}
		if err := json.Unmarshal(list[0].Doc, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the answer to %s (-want +got):\n%s", id, diff)
		}
	}
}
