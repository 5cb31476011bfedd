package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// refusedFor checks that err is engine.ErrRefused and contains the reason why.
func refusedFor(t *testing.T, what string, err error, why string) {
	t.Helper()
	if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, want ErrRefused with %q", what, err, why)
	}
}

// An execution begins only with the ticket of its own dispatch. A refusal writes only an audit row.
func TestStartAttempt_RefusesAnExecutionWithoutItsTicket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("tickets", "s1<", "s2<")
	other := w.CreateRunning("tickets-2", "s1<", "s2<")
	before := w.EventLog(id)
	good := w.BeginOf(id, "s1", 1, 1)
	with := func(f func(*engine.StartAttempt)) engine.StartAttempt { b := good; f(&b); return b }
	expired := w.DispatchOf(id, "s1", 1)
	expired.Expires = w.Clock.Now().Add(-time.Minute)
	hook := w.DispatchOf(id, "s1", 1)
	hook.Hook = true
	foreign := controltest.TicketKeys(t, "k2")
	forged := controltest.TicketKeys(t, "k2")
	for _, c := range []struct {
		name string
		b    engine.StartAttempt
		why  string
	}{
		{"no ticket", with(func(b *engine.StartAttempt) { b.Ticket = "" }), "missing"},
		{"a ticket of other keys", with(func(b *engine.StartAttempt) {
			b.Ticket = foreign.Ticket(w.DispatchOf(id, "s1",
				1))
		}),
			"none of the ticket-keys"},
		{"a forged id of the key", with(func(b *engine.StartAttempt) {
			b.Ticket = strings.Replace(forged.Ticket(w.DispatchOf(id, "s1", 1)), "k2.", "k1.", 1)
		}), "none of the ticket-keys"},
		{"an expired ticket", with(func(b *engine.StartAttempt) { b.Ticket = w.Tickets.Ticket(expired) }), "expired"},
		{"the ticket of a hook", with(func(b *engine.StartAttempt) { b.Ticket = w.Tickets.Ticket(hook) }),
			"another dispatch"},
		{"the ticket of another run", with(func(b *engine.StartAttempt) {
			b.Ticket = w.Tickets.Ticket(w.DispatchOf(other, "s1",
				1))
		}),
			"another dispatch"},
		{"the ticket of another step", with(
			func(b *engine.StartAttempt) { b.Ticket = w.Tickets.Ticket(w.DispatchOf(id, "s2", 1)) }),
			"another dispatch"},
		{"the ticket of another attempt", with(func(b *engine.StartAttempt) { b.LogicalAttempt = 2 }), "another dispatch"},
		{"the ticket of another dispatch", with(func(b *engine.StartAttempt) { b.N = 7 }), "another dispatch"},
		{"no engine attempt", with(func(b *engine.StartAttempt) { b.EngineAttempt = 0 }), "engine attempt 0"},
		{"too many engine attempts", with(func(b *engine.StartAttempt) { b.EngineAttempt = 1001 }), "engine attempt 1001"},
		{"a clock that is ahead", with(func(b *engine.StartAttempt) {
			b.EmittedAt = b.EmittedAt.Add(2*time.Hour +
				3*time.Minute)
		}),
			"the worker's clock is 2 h 3 min ahead"},
		{"a clock that is behind", with(func(b *engine.StartAttempt) { b.EmittedAt = b.EmittedAt.Add(-11 * time.Minute) }),
			"behind"},
		{"no clock", with(func(b *engine.StartAttempt) { b.EmittedAt = time.Time{} }), "behind"},
	} {
		begun, err := w.Journal.StartAttempt(t.Context(), c.b)
		refusedFor(t, c.name, err, c.why)
		if begun.Key != "" || begun.Verdict != "" {
			t.Errorf("%s: the refusal returned verdict %s and key %q", c.name, begun.Verdict, begun.Key)
		}
		if _, err := w.Journal.Compensation(t.Context(), c.b); c.b.Ticket != w.Tickets.Ticket(hook) &&
			!errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s as a compensation: %v, want ErrRefused", c.name, err)
		}
	}
	if after := w.EventLog(id); len(after) != len(before) {
		t.Errorf("refusals wrote to the log: %v", after[len(before):])
	}
	if begun, err := w.Journal.StartAttempt(t.Context(), good); err != nil || begun.Verdict != store.StartGranted {
		t.Errorf("StartAttempt after the refusals returned %s with the error %v, want RUN", begun.Verdict, err)
	}
	if _, err := w.NewJournal(func(c *journal.Config) { c.Tickets = ticket.Keys{} }).StartAttempt(t.Context(),
		good); err != nil {
		refusedFor(t, "a Journal without keys", err, "ticket-keys")
	} else {
		t.Error("a Journal without keys accepts a ticket")
	}
}

