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
	{"BeginTable", beginTable},
	// contract: T185
	{"BeginTwice", beginTwice},
	// contract: T185
	{"GateOfRepeatedAppend", gateOfRepeatedAppend},
	// contract: T185
	{"AppendUnlessTheGateIsClosed", appendUnlessGate},
	{"AppendUnlessTheAttemptHasEnded", appendUnlessEnded},
	// contract: T185, T47
	{"RunningCount", runningCount},
	{"RunPausedRunningStepsCount", pausedCount},
	// contract: T221
	{"RetryWindow", retryWindow},
}

func (f *fixture) gate(id run.Identity, shut, open run.Gate) {
	f.Helper()
	f.appendAny(store.Append{RunID: id.RunID, SetGate: shut, ClearGate: open})
}

func beginTable(f *fixture) {
	type row struct {
		prepare []run.Draft
		gate    run.Gate
		pass    bool
		want    store.StartVerdict
	}
	const paused, failing, stopped = run.GatePaused, run.GateFailing, run.GateStopped
	s1 := []run.Draft{started("s1", 1)}
	done := []run.Draft{started("s1", 1), completed("s1", 1)}
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
		{s1, paused | failing | stopped, false, store.StartGranted}, // T52
		{done, 0, false, store.StartDone},
		{done, stopped, false, store.StartDone},
		{[]run.Draft{completed("s1", 1)}, 0, false, store.StartDone}, // without a StepStarted
		{[]run.Draft{runtest.Draft(run.StepSkippedEvent, "s1", 1)}, 0, false, store.StartDone},
		{[]run.Draft{end}, 0, false, store.StartRunTerminal},
		{[]run.Draft{end}, paused, false, store.StartRunTerminal},
		{append(s1[:1:1], end), 0, false, store.StartRunTerminal}, // begun, not ended, and the run is over
		{append(done[:2:2], end), paused, false, store.StartDone},
	} {
		id := f.run()
		f.append(id, c.prepare...)
		f.gate(id, c.gate, 0)
		before := f.head(id)
		got := f.beginAny(store.StartAttempt{RunID: id.RunID, StepID: "s1", LogicalAttempt: 1, PassFailing: c.pass})
		f.equal(c.want, got.Verdict, fmt.Sprintf("%+v", c))
		f.equal(f.head(id), got.Head, "head in the answer")
		inserted := c.want == store.StartGranted && len(c.prepare) == 0
		if inserted != (got.Head.LastSeq == before.LastSeq+1) {
			f.Errorf("%+v: head went from %d to %d", c, before.LastSeq, got.Head.LastSeq)
		}
		if c.want == store.StartGranted && got.StartedSeq != 3 {
			f.Errorf("%+v: started at %d", c, got.StartedSeq)
		}
		if c.want == store.StartDone && (got.Terminal == nil || got.Terminal.StepID != "s1") {
			f.Errorf("%+v: terminal %+v", c, got.Terminal)
		}
	}
}

func beginTwice(f *fixture) {
	id := f.run()
	first := f.begin(id, "s1", 1)
	f.equal(first, f.begin(id, "s1", 1), "second answer")
	f.equal([]any{run.Seq(3), 1}, []any{first.StartedSeq, first.Head.Running}, "first answer")
	f.equal(run.Seq(3), f.append(id, started("s1", 1)).Outcomes[0].Seq, "the workflow's own StepStarted dedupes (T112)")
	e := f.log(id)[2]
	f.equal([]any{run.ByEngine, 1, 1}, []any{e.EmittedBy, e.LogicalAttempt, e.EngineAttempt}, "envelope")
	f.equal(run.Seq(4), f.begin(id, "s1", 2).StartedSeq, "another attempt")
	_, err := f.store.StartAttempt(f.ctx(), store.StartAttempt{RunID: id.RunID, StepID: "a|1", LogicalAttempt: 1,
		EngineAttempt: 1,
		EmittedAt:     runtest.Epoch})
	f.is(err, run.ErrSchema)
}

