package journal_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Workers of two tenants and of two queues call one Journal over HTTP. A worker needs a ticket, the tenant and the
// queue for each call. It cannot use the key of an execution that another worker began.
//
// contract: T203
func TestRemote_AWorkerGetsOnlyItsTenantsAndQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	account := func(id, tenant string, queues ...string) authz.Account {
		return authz.Account{ID: id, TokenSHA256: controltest.TokenHash(id), Worker: true, Serves: []string{tenant},
			Queues: queues}
	}
	directory := controltest.Must[*authz.Directory](t)(authz.NewDirectory([]authz.Account{
		account("acme-1", "acme", "tq-data-*"), account("acme-2", "acme"), account("alone", "acme",
			"tq-isolation-acme-dev"),
		account("globex-1", "globex"),
	}, w.Clock.Now))
	mux := http.NewServeMux()
	mux.Handle(remote.Path+"/", &remote.Server{
		Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(token string) (engine.AttemptJournal, error) {
			worker, err := directory.AuthenticateWorker(token)
			return w.Journal.For(worker), err
		},
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	as := func(id string) *remote.Client {
		return controltest.Must[*remote.Client](t)(remote.NewClient(server.URL, id))
	}
	id := w.CreateRunning("remote", "s1<", "s2<")
	b := w.BeginOf(id, "s1", 1, 1)
	for _, stranger := range []string{"globex-1", "alone"} {
		if _, err := as(stranger).StartAttempt(t.Context(), b); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s begins: %v, want ErrNotFound", stranger, err)
		}
	}
	forged := b
	forged.Ticket = "k1.e30.x"
	_, err := as("acme-1").StartAttempt(t.Context(), forged)
	refusedFor(t, "a forged ticket", err, "the ticket is missing, or none of the ticket-keys made it")
	if !w.HasAuditRow("acme", "acme-1 REFUSE_WORKER REJECTED TICKET_REFUSED "+id) {
		t.Errorf("the audit has no row of the worker: %v", w.AuditRows("acme"))
	}
	begun := controltest.Must[engine.AttemptStarted](t)(as("acme-1").StartAttempt(t.Context(), b))
	e := engine.End{RunID: id, StepID: "s1", LogicalAttempt: 1, N: 1, EngineAttempt: 1, StartedSeq: begun.StartedSeq,
		Key: begun.Key, Completed: &run.StepCompletedPayload{}}
	if _, err := as("globex-1").End(t.Context(), e); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a worker of another tenant ends it: %v, want ErrNotFound", err)
	}
	stolen := e
	stolen.StepID = "s2"
	controltest.Must[engine.AttemptStarted](t)(as("acme-2").StartAttempt(t.Context(), w.BeginOf(id, "s2", 1, 1)))
	_, err = as("acme-1").End(t.Context(), stolen)
	refusedFor(t, "another step's end with the key of its own", err, "the key is not that of step s2")
	if err := as("acme-1").Evidence(t.Context(), evidenceOf(e, "working")); err != nil {
		t.Error(err)
	}
	first := controltest.Must[engine.Receipt](t)(as("acme-1").End(t.Context(), e))
	if again := controltest.Must[engine.Receipt](t)(as("acme-1").End(t.Context(), e)); again != first ||
		again.Type != run.StepCompletedEvent {
		t.Errorf("a repeated report is answered %+v, want %+v", again, first)
	}
	refusedFor(t, "evidence", as("acme-1").Evidence(t.Context(), evidenceOf(e, "late")), "evidence after the end")
	if done := controltest.Must[engine.AttemptStarted](t)(as("acme-1").StartAttempt(t.Context(),
		b)); done.Verdict != store.StartDone ||
		done.Terminal.Seq != first.Seq || done.Terminal.Payload != nil {
		t.Errorf("the repeated execution is %s with %+v, want DONE with the first end and no payload",
			done.Verdict, done.Terminal)
	}
}