// Only the ticket decides whether an attempt passes fail-fast, regardless of the worker that presents it.
// contract: T217
func TestStartAttempt_PassesFailFastByTheTicketAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("failfast", "s1<", "s2<")
	w.end(failing(w.execute(id, "s1", 1)))
	d := w.DispatchOf(id, "s2", 1)
	if b := controltest.Must[engine.AttemptStarted](t)(
		w.Journal.StartAttempt(t.Context(), w.BeginBy(d, 1))); b.Verdict != store.StartParked {
		t.Errorf("a step without the right to pass is %s, want PARKED", b.Verdict)
	}
	d.PassFailing, d.SignalID = true, "retry-1"
	if b := controltest.Must[engine.AttemptStarted](t)(
		w.Journal.StartAttempt(t.Context(), w.BeginBy(d, 1))); b.Verdict != store.StartGranted {
		t.Errorf("a step with the right to pass is %s, want RUN", b.Verdict)
	}
	if p := controltest.Must[run.StepStartedPayload](t)(
		run.PayloadOf[run.StepStartedPayload](w.newest(id).Payload)); p.SignalID != "retry-1" {
		t.Errorf("StepStarted names the signal %q, want that of the ticket", p.SignalID)
	}
}

func TestStartAttempt_RefusesAnAttemptOutOfTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("turns", "s1<", "s2<")
	for _, logicalAttempt := range []int{2, 3} {
		_, err := w.Journal.StartAttempt(t.Context(), w.BeginOf(id, "s1", logicalAttempt, 1))
		refusedFor(t, fmt.Sprintf("attempt %d before any", logicalAttempt), err,
			fmt.Sprintf("attempt %d of step s1 is not next", logicalAttempt))
	}
	e := w.execute(id, "s1", 1)
	_, err := w.Journal.StartAttempt(t.Context(), w.BeginOf(id, "s1", 2, 1))
	refusedFor(t, "attempt 2 while attempt 1 runs", err, "not next")
	w.end(failing(e))
	_, err = w.Journal.StartAttempt(t.Context(), w.BeginOf(id, "s1", 3, 1))
	refusedFor(t, "attempt 3 after attempt 1", err, "not next")
	if b := w.BeginAttempt(id, "s1", 2, 1); b.Verdict != store.StartGranted {
		t.Errorf("attempt 2 after attempt 1 is %s, want RUN", b.Verdict)
	}
	if b := w.BeginAttempt(id, "s1", 2, 2); b.Verdict != store.StartGranted {
		t.Errorf("attempt 2 again is %s, want RUN", b.Verdict)
	}
	b := w.BeginAttempt(id, "s1", 1, 2)
	if b.Verdict != store.StartDone || b.Terminal == nil || b.Terminal.Type != run.StepFailedEvent ||
		b.Terminal.Seq == 0 || b.Terminal.Payload != nil || b.Key != "" {
		t.Errorf("attempt 1 again is %s with %+v and key %q, want DONE with only the type and the sequence number of its end",
			b.Verdict, b.Terminal, b.Key)
	}
}

func TestStartAttempt_RefusesAnOpenDependency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("open", "s1<", "s2<s1", "s3<s1,s2")
	open := func(step string) {
		t.Helper()
		_, err := w.Journal.StartAttempt(t.Context(), w.BeginOf(id, step, 1, 1))
		refusedFor(t, step, err, "depends on step")
	}
	open("s2")
	e := w.execute(id, "s1", 1)
	open("s2")
	w.end(failing(e))
	open("s2")
	d := w.DispatchOf(id, "s2", 1)
	d.PassFailing = true
	if _, err := w.Journal.StartAttempt(t.Context(), w.BeginBy(d, 1)); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("a ticket that passes fail-fast also passed an open dependency: %v", err)
	}
	controltest.Must[store.Appended](t)(w.Journal.Append(t.Context(), store.Append{
		RunID: id, Events: []run.Draft{runtest.Draft(run.StepSkippedEvent, "s1", 2)}, ClearGate: run.GateFailing, Seen: 100,
	}))
	open("s3")
	w.end(w.execute(id, "s2", 1)) // s1 was skipped
	if b := w.BeginAttempt(id, "s3", 1, 1); b.Verdict != store.StartGranted {
		t.Errorf("s3 after its dependencies is %s, want RUN", b.Verdict)
	}
}

