package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var receiptCases = []testCase{
	// contract: T196
	{"ReceiptsAreNumbered", testReceiptsAreNumbered},
	// contract: T94
	{"SecondReceiptOfASignalConflicts", testSecondReceiptOfASignalConflicts},
	// contract: O11
	{"ReceiptChangesUntilItIsFinal", testReceiptChangesUntilItIsFinal},
	// contract: T196
	{"EndOfRunEndsReceipts", testEndOfRunEndsReceipts},
	// contract: O11
	{"PauseIsQuiescentWhenNoStepRuns", testPauseIsQuiescentWhenNoStepRuns},
	// contract: T185
	{"StartAttemptAppliesItsSignal", testStartAttemptAppliesItsSignal},
	// contract: T204
	{"OpsRevCountsOperationalChanges", testOpsRevCountsOperationalChanges},
	// contract: T196
	{"UndecidedSeesPendingSignals", testUndecidedSeesPendingSignals},
}

var deliveryCases = []testCase{
	// contract: T196
	{"DeliveredInOrder", testDeliveredInOrder},
	{"DeliveryLeaseExpiresAndFences", testDeliveryLeaseExpiresAndFences},
	{"DeliveryEndsWithTheRun", testDeliveryEndsWithTheRun},
	// contract: O11
	{"AppliedPauseIsStillDelivered", testAppliedPauseIsStillDelivered},
}

func newReceipt(id string, t run.SignalType) run.SignalReceipt {
	return run.SignalReceipt{
		Signal: run.Signal{ID: id, Type: t}, Actor: "ola", Reason: "because",
		Payload: json.RawMessage(`{"pause":{"reason":"because"}}`),
	}
}

// acceptSignal accepts a signal as control does: it appends the event and stores the receipt in one transaction.
func (f *fixture) acceptSignal(id run.Identity, signalID string, t run.SignalType, deliver bool) run.SignalReceipt {
	f.Helper()
	var got run.SignalReceipt
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		out, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{runtest.Draft(run.SignalAccepted, signalID, 1)}})
		if err != nil {
			return err
		}
		r := newReceipt(signalID, t)
		r.AcceptedSeq = out.Outcomes[0].Seq
		got, err = tx.PutReceipt(f.ctx(), r, deliver)
		return err
	}))
	return got
}

func (f *fixture) receipt(id run.Identity, signalID string) run.SignalReceipt {
	f.Helper()
	r, err := f.store.Receipt(f.ctx(), id.RunID, signalID)
	f.ok(err)
	return r
}

func receiptIDs(rs []run.SignalReceipt) []string {
	out := []string{}
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%s:%d", r.Signal.ID, r.No))
	}
	return out
}

func testReceiptsAreNumbered(f *fixture) {
	id, other := f.run(), f.run()
	a := f.acceptSignal(id, "sig-z", run.Pause, true)
	want := newReceipt("sig-z", run.Pause)
	want.RunID, want.No, want.AcceptedSeq, want.Application, want.ReceivedAt = id.RunID, 1, 3, run.SignalPending,
		a.ReceivedAt
	f.equal(want, a, "stored receipt")
	if a.ReceivedAt.IsZero() {
		f.Error("receivedAt is not set")
	}
	f.equal(a, f.receipt(id, "sig-z"), "read back")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := newReceipt("sig-m", run.RetryStep)
		r.Signal.StepID, r.Signal.ExpectedAttempt, r.Signal.Force = "s1", 2, true
		r.Rejected, r.Rejection, r.RejectText, r.Payload = true, run.CodeStepNotFailed, "it runs", nil
		got, err := tx.PutReceipt(f.ctx(), r, true)
		f.equal([]any{int64(0), run.CodeStepNotFailed, true}, []any{got.No, got.Rejection, got.Signal.Force}, "rejection")
		return err
	}))
	f.equal(int64(2), f.acceptSignal(id, "sig-a", run.Resume, true).No, "a rejection takes no number")
	f.equal(int64(1), f.acceptSignal(other, "sig-z", run.Pause, true).No, "numbers are per run")
	f.equal(int64(2), f.head(id).SignalNo, "head")
	list := func(rs []run.SignalReceipt, err error) []string { f.Helper(); f.ok(err); return receiptIDs(rs) }
	f.equal([]string{"sig-z:1", "sig-m:0", "sig-a:2"}, list(f.store.Receipts(f.ctx(), id.RunID, "", 10)), "as received")
	f.equal([]string{"sig-m:0"}, list(f.store.Receipts(f.ctx(), id.RunID, "sig-z", 1)), "a page")
	f.equal([]string{"sig-z:1", "sig-a:2"}, list(f.store.After(f.ctx(), id.RunID, 0)), "accepted")
	f.equal([]string{"sig-a:2"}, list(f.store.After(f.ctx(), id.RunID, 1)), "accepted after 1")
}

