package journal_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// gate returns the current gate of a run.
func (w *world) gate(runID string) run.Gate {
	w.T.Helper()
	return controltest.Must[store.Heads](w.T)(w.Raw.Heads(w.T.Context(), []string{runID})).ByRun[runID].Gate
}

// A workflow must not reopen the gate that a failure closed before the workflow has seen this failure.
func TestAppend_ClearsNoGateThatALaterFailureClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("reopen", "s1<", "s2<")
	one, two := w.execute(id, "s1", 1), w.execute(id, "s2", 1)
	first := w.end(failing(one))
	second := w.end(failing(two))
	clearing := func(seen run.Seq, events ...run.Draft) run.Gate {
		t.Helper()
		out := controltest.Must[store.Appended](t)(
			w.Journal.Append(t.Context(), store.Append{RunID: id, Events: events, ClearGate: run.GateFailing, Seen: seen}))
		if now := w.gate(id); now != out.Head.Gate {
			t.Errorf("the answer has gate %b and the log %b, want the same", out.Head.Gate, now)
		}
		return out.Head.Gate
	}
	skip := runtest.Draft(run.StepSkippedEvent, "s1", 2)
	if g := clearing(first.Seq, skip); g != run.GateFailing {
		t.Errorf("gate %b after a clear that had seen only the first failure, want failing", g)
	}
	if w.CountEvents(id, run.StepSkippedEvent) != 1 {
		t.Error("the events of the batch were not written")
	}
	if g := clearing(second.Seq); g != 0 {
		t.Errorf("gate %b after a clear that had seen both failures, want open", g)
	}
	// An attempt that a pause interrupted does not close the gate.
	controltest.Must[store.Appended](t)(w.Store.Append(t.Context(), store.Append{RunID: id, SetGate: run.GateFailing}))
	w.AppendEvents(id, runtest.Draft(run.StepStartedEvent, "s2", 2), runtest.Draft(run.StepFailedEvent, "s2", 2,
		controltest.M{"errorCode": "CANCELLED_BY_PAUSE"}))
	if g := clearing(second.Seq); g != 0 {
		t.Errorf("gate %b after a clear behind an interrupted attempt, want open", g)
	}
}

// A wait for a person does not begin after a failure that the workflow has not seen.
//
// contract: T185
func TestAppend_HoldsAWaitBackBehindAClosedGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("held", "s1", "s2")
	w.end(failing(w.execute(id, "s1", 1)))
	log := w.EventLog(id)
	wait := store.Append{RunID: id, UnlessGate: run.GateFailing, Events: []run.Draft{
		runtest.Draft(run.StepStartedEvent, "s2", 1), runtest.Draft(run.StepAwaitingManualCompletion, "s2", 1),
	}}
	var closed *store.GateClosedError
	if _, err := w.Journal.Append(t.Context(), wait); !errors.As(err, &closed) || closed.Gate != run.GateFailing {
		t.Errorf("error %v, want a GateClosedError for the failure", err)
	}
	if diff := cmp.Diff(log, w.EventLog(id)); diff != "" {
		t.Errorf("the log changed (-before +after):\n%s", diff)
	}
}

func TestAppend_RefusesToCompleteARunWithAnOpenStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("complete", "s1<", "s2<", "s3<")
	done := runtest.Draft(run.RunCompleted, "", 1)
	complete := func(j *journal.Journal, events ...run.Draft) error {
		_, err := j.Append(t.Context(), store.Append{RunID: id, Events: events})
		return err
	}
	refusedFor(t, "nothing ran", complete(w.Journal, done), "3 steps neither succeeded nor were skipped")
	w.end(w.execute(id, "s1", 1))
	e := w.execute(id, "s2", 1)
	refusedFor(t, "one runs", complete(w.Journal, done), "2 steps")
	w.end(failing(e))
	refusedFor(t, "one failed", complete(w.NewJournal(), done), "2 steps")
	skips := []run.Draft{runtest.Draft(run.StepSkippedEvent, "s2", 2), done}
	refusedFor(t, "one of them skipped in the batch", complete(w.Journal, skips...), "1 steps")
	if w.CountEvents(id, run.StepSkippedEvent) != 0 || w.StateOf(id).Status != run.Running {
		t.Errorf("a refused batch wrote %v, want nothing", w.EventLog(id))
	}
	lie := []run.Draft{runtest.Draft(run.StepCompletedEvent, "s2", 1), runtest.Draft(run.StepSkippedEvent, "s3", 1), done}
	refusedFor(t, "a success that the log refuses", complete(w.Journal, lie...), "1 steps")
	last := []run.Draft{runtest.Draft(run.StepSkippedEvent, "s2", 2), runtest.Draft(run.StepSkippedEvent, "s3", 1), done}
	if err := complete(w.NewJournal(), last...); err != nil {
		t.Fatalf("the run cannot complete although every step succeeded or was skipped: %v", err)
	}
	for name, j := range map[string]*journal.Journal{"here": w.Journal, "elsewhere": w.NewJournal()} {
		if err := complete(j, done); err != nil {
			t.Errorf("the repeated batch %s returned %v, want no error", name, err)
		}
	}
	if !w.HasAuditRow("acme", "engine REFUSE_WORKER REJECTED TICKET_REFUSED "+id+` {"call":"append"}`) {
		t.Errorf("the audit has no row of the refusal: %v", w.AuditRows("acme"))
	}
}