// In the ordinary case the check of dependencies reads nothing: this process wrote the ends, or read them for the
// workflow. Another process reads each event once.
func TestStartAttempt_ChecksDependenciesWithoutReading(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("cheap", "s1<", "s2<s1", "s3<s2", "s4<s3")
	counted := &controltest.ReadCounter{Store: w.Store}
	own := w.NewJournal(func(c *journal.Config) { c.Store = journal.On(counted) })
	w.Journal = own
	w.end(w.execute(id, "s1", 1))
	w.end(w.execute(id, "s2", 1))
	if n := counted.TailReads.Load() + counted.Loads.Load(); n != 0 {
		t.Errorf("%d reads of the log by the process that wrote it, want none", n)
	}
	other := &controltest.ReadCounter{Store: w.Store}
	w.Journal = w.NewJournal(func(c *journal.Config) { c.Store = journal.On(other) })
	controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id, 0)) // of a run that it does not know yet
	w.execute(id, "s3", 1)
	if tails, loads := other.TailReads.Load(), other.Loads.Load(); tails != 2 || loads != 0 {
		t.Errorf("%d tails and %d states were read by a process that wrote nothing, want one besides Tail", tails, loads)
	}
	w.Journal = own
	e := w.BeginOf(id, "s3", 1, 2)
	begun := controltest.Must[engine.AttemptStarted](t)(own.StartAttempt(t.Context(), e))
	w.end(engine.End{RunID: id, StepID: "s3", LogicalAttempt: 1, N: 1, EngineAttempt: 2, StartedSeq: begun.StartedSeq,
		Key: begun.Key, Completed: &run.StepCompletedPayload{}})
	w.Journal = w.NewJournal(func(c *journal.Config) { c.Store = journal.On(other) })
	controltest.Must[engine.Skeleton](t)(w.Journal.Skeleton(t.Context(), id))
	controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id, 0)) // fills what it knows
	before := other.TailReads.Load()
	w.execute(id, "s4", 1)
	if n := other.TailReads.Load() - before; n != 0 {
		t.Errorf("%d reads after Tail had read the log, want none", n)
	}
}

// The state replaces a log that is longer than one read can hold.
func TestStartAttempt_KnowsTheDependenciesOfALongLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("long", "s1<", "s2<s1")
	w.end(w.execute(id, "s1", 1))
	for i := range 2 * store.MaxTail / 100 {
		var noise []run.Draft
		for k := range 100 {
			noise = append(noise, runtest.Draft(run.SignalRejected, fmt.Sprintf("n%d-%d", i, k), 1))
		}
		controltest.Must[store.Appended](t)(w.Store.Append(t.Context(), store.Append{RunID: id, Events: noise}))
	}
	w.Journal = w.NewJournal()
	w.execute(id, "s2", 1)
	_, err := w.Journal.StartAttempt(t.Context(), w.BeginOf(id, "s2", 2, 1))
	refusedFor(t, "attempt 2 while attempt 1 runs", err, "not next")
}

// A worker gets dispatches of its tenants and to its queues only; others look as if they did not exist.
func TestFor_HidesOtherTenantsAndQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("served", "s1<", "s2<")
	of := func(tenant, queue string) engine.AttemptJournal {
		return w.Journal.For(authz.Worker{ID: "steps-1", Serves: []string{tenant}, Queues: []string{queue}})
	}
	for name, j := range map[string]engine.AttemptJournal{"another tenant": of("globex", "*"),
		"another queue": of("acme", "tq-isolation-*")} {
		if _, err := j.StartAttempt(t.Context(), w.BeginOf(id, "s1", 1, 1)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: begin is %v, want ErrNotFound", name, err)
		}
		hook := w.DispatchOf(id, "s1", 1)
		hook.Hook = true
		if _, err := j.Compensation(t.Context(), w.BeginBy(hook, 1)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: compensation is %v, want ErrNotFound", name, err)
		}
	}
	e := w.execute(id, "s1", 1)
	if _, err := of("globex", "*").End(t.Context(), e); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant ends an attempt: %v, want ErrNotFound", err)
	}
	if err := of("globex", "*").Evidence(t.Context(), evidenceOf(e, "x")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant gives evidence: %v, want ErrNotFound", err)
	}
	if _, err := of("acme", "tq-data-*").StartAttempt(t.Context(), w.BeginOf(id, "s2", 1, 1)); err != nil {
		t.Errorf("a worker of the tenant and the queue gets %v, want no error", err)
	}
}

