package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var gateCases = []testCase{
	// contract: T185, T217
	{"StartAttemptFollowsTheGate", testStartAttemptFollowsTheGate},
	// contract: T185
	{"StartAttemptIsIdempotent", testStartAttemptIsIdempotent},
	// contract: T185
	{"ReportsOfNodes", testReportsOfNodes},
	{"RepeatedAppendDoesNotChangeTheGate", testRepeatedAppendDoesNotChangeTheGate},
	// contract: T185
	{"AppendUnlessTheGateIsClosed", testAppendUnlessTheGateIsClosed},
	{"AppendUnlessTheAttemptHasEnded", testAppendUnlessTheAttemptHasEnded},
	// contract: T185, T47
	{"HeadCountsRunningAttempts", testHeadCountsRunningAttempts},
	{"StoreSetsTheRunningStepsOfAPause", testStoreSetsTheRunningStepsOfAPause},
	// contract: T221
	{"LastEndOpensTheRetryWindow", testLastEndOpensTheRetryWindow},
}

func (f *fixture) setGate(id run.Identity, set, unset run.Gate) {
	f.Helper()
	f.appendAny(store.Append{RunID: id.RunID, SetGate: set, ClearGate: unset})
}

func testStartAttemptFollowsTheGate(f *fixture) {
	type row struct {
		prepare []run.Draft
		gate    run.Gate
		pass    bool
		want    store.StartVerdict
	}
	const paused, failing, stopped = run.GatePaused, run.GateFailing, run.GateStopped
	s1 := []run.Draft{stepStarted("s1", 1)}
	done := []run.Draft{stepStarted("s1", 1), stepCompleted("s1", 1)}
	end := runtest.Draft(run.RunCancelled, "", 1)
	for _, c := range []row{
		{nil, 0, false, store.StartGranted},
		{nil, paused, false, store.StartParked},
		{nil, paused, true, store.StartParked},
		{nil, failing, false, store.StartParked},
		{nil, failing, true, store.StartGranted},
		{nil, failing | paused, true, store.StartParked},
		{nil, stopped, true, store.StartParked},
		{nil, failing | stopped, true, store.StartParked},
		{s1, paused | failing | stopped, false, store.StartGranted}, // it has started already
		{done, 0, false, store.StartDone},
		{done, stopped, false, store.StartDone},
		{[]run.Draft{stepCompleted("s1", 1)}, 0, false, store.StartDone}, // without a StepStarted
		{[]run.Draft{runtest.Draft(run.StepSkippedEvent, "s1", 1)}, 0, false, store.StartDone},
		{[]run.Draft{end}, 0, false, store.StartRunTerminal},
		{[]run.Draft{end}, paused, false, store.StartRunTerminal},
		// the attempt has started and not ended, and the run has ended
		{append(s1[:1:1], end), 0, false, store.StartRunTerminal},
		{append(done[:2:2], end), paused, false, store.StartDone},
	} {
		id := f.run()
		f.append(id, c.prepare...)
		f.setGate(id, c.gate, 0)
		before := f.head(id)
		got := f.startAny(store.StartAttempt{RunID: id.RunID, StepID: "s1", LogicalAttempt: 1, PassFailing: c.pass})
		f.equal(c.want, got.Verdict, fmt.Sprintf("%+v", c))
		f.equal(f.head(id), got.Head, "head in the result")
		inserted := c.want == store.StartGranted && len(c.prepare) == 0
		if inserted != (got.Head.LastSeq == before.LastSeq+1) {
			f.Errorf("%+v: head moved from %d to %d, want one event only for a new attempt", c, before.LastSeq,
				got.Head.LastSeq)
		}
		if c.want == store.StartGranted && got.StartedSeq != 3 {
			f.Errorf("%+v: StartedSeq is %d, want 3", c, got.StartedSeq)
		}
		if c.want == store.StartDone && (got.Terminal == nil || got.Terminal.StepID != "s1") {
			f.Errorf("%+v: terminal event %+v, want that of s1", c, got.Terminal)
		}
	}
}