// Usually the end of a run reads nothing and takes no lock.
func TestAppend_CompletesARunWithoutReading(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("plain", "s1<", "s2<s1")
	counted := &controltest.ReadCounter{Store: w.Store}
	w.Journal = w.NewJournal(func(c *journal.Config) { c.Store = journal.On(counted) })
	w.end(w.execute(id, "s1", 1))
	w.end(w.execute(id, "s2", 1))
	controltest.Must[store.Appended](t)(
		w.Journal.Append(t.Context(), store.Append{RunID: id, Events: []run.Draft{runtest.Draft(run.RunCompleted, "", 1)}}))
	if n := counted.TailReads.Load() + counted.Loads.Load() + counted.Locks.Load(); n != 0 {
		t.Errorf("%d reads and locks, want none", n)
	}
}

// Anybody who reaches the engine can start the workflow of any run. The Journal refuses the start of a run that is not
// approved or still waits for its turn.
func TestAppend_RefusesTheStartOfARunThatWaits(t *testing.T) {
	t.Parallel()
	start := func(w *world, id string) error {
		_, err := w.Journal.Append(w.T.Context(), store.Append{RunID: id, Events: []run.Draft{runtest.Start()}})
		return err
	}
	t.Run("for approval", func(t *testing.T) {
		t.Parallel()
		w := newWithApprovals(t, 1)
		id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Principal("dev-operator"),
			controltest.StartOf("approval", controltest.Document(nil, "s1")))).View.Run.RunID
		refusedFor(t, "a run that waits for approval", start(w, id), "not approved")
		if w.CountEvents(id, run.RunStarted) != 0 || !w.HasAuditRow("acme",
			"engine REFUSE_WORKER REJECTED TICKET_REFUSED "+id) {
			t.Errorf("the log is %v and the audit %v, want no start and a row", w.EventLog(id), w.AuditRows("acme"))
		}
	})
	t.Run("for its turn", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) { q.MaxActive = 1 })))
		w.CreateRunning("first", "s1")
		waiting := w.StartOneStep("second").View.Run.RunID
		// The RunApproved is written when the run leaves the queue.
		refusedFor(t, "a run that waits for a slot", start(w, waiting), "not approved")
		w.ChangePolicy(func(d *authz.Document) {
			d.Approvals = []authz.Approval{{ProjectID: "shop", EnvironmentID: "*", Required: 1}}
		})
		approved := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Principal("dev-operator"),
			controltest.StartOf("third", controltest.Document(nil, "s1")))).View.Run.RunID
		controltest.Must[control.RunView](t)(w.ApproveRun(t.Context(), w.Principal("dev-planner"),
			controltest.ApprovalOf(approved, "a1")))
		refusedFor(t, "an approved run that waits for a slot", start(w, approved), "waits for its turn")
	})
	t.Run("not", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for name, prepare := range map[string]func(q store.QueueRow){
			"leased": func(store.QueueRow) {},
			"started": func(q store.QueueRow) {
				controltest.Must[struct{}](t)(struct{}{}, w.Store.MarkStarted(t.Context(), q.RunID, q.Generation))
			},
			"whose start was not answered": func(q store.QueueRow) {
				controltest.Must[struct{}](t)(struct{}{}, w.Store.Release(t.Context(), q.RunID, q.Generation, time.Minute,
					"no answer"))
			},
		} {
			id := w.CreateQueued(strings.ReplaceAll(name, " ", "-"), "s1")
			rows := controltest.Must[[]store.QueueRow](t)(w.Store.Lease(t.Context(), "x", time.Minute, 1))
			prepare(rows[0])
			if err := start(w, id); err != nil {
				t.Errorf("the start of a run that was %s returned %v, want no error", name, err)
			}
		}
		// In a restored store, the workflow runs although the row is not leased.
		id := w.CreateQueued("restored", "s1")
		for range 2 { // the second append is a repetition
			if err := start(w, id); err != nil {
				t.Errorf("the start of a run that is due returned %v, want no error", err)
			}
		}
	})
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) { q.MaxActive = 1 })))
		w.CreateRunning("first", "s1")
		waiting := w.StartOneStep("second").View.Run.RunID
		w.Journal = w.NewJournal(func(c *journal.Config) { c.Restoring = true })
		if err := start(w, waiting); err != nil {
			t.Errorf("the repair of a start that waits in the older store returned %v, want no error", err)
		}
	})
}

func TestTail_HasTheStartsAndEndsOfAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("tail", "s1<", "s2<", "s3<")
	after := w.newest(id).Seq
	one, two := w.execute(id, "s1", 1), w.execute(id, "s2", 1)
	one.Completed.Result = json.RawMessage(`"` + strings.Repeat("r", engine.MaxTailPayload) + `"`)
	long := failing(two)
	long.Failed.ErrorMessage = strings.Repeat("m", engine.MaxTailPayload)
	w.end(one)
	w.end(long)
	w.Send(w.Engineer(), controltest.SignalOf(id, "u1", run.Pause))
	w.AppendEvents(id, runtest.Draft(run.RunPaused, "u1", 1))
	tail := controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id, after))
	var got []string
	for _, e := range tail.Events {
		got = append(got, string(e.Type)+" "+e.StepID)
	}
	want := []string{"StepStarted s1", "StepStarted s2", "StepCompleted s1", "StepFailed s2", "RunPaused "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	if tail.Seq != w.newest(id).Seq || tail.Head.LastSeq != tail.Seq || tail.Head.Gate&run.GateFailing == 0 {
		t.Errorf("the tail reads to %d of head %d with gate %b, want the head and its gate",
			tail.Seq, tail.Head.LastSeq, tail.Head.Gate)
	}
	if p := string(tail.Events[2].Payload); p != "" {
		t.Errorf("a long result has the payload %.40s, want none", p)
	}
	if p := controltest.Must[run.FailurePayload](t)(
		run.PayloadOf[run.FailurePayload](tail.Events[3].Payload)); p.ErrorMessage != long.Failed.ErrorMessage {
		t.Errorf("the message of a long failure has %d bytes, want all", len(p.ErrorMessage))
	}
	if tail.Events[4].Payload != nil || tail.Events[3].EngineAttempt != 1 || tail.Events[3].LogicalAttempt != 1 {
		t.Errorf("the pause has the payload %s, the failure is of attempt %d.%d; want none and 1.1",
			tail.Events[4].Payload,
			tail.Events[3].LogicalAttempt, tail.Events[3].EngineAttempt)
	}
	if rest := controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id, tail.Seq)); len(rest.Events) != 0 ||
		rest.Seq != tail.Seq {
		t.Errorf("after the end there are %d events, read to %d; want none", len(rest.Events), rest.Seq)
	}
	if _, err := w.Journal.Tail(t.Context(), id, tail.Seq+1); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("Tail after the end of the log returned %v, want ErrRegressed", err)
	}
	if _, err := w.Journal.Tail(t.Context(), "none", 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown run: %v, want ErrNotFound", err)
	}
}

// Tail keeps the retry window of a long payload, and a long log is read in several calls.
func TestTail_ShortensLongPayloadsAndPagesLongLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("tail-2", "s1<", "s2<")
	one, two := w.execute(id, "s1", 1), w.execute(id, "s2", 1)
	w.end(failing(one))
	two.Completed.Result = json.RawMessage(`"` + strings.Repeat("r", engine.MaxTailPayload) + `"`)
	ended := w.end(two)
	tail := controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id, ended.Seq-1))
	var p struct{ RetryDeadline *time.Time }
	if err := json.Unmarshal(tail.Events[0].Payload, &p); err != nil || p.RetryDeadline == nil ||
		len(tail.Events[0].Payload) > 100 {
		t.Errorf("the end has the payload %.200s with the error %v, want only the retry window",
			tail.Events[0].Payload, err)
	}
	for i := range engine.MaxTail + 10 {
		controltest.Must[store.Appended](t)(
			w.Store.Append(t.Context(), store.Append{RunID: id,
				Events: []run.Draft{runtest.Draft(run.SignalRejected, "n"+string(rune('a'+i%26))+time.Duration(i).String(),
					1)}}))
	}
	first := controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id, ended.Seq))
	if first.Seq != ended.Seq+engine.MaxTail || first.Seq >= first.Head.LastSeq || len(first.Events) != 0 {
		t.Errorf("the first tail reads to %d of %d from %d, want a part", first.Seq, first.Head.LastSeq, ended.Seq)
	}
	if rest := controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id,
		first.Seq)); rest.Seq != rest.Head.LastSeq {
		t.Errorf("the second tail reads to %d of %d, want all", rest.Seq, rest.Head.LastSeq)
	}
}

// A reader that knows a longer log gets ErrRegressed until the repair. Afterwards it learns that the log was replaced.
// contract: T194
func TestTail_OfAReplacedLogReturnsErrRegressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("repaired", "s1<")
	w.execute(id, "s1", 1)
	head := controltest.Must[store.Heads](t)(w.Raw.Heads(t.Context(), []string{id})).ByRun[id].LastSeq
	if _, err := w.Journal.Tail(t.Context(), id, head+5); !errors.Is(err, store.ErrRegressed) {
		t.Fatalf("before the repair: %v, want ErrRegressed", err)
	}
	if err := w.Raw.MarkRepaired(t.Context(), id, head+5); err != nil {
		t.Fatal(err)
	}
	got := controltest.Must[engine.Tail](t)(w.Journal.Tail(t.Context(), id, head+5))
	if got.Head.LastSeq != head || len(got.Events) != 0 || got.Epoch == "" {
		t.Errorf("after the repair: %+v, want the head %d and the epoch", got, head)
	}
}