// Each refusal is counted. Audit rows and log lines are limited to one a minute.
func TestRefusals_AreAuditedWithinBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Hold()
	id := w.CreateRunning("audited", "s1<")
	registry := prometheus.NewRegistry()
	var log strings.Builder
	j := w.NewJournal(func(c *journal.Config) { c.Metrics, c.Logger = registry, textLogger(&log) })
	worker := j.For(authz.Worker{ID: "steps-1", Serves: []string{"*"}, Queues: []string{"*"}})
	rows := func(start string) (n int) {
		for _, r := range w.AuditRows("acme") {
			if strings.HasPrefix(r, start) {
				n++
			}
		}
		return n
	}
	forged := w.BeginOf(id, "s1", 1, 1)
	forged.Ticket = "x"
	for range 30 {
		_, err := worker.StartAttempt(t.Context(), forged)
		refusedFor(t, "forged", err, "ticket")
	}
	want := "steps-1 REFUSE_WORKER REJECTED TICKET_REFUSED " + id + ` {"call":"begin","stepId":"s1"}`
	if n := rows(want); n != 1 {
		t.Errorf("%d rows like %q of 30 calls in a minute, want 1: %v", n, want, w.AuditRows("acme"))
	}
	if got := controltest.MetricValues(t, registry)["engine_refused_calls_total"]; got != 30 {
		t.Errorf("engine_refused_calls_total is %v, want 30", got)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 30 {
		t.Errorf("30 refused calls wrote %d log lines, want 30", n)
	}
	w.Clock.Advance(time.Minute)
	if _, err := worker.StartAttempt(t.Context(), forged); err == nil {
		t.Error("a forged ticket was accepted a minute later")
	}
	if n := rows("steps-1 REFUSE_WORKER REJECTED TICKET_REFUSED " + id +
		` {"call":"begin","stepId":"s1","repeatedBefore":29}`); n != 1 {
		t.Errorf("the next row does not count the 29 repetitions before it: %v", w.AuditRows("acme"))
	}
	for i := range 30 {
		j.ReportForgery(t.Context(), id, fmt.Sprintf("a result of step s1 came for dispatch %d, which was never made", i))
	}
	if n := rows("engine ENGINE_FORGERY REJECTED TICKET_REFUSED " + id); n != 1 {
		t.Errorf("%d rows of 30 forgeries in a minute, want 1", n)
	}
	j.ReportForgery(t.Context(), "no-such-run", "x") // without a tenant there is no audit row
	for i := range 30 {
		_, err := j.For(authz.Worker{ID: fmt.Sprintf("w%d", i), Serves: []string{"*"}, Queues: []string{"*"}}).StartAttempt(
			t.Context(), forged)
		refusedFor(t, "another worker", err, "ticket")
	}
	if n := rows("w"); n > 10 {
		t.Errorf("one run has %d rows in a minute, want at most 10", n)
	}
}

// An expired ticket does not lose the attempt: the next dispatch gets a new ticket.
func TestStartAttempt_TicketsExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("expires", "s1<")
	d := w.DispatchOf(id, "s1", 1)
	b := w.BeginBy(d, 1)
	w.Clock.Advance(ticket.Life + time.Minute)
	b.EmittedAt = w.Clock.Now()
	_, err := w.Journal.StartAttempt(t.Context(), b)
	refusedFor(t, "a day later", err, "the ticket expired at ")
	if again := w.BeginAttempt(id, "s1", 1, 1); again.Verdict != store.StartGranted {
		t.Errorf("with a new ticket it is %s, want RUN", again.Verdict)
	}
}
