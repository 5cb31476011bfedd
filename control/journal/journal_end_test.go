package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// newest returns the newest event of a run.
func (w *world) newest(runID string) run.Event {
	w.T.Helper()
	evs := controltest.Must[[]run.Event](w.T)(w.Raw.EventsBefore(w.T.Context(), runID, 1<<40, 1))
	return evs[0]
}

func TestEnd_WritesTheEndOfAnAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Hold()
	id := w.CreateRunning("ends", "s1<", "s2<")
	e := w.execute(id, "s1", 1)
	w.Clock.Advance(time.Second)
	ended := w.end(e)
	got := w.newest(id)
	if ended.Seq != got.Seq || ended.Type != run.StepCompletedEvent {
		t.Errorf("the answer is %s at %d, but the log has %s at %d", ended.Type, ended.Seq, got.Type, got.Seq)
	}
	if !got.EmittedAt.Equal(w.Clock.Now()) || got.EmittedBy != run.ByEngine || got.EngineAttempt != 1 ||
		string(got.Payload) != `{"result":{"rows":7},"durationMs":5}` {
		t.Errorf("the event is by %s at %s, engine attempt %d, %s; want the engine and the time of the Journal",
			got.EmittedBy, got.EmittedAt, got.EngineAttempt,
			got.Payload)
	}
	// A repeated report and the report of another execution return the first end.
	n := len(w.EventLog(id))
	if again := w.end(e); again != ended {
		t.Errorf("a repeated report is answered %+v, want %+v", again, ended)
	}
	if other := w.end(failing(e)); other != ended {
		t.Errorf("another end of the attempt is answered %+v, want the first %+v", other, ended)
	}
	if after := len(w.EventLog(id)); after != n {
		t.Errorf("repeated reports wrote %d events, want none", after-n)
	}
	if st := w.StateOf(id); st.Counts.Success != 1 {
		t.Errorf("%d steps succeeded, want 1", st.Counts.Success)
	}
}

// An end needs the key of its own execution, which Begin returns. A key is valid for nothing else.
func TestEnd_RefusesAnExecutionWithoutItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("keys", "s1<", "s2<")
	one, two := w.execute(id, "s1", 1), w.execute(id, "s2", 1)
	with := func(f func(*engine.End)) engine.End { e := one; f(&e); return e }
	for name, e := range map[string]engine.End{
		"no key":                        with(func(e *engine.End) { e.Key = "" }),
		"the key of another step":       with(func(e *engine.End) { e.Key = two.Key }),
		"another dispatch":              with(func(e *engine.End) { e.N = 2 }),
		"another engine attempt":        with(func(e *engine.End) { e.EngineAttempt = 2 }),
		"another attempt":               with(func(e *engine.End) { e.LogicalAttempt = 2 }),
		"the hook of the step":          with(func(e *engine.End) { e.Hook = true }),
		"the ticket instead of the key": with(func(e *engine.End) { e.Key = w.Tickets.Ticket(w.DispatchOf(id, "s1", 1)) }),
	} {
		_, err := w.Journal.End(t.Context(), e)
		refusedFor(t, name, err, "the key is not that of")
		refusedFor(t, "evidence with "+name, w.Journal.Evidence(t.Context(), evidenceOf(e, "x")), "the key is not that of")
	}
	if _, err := w.Journal.End(t.Context(), with(func(e *engine.End) { e.Completed = nil })); !errors.Is(err,
		run.ErrSchema) {
		t.Errorf("an end that neither completed nor failed: %v, want ErrSchema", err)
	}
	both := failing(one)
	both.Completed = one.Completed
	if _, err := w.Journal.End(t.Context(), both); !errors.Is(err, run.ErrSchema) {
		t.Errorf("an end that both completed and failed: %v, want ErrSchema", err)
	}
	if !w.HasAuditRow("acme", "engine REFUSE_WORKER REJECTED TICKET_REFUSED "+id) {
		t.Errorf("no audit row: %v", w.AuditRows("acme"))
	}
	w.end(one)
	w.end(two)
}

