package storetest

import (
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var overlayCases = []testCase{
	// contract: T197
	{"OverlaysAreThoseOfTheStep", testOverlaysAreThoseOfTheStep},
	// contract: T197
	{"OverlaidRunsStartAttemptsUnderTheLock", testOverlaidRunsStartAttemptsUnderTheLock},
}

// acceptOverlay accepts an overlay as control does: it is applied when it is accepted.
func (f *fixture) acceptOverlay(id run.Identity, signalID string, t run.SignalType, stepID string) run.Seq {
	f.Helper()
	var seq run.Seq
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		out, err := tx.Append(
			f.ctx(), store.Append{SetGate: run.GateOverlaid,
				Events: []run.Draft{runtest.Draft(run.SignalAccepted, signalID, 1)}})
		if err != nil {
			return err
		}
		seq = out.Outcomes[0].Seq
		r := newReceipt(signalID, t)
		r.Signal.StepID, r.AcceptedSeq, r.AppliedSeq = stepID, seq, seq
		r.Application, r.AppliedAt = run.SignalApplied, &out.Outcomes[0].PersistedAt
		stored, err := tx.PutReceipt(f.ctx(), r, false)
		if err == nil && (stored.Application != run.SignalApplied || stored.AppliedSeq != seq || stored.AppliedAt == nil ||
			stored.No == 0) {
			f.Errorf("stored receipt %+v, want it applied at %d with a number", stored, seq)
		}
		return err
	}))
	return seq
}

func testOverlaysAreThoseOfTheStep(f *fixture) {
	id, other := f.run(), f.run()
	a := f.acceptOverlay(id, "a", run.UpdateParams, "")
	f.acceptSignal(id, "pause", run.Pause, true)
	b := f.acceptOverlay(id, "b", run.InjectOverride, "s1")
	f.acceptOverlay(id, "c", run.UpdateTarget, "s2")
	d := f.acceptOverlay(id, "d", run.UpdateParams, "s1")
	f.acceptOverlay(other, "e", run.UpdateParams, "")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error { // a rejected signal is not an overlay
		r := newReceipt("no", run.UpdateParams)
		r.Rejected = true
		_, err := tx.PutReceipt(f.ctx(), r, false)
		return err
	}))
	list := func(step string, after, upTo run.Seq) string {
		f.Helper()
		rs, err := f.store.Overlays(f.ctx(), id.RunID, step, after, upTo)
		f.ok(err)
		var out []string
		for _, r := range rs {
			out = append(out, fmt.Sprintf("%s@%d", r.Signal.ID, r.AcceptedSeq))
		}
		return strings.Join(out, " ")
	}
	f.equal(fmt.Sprintf("a@%d b@%d d@%d", a, b, d), list("s1", 0, 99), "of s1")
	f.equal(fmt.Sprintf("a@%d b@%d", a, b), list("s1", 0, d-1), "before d")
	f.equal(fmt.Sprintf("d@%d", d), list("s1", b, d), "after b")
	f.equal(fmt.Sprintf("a@%d", a), list("s3", 0, 99), "of s3")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		n, newest, err := tx.CountOverlays(f.ctx(), "s1")
		f.equal([]any{4, d}, []any{n, newest}, "overlaid s1")
		if err == nil {
			n, newest, err = tx.CountOverlays(f.ctx(), "s3")
			f.equal([]any{4, a}, []any{n, newest}, "overlaid s3")
		}
		return err
	}))
	// overlays are not delivered to the engine
	ds, err := f.store.LeaseDeliveries(f.ctx(), "x", 1e9, 10)
	f.ok(err)
	if len(ds) != 1 || ds[0].RunID != id.RunID {
		f.Errorf("deliveries %+v, want only that of the PAUSE", ds)
	}
}

func testOverlaidRunsStartAttemptsUnderTheLock(f *fixture) {
	id := f.run()
	begin := func(step string, attempt int) store.StartAttempt {
		return store.StartAttempt{RunID: id.RunID, StepID: step, LogicalAttempt: attempt, EngineAttempt: 1,
			EmittedAt: runtest.Epoch}
	}
	first, err := f.store.StartAttempt(f.ctx(), begin("s1", 1))
	f.ok(err)
	seq := f.acceptOverlay(id, "a", run.UpdateParams, "")
	// An attempt that has started is granted again. A new one starts only with the overlays.
	again, err := f.store.StartAttempt(f.ctx(), begin("s1", 1))
	f.ok(err)
	f.equal([]any{store.StartGranted, first.StartedSeq}, []any{again.Verdict, again.StartedSeq}, "again")
	parked, err := f.store.StartAttempt(f.ctx(), begin("s2", 1))
	f.ok(err)
	if parked.Verdict != store.StartParked || parked.Head.Gate&run.GateOverlaid == 0 || parked.Head.LastSeq != seq {
		f.Fatalf("start without the overlays: %+v, want PARKED", parked)
	}
	within := func(b store.StartAttempt) (out store.AttemptStarted) {
		f.Helper()
		f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) (err error) {
			_, b.ParamsSeq, err = tx.CountOverlays(f.ctx(), b.StepID)
			if err == nil {
				out, err = tx.StartAttempt(f.ctx(), b)
			}
			if err == nil {
				f.equal(out.Head.LastSeq, tx.Head().LastSeq, "head in the transaction")
			}
			return err
		}))
		return out
	}
	granted := within(begin("s2", 1))
	f.equal([]any{store.StartGranted, seq + 1, 2, seq + 1}, []any{granted.Verdict, granted.StartedSeq,
		granted.Head.Running, granted.Head.LastSeq}, "start with the overlays")
	evs, err := f.store.Events(f.ctx(), id.RunID, seq, 10)
	f.ok(err)
	p, err := run.PayloadOf[run.StepStartedPayload](evs[0].Payload)
	f.ok(err)
	f.equal(seq, p.ParamsSeq, "paramsSeq")
	f.equal(granted.StartedSeq, within(begin("s2", 1)).StartedSeq, "the same start again")
	// The executor of the attempt appends StepStarted without the overlays, because it does not know them.
	repeated := f.append(id, stepStarted("s2", 1)).Outcomes[0]
	f.equal([]any{true, false, granted.StartedSeq}, []any{repeated.Deduplicated, repeated.PayloadMismatch, repeated.Seq},
		"its StepStarted again")
	// The overlays open no other gate.
	_, err = f.store.Append(f.ctx(), store.Append{RunID: id.RunID, SetGate: run.GateFailing,
		Events: []run.Draft{runtest.Draft(run.StepFailedEvent, "s1", 1)}})
	f.ok(err)
	f.equal(store.StartParked, within(begin("s1", 2)).Verdict, "while failing")
	passing := begin("s1", 2)
	passing.PassFailing = true
	f.equal(store.StartGranted, within(passing).Verdict, "past failing")
	_, err = f.store.Append(
		f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.StepCompletedEvent, "s2", 1),
			runtest.Draft(run.RunFailed, "", 1)}})
	f.ok(err)
	done := within(begin("s2", 1))
	if done.Verdict != store.StartDone || done.Terminal == nil {
		f.Errorf("start of an ended attempt: %+v, want DONE with its terminal event", done)
	}
	f.equal(store.StartRunTerminal, within(begin("s1", 3)).Verdict, "after the end")
	f.equal(1, f.head(id).Running, "running attempts: only s1/2")
}
