package storetest

import (
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var guardCases = []testCase{
	// contract: A07, T10
	{"FirstTerminalEventWins", testFirstTerminalEventWins},
	{"FirstEndOfAHookWins", testFirstEndOfAHookWins},
	// contract: A08, T80
	{"EventAfterTheEndIsOrphaned", testEventAfterTheEndIsOrphaned},
	// contract: T228
	{"DuplicatesComeBeforeTerminalsBeforeOrphans", testDuplicatesComeBeforeTerminalsBeforeOrphans},
	// contract: T42
	{"LateStepStartedDoesNotCount", testLateStepStartedDoesNotCount},
	// contract: T79
	{"IfStartedRefusesEndsWithoutAStart", testIfStartedRefusesEndsWithoutAStart},
	// contract: T93
	{"CreateRunIsIdempotent", testCreateRunIsIdempotent},
	{"CreateRunRefusesAKnownRunId", testCreateRunRefusesAKnownRunId},
	{"InRunRollsBack", testInRunRollsBack},
	{"PanicInInRunRollsBack", testPanicInInRunRollsBack},
}

// InRun passes a panic of the function on to the caller. It writes nothing, and it releases the run and the connection.
func testPanicInInRunRollsBack(f *fixture) {
	id := f.run()
	head := f.load(id).Head.LastSeq
	for range 20 { // more than the number of connections
		func() {
			defer func() { f.equal("a fault", recover(), "what was recovered") }()
			_ = f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
				_, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{stepStarted("s1", 1)}})
				f.ok(err)
				panic("a fault")
			})
		}()
	}
	f.equal(head, f.load(id).Head.LastSeq, "head")
	f.append(id, stepStarted("s1", 1))
}

func testFirstTerminalEventWins(f *fixture) {
	id := f.run()
	won := f.append(id, stepCompleted("s1", 1)).Outcomes[0]
	lost := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{stepFailed("s1", 1)}})
	f.equal(run.CodeInvalidTransition, lost.Outcomes[0].Refused, "refused")
	f.equal([]any{won.Seq, run.StepCompletedEvent, won.EventID}, []any{lost.Outcomes[0].Existing.Seq,
		lost.Outcomes[0].Existing.Type, lost.Outcomes[0].Existing.EventID}, "the winner")
	f.equal(won.Seq, lost.Head.LastSeq, "head")
	f.append(id, stepFailed("s2", 1))
	lost = f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{stepCompleted("s2", 1), runtest.Draft(run.StepSkippedEvent, "s2",
			1)}})
	f.equal(run.StepFailedEvent, lost.Outcomes[0].Existing.Type, "reverse order")
	f.equal(run.CodeInvalidTransition, lost.Outcomes[1].Refused, "skip")
	f.append(id, stepCompleted("s2", 2)) // another logical attempt is another subject
	both := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{stepCompleted("s3", 1), stepFailed("s3", 1)}})
	f.equal(both.Outcomes[0].Seq, both.Outcomes[1].Existing.Seq, "both in one batch")
	end := f.append(id, runtest.Draft(run.RunCompleted, "", 1)).Outcomes[0]
	late := f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}}).Outcomes[0]
	f.equal(run.CodeInvalidTransition, late.Refused, "RunCancelled")
	f.equal(end.Seq, late.Existing.Seq, "RunCompleted won")
	l := f.load(id)
	f.equal([]any{run.Completed, run.StepSuccess}, []any{l.State.Status, l.State.Steps[0].Status}, "state")
}