func gateOfRepeatedAppend(f *fixture) {
	id := f.run()
	pause := store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunPaused, "u1", 1)},
		SetGate: run.GatePaused}
	f.equal(run.GatePaused, f.appendAny(pause).Head.Gate, "closed")
	resume := store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunResumed, "u2", 1)},
		ClearGate: run.GatePaused}
	f.equal(run.Gate(0), f.appendAny(resume).Head.Gate, "open")
	f.equal(run.Gate(0), f.appendAny(pause).Head.Gate, "a repetition does not close it again")
	f.gate(id, run.GateFailing|run.GateStopped, 0)
	f.gate(id, 0, run.GateFailing)
	f.equal(run.GateStopped, f.head(id).Gate, "the gate is a set")
}

// A wait for a person begins under the same gate as the attempt of a worker, in the transaction that appends it.
func appendUnlessGate(f *fixture) {
	const all = run.GatePaused | run.GateFailing | run.GateStopped
	wait := func(step string) []run.Draft {
		return []run.Draft{started(step, 1), runtest.Draft(run.StepAwaitingManualCompletion, step, 1)}
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
		f.gate(id, c.gate, 0)
		before := f.head(id)
		a := store.Append{RunID: id.RunID, UnlessGate: c.unless, Events: wait("s2"), ClearGate: run.GateFailing,
			MinHead: before.LastSeq}
		out, err := f.store.Append(f.ctx(), a)
		var closed *store.GateClosedError
		if errors.As(err, &closed) != c.held || err != nil && !c.held {
			f.Errorf("gate %04b, unless %04b: error %v, held back must be %t", c.gate, c.unless, err, c.held)
			continue
		}
		if c.held {
			f.equal(c.gate, closed.Gate, "the gate in the error")
			f.equal(before, f.head(id), "the head of a run whose append was held back")
			f.equal(4, len(f.log(id)), "its events")
		} else {
			f.equal([]run.Seq{5, 6}, []run.Seq{out.Outcomes[0].Seq, out.Outcomes[1].Seq}, "places")
		}
		known, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: wait("s1")})
		f.ok(err)
		f.equal([]bool{true, true}, []bool{known.Outcomes[0].Deduplicated, known.Outcomes[1].Deduplicated},
			"what the log has already")
		err = f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			head := tx.Head()
			_, err := tx.Append(f.ctx(), store.Append{UnlessGate: all, Events: []run.Draft{started("s3", 1)}})
			if open := head.Gate&all == 0; (err == nil) != open {
				f.Errorf("gate %04b in a transaction: error %v", head.Gate, err)
			} else if !open {
				f.equal(head, tx.Head(), "the head in the transaction")
			}
			_, err = tx.Append(f.ctx(), store.Append{Events: []run.Draft{completed("s1", 1)}})
			return err // the transaction goes on
		})
		f.ok(err)
	}
}

// A wait does not begin behind an end of its attempt, which its writer has not observed.
func appendUnlessEnded(f *fixture) {
	const all = run.GatePaused | run.GateFailing | run.GateStopped
	wait := func(step string, attempt int) []run.Draft {
		return []run.Draft{started(step, attempt), runtest.Draft(run.StepAwaitingManualCompletion, step, attempt)}
	}
	id := f.run()
	f.append(id, runtest.Draft(run.StepSkippedEvent, "s1", 1))
	f.append(id, wait("s2", 1)...)
	f.append(id, completed("s2", 1))
	before := f.head(id)
	for _, events := range [][]run.Draft{wait("s1", 1), slices.Concat(wait("s3", 1), wait("s1", 1))} {
		_, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: events})
		f.is(err, store.ErrAttemptEnded)
		f.equal(before, f.head(id), "the head of a run whose append was held back")
	}
	known, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: wait("s2", 1)})
	f.ok(err)
	f.equal([]bool{true, true}, []bool{known.Outcomes[0].Deduplicated, known.Outcomes[1].Deduplicated},
		"what the log has already")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		_, err := tx.Append(f.ctx(), store.Append{UnlessGate: all, Events: wait("s1", 1)})
		f.is(err, store.ErrAttemptEnded)
		f.equal(before, tx.Head(), "the head in the transaction")
		_, err = tx.Append(f.ctx(), store.Append{UnlessGate: all, Events: wait("s1", 2)})
		return err // the next attempt begins, and the transaction goes on
	}))
	f.equal(before.LastSeq+2, f.head(id).LastSeq, "the head")

	ends := []run.Draft{runtest.Draft(run.RunCancelled, "", 1), started("s1", 1)}
	out, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, UnlessGate: all, Events: ends})
	f.ok(err)
	f.equal(run.CodeOrphanedTask, out.Outcomes[1].Refused, "a StepStarted behind the end of the run in its batch")
	f.equal(true, f.head(id).Terminal, "the end of the run is written")
}

