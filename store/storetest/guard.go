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
	{"TwoTerminals", twoTerminals},
	{"AHookEndsOnce", aHookEndsOnce},
	// contract: A08, T80
	{"EventAfterTheEnd", afterTheEnd},
	// contract: T228
	{"OrderOfChecks", orderOfChecks},
	// contract: T42
	{"LateStepStarted", lateStart},
	// contract: T79
	{"IfStarted", ifStarted},
	// contract: T93
	{"CreateRunOnce", createOnce},
	{"CreateRunConflicts", createConflicts},
	{"InRunRollsBack", rollsBack},
	{"InRunPanics", panicRollsBack},
}

// A panic of the caller's function is the caller's. It writes nothing, and the run and the connection are free
// afterwards.
func panicRollsBack(f *fixture) {
	id := f.run()
	head := f.load(id).Head.LastSeq
	for range 20 { // more than there are connections
		func() {
			defer func() { f.equal("a fault", recover(), "what was recovered") }()
			_ = f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
				_, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{started("s1", 1)}})
				f.ok(err)
				panic("a fault")
			})
		}()
	}
	f.equal(head, f.load(id).Head.LastSeq, "head")
	f.append(id, started("s1", 1))
}

func twoTerminals(f *fixture) {
	id := f.run()
	won := f.append(id, completed("s1", 1)).Outcomes[0]
	lost := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{failed("s1", 1)}})
	f.equal(run.CodeInvalidTransition, lost.Outcomes[0].Refused, "refused")
	f.equal([]any{won.Seq, run.StepCompletedEvent, won.EventID}, []any{lost.Outcomes[0].Existing.Seq,
		lost.Outcomes[0].Existing.Type, lost.Outcomes[0].Existing.EventID}, "the winner")
	f.equal(won.Seq, lost.Head.LastSeq, "head")
	f.append(id, failed("s2", 1))
	lost = f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{completed("s2", 1), runtest.Draft(run.StepSkippedEvent, "s2", 1)}})
	f.equal(run.StepFailedEvent, lost.Outcomes[0].Existing.Type, "reverse order")
	f.equal(run.CodeInvalidTransition, lost.Outcomes[1].Refused, "skip")
	f.append(id, completed("s2", 2)) // another logical attempt is another subject
	both := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{completed("s3", 1), failed("s3", 1)}})
	f.equal(both.Outcomes[0].Seq, both.Outcomes[1].Existing.Seq, "both in one batch")
	end := f.append(id, runtest.Draft(run.RunCompleted, "", 1)).Outcomes[0]
	late := f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}}).Outcomes[0]
	f.equal(run.CodeInvalidTransition, late.Refused, "RunCancelled")
	f.equal(end.Seq, late.Existing.Seq, "RunCompleted won")
	l := f.load(id)
	f.equal([]any{run.Completed, run.StepSuccess}, []any{l.State.Status, l.State.Steps[0].Status}, "state")
}