func testSecondReceiptOfASignalConflicts(f *fixture) {
	id := f.run()
	f.acceptSignal(id, "u1", run.Pause, true)
	err := f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		_, err := tx.PutReceipt(f.ctx(), newReceipt("u1", run.Resume), true)
		return err
	})
	f.wantError(err, store.ErrConflict)
	f.equal(run.Pause, f.receipt(id, "u1").Signal.Type, "first write")
	f.equal(int64(2), f.acceptSignal(id, "U1", run.Resume, false).No,
		"number of a signal whose id differs in case: the refused one took none")
}

func testReceiptChangesUntilItIsFinal(f *fixture) {
	id := f.run()
	for _, s := range []string{"u1", "u2", "u3"} {
		f.acceptSignal(id, s, run.Pause, true)
	}
	move := func(a store.Append, o ...store.SignalOutcome) store.Appended {
		f.Helper()
		a.RunID, a.Outcomes = id.RunID, o
		return f.appendAny(a)
	}
	pause := store.Append{Events: []run.Draft{stepStarted("s1", 1), runtest.Draft(run.RunPaused, "u1", 1)}}
	out := move(pause, store.SignalOutcome{SignalID: "u1", Application: run.SignalApplied, AppliedBy: 1})
	r := f.receipt(id, "u1")
	f.equal([]any{run.SignalApplied, out.Outcomes[1].Seq, out.Outcomes[1].PersistedAt},
		[]any{r.Application, r.AppliedSeq, *r.AppliedAt}, "applied")
	move(store.Append{}, store.SignalOutcome{SignalID: "u1", Application: run.SignalNoop, Reason: "x", AppliedBy: -1})
	f.equal(r, f.receipt(id, "u1"), "a final receipt does not move")
	move(store.Append{}, store.SignalOutcome{SignalID: "u2", Application: run.SignalNoop, Reason: "ALREADY_IN_STATE",
		AppliedBy: -1})
	r = f.receipt(id, "u2")
	f.equal([]any{run.SignalNoop, "ALREADY_IN_STATE", run.Seq(0)}, []any{r.Application, r.ApplicationReason, r.AppliedSeq},
		"noop")
	rev := f.head(id).OpsRev
	// repeated as after a lost response
	move(pause, store.SignalOutcome{SignalID: "u1", Application: run.SignalApplied, AppliedBy: 1})
	f.equal(rev, f.head(id).OpsRev, "opsRev of a repetition")
	// The store refuses the effect, so the receipt must not report it as applied.
	move(store.Append{Events: []run.Draft{stepCompleted("s1", 1)}})
	move(store.Append{Events: []run.Draft{runtest.Draft(run.StepSkippedEvent, "s1", 1)}},
		store.SignalOutcome{SignalID: "u3", Application: run.SignalApplied, AppliedBy: 0})
	r = f.receipt(id, "u3")
	f.equal([]any{run.SignalNotApply, string(run.CodeInvalidTransition), run.Seq(0)},
		[]any{r.Application, r.ApplicationReason, r.AppliedSeq}, "refused effect")
}

func testEndOfRunEndsReceipts(f *fixture) {
	id := f.run()
	for _, s := range []string{"u1", "u2", "u3"} {
		f.acceptSignal(id, s, run.Pause, true)
	}
	f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunPaused, "u1", 1)},
		Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalApplied}}})
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := newReceipt("u4", run.Pause)
		r.Rejected, r.Rejection = true, run.CodeForbidden
		_, err := tx.PutReceipt(f.ctx(), r, false)
		return err
	}))
	f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)},
		Outcomes: []store.SignalOutcome{{SignalID: "u3", Application: run.SignalApplied}}})
	got := map[string]string{}
	for _, s := range []string{"u1", "u2", "u3", "u4"} {
		r := f.receipt(id, s)
		got[s] = fmt.Sprintf("%s %s %d", r.Application, r.ApplicationReason, r.AppliedSeq)
	}
	f.equal(map[string]string{"u1": "APPLIED  6", "u2": "NOT_APPLIED RUN_TERMINAL 0", "u3": "APPLIED  7", "u4": "  0"},
		got, "receipts")
}