// The first end of a hook wins, because a worker that the engine has given up may report late.
func testFirstEndOfAHookWins(f *fixture) {
	undone := func(step string, attempt int) run.Draft { return runtest.Draft(run.StepCompensated, step, attempt) }
	stuck := func(step string, attempt int) run.Draft {
		return runtest.Draft(run.StepCompensationFailed, step, attempt)
	}
	id := f.run()
	won := f.append(id, undone("s1", 1)).Outcomes[0]
	lost := f.appendAny(store.Append{
		RunID: id.RunID, SetGate: run.GatePaused, Events: []run.Draft{stuck("s1", 1), stuck("s1", 1)},
	})
	for i, o := range lost.Outcomes {
		f.equal(run.CodeInvalidTransition, o.Refused, fmt.Sprintf("the failure, time %d", i+1))
		f.equal([]any{won.Seq, run.StepCompensated, won.EventID, won.EmittedAt},
			[]any{o.Existing.Seq, o.Existing.Type, o.Existing.EventID, o.Existing.EmittedAt}, "the end that won")
	}
	f.equal([]any{won.Seq, run.Gate(0)}, []any{lost.Head.LastSeq, lost.Head.Gate}, "head and gate")
	f.equal(true, f.append(id, undone("s1", 1)).Outcomes[0].Deduplicated, "the first end again")
	other := runtest.Draft(run.StepCompensated, "s1", 1, runtest.M{"attempts": 2})
	again := f.append(id, other).Outcomes[0]
	f.equal([]any{true, won.EventID}, []any{again.PayloadMismatch, again.Existing.EventID}, "with another payload")

	f.append(id, stuck("s2", 1), stuck("s1", 2), stepStarted("s1", 3)) // other hooks
	mixed := f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{undone("s2", 1), stepCompleted("s1", 3), undone("s3", 1),
			stuck("s3", 1)}})
	f.equal([]run.Code{run.CodeInvalidTransition, "", "", run.CodeInvalidTransition},
		[]run.Code{mixed.Outcomes[0].Refused, mixed.Outcomes[1].Refused, mixed.Outcomes[2].Refused,
			mixed.Outcomes[3].Refused}, "beside other events")
	f.equal(mixed.Outcomes[2].Seq, mixed.Outcomes[3].Existing.Seq, "both in one batch")
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	late := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{stuck("s1", 1), stuck("s4", 1)}}).Outcomes
	f.equal([]run.Code{run.CodeInvalidTransition, run.CodeOrphanedTask}, []run.Code{late[0].Refused, late[1].Refused},
		"after the end of the run")
	ends := 0
	for _, e := range f.log(id) {
		if e.Type.EndsHook() {
			ends++
		}
	}
	f.equal(4, ends, "ends of hooks in the log")
}

