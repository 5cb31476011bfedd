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
	{"ReceiptsAreNumbered", numbered},
	// contract: T94
	{"ReceiptConflict", receiptConflict},
	// contract: O11
	{"ReceiptMoves", receiptMoves},
	// contract: T196
	{"EndOfRunEndsReceipts", endOfRun},
	// contract: O11
	{"Quiescent", quiescent},
	// contract: T185
	{"BeginAppliesItsSignal", beginApplies},
	// contract: T204
	{"OpsRev", opsRev},
	// contract: T196
	{"Undecided", undecided},
}

var deliveryCases = []testCase{
	// contract: T196
	{"DeliveredInOrder", delivery},
	{"DeliveryLeaseExpiresAndFences", deliveryLease},
	{"DeliveryEndsWithTheRun", deliveryEnds},
	// contract: O11
	{"DeliveredAfterApplied", deliveredAfterApplied},
}

func receipt(id string, t run.SignalType) run.Receipt {
	return run.Receipt{
		Signal: run.Signal{ID: id, Type: t}, Actor: "ola", Reason: "because",
		Payload: json.RawMessage(`{"pause":{"reason":"because"}}`),
	}
}

// accept is what control does with a signal: the event and the receipt in one transaction.
func (f *fixture) accept(id run.Identity, signalID string, t run.SignalType, deliver bool) run.Receipt {
	f.Helper()
	var got run.Receipt
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		out, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{runtest.Draft(run.SignalAccepted, signalID, 1)}})
		if err != nil {
			return err
		}
		r := receipt(signalID, t)
		r.AcceptedSeq = out.Outcomes[0].Seq
		got, err = tx.PutReceipt(f.ctx(), r, deliver)
		return err
	}))
	return got
}

func (f *fixture) receipt(id run.Identity, signalID string) run.Receipt {
	f.Helper()
	r, err := f.store.Receipt(f.ctx(), id.RunID, signalID)
	f.ok(err)
	return r
}

func ids(rs []run.Receipt) []string {
	out := []string{}
	for _, r := range rs {
		out = append(out, fmt.Sprintf("%s:%d", r.Signal.ID, r.No))
	}
	return out
}

func numbered(f *fixture) {
	id, other := f.run(), f.run()
	a := f.accept(id, "sig-z", run.Pause, true)
	want := receipt("sig-z", run.Pause)
	want.RunID, want.No, want.AcceptedSeq, want.Application, want.ReceivedAt = id.RunID, 1, 3, run.SignalPending,
		a.ReceivedAt
	f.equal(want, a, "stored receipt")
	if a.ReceivedAt.IsZero() {
		f.Error("no receivedAt")
	}
	f.equal(a, f.receipt(id, "sig-z"), "read back")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := receipt("sig-m", run.RetryStep)
		r.Signal.StepID, r.Signal.ExpectedAttempt, r.Signal.Force = "s1", 2, true
		r.Rejected, r.Rejection, r.RejectText, r.Payload = true, run.CodeStepNotFailed, "it runs", nil
		got, err := tx.PutReceipt(f.ctx(), r, true)
		f.equal([]any{int64(0), run.CodeStepNotFailed, true}, []any{got.No, got.Rejection, got.Signal.Force}, "rejection")
		return err
	}))
	f.equal(int64(2), f.accept(id, "sig-a", run.Resume, true).No, "a rejection takes no number")
	f.equal(int64(1), f.accept(other, "sig-z", run.Pause, true).No, "numbers are per run")
	f.equal(int64(2), f.head(id).SignalNo, "head")
	list := func(rs []run.Receipt, err error) []string { f.Helper(); f.ok(err); return ids(rs) }
	f.equal([]string{"sig-z:1", "sig-m:0", "sig-a:2"}, list(f.store.Receipts(f.ctx(), id.RunID, "", 10)), "as received")
	f.equal([]string{"sig-m:0"}, list(f.store.Receipts(f.ctx(), id.RunID, "sig-z", 1)), "a page")
	f.equal([]string{"sig-z:1", "sig-a:2"}, list(f.store.After(f.ctx(), id.RunID, 0)), "accepted")
	f.equal([]string{"sig-a:2"}, list(f.store.After(f.ctx(), id.RunID, 1)), "accepted after 1")
}