func runningCount(f *fixture) {
	id := f.run()
	manual := runtest.Draft(run.StepAwaitingManualCompletion, "s2", 1)
	for i, c := range []struct {
		drafts []run.Draft
		want   int
	}{
		{[]run.Draft{started("s1", 1), started("s2", 1)}, 2},
		{[]run.Draft{manual}, 1}, // waits for a person (T47)
		{[]run.Draft{manual}, 1},
		{[]run.Draft{failed("s1", 1)}, 0},
		{[]run.Draft{completed("s2", 1)}, 0},
		{[]run.Draft{started("s1", 2)}, 1},
		{[]run.Draft{runtest.Draft(run.StepSkippedEvent, "s3", 1)}, 1}, // never began
		{[]run.Draft{completed("s3", 2)}, 1},                           // neither
		{[]run.Draft{started("s3", 3), failed("s3", 3), completed("s1", 2)}, 0},
	} {
		out := f.append(id, c.drafts...)
		f.equal(c.want, out.Head.Running, fmt.Sprintf("answer %d", i))
		f.equal(out.Head, f.head(id), fmt.Sprintf("head %d", i))
	}
}

func pausedCount(f *fixture) {
	id := f.run()
	f.append(id, started("s1", 1), started("s2", 1))
	pause := runtest.Draft(run.RunPaused, "u1", 1, runtest.M{"runningStepsCount": 99, "future": "kept"})
	f.append(id, completed("s1", 1), pause, completed("s2", 1))
	e := f.log(id)[5]
	p, err := run.PayloadOf[run.PausePayload](e.Payload)
	f.ok(err)
	f.equal([]any{1, "u1"}, []any{p.RunningStepsCount, p.SignalID}, "payload at its place in the batch")
	extra, err := run.PayloadOf[struct{ Future string }](e.Payload)
	f.ok(err)
	f.equal("kept", extra.Future, "unknown member")
	if o := f.append(id, pause).Outcomes[0]; !o.Deduplicated || o.PayloadMismatch {
		f.Errorf("what the store stamps is no mismatch: %+v", o)
	}
}

func retryWindow(f *fixture) {
	deadline := time.Date(2026, 5, 1, 10, 0, 0, 123456000, time.UTC)
	window := func(id run.Identity, shut, open run.Gate, drafts ...run.Draft) *time.Time {
		f.Helper()
		return f.appendAny(store.Append{RunID: id.RunID, Events: drafts, SetGate: shut, ClearGate: open,
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
	f.append(id, started("s1", 1), started("s2", 1))
	f.equal((*time.Time)(nil), window(id, run.GateFailing, 0, failed("s1", 1)), "s2 still runs")
	f.equal((*time.Time)(nil), stamped(id), "payload while s2 runs")
	f.equal(&deadline, window(id, 0, 0, completed("s2", 1)), "s2 ends")
	f.equal(&deadline, stamped(id), "payload of the one that opened it")
	f.equal(&deadline, f.load(id).State.RetryDeadline, "state")
	again := f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{completed("s2", 1)},
		RetryDeadline: deadline.Add(time.Hour)})
	f.equal(&deadline, again.WindowOpened, "a repetition answers what is in force")
	f.equal(false, again.Outcomes[0].PayloadMismatch, "mismatch by a stamp")

	id = f.run()
	f.append(id, started("s1", 1))
	f.equal((*time.Time)(nil), window(id, run.GatePaused|run.GateFailing, 0, failed("s1", 1)), "paused")
	f.equal(&deadline, window(id, 0, run.GatePaused, runtest.Draft(run.RunResumed, "u1", 1)), "resumed")
	f.equal(&deadline, stamped(id), "RunResumed carries it")

	id = f.run()
	f.append(id, started("s1", 1))
	f.equal((*time.Time)(nil), window(id, 0, 0, completed("s1", 1)), "nothing failed")
	f.append(id, started("s2", 1))
	f.equal((*time.Time)(nil), window(id, run.GateFailing, 0, failed("s2", 1), runtest.Draft(run.RunCancelled, "", 1)),
		"the run is over")
}