func testPauseIsQuiescentWhenNoStepRuns(f *fixture) {
	id := f.run()
	pause := func(signalID string, epoch int) {
		f.Helper()
		f.acceptSignal(id, signalID, run.Pause, true)
		f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunPaused, signalID, epoch)},
			SetGate:  run.GatePaused,
			Outcomes: []store.SignalOutcome{{SignalID: signalID, Application: run.SignalApplied}}})
	}
	resume := func(epoch int) {
		f.Helper()
		f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunResumed, "r", epoch)},
			ClearGate: run.GatePaused})
	}
	seq := func(signalID string) run.Seq { f.Helper(); return f.receipt(id, signalID).QuiescentSeq }
	// 3 4 5
	f.append(id, stepStarted("s1", 1), stepStarted("s2", 1), runtest.Draft(run.StepAwaitingManualCompletion, "s2", 1))
	// 6 7
	pause("u1", 1)
	f.equal(run.Seq(0), seq("u1"), "s1 runs")
	f.append(id, stepCompleted("s1", 1), runtest.Draft(run.SignalRejected, "x", 1)) // 8 9
	f.equal(run.Seq(8), seq("u1"), "s1 ended; s2 waits for a person and does not count")
	f.append(id, stepCompleted("s2", 1)) // 10
	f.equal(run.Seq(8), seq("u1"), "quiescent seq, which is set once")
	resume(1)      // 11
	pause("u2", 2) // 12 13
	f.equal(run.Seq(13), seq("u2"), "nothing runs at RunPaused")
	resume(2)                            // 14
	f.append(id, stepStarted("s3", 1))   // 15
	pause("u3", 3)                       // 16 17
	resume(3)                            // 18: drain timeout
	pause("u4", 4)                       // 19 20
	f.append(id, stepCompleted("s3", 1)) // 21
	f.equal([]run.Seq{0, 21}, []run.Seq{seq("u3"), seq("u4")},
		"quiescent seqs of a pause that never drained and of the next one")
}

func testStartAttemptAppliesItsSignal(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepFailed("s1", 1))
	f.acceptSignal(id, "u1", run.RetryStep, true)
	f.setGate(id, run.GateFailing, 0)
	b := store.StartAttempt{RunID: id.RunID, StepID: "s1", LogicalAttempt: 2, SignalID: "u1"}
	f.equal(store.StartParked, f.startAny(b).Verdict, "parked")
	f.equal(run.SignalPending, f.receipt(id, "u1").Application, "nothing applied yet")
	b.PassFailing = true
	got := f.startAny(b)
	r := f.receipt(id, "u1")
	f.equal([]any{run.SignalApplied, got.StartedSeq}, []any{r.Application, r.AppliedSeq}, "applied by StepStarted")
	p, err := run.PayloadOf[run.StepStartedPayload](f.log(id)[got.StartedSeq-1].Payload)
	f.ok(err)
	f.equal("u1", p.SignalID, "payload")
	f.equal(got, f.startAny(b), "again")
	f.equal(r, f.receipt(id, "u1"), "receipt again")
}