func receiptConflict(f *fixture) {
	id := f.run()
	f.accept(id, "u1", run.Pause, true)
	err := f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		_, err := tx.PutReceipt(f.ctx(), receipt("u1", run.Resume), true)
		return err
	})
	f.is(err, store.ErrConflict)
	f.equal(run.Pause, f.receipt(id, "u1").Signal.Type, "first write")
	f.equal(int64(2), f.accept(id, "U1", run.Resume, false).No, "ids are bytes; no number was burned")
}

func receiptMoves(f *fixture) {
	id := f.run()
	for _, s := range []string{"u1", "u2", "u3"} {
		f.accept(id, s, run.Pause, true)
	}
	move := func(a store.Append, o ...store.SignalOutcome) store.Appended {
		f.Helper()
		a.RunID, a.Outcomes = id.RunID, o
		return f.appendAny(a)
	}
	pause := store.Append{Events: []run.Draft{started("s1", 1), runtest.Draft(run.RunPaused, "u1", 1)}}
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
	// repeated after a lost answer
	move(pause, store.SignalOutcome{SignalID: "u1", Application: run.SignalApplied, AppliedBy: 1})
	f.equal(rev, f.head(id).OpsRev, "opsRev of a repetition")
	// The effect was refused: the receipt must not claim it.
	move(store.Append{Events: []run.Draft{completed("s1", 1)}})
	move(store.Append{Events: []run.Draft{runtest.Draft(run.StepSkippedEvent, "s1", 1)}},
		store.SignalOutcome{SignalID: "u3", Application: run.SignalApplied, AppliedBy: 0})
	r = f.receipt(id, "u3")
	f.equal([]any{run.SignalNotApply, string(run.CodeInvalidTransition), run.Seq(0)},
		[]any{r.Application, r.ApplicationReason, r.AppliedSeq}, "refused effect")
}

func endOfRun(f *fixture) {
	id := f.run()
	for _, s := range []string{"u1", "u2", "u3"} {
		f.accept(id, s, run.Pause, true)
	}
	f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.RunPaused, "u1", 1)},
		Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalApplied}}})
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := receipt("u4", run.Pause)
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

func quiescent(f *fixture) {
	id := f.run()
	pause := func(signalID string, epoch int) {
		f.Helper()
		f.accept(id, signalID, run.Pause, true)
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
	f.append(id, started("s1", 1), started("s2", 1), runtest.Draft(run.StepAwaitingManualCompletion, "s2", 1)) // 3 4 5
	pause("u1", 1)                                                                                             // 6 7
	f.equal(run.Seq(0), seq("u1"), "s1 runs")
	f.append(id, completed("s1", 1), runtest.Draft(run.SignalRejected, "x", 1)) // 8 9
	f.equal(run.Seq(8), seq("u1"), "s1 ended, s2 waits for a person (T47)")
	f.append(id, completed("s2", 1)) // 10
	f.equal(run.Seq(8), seq("u1"), "once")
	resume(1)      // 11
	pause("u2", 2) // 12 13
	f.equal(run.Seq(13), seq("u2"), "nothing runs at RunPaused")
	resume(2)                        // 14
	f.append(id, started("s3", 1))   // 15
	pause("u3", 3)                   // 16 17
	resume(3)                        // 18: drain timeout
	pause("u4", 4)                   // 19 20
	f.append(id, completed("s3", 1)) // 21
	f.equal([]run.Seq{0, 21}, []run.Seq{seq("u3"), seq("u4")}, "a pause that never drained stays open")
}

func beginApplies(f *fixture) {
	id := f.run()
	f.append(id, started("s1", 1), failed("s1", 1))
	f.accept(id, "u1", run.RetryStep, true)
	f.gate(id, run.GateFailing, 0)
	b := store.StartAttempt{RunID: id.RunID, StepID: "s1", LogicalAttempt: 2, SignalID: "u1"}
	f.equal(store.StartParked, f.beginAny(b).Verdict, "parked")
	f.equal(run.SignalPending, f.receipt(id, "u1").Application, "nothing applied yet")
	b.PassFailing = true
	got := f.beginAny(b)
	r := f.receipt(id, "u1")
	f.equal([]any{run.SignalApplied, got.StartedSeq}, []any{r.Application, r.AppliedSeq}, "applied by StepStarted")
	p, err := run.PayloadOf[run.StepStartedPayload](f.log(id)[got.StartedSeq-1].Payload)
	f.ok(err)
	f.equal("u1", p.SignalID, "payload")
	f.equal(got, f.beginAny(b), "again")
	f.equal(r, f.receipt(id, "u1"), "receipt again")
}

func opsRev(f *fixture) {
	n := newRun(identity(1), runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"))
	n.Enqueue = &store.Enqueue{Terms: store.Unlimited()}
	id := f.create(n)
	last := int64(-1)
	moved := func(want bool, what string) {
		f.Helper()
		h := f.head(id)
		if (h.OpsRev > last) != want {
			f.Errorf("%s: opsRev %d after %d", what, h.OpsRev, last)
		}
		last = h.OpsRev
		dirty, err := f.store.Dirty(f.ctx(), 0, 10)
		f.ok(err)
		if len(dirty) != 1 || dirty[0].OpsRev != h.OpsRev || dirty[0].HeadSeq != h.LastSeq {
			f.Errorf("%s: dirty %+v, head %+v", what, dirty, h)
		}
	}
	moved(true, "queue row")
	f.append(id, started("s1", 1))
	moved(false, "an event alone")
	rows, err := f.store.Lease(f.ctx(), "w1", time.Minute, 1)
	f.ok(err)
	moved(true, "lease")
	f.ok(f.store.Started(f.ctx(), id.RunID, rows[0].Generation))
	moved(true, "started")
	f.accept(id, "u1", run.Pause, true)
	moved(true, "receipt")
	d, err := f.store.LeaseDeliveries(f.ctx(), "w1", time.Minute, 1)
	f.ok(err)
	last = f.head(id).OpsRev
	f.ok(f.store.Delivered(f.ctx(), d[0], 1))
	moved(true, "delivered")
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalNoop, AppliedBy: -1}}})
	moved(true, "outcome")
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalNoop, AppliedBy: -1}}})
	moved(false, "the same outcome")
}