func testStartAttemptIsIdempotent(f *fixture) {
	id := f.run()
	first := f.startAttempt(id, "s1", 1)
	f.equal(first, f.startAttempt(id, "s1", 1), "second result")
	f.equal([]any{run.Seq(3), 1}, []any{first.StartedSeq, first.Head.Running}, "first result")
	f.equal(run.Seq(3), f.append(id, stepStarted("s1", 1)).Outcomes[0].Seq,
		"seq of the StepStarted that the workflow appends too")
	e := f.log(id)[2]
	f.equal([]any{run.ByEngine, 1, 1}, []any{e.EmittedBy, e.LogicalAttempt, e.EngineAttempt}, "envelope")
	f.equal(run.Seq(4), f.startAttempt(id, "s1", 2).StartedSeq, "another attempt")
	_, err := f.store.StartAttempt(f.ctx(), store.StartAttempt{RunID: id.RunID, StepID: "a|1", LogicalAttempt: 1,
		EngineAttempt: 1,
		EmittedAt:     runtest.Epoch})
	f.wantError(err, run.ErrSchema)
}

// An attempt reports many batches of nodes. A repeated one finds its event, also after the end of the attempt; the end
// of the run refuses further ones, and no report changes what runs.
func testReportsOfNodes(f *fixture) {
	id := f.run()
	batch := func(engineAttempt, n int) run.Draft {
		d := runtest.Draft(run.StepNodesReported, "s1", 1, runtest.M{"batch": n})
		d.EngineAttempt = engineAttempt
		return d
	}
	f.startAttempt(id, "s1", 1)
	for i, d := range []run.Draft{batch(1, 1), batch(1, 2), batch(2, 1)} {
		out := f.append(id, d)
		f.equal([]any{run.Seq(4 + i), false, 1}, []any{out.Outcomes[0].Seq, out.Outcomes[0].Deduplicated, out.Head.Running},
			"a new batch")
	}
	other := runtest.Draft(run.StepNodesReported, "s1", 1, runtest.M{"batch": 2, "counts": runtest.M{"total": 9}})
	out := f.append(id, other).Outcomes[0]
	f.equal([]any{run.Seq(5), true, true}, []any{out.Seq, out.Deduplicated, out.PayloadMismatch}, "the same batch again")
	f.append(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
	f.equal(run.Seq(6), f.append(id, batch(2, 1)).Outcomes[0].Seq, "a repetition after the end")
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	late := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{batch(2, 2)}})
	f.equal(run.CodeOrphanedTask, late.Outcomes[0].Refused, "a batch after the end of the run")
	f.equal(run.Seq(4), f.append(id, batch(1, 1)).Outcomes[0].Seq, "a repetition after the end of the run")
}

func testRepeatedAppendDoesNotChangeTheGate(f *fixture) {
	id := f.run()
	pause := store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunPaused, "u1", 1)},
		SetGate: run.GatePaused}
	f.equal(run.GatePaused, f.appendAny(pause).Head.Gate, "closed")
	resume := store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunResumed, "u2", 1)},
		ClearGate: run.GatePaused}
	f.equal(run.Gate(0), f.appendAny(resume).Head.Gate, "open")
	f.equal(run.Gate(0), f.appendAny(pause).Head.Gate, "a repetition does not close it again")
	f.setGate(id, run.GateFailing|run.GateStopped, 0)
	f.setGate(id, 0, run.GateFailing)
	f.equal(run.GateStopped, f.head(id).Gate, "the gate is a set")
}