// An execution whose Begin is not in the log has nothing to end.
// contract: T185
func TestEnd_RefusesAnAttemptThatNeverBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("never", "s1<")
	e := engine.End{
		RunID: id, StepID: "s1", LogicalAttempt: 1, N: 1, EngineAttempt: 1, Completed: &run.StepCompletedPayload{},
		Key: w.Tickets.Key(ticket.Execution{RunID: id, StepID: "s1", LogicalAttempt: 1, N: 1, EngineAttempt: 1}),
	}
	for name, e := range map[string]engine.End{"completed": e, "failed": failing(e)} {
		_, err := w.Journal.End(t.Context(), e)
		refusedFor(t, name, err, "attempt 1 of step s1 never began")
	}
	if h := controltest.Must[store.Heads](t)(w.Raw.Heads(t.Context(), []string{id})).ByRun[id]; h.Gate != 0 ||
		w.StateOf(id).Counts.Pending != 1 {
		t.Errorf("the gate is %b after a refused failure, want open", h.Gate)
	}
}

// A failure closes the gate in its own commit, so that nothing begins between the two. The retry window opens when no
// step runs any more.
func TestEnd_AFailureClosesTheGateAndOpensTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Hold()
	s := controltest.Must[runs.StartedRun](t)(
		w.StartRun(t.Context(), w.Engineer(),
			controltest.StartOf("window",
				controltest.Document(controltest.M{"metadata.failurePolicy": controltest.M{"retryWindowSeconds": 90}},
					"s1<", "s2<", "s3<"))))
	id := s.View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Start())
	one, two := w.execute(id, "s1", 1), w.execute(id, "s2", 1)
	forged := w.Clock.Now().Add(1000 * time.Hour)
	failed := failing(one)
	failed.Failed.RetryDeadline = &forged
	failed.Failed.Manual = &run.ManualEnd{SignalID: "u1", Actor: "ana", Outcome: run.ManualFailed}
	ended := w.end(failed)
	head := controltest.Must[store.Heads](t)(w.Raw.Heads(t.Context(), []string{id})).ByRun[id]
	if head.Gate != run.GateFailing || head.LastSeq != ended.Seq {
		t.Errorf("gate %b at %d, want failing at %d: the commit of the failure", head.Gate, head.LastSeq, ended.Seq)
	}
	p := controltest.Must[run.FailurePayload](t)(run.PayloadOf[run.FailurePayload](w.newest(id).Payload))
	want := run.FailurePayload{ErrorCode: "EXIT_STATUS", Retryable: true, FailureCategory: run.CategoryUser,
		DurationMS: 5}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("while another step runs, the failure has (-want +got):\n%s", diff)
	}
	if b := w.BeginAttempt(id, "s3", 1, 1); b.Verdict != store.StartParked {
		t.Errorf("a step after the failure is %s, want PARKED", b.Verdict)
	}
	two.Completed.RetryDeadline, two.Completed.Reused = &forged, &run.Reused{RunID: "r0", Seq: 1}
	w.end(two)
	deadline := w.Clock.Now().Add(90 * time.Second)
	c := controltest.Must[run.StepCompletedPayload](t)(run.PayloadOf[run.StepCompletedPayload](w.newest(id).Payload))
	if c.RetryDeadline == nil || !c.RetryDeadline.Equal(deadline) || c.Reused != nil {
		t.Errorf("the last end has the window %v and took over %v, want %v and nothing", c.RetryDeadline, c.Reused,
			deadline)
	}
	if at := w.StateOf(id).RetryDeadline; at == nil || !at.Equal(deadline) {
		t.Errorf("the state has the window %v, want %v", at, deadline)
	}
	interrupted := failing(w.execute(id, "s1", 2))
	interrupted.Failed.ErrorCode = string(run.CodeCancelledByPause)
	if _, err := w.Journal.End(t.Context(), interrupted); !errors.Is(err, run.ErrSchema) {
		t.Errorf("End with CANCELLED_BY_PAUSE returned %v, want ErrSchema", err)
	}
}