func (f *fixture) deliveries(owner string, ttl time.Duration, limit int) []store.Delivery {
	f.Helper()
	d, err := f.store.LeaseDeliveries(f.ctx(), owner, ttl, limit)
	f.ok(err)
	return d
}

func delivery(f *fixture) {
	id, quiet := f.run(), f.run()
	f.accept(quiet, "q1", run.UpdateParams, false)
	f.accept(id, "u1", run.Pause, true)
	f.accept(id, "u2", run.Resume, true)
	d := f.deliveries("w1", time.Minute, 10)
	f.equal(1, len(d), "leased")
	f.equal([]any{id.RunID, "t1", int64(0)}, []any{d[0].RunID, d[0].TenantID, d[0].DeliveredNo}, "delivery")
	f.equal(0, len(f.deliveries("w2", time.Minute, 10)), "leased twice")
	f.ok(f.store.Delivered(f.ctx(), d[0], 1))
	r := f.receipt(id, "u1")
	f.equal([]any{run.SignalDelivered, true}, []any{r.Application, r.DeliveredAt != nil}, "u1")
	f.equal(run.SignalPending, f.receipt(id, "u2").Application, "u2")
	f.equal(0, len(f.deliveries("w2", time.Minute, 10)), "the lease stays until Settle")
	f.ok(f.store.Settle(f.ctx(), d[0], time.Hour))
	f.equal(0, len(f.deliveries("w2", time.Minute, 10)), "due later")
	f.is(f.store.Settle(f.ctx(), d[0], 0), store.ErrConflict)

	id = f.run()
	f.accept(id, "u1", run.Pause, true)
	d = f.deliveries("w1", time.Minute, 10)
	f.ok(f.store.Delivered(f.ctx(), d[0], 1))
	f.accept(id, "u2", run.Resume, true) // arrives while the lease is held
	f.ok(f.store.Settle(f.ctx(), d[0], 0))
	d = f.deliveries("w2", time.Minute, 10)
	f.equal(1, len(d), "something is left")
	f.equal(int64(1), d[0].DeliveredNo, "delivered so far")
	f.ok(f.store.Delivered(f.ctx(), d[0], 2))
	f.ok(f.store.Settle(f.ctx(), d[0], 0))
	f.equal(0, len(f.deliveries("w2", time.Minute, 10)), "nothing is left")
	f.accept(id, "u3", run.Pause, true)
	d = f.deliveries("w2", time.Minute, 10)
	f.equal(1, len(d), "due again")
	f.equal(int64(2), d[0].DeliveredNo, "what was delivered is not forgotten")
}