// A wait for a person starts under the same gate as the attempt of a worker. The store checks the gate in the
// transaction that appends the wait.
func testAppendUnlessTheGateIsClosed(f *fixture) {
	const all = run.GatePaused | run.GateFailing | run.GateStopped
	wait := func(step string) []run.Draft {
		return []run.Draft{stepStarted(step, 1), runtest.Draft(run.StepAwaitingManualCompletion, step, 1)}
	}
	for _, c := range []struct {
		gate, unless run.Gate
		held         bool
	}{
		{0, all, false},
		{run.GatePaused, all, true},
		{run.GateFailing, all, true},
		{run.GateStopped, all, true},
		{run.GateFailing, all &^ run.GateFailing, false},
		{run.GateFailing | run.GateStopped, all &^ run.GateFailing, true},
		{all | run.GateOverlaid, 0, false},
		{run.GateOverlaid, all, false},
	} {
		id := f.run()
		f.append(id, wait("s1")...)
		f.setGate(id, c.gate, 0)
		before := f.head(id)
		a := store.Append{RunID: id.RunID, UnlessGate: c.unless, Events: wait("s2"), ClearGate: run.GateFailing,
			MinHead: before.LastSeq}
		out, err := f.store.Append(f.ctx(), a)
		var closed *store.GateClosedError
		if errors.As(err, &closed) != c.held || err != nil && !c.held {
			f.Errorf("gate %04b, unless %04b: error %v, want a GateClosedError: %t", c.gate, c.unless, err, c.held)
			continue
		}
		if c.held {
			f.equal(c.gate, closed.Gate, "the gate in the error")
			f.equal(before, f.head(id), "the head of a run whose append was held back")
			f.equal(4, len(f.log(id)), "its events")
		} else {
			f.equal([]run.Seq{5, 6}, []run.Seq{out.Outcomes[0].Seq, out.Outcomes[1].Seq}, "seqs")
		}
		known, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: wait("s1")})
		f.ok(err)
		f.equal([]bool{true, true}, []bool{known.Outcomes[0].Deduplicated, known.Outcomes[1].Deduplicated},
			"duplicates of events in the log")
		err = f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			head := tx.Head()
			_, err := tx.Append(f.ctx(), store.Append{UnlessGate: all, Events: []run.Draft{stepStarted("s3", 1)}})
			if open := head.Gate&all == 0; (err == nil) != open {
				f.Errorf("gate %04b in a transaction: error %v, want one only for a closed gate", head.Gate, err)
			} else if !open {
				f.equal(head, tx.Head(), "the head in the transaction")
			}
			_, err = tx.Append(f.ctx(), store.Append{Events: []run.Draft{stepCompleted("s1", 1)}})
			return err // the transaction is still usable
		})
		f.ok(err)
	}
}

// A wait must not start after the end of its attempt, which its writer may not have observed yet.
func testAppendUnlessTheAttemptHasEnded(f *fixture) {
	const all = run.GatePaused | run.GateFailing | run.GateStopped
	wait := func(step string, attempt int) []run.Draft {
		return []run.Draft{stepStarted(step, attempt), runtest.Draft(run.StepAwaitingManualCompletion, step, attempt)}
	}
	id := f.run()
	f.append(id, runtest.Draft(run.StepSkippedEvent, "s1", 1))
	f.append(id, wait("s2", 1)...)
	f.append(id, stepCompleted("s2", 1))
	before := f.head(id)
	for _, events := range [][]run.Draft{wait("s1", 1), slices.Concat(wait("s3", 1), wait("s1", 1))} {
		_, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: events})
		f.wantError(err, store.ErrAttemptEnded)
		f.equal(before, f.head(id), "the head of a run whose append was held back")
	}
	known, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: wait("s2", 1)})
	f.ok(err)
	f.equal([]bool{true, true}, []bool{known.Outcomes[0].Deduplicated, known.Outcomes[1].Deduplicated},
		"duplicates of events in the log")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		_, err := tx.Append(f.ctx(), store.Append{UnlessGate: all, Events: wait("s1", 1)})
		f.wantError(err, store.ErrAttemptEnded)
		f.equal(before, tx.Head(), "the head in the transaction")
		_, err = tx.Append(f.ctx(), store.Append{UnlessGate: all, Events: wait("s1", 2)})
		return err // the next attempt starts, and the transaction is still usable
	}))
	f.equal(before.LastSeq+2, f.head(id).LastSeq, "the head")

	ends := []run.Draft{runtest.Draft(run.RunCancelled, "", 1), stepStarted("s1", 1)}
	out, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: ends})
	f.ok(err)
	f.equal(run.CodeOrphanedTask, out.Outcomes[1].Refused, "StepStarted after the end of the run in the same batch")
	f.equal(true, f.head(id).Terminal, "the end of the run is written")
}