func testEventAfterTheEndIsOrphaned(f *fixture) {
	id := f.run()
	f.startAttempt(id, "s1", 1)
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	for range 2 { // a repetition by the engine writes no second audit row
		out := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{stepCompleted("s1", 1)},
			SetGate: run.GatePaused})
		f.equal(run.CodeOrphanedTask, out.Outcomes[0].Refused, "refused")
		f.equal(run.Gate(0), out.Head.Gate, "gate of a batch that inserted nothing")
	}
	f.equal(4, len(f.log(id)), "events")
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM audit WHERE run_id = '`+id.RunID+`' AND code = 'ORPHANED_TASK'`),
		"audit rows")
	f.equal(store.StartRunTerminal, f.startAttempt(id, "s2", 1).Verdict, "verdict")
	// Signal decisions are the only events after the end of a run.
	f.equal(run.Seq(5), f.append(id, runtest.Draft(run.SignalRejected, "u1", 1)).Outcomes[0].Seq, "SignalRejected")
	mixed := f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s3", 1), runtest.Draft(run.SignalRejected, "u2",
			1)}}).Outcomes
	f.equal([]any{run.CodeOrphanedTask, run.Seq(6)}, []any{mixed[0].Refused, mixed[1].Seq}, "outcomes are per event")
}

func testDuplicatesComeBeforeTerminalsBeforeOrphans(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepCompleted("s1", 1))
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	o := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{
		stepCompleted("s1", 1), stepFailed("s1", 1), stepCompleted("s2", 1), runtest.Draft(run.RunCancelled, "", 1),
		runtest.Draft(run.RunFailed, "", 1),
	}}).Outcomes
	f.equal([]any{true, run.CodeInvalidTransition, run.CodeOrphanedTask, true, run.CodeInvalidTransition},
		[]any{o[0].Deduplicated, o[1].Refused, o[2].Refused, o[3].Deduplicated, o[4].Refused},
		"dedupe, then terminal, then orphan")
	end := f.run()
	o = f.appendAny(store.Append{RunID: end.RunID, Events: []run.Draft{
		runtest.Draft(run.RunCancelled, "", 1), stepCompleted("s1", 1), runtest.Draft(run.RunFailed, "", 1),
	}}).Outcomes
	f.equal([]run.Code{"", run.CodeOrphanedTask, run.CodeInvalidTransition}, []run.Code{o[0].Refused, o[1].Refused,
		o[2].Refused}, "an end inside the batch")
}

func testLateStepStartedDoesNotCount(f *fixture) {
	id := f.run()
	out := f.append(id, stepCompleted("s1", 1), stepStarted("s1", 1))
	f.equal([]any{run.Seq(4), 0}, []any{out.Outcomes[1].Seq, out.Head.Running},
		"seq and running steps after a late StepStarted")
	f.equal(run.StepSuccess, f.load(id).State.Steps[0].Status, "status")
}

func testIfStartedRefusesEndsWithoutAStart(f *fixture) {
	id := f.run()
	o := f.appendAny(store.Append{RunID: id.RunID, IfStarted: true, Events: []run.Draft{
		stepFailed("s1", 1), stepStarted("s2", 1), stepCompleted("s2", 1), runtest.Draft(run.StepSkippedEvent, "s3", 1),
	}}).Outcomes
	f.equal([]any{run.CodeStepNotStarted, run.Seq(3), run.Seq(4), run.Seq(5)}, []any{o[0].Refused, o[1].Seq, o[2].Seq,
		o[3].Seq}, "outcomes")
	f.append(id, stepFailed("s1", 1))
}

func testCreateRunIsIdempotent(f *fixture) {
	n := newRun(identity(1), runtest.Draft(run.RunApproved, "", 1))
	n.Enqueue = &store.Enqueue{Terms: store.Unlimited()}
	n.Run.ParentRunID = "run-000"
	n.Audit = []store.AuditRow{{ID: "5b6c0c9e-0000-4000-8000-000000000001", TenantID: "t1", Actor: "ola", Action: "START",
		RunID: n.Run.RunID, Outcome: "ACCEPTED", Detail: json.RawMessage(`{"a":1}`)}}
	f.create(n)
	first, err := f.store.Get(f.ctx(), n.Run.RunID)
	f.ok(err)
	want := n.Run
	want.CreatedAt = first.CreatedAt
	f.equal(want, first, "facts")
	if at := f.log(n.Run.Identity)[0].PersistedAt; first.CreatedAt.IsZero() || first.CreatedAt.After(at) {
		f.Errorf("the run was created at %v, want a time before its first event at %v", first.CreatedAt, at)
	}
	doc, err := f.store.Plan(f.ctx(), sha)
	f.ok(err)
	f.equal(string(n.Plan), string(doc), "plan")
	again := n
	again.Run.RunID = "run-777"
	r, created, err := f.store.CreateRun(f.ctx(), again)
	f.ok(err)
	f.equal(false, created, "created")
	f.equal(first, r, "the run of the first call")
	_, err = f.store.Get(f.ctx(), "run-777")
	f.wantError(err, store.ErrNotFound)
	r, err = f.store.ByRequest(f.ctx(), n.Run.RequestKey)
	f.ok(err)
	f.equal(first, r, "by request")
	f.ok(f.store.PutPlan(f.ctx(), sha, []byte("other")))
	doc, err = f.store.Plan(f.ctx(), sha)
	f.ok(err)
	f.equal(string(n.Plan), string(doc), "plan after a second put")
}

func testCreateRunRefusesAKnownRunId(f *fixture) {
	id := f.run()
	n := newRun(id)
	n.Run.RequestKey = "another"
	_, _, err := f.store.CreateRun(f.ctx(), n)
	f.wantError(err, store.ErrConflict)
	f.equal(2, len(f.log(id)), "events")
	bare := newRun(identity(50))
	bare.Run.RequestKey, bare.Run.Params, bare.Plan = "", nil, nil
	f.create(bare)
	l := f.load(bare.Run.Identity)
	f.equal([]any{run.Pending, run.Seq(0), "ola"}, []any{l.State.Status, l.State.Seq, l.State.TriggeredBy}, "an empty log")
	if l.State.CreatedAt.IsZero() {
		f.Error("createdAt is not set")
	}
}

func testInRunRollsBack(f *fixture) {
	id := f.run()
	before := f.head(id)
	boom := boomError{}
	err := f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		out, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{stepStarted("s1", 1)}, SetGate: run.GateStopped})
		f.ok(err)
		f.equal(run.Seq(3), out.Head.LastSeq, "head in the transaction")
		f.equal(out.Head, tx.Head(), "Head after an Append in the transaction")
		s, err := tx.State(f.ctx())
		f.ok(err)
		f.equal([]any{run.Seq(3), run.StepRunning}, []any{s.Seq, s.Steps[0].Status}, "state in the transaction")
		_, err = tx.PutReceipt(f.ctx(), newReceipt("u1", run.Pause), true)
		f.ok(err)
		return boom
	})
	if err != error(boom) { //nolint:errorlint // the very error, not one that wraps it
		f.Fatalf("InRun() = %v, want the unwrapped error of the function", err)
	}
	f.equal(before, f.head(id), "head")
	f.equal(2, len(f.log(id)), "events")
	_, err = f.store.Receipt(f.ctx(), id.RunID, "u1")
	f.wantError(err, store.ErrNotFound)
	f.append(id, stepStarted("s1", 1)) // the lock was released
}

type boomError struct{}

func (boomError) Error() string { return "boom" }