func testOpsRevCountsOperationalChanges(f *fixture) {
	n := newRun(identity(1), runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"))
	n.Enqueue = &store.Enqueue{Terms: store.Unlimited()}
	id := f.create(n)
	last := int64(-1)
	moved := func(want bool, what string) {
		f.Helper()
		h := f.head(id)
		if (h.OpsRev > last) != want {
			f.Errorf("%s: opsRev is %d after %d, want an increment: %t", what, h.OpsRev, last, want)
		}
		last = h.OpsRev
		dirty, err := f.store.Dirty(f.ctx(), 0, 10)
		f.ok(err)
		if len(dirty) != 1 || dirty[0].OpsRev != h.OpsRev || dirty[0].HeadSeq != h.LastSeq {
			f.Errorf("%s: dirty runs %+v, want one with the head %+v", what, dirty, h)
		}
	}
	moved(true, "queue row")
	f.append(id, stepStarted("s1", 1))
	moved(false, "an event alone")
	rows, err := f.store.Lease(f.ctx(), "w1", time.Minute, 1)
	f.ok(err)
	moved(true, "lease")
	f.ok(f.store.MarkStarted(f.ctx(), id.RunID, rows[0].Generation))
	moved(true, "started")
	f.acceptSignal(id, "u1", run.Pause, true)
	moved(true, "receipt")
	d, err := f.store.LeaseDeliveries(f.ctx(), "w1", time.Minute, 1)
	f.ok(err)
	last = f.head(id).OpsRev
	f.ok(f.store.MarkDelivered(f.ctx(), d[0], 1))
	moved(true, "delivered")
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalNoop, AppliedBy: -1}}})
	moved(true, "outcome")
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalNoop, AppliedBy: -1}}})
	moved(false, "the same outcome")
}

func (f *fixture) leaseDeliveries(owner string, ttl time.Duration, limit int) []store.Delivery {
	f.Helper()
	d, err := f.store.LeaseDeliveries(f.ctx(), owner, ttl, limit)
	f.ok(err)
	return d
}

func testDeliveredInOrder(f *fixture) {
	id, quiet := f.run(), f.run()
	f.acceptSignal(quiet, "q1", run.UpdateParams, false)
	f.acceptSignal(id, "u1", run.Pause, true)
	f.acceptSignal(id, "u2", run.Resume, true)
	d := f.leaseDeliveries("w1", time.Minute, 10)
	f.equal(1, len(d), "leased")
	f.equal([]any{id.RunID, "t1", int64(0)}, []any{d[0].RunID, d[0].TenantID, d[0].DeliveredNo}, "delivery")
	f.equal(0, len(f.leaseDeliveries("w2", time.Minute, 10)), "leased twice")
	f.ok(f.store.MarkDelivered(f.ctx(), d[0], 1))
	r := f.receipt(id, "u1")
	f.equal([]any{run.SignalDelivered, true}, []any{r.Application, r.DeliveredAt != nil}, "u1")
	f.equal(run.SignalPending, f.receipt(id, "u2").Application, "u2")
	f.equal(0, len(f.leaseDeliveries("w2", time.Minute, 10)), "deliveries before Settle ends the lease")
	f.ok(f.store.ReleaseDelivery(f.ctx(), d[0], time.Hour))
	f.equal(0, len(f.leaseDeliveries("w2", time.Minute, 10)), "due later")
	f.wantError(f.store.ReleaseDelivery(f.ctx(), d[0], 0), store.ErrConflict)

	id = f.run()
	f.acceptSignal(id, "u1", run.Pause, true)
	d = f.leaseDeliveries("w1", time.Minute, 10)
	f.ok(f.store.MarkDelivered(f.ctx(), d[0], 1))
	f.acceptSignal(id, "u2", run.Resume, true) // arrives while the lease is held
	f.ok(f.store.ReleaseDelivery(f.ctx(), d[0], 0))
	d = f.leaseDeliveries("w2", time.Minute, 10)
	f.equal(1, len(d), "deliveries while a signal is left")
	f.equal(int64(1), d[0].DeliveredNo, "delivered so far")
	f.ok(f.store.MarkDelivered(f.ctx(), d[0], 2))
	f.ok(f.store.ReleaseDelivery(f.ctx(), d[0], 0))
	f.equal(0, len(f.leaseDeliveries("w2", time.Minute, 10)), "deliveries when no signal is left")
	f.acceptSignal(id, "u3", run.Pause, true)
	d = f.leaseDeliveries("w2", time.Minute, 10)
	f.equal(1, len(d), "due again")
	f.equal(int64(2), d[0].DeliveredNo, "number of the last delivered signal, which a settled delivery keeps")
}