func testHeadCountsRunningAttempts(f *fixture) {
	id := f.run()
	manual := runtest.Draft(run.StepAwaitingManualCompletion, "s2", 1)
	for i, c := range []struct {
		drafts []run.Draft
		want   int
	}{
		{[]run.Draft{stepStarted("s1", 1), stepStarted("s2", 1)}, 2},
		{[]run.Draft{manual}, 1}, // s2 waits for a person, so it does not count
		{[]run.Draft{manual}, 1},
		{[]run.Draft{stepFailed("s1", 1)}, 0},
		{[]run.Draft{stepCompleted("s2", 1)}, 0},
		{[]run.Draft{stepStarted("s1", 2)}, 1},
		{[]run.Draft{runtest.Draft(run.StepSkippedEvent, "s3", 1)}, 1}, // the attempt has no StepStarted
		{[]run.Draft{stepCompleted("s3", 2)}, 1},                       // nor has this one
		{[]run.Draft{stepStarted("s3", 3), stepFailed("s3", 3), stepCompleted("s1", 2)}, 0},
	} {
		out := f.append(id, c.drafts...)
		f.equal(c.want, out.Head.Running, fmt.Sprintf("result %d", i))
		f.equal(out.Head, f.head(id), fmt.Sprintf("head %d", i))
	}
}

func testStoreSetsTheRunningStepsOfAPause(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepStarted("s2", 1))
	pause := runtest.Draft(run.RunPaused, "u1", 1, runtest.M{"runningStepsCount": 99, "future": "kept"})
	f.append(id, stepCompleted("s1", 1), pause, stepCompleted("s2", 1))
	e := f.log(id)[5]
	p, err := run.PayloadOf[run.PausePayload](e.Payload)
	f.ok(err)
	f.equal([]any{1, "u1"}, []any{p.RunningStepsCount, p.SignalID}, "payload of the pause: steps that run at its position in the batch")
	extra, err := run.PayloadOf[struct{ Future string }](e.Payload)
	f.ok(err)
	f.equal("kept", extra.Future, "unknown member")
	if o := f.append(id, pause).Outcomes[0]; !o.Deduplicated || o.PayloadMismatch {
		f.Errorf("repeated RunPaused: %+v, want a duplicate without a mismatch although the store set a member", o)
	}
}

func testLastEndOpensTheRetryWindow(f *fixture) {
	deadline := time.Date(2026, 5, 1, 10, 0, 0, 123456000, time.UTC)
	window := func(id run.Identity, set, unset run.Gate, drafts ...run.Draft) *time.Time {
		f.Helper()
		return f.appendAny(store.Append{RunID: id.RunID, Events: drafts, SetGate: set, ClearGate: unset,
			RetryDeadline: deadline}).WindowOpened
	}
	stamped := func(id run.Identity) *time.Time {
		f.Helper()
		evs := f.log(id)
		p, err := run.PayloadOf[struct{ RetryDeadline *time.Time }](evs[len(evs)-1].Payload)
		f.ok(err)
		return p.RetryDeadline
	}
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepStarted("s2", 1))
	f.equal((*time.Time)(nil), window(id, run.GateFailing, 0, stepFailed("s1", 1)), "s2 still runs")
	f.equal((*time.Time)(nil), stamped(id), "payload while s2 runs")
	f.equal(&deadline, window(id, 0, 0, stepCompleted("s2", 1)), "s2 ends")
	f.equal(&deadline, stamped(id), "deadline in the payload of the event that opened the window")
	f.equal(&deadline, f.load(id).State.RetryDeadline, "state")
	again := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{stepCompleted("s2", 1)},
		RetryDeadline: deadline.Add(time.Hour)})
	f.equal(&deadline, again.WindowOpened, "window that a repetition returns: the one in force")
	f.equal(false, again.Outcomes[0].PayloadMismatch, "mismatch, although the store set the deadline in the payload")

	id = f.run()
	f.append(id, stepStarted("s1", 1))
	f.equal((*time.Time)(nil), window(id, run.GatePaused|run.GateFailing, 0, stepFailed("s1", 1)), "paused")
	f.equal(&deadline, window(id, 0, run.GatePaused, runtest.Draft(run.RunResumed, "u1", 1)), "resumed")
	f.equal(&deadline, stamped(id), "deadline in the payload of RunResumed")

	id = f.run()
	f.append(id, stepStarted("s1", 1))
	f.equal((*time.Time)(nil), window(id, 0, 0, stepCompleted("s1", 1)), "nothing failed")
	f.append(id, stepStarted("s2", 1))
	f.equal((*time.Time)(nil), window(id, run.GateFailing, 0, stepFailed("s2", 1), runtest.Draft(run.RunCancelled, "", 1)),
		"the run is over")
}