// An end beyond the limits of the log is a SchemaError, and the worker may report a shorter one.
// contract: T190
func TestEnd_PassesTheLimitsOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("limits", "s1<")
	e := w.execute(id, "s1", 1)
	for name, result := range map[string]json.RawMessage{
		"too large": json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`), "no JSON": json.RawMessage(`{`),
	} {
		big := e
		big.Completed = &run.StepCompletedPayload{Result: result}
		var schema *run.SchemaError
		if _, err := w.Journal.End(t.Context(), big); !errors.As(err, &schema) {
			t.Errorf("%s: %v, want a SchemaError", name, err)
		}
	}
	if ended := w.end(e); ended.Type != run.StepCompletedEvent {
		t.Errorf("the shorter end is %s, want StepCompleted", ended.Type)
	}
}

func TestEnd_IsRefusedAfterTheEndOfTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("over", "s1<", "s2<")
	one, two := w.execute(id, "s1", 1), w.execute(id, "s2", 1)
	first := w.end(two)
	w.AppendEvents(id, runtest.Draft(run.RunCancelled, "", 1))
	for range 2 {
		_, err := w.Journal.End(t.Context(), one)
		refusedFor(t, "an orphan", err, "the run is over")
	}
	if again := w.end(two); again.Seq != first.Seq || again.Type != first.Type {
		t.Errorf("an end that the log has is answered %+v, want %+v", again, first)
	}
	rows := 0
	for _, r := range w.AuditRows("acme") {
		if strings.Contains(r, id) && strings.Contains(r, "ORPHANED_TASK") {
			rows++
		}
		if strings.Contains(r, "REFUSE_WORKER") {
			t.Errorf("an orphan has a second row: %s", r)
		}
	}
	if rows != 1 {
		t.Errorf("%d rows of an orphan that was reported twice, want 1", rows)
	}
}

// Of concurrent ends of one attempt, one enters the log, and every caller gets that one.
func TestEnd_TheFirstOfARaceWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("race", "s1<")
	e := w.execute(id, "s1", 1)
	there := w.NewJournal()
	var wg sync.WaitGroup
	got := make([]engine.Receipt, 8)
	for i := range got {
		wg.Go(func() {
			j, report := w.Journal, e
			if i%2 == 1 {
				j, report = there, failing(e)
			}
			ended, err := j.End(t.Context(), report)
			if err != nil {
				t.Errorf("report %d returned %v, want no error", i, err)
			}
			got[i] = ended
		})
	}
	wg.Wait()
	for i, ended := range got {
		if ended != got[0] || ended.Seq == 0 {
			t.Errorf("report %d is answered %+v, but report 0 %+v", i, ended, got[0])
		}
	}
	if n := w.CountEvents(id, run.StepCompletedEvent) + w.CountEvents(id, run.StepFailedEvent); n != 1 {
		t.Errorf("%d ends in the log, want 1", n)
	}
}

func TestEvidence_RefusedAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("after", "s1<")
	e := w.execute(id, "s1", 1)
	if err := w.Journal.Evidence(t.Context(), evidenceOf(e, "while it runs")); err != nil {
		t.Fatal(err)
	}
	elsewhere := w.NewJournal()
	counted := &controltest.ReadCounter{Store: w.Store}
	there := w.NewJournal(func(c *journal.Config) { c.Store = journal.On(counted) })
	for i := range 20 {
		line := evidenceOf(e, fmt.Sprint("line ", i))
		line.Lines[0].No = int64(i + 2)
		if err := there.Evidence(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted.TailReads.Load(); n != 1 {
		t.Errorf("20 lines cost %d reads of the log, want 1", n)
	}
	controltest.Must[engine.Receipt](t)(elsewhere.End(t.Context(), e))
	refusedFor(t, "the process that wrote the end", elsewhere.Evidence(t.Context(), evidenceOf(e, "late")),
		"evidence after the end")
	w.Clock.Advance(1100 * time.Millisecond)
	refusedFor(t, "another process a second later", there.Evidence(t.Context(), evidenceOf(e, "late")),
		"evidence after the end")
}

// undoing returns a run that failed after s1 and is being compensated.
func (w *world) undoing(requestID string) string {
	w.T.Helper()
	id := controltest.Must[runs.StartedRun](w.T)(
		w.StartRun(w.T.Context(), w.Engineer(), controltest.StartOf(requestID, compensable(w.T)))).View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Start("s1", "s2"))
	w.end(w.execute(id, "s1", 1))
	w.end(failing(w.execute(id, "s2", 1)))
	return id
}

// hookOf returns the StartAttempt of a step's hook.
func (w *world) hookOf(runID, stepID string, logicalAttempt, engineAttempt int) engine.StartAttempt {
	d := w.DispatchOf(runID, stepID, logicalAttempt)
	d.Hook = true
	return w.BeginBy(d, engineAttempt)
}

// contract: R183, T88
func TestCompensation_ByTicketAndKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.undoing("hooks")
	_, err := w.Journal.Compensation(t.Context(), w.hookOf(id, "s1", 1, 1))
	refusedFor(t, "before the compensation of the run", err, "has not started")
	w.AppendEvents(id, runtest.Draft(run.RunCompensationStarted, "", 1, controltest.M{"stepIds": []string{"s1"}}))
	_, err = w.Journal.Compensation(t.Context(), w.hookOf(id, "s1", 2, 1))
	refusedFor(t, "an attempt that did not succeed", err, "did not succeed")
	_, err = w.Journal.Compensation(t.Context(), w.BeginOf(id, "s1", 1, 1))
	refusedFor(t, "the ticket of the step", err, "another dispatch")
	if _, err := w.Journal.Compensation(t.Context(), w.hookOf(id, "s2", 1, 1)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a step without a hook: %v, want ErrNotFound", err)
	}
	hook := controltest.Must[engine.Hook](t)(w.Journal.Compensation(t.Context(), w.hookOf(id, "s1", 1, 2)))
	if hook.Step.StepID != "s1" || hook.Step.Type != plan.Noop || hook.Step.Compensation != nil || hook.Key == "" {
		t.Fatalf("the hook is of %s, a %s, with key %q; want that of s1", hook.Step.StepID, hook.Step.Type, hook.Key)
	}
	e := engine.End{
		RunID: id, StepID: "s1", LogicalAttempt: 1, N: 1, EngineAttempt: 2, Hook: true, Key: hook.Key,
		Failed: &run.FailurePayload{ErrorMessage: "gone"},
	}
	if err := w.Journal.Evidence(t.Context(), evidenceOf(e, "undoing")); err != nil {
		t.Errorf("evidence of a hook returned %v, want no error", err)
	}
	there := w.NewJournal()
	ended := controltest.Must[engine.Receipt](t)(there.End(t.Context(), e))
	got := w.newest(id)
	want := run.CompensationPayload{StepID: "s1", IdempotencyKey: id + ":s1:compensate", Attempts: 2,
		ErrorCode: "INTERNAL", ErrorMessage: "gone"}
	payload := controltest.Must[run.CompensationPayload](t)(run.PayloadOf[run.CompensationPayload](got.Payload))
	if diff := cmp.Diff(want, payload); diff != "" ||
		got.Type != run.StepCompensationFailed || got.Seq != ended.Seq {
		t.Errorf("the log has %s at %d, the answer %d; want the same and (-want +got):\n%s",
			got.Type, got.Seq, ended.Seq, diff)
	}
	// A second end of the hook, reported by another process, returns the first.
	other := e
	other.Failed, other.Completed = nil, &run.StepCompletedPayload{}
	for name, j := range map[string]*journal.Journal{"here": there, "elsewhere": w.Journal} {
		if again := controltest.Must[engine.Receipt](t)(j.End(t.Context(), other)); again.Seq != ended.Seq ||
			again.Type != ended.Type {
			t.Errorf("another end %s is answered %+v, want %+v", name, again, ended)
		}
	}
	if w.CountEvents(id, run.StepCompensated) != 0 {
		t.Error("the hook has two ends in the log")
	}
	_, err = w.Journal.Compensation(t.Context(), w.hookOf(id, "s1", 1, 3))
	refusedFor(t, "a hook that has ended", err, "has its end in the log")
	refusedFor(t, "evidence of it", there.Evidence(t.Context(), evidenceOf(e, "late")), "after the end")
}