func deliveryLease(f *fixture) {
	id := f.run()
	f.accept(id, "u1", run.Pause, true)
	old := f.deliveries("w1", 20*time.Millisecond, 1)[0]
	var taken store.Delivery
	f.within(5*time.Second, "the lease expires", func() bool {
		d := f.deliveries("w2", time.Minute, 1)
		if len(d) == 1 {
			taken = d[0]
		}
		return len(d) == 1
	})
	if taken.Generation <= old.Generation {
		f.Errorf("generation %d after %d", taken.Generation, old.Generation)
	}
	f.is(f.store.Delivered(f.ctx(), old, 1), store.ErrConflict)
	f.is(f.store.Settle(f.ctx(), old, 0), store.ErrConflict)
	f.equal(run.SignalPending, f.receipt(id, "u1").Application, "receipt after a fenced write")
	f.ok(f.store.Delivered(f.ctx(), taken, 1))
	f.ok(f.store.Settle(f.ctx(), taken, 0))
	f.accept(id, "u2", run.Resume, true)
	again := f.deliveries("w3", time.Minute, 1)
	f.equal(1, len(again), "a new mark")
	f.is(f.store.Settle(f.ctx(), old, 0), store.ErrConflict) // fences outlive the row's work
	f.is(f.store.Settle(f.ctx(), taken, 0), store.ErrConflict)
}

func deliveryEnds(f *fixture) {
	id := f.run()
	f.accept(id, "u1", run.Pause, true)
	f.append(id, runtest.Draft(run.RunCancelled, "", 1))
	f.equal(0, len(f.deliveries("w1", time.Minute, 1)), "nothing to deliver to a run that is over")
}

// undecided asks in the transaction that may change the answer.
func undecided(f *fixture) {
	id, other := f.run(), f.run()
	f.accept(other, "o1", run.Resume, true)
	is := func(want bool, what string) {
		f.Helper()
		f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			got, err := tx.Undecided(f.ctx())
			f.equal(want, got, what)
			return err
		}))
	}
	is(false, "another run's signals")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := receipt("u0", run.RetryStep)
		r.Rejected, r.Rejection = true, run.CodeStepNotFailed
		if _, err := tx.PutReceipt(f.ctx(), r, false); err != nil {
			return err
		}
		r = receipt("u1", run.UpdateParams)
		r.Application = run.SignalApplied
		if _, err := tx.PutReceipt(f.ctx(), r, false); err != nil {
			return err
		}
		before, err := tx.Undecided(f.ctx())
		f.equal(false, before, "a rejection and a parameter")
		if err != nil {
			return err
		}
		if _, err := tx.PutReceipt(f.ctx(), receipt("u2", run.RetryStep), true); err != nil {
			return err
		}
		after, err := tx.Undecided(f.ctx())
		f.equal(true, after, "accepted in this transaction")
		return err
	}))
	is(true, "pending")
	d := f.deliveries("w1", time.Minute, 10)
	for _, d := range d {
		f.ok(f.store.Delivered(f.ctx(), d, 2))
	}
	is(true, "delivered")
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u2", Application: run.SignalNoop, AppliedBy: -1}}})
	is(false, "decided")
}

// deliveredAfterApplied: a PAUSE that was applied as it was accepted is delivered all
// the same, and its receipt says when; no other receipt moves.
func deliveredAfterApplied(f *fixture) {
	id := f.run()
	for _, of := range []run.SignalType{run.Pause, run.EscalateAlert} {
		f.accept(id, string(of), of, true)
		f.appendAny(store.Append{
			RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: string(of), Application: run.SignalApplied,
				AppliedBy: -1}}})
	}
	d := f.deliveries("w1", time.Minute, 1)
	f.equal(1, len(d), "deliveries")
	before := f.head(id).OpsRev
	f.ok(f.store.Delivered(f.ctx(), d[0], 2))
	pause, alert := f.receipt(id, "PAUSE"), f.receipt(id, "ESCALATE_ALERT")
	f.equal([]any{run.SignalApplied, true, run.SignalApplied, false},
		[]any{pause.Application, pause.DeliveredAt != nil, alert.Application, alert.DeliveredAt != nil}, "receipts")
	if f.head(id).OpsRev <= before {
		f.Error("opsRev did not move")
	}
	at := pause.DeliveredAt
	f.ok(f.store.Delivered(f.ctx(), d[0], 2))
	f.equal(at, f.receipt(id, "PAUSE").DeliveredAt, "delivered again")
}