// Of the ends of a hook the first stands, whoever wrote it: a worker that was given up may report late.
func aHookEndsOnce(f *fixture) {
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

	f.append(id, stuck("s2", 1), stuck("s1", 2), started("s1", 3)) // other hooks
	mixed := f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{undone("s2", 1), completed("s1", 3), undone("s3", 1),
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

func afterTheEnd(f *fixture) {
	id := f.run()
	f.begin(id, "s1", 1)
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	for range 2 { // repeated by the platform: still one audit row
		out := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{completed("s1", 1)}, SetGate: run.GatePaused})
		f.equal(run.CodeOrphanedTask, out.Outcomes[0].Refused, "refused")
		f.equal(run.Gate(0), out.Head.Gate, "gate of a batch that inserted nothing")
	}
	f.equal(4, len(f.log(id)), "events")
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM audit WHERE run_id = '`+id.RunID+`' AND code = 'ORPHANED_TASK'`),
		"audit rows")
	f.equal(store.StartRunTerminal, f.begin(id, "s2", 1).Verdict, "begin")
	// Signal decisions alone go on (G19).
	f.equal(run.Seq(5), f.append(id, runtest.Draft(run.SignalRejected, "u1", 1)).Outcomes[0].Seq, "SignalRejected")
	mixed := f.appendAny(
		store.Append{RunID: id.RunID, Events: []run.Draft{started("s3", 1), runtest.Draft(run.SignalRejected, "u2",
			1)}}).Outcomes
	f.equal([]any{run.CodeOrphanedTask, run.Seq(6)}, []any{mixed[0].Refused, mixed[1].Seq}, "outcomes are per event")
}

func orderOfChecks(f *fixture) {
	id := f.run()
	f.append(id, started("s1", 1), completed("s1", 1))
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	o := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{
		completed("s1", 1), failed("s1", 1), completed("s2", 1), runtest.Draft(run.RunCancelled, "", 1),
		runtest.Draft(run.RunFailed, "", 1),
	}}).Outcomes
	f.equal([]any{true, run.CodeInvalidTransition, run.CodeOrphanedTask, true, run.CodeInvalidTransition},
		[]any{o[0].Deduplicated, o[1].Refused, o[2].Refused, o[3].Deduplicated, o[4].Refused},
		"dedupe, then terminal, then orphan")
	end := f.run()
	o = f.appendAny(store.Append{RunID: end.RunID, Events: []run.Draft{
		runtest.Draft(run.RunCancelled, "", 1), completed("s1", 1), runtest.Draft(run.RunFailed, "", 1),
	}}).Outcomes
	f.equal([]run.Code{"", run.CodeOrphanedTask, run.CodeInvalidTransition}, []run.Code{o[0].Refused, o[1].Refused,
		o[2].Refused}, "an end inside the batch")
}

func lateStart(f *fixture) {
	id := f.run()
	out := f.append(id, completed("s1", 1), started("s1", 1))
	f.equal([]any{run.Seq(4), 0}, []any{out.Outcomes[1].Seq, out.Head.Running}, "late StepStarted counts nothing")
	f.equal(run.StepSuccess, f.load(id).State.Steps[0].Status, "status")
}

func ifStarted(f *fixture) {
	id := f.run()
	o := f.appendAny(store.Append{RunID: id.RunID, IfStarted: true, Events: []run.Draft{
		failed("s1", 1), started("s2", 1), completed("s2", 1), runtest.Draft(run.StepSkippedEvent, "s3", 1),
	}}).Outcomes
	f.equal([]any{run.CodeStepNotStarted, run.Seq(3), run.Seq(4), run.Seq(5)}, []any{o[0].Refused, o[1].Seq, o[2].Seq,
		o[3].Seq}, "outcomes")
	f.append(id, failed("s1", 1))
}

func createOnce(f *fixture) {
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
		f.Errorf("created at %v, its first event at %v", first.CreatedAt, at)
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
	f.is(err, store.ErrNotFound)
	r, err = f.store.ByRequest(f.ctx(), n.Run.RequestKey)
	f.ok(err)
	f.equal(first, r, "by request")
	f.ok(f.store.PutPlan(f.ctx(), sha, []byte("other")))
	doc, err = f.store.Plan(f.ctx(), sha)
	f.ok(err)
	f.equal(string(n.Plan), string(doc), "plan after a second put")
}

func createConflicts(f *fixture) {
	id := f.run()
	n := newRun(id)
	n.Run.RequestKey = "another"
	_, _, err := f.store.CreateRun(f.ctx(), n)
	f.is(err, store.ErrConflict)
	f.equal(2, len(f.log(id)), "events")
	bare := newRun(identity(50))
	bare.Run.RequestKey, bare.Run.Params, bare.Plan = "", nil, nil
	f.create(bare)
	l := f.load(bare.Run.Identity)
	f.equal([]any{run.Pending, run.Seq(0), "ola"}, []any{l.State.Status, l.State.Seq, l.State.TriggeredBy}, "an empty log")
	if l.State.CreatedAt.IsZero() {
		f.Error("no createdAt")
	}
}

func rollsBack(f *fixture) {
	id := f.run()
	before := f.head(id)
	boom := boomError{}
	err := f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		out, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{started("s1", 1)}, SetGate: run.GateStopped})
		f.ok(err)
		f.equal(run.Seq(3), out.Head.LastSeq, "head in the transaction")
		f.equal(out.Head, tx.Head(), "Head moves with Append")
		s, err := tx.State(f.ctx())
		f.ok(err)
		f.equal([]any{run.Seq(3), run.StepRunning}, []any{s.Seq, s.Steps[0].Status}, "state in the transaction")
		_, err = tx.PutReceipt(f.ctx(), receipt("u1", run.Pause), true)
		f.ok(err)
		return boom
	})
	if err != error(boom) { //nolint:errorlint // the very error, not one that wraps it
		f.Fatalf("error %v is not the body's own", err)
	}
	f.equal(before, f.head(id), "head")
	f.equal(2, len(f.log(id)), "events")
	_, err = f.store.Receipt(f.ctx(), id.RunID, "u1")
	f.is(err, store.ErrNotFound)
	f.append(id, started("s1", 1)) // and the lock is free
}

type boomError struct{}

func (boomError) Error() string { return "boom" }