func testDeliveryLeaseExpiresAndFences(f *fixture) {
	id := f.run()
	f.acceptSignal(id, "u1", run.Pause, true)
	old := f.leaseDeliveries("w1", 20*time.Millisecond, 1)[0]
	var taken store.Delivery
	f.eventually(5*time.Second, "the lease expires", func() bool {
		d := f.leaseDeliveries("w2", time.Minute, 1)
		if len(d) == 1 {
			taken = d[0]
		}
		return len(d) == 1
	})
	if taken.Generation <= old.Generation {
		f.Errorf("generation %d after %d, want a higher one", taken.Generation, old.Generation)
	}
	f.wantError(f.store.MarkDelivered(f.ctx(), old, 1), store.ErrConflict)
	f.wantError(f.store.ReleaseDelivery(f.ctx(), old, 0), store.ErrConflict)
	f.equal(run.SignalPending, f.receipt(id, "u1").Application, "receipt after a fenced write")
	f.ok(f.store.MarkDelivered(f.ctx(), taken, 1))
	f.ok(f.store.ReleaseDelivery(f.ctx(), taken, 0))
	f.acceptSignal(id, "u2", run.Resume, true)
	again := f.leaseDeliveries("w3", time.Minute, 1)
	f.equal(1, len(again), "a new mark")
	// old leases stay fenced when the row has new work
	f.wantError(f.store.ReleaseDelivery(f.ctx(), old, 0), store.ErrConflict)
	f.wantError(f.store.ReleaseDelivery(f.ctx(), taken, 0), store.ErrConflict)
}

func testDeliveryEndsWithTheRun(f *fixture) {
	id := f.run()
	f.acceptSignal(id, "u1", run.Pause, true)
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	f.equal(0, len(f.leaseDeliveries("w1", time.Minute, 1)), "deliveries to a run that has ended")
}

// Undecided is read in the transaction that may change its result.
func testUndecidedSeesPendingSignals(f *fixture) {
	id, other := f.run(), f.run()
	f.acceptSignal(other, "o1", run.Resume, true)
	is := func(want bool, what string) {
		f.Helper()
		f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			got, err := tx.IsUndecided(f.ctx())
			f.equal(want, got, what)
			return err
		}))
	}
	is(false, "another run's signals")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := newReceipt("u0", run.RetryStep)
		r.Rejected, r.Rejection = true, run.CodeStepNotFailed
		if _, err := tx.PutReceipt(f.ctx(), r, false); err != nil {
			return err
		}
		r = newReceipt("u1", run.UpdateParams)
		r.Application = run.SignalApplied
		if _, err := tx.PutReceipt(f.ctx(), r, false); err != nil {
			return err
		}
		before, err := tx.IsUndecided(f.ctx())
		f.equal(false, before, "a rejection and a parameter")
		if err != nil {
			return err
		}
		if _, err := tx.PutReceipt(f.ctx(), newReceipt("u2", run.RetryStep), true); err != nil {
			return err
		}
		after, err := tx.IsUndecided(f.ctx())
		f.equal(true, after, "accepted in this transaction")
		return err
	}))
	is(true, "pending")
	d := f.leaseDeliveries("w1", time.Minute, 10)
	for _, d := range d {
		f.ok(f.store.MarkDelivered(f.ctx(), d, 2))
	}
	is(true, "delivered")
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u2", Application: run.SignalNoop, AppliedBy: -1}}})
	is(false, "decided")
}

// A PAUSE that was applied when it was accepted is delivered nevertheless, and its receipt has the time of delivery.
// Other final receipts do not change.
func testAppliedPauseIsStillDelivered(f *fixture) {
	id := f.run()
	for _, of := range []run.SignalType{run.Pause, run.EscalateAlert} {
		f.acceptSignal(id, string(of), of, true)
		f.appendAny(store.Append{
			RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: string(of), Application: run.SignalApplied,
				AppliedBy: -1}}})
	}
	d := f.leaseDeliveries("w1", time.Minute, 1)
	f.equal(1, len(d), "deliveries")
	before := f.head(id).OpsRev
	f.ok(f.store.MarkDelivered(f.ctx(), d[0], 2))
	pause, alert := f.receipt(id, "PAUSE"), f.receipt(id, "ESCALATE_ALERT")
	f.equal([]any{run.SignalApplied, true, run.SignalApplied, false},
		[]any{pause.Application, pause.DeliveredAt != nil, alert.Application, alert.DeliveredAt != nil}, "receipts")
	if f.head(id).OpsRev <= before {
		f.Error("opsRev did not increase")
	}
	at := pause.DeliveredAt
	f.ok(f.store.MarkDelivered(f.ctx(), d[0], 2))
	f.equal(at, f.receipt(id, "PAUSE").DeliveredAt, "delivered again")
}
