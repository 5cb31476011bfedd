package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var logCases = []testCase{
	// contract: A01
	{"LinearRunCompletes", testLinearRunCompletes},
	// contract: A03
	{"DuplicateReturnsExisting", testDuplicateReturnsExisting},
	// contract: A03
	{"DuplicateInOneBatchIsInsertedOnce", testDuplicateInOneBatchIsInsertedOnce},
	// contract: A04, T15
	{"DuplicateWithOtherPayloadIsReported", testDuplicateWithOtherPayloadIsReported},
	// contract: A09, T190
	{"SchemaErrorAbortsTheCall", testSchemaErrorAbortsTheCall},
	// contract: A10, A13, T40
	{"ImportKeepsEventsUnchanged", testImportKeepsEventsUnchanged},
	// contract: A11
	{"PayloadIsStoredByteForByte", testPayloadIsStoredByteForByte},
	// contract: A12, T18
	{"PersistedAtNeverDecreases", testPersistedAtNeverDecreases},
	// contract: A14
	{"SecondRunStartedIsDeduplicated", testSecondRunStartedIsDeduplicated},
	// contract: T13
	{"IdsAreComparedByBytes", testIdsAreComparedByBytes},
	{"EventsComeInPages", testEventsComeInPages},
	// contract: T194
	{"AppendRefusesALogBelowMinHead", testAppendRefusesALogBelowMinHead},
	{"UnknownRunsAreNotFound", testUnknownRunsAreNotFound},
	{"CancelledContextWritesNothing", testCancelledContextWritesNothing},
	{"BatchAboveTheLimitIsRefused", testBatchAboveTheLimitIsRefused},
}

func testLinearRunCompletes(f *fixture) {
	id := f.run()
	for _, step := range []string{"s1", "s2", "s3"} {
		f.equal(store.StartGranted, f.startAttempt(id, step, 1).Verdict, "verdict")
		f.append(id, stepCompleted(step, 1))
	}
	f.append(id, runtest.Draft(run.RunCompleted, "", 1))
	evs := f.log(id)
	f.equal(strings.Split("1 RunApproved|2 RunStarted|3 StepStarted(s1,1)|4 StepCompleted(s1,1)|5 StepStarted(s2,1)|"+
		"6 StepCompleted(s2,1)|7 StepStarted(s3,1)|8 StepCompleted(s3,1)|9 RunCompleted", "|"), lines(evs), "log")
	for _, e := range evs {
		if e.Identity != id || e.EventID == "" || e.EventID != e.Key.EventID() || e.LogicalAttempt != 1 ||
			e.EngineAttempt != 1 ||
			e.EmittedAt.IsZero() || e.PersistedAt.IsZero() || e.EmittedBy == "" {
			f.Errorf("the envelope is incomplete: %+v", e)
		}
	}
	l := f.load(id)
	f.equal(run.StepCounts{Total: 3, Success: 3}, l.State.Counts, "counts")
	f.equal(run.Completed, l.State.Status, "status")
	f.equal(run.Seq(9), l.State.Seq, "seq")
	if !l.Head.Terminal || l.Head.Running != 0 || l.Head.LastSeq != 9 {
		f.Errorf("head %+v, want a terminal one at 9 without running steps", l.Head)
	}
}

func testDuplicateReturnsExisting(f *fixture) {
	id := f.run()
	first := f.append(id, stepStarted("s1", 1)).Outcomes[0]
	again := f.append(id, stepStarted("s1", 1))
	first.Deduplicated = true
	f.equal(first, again.Outcomes[0], "second result")
	f.equal(run.Seq(3), again.Head.LastSeq, "head after the duplicate, which takes no seq")
	f.equal(run.Seq(4), f.append(id, stepCompleted("s1", 1)).Outcomes[0].Seq, "next")
	f.equal(4, len(f.log(id)), "events")
}

func testDuplicateInOneBatchIsInsertedOnce(f *fixture) {
	id := f.run()
	out := f.append(id, stepStarted("s1", 1), stepStarted("s1", 1), stepCompleted("s1", 1))
	f.equal([]run.Seq{3, 3, 4}, []run.Seq{out.Outcomes[0].Seq, out.Outcomes[1].Seq, out.Outcomes[2].Seq}, "seqs")
	f.equal([]bool{false, true, false}, []bool{out.Outcomes[0].Deduplicated, out.Outcomes[1].Deduplicated,
		out.Outcomes[2].Deduplicated}, "duplicates")
	f.equal(0, out.Head.Running, "running")
	out = f.append(id, stepStarted("s1", 1), stepCompleted("s1", 1), stepStarted("s2", 1)) // partly a repetition
	f.equal([]run.Seq{3, 4, 5}, []run.Seq{out.Outcomes[0].Seq, out.Outcomes[1].Seq, out.Outcomes[2].Seq}, "seqs again")
}

func testDuplicateWithOtherPayloadIsReported(f *fixture) {
	id := f.run()
	d := stepCompleted("s1", 1)
	d.Payload = json.RawMessage(`{"result":{"rows":1}}`)
	f.append(id, d)
	d.Payload = json.RawMessage(` {"result": {"rows": 1}}`)
	if o := f.append(id, d).Outcomes[0]; !o.Deduplicated || o.PayloadMismatch {
		f.Errorf("outcome of the same payload with other whitespace: %+v, want a duplicate without a mismatch", o)
	}
	d.Payload = json.RawMessage(`{"result":{"rows":2}}`)
	if o := f.append(id, d).Outcomes[0]; !o.Deduplicated || !o.PayloadMismatch || o.Seq != 3 {
		f.Errorf("outcome of another payload: %+v, want a duplicate of 3 with a mismatch", o)
	}
	f.equal(json.RawMessage(`{"result":{"rows":1}}`), f.log(id)[2].Payload, "first write")
}

func testSchemaErrorAbortsTheCall(f *fixture) {
	id := f.run()
	for name, spoil := range map[string]func(*run.Draft){
		"unknown type":           func(d *run.Draft) { d.Type = "FutureThing" },
		"type with prefix on":    func(d *run.Draft) { d.Type = "onStepCompleted" },
		"logicalAttemptId 0":     func(d *run.Draft) { d.LogicalAttempt = 0 },
		"engineAttemptId absent": func(d *run.Draft) { d.EngineAttempt = 0 },
		"run event with stepId":  func(d *run.Draft) { *d = runtest.Draft(run.RunCompleted, "", 1); d.StepID = "s1" },
		"another planVersion": func(d *run.Draft) {
			*d = runtest.Start("s1")
			d.Payload = json.RawMessage(strings.Replace(string(d.Payload), `"planVersion":"1.0"`, `"planVersion":"1.1"`, 1))
		},
	} {
		bad := stepCompleted("s1", 1)
		spoil(&bad)
		_, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1), bad}})
		if !errors.Is(err, run.ErrSchema) {
			f.Errorf("%s: error %v, want ErrSchema", name, err)
		}
	}
	f.equal(2, len(f.log(id)), "events: the valid draft of a refused batch is not inserted")
	noPlan := identity(90)
	noPlan.PlanID = ""
	_, _, err := f.store.CreateRun(f.ctx(), newRun(noPlan, runtest.Draft(run.RunApproved, "", 1)))
	f.wantError(err, run.ErrSchema)
	_, err = f.store.Get(f.ctx(), noPlan.RunID)
	f.wantError(err, store.ErrNotFound)
}

func testImportKeepsEventsUnchanged(f *fixture) {
	n := newRun(identity(1))
	n.Run.RunID = "run_2026-02-11_abc123" // not a UUID
	n.Run.CreatedAt = runtest.Epoch
	source := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"), stepStarted("s1", 1),
		stepCompleted("s1", 1))
	for i := range source {
		source[i].RunID = n.Run.RunID
		source[i].Key = run.Key("foreign-" + string(source[i].Key))
	}
	source[0].EventID = "01234567-89ab-cdef-0123-456789abcdef" // not a v4 UUID
	source[2].Seq, source[3].Seq = 5, 7
	future := source[3]
	future.Type, future.Seq, future.Key, future.StepID = "FutureThing", 8, "future", ""
	future.Payload = json.RawMessage(`{"x":[1,2]}`)
	source = append(source, future)
	f.ok(f.store.Import(f.ctx(), n, source))
	f.equal(source, f.log(n.Run.Identity), "log")
	h := f.head(n.Run.Identity)
	f.equal([]any{run.Seq(8), 0, false}, []any{h.LastSeq, h.Running, h.Terminal}, "head")
	f.equal(run.Seq(8), f.load(n.Run.Identity).State.Seq, "state")
	// The store finds the events of imported attempts by subject, because their keys may be foreign.
	o := f.appendAny(store.Append{RunID: n.Run.RunID, Events: []run.Draft{stepFailed("s1", 1), stepStarted("s1",
		2)}}).Outcomes
	f.equal(run.CodeInvalidTransition, o[0].Refused, "refused")
	f.equal(run.Seq(9), o[1].Seq, "next seq")
	f.wantError(f.store.Import(f.ctx(), n, source), store.ErrConflict)
}

func testPayloadIsStoredByteForByte(f *fixture) {
	id := f.run()
	d := stepCompleted("s1", 1)
	d.Payload = json.RawMessage(`{"zeta": 1,  "result":{"b":1.50,"a":9007199254740993,"t":"<é\u00e9>"}, "future":[ ]}`)
	f.append(id, d)
	f.equal(string(d.Payload), string(f.log(id)[2].Payload), "bytes of the payload")
	d = stepStarted("s2", 1)
	d.Payload = nil
	f.append(id, d)
	if p := f.log(id)[3].Payload; p != nil {
		f.Errorf("a nil payload is read as %q, want nil", p)
	}
}

func testPersistedAtNeverDecreases(f *fixture) {
	id := f.run()
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("CET", 3600))
	for i, d := range []run.Draft{stepStarted("s1", 1), stepCompleted("s1", 1), stepStarted("s2", 1)} {
		d.EmittedAt = at.Add(-time.Duration(i) * time.Hour)
		f.append(id, d)
	}
	evs := f.log(id)
	f.equal(time.Date(2026, 3, 1, 11, 0, 0, 123456000, time.UTC), evs[2].EmittedAt, "microseconds")
	if _, offset := evs[2].EmittedAt.Zone(); offset != 0 {
		f.Error("emittedAt is not in UTC")
	}
	for i := 1; i < len(evs); i++ {
		if evs[i].Seq != evs[i-1].Seq+1 || evs[i].PersistedAt.Before(evs[i-1].PersistedAt) {
			f.Errorf("event %d has persistedAt %v after %v, want contiguous seqs and ascending times", evs[i].Seq,
				evs[i].PersistedAt, evs[i-1].PersistedAt)
		}
	}
	out := f.append(id, stepCompleted("s2", 1)).Outcomes[0]
	f.equal(out.PersistedAt, f.log(id)[5].PersistedAt, "stored persistedAt against that of the outcome")
	h, err := f.store.Heads(f.ctx(), []string{id.RunID})
	f.ok(err)
	if h.Now.Before(out.PersistedAt) {
		f.Errorf("the clock of the store is %v, want a time after the last event at %v", h.Now, out.PersistedAt)
	}
}

func testSecondRunStartedIsDeduplicated(f *fixture) {
	id := f.run()
	again := runtest.Start("s1", "s2<s1", "s3<s2")
	again.EmittedBy = run.ByEngine
	f.equal(run.Seq(2), f.append(id, again).Outcomes[0].Seq, "seq of a RunStarted that a second writer appends")
	f.equal(2, len(f.log(id)), "events")
}

func testIdsAreComparedByBytes(f *fixture) {
	lower, upper := identity(1), identity(1)
	lower.RunID, upper.RunID = "run.a", "run.A"
	for _, id := range []run.Identity{lower, upper} {
		f.create(newRun(id, runtest.Draft(run.RunApproved, "", 1), runtest.Start("a.b", "A.b", "a_b")))
	}
	f.append(lower, stepStarted("a.b", 1), stepCompleted("a.b", 1), stepStarted("A.b", 1), stepStarted("a_b", 1),
		stepCompleted("A.b", 1))
	f.equal([]string{"1 RunApproved", "2 RunStarted"}, lines(f.log(upper)), "the other run")
	f.equal(store.StartDone, f.startAttempt(lower, "A.b", 1).Verdict, "A.b")
	f.equal(store.StartGranted, f.startAttempt(lower, "a_b", 1).Verdict, "a_b")
	rows, err := f.store.List(f.ctx(), store.RunFilter{TenantID: "t1", Limit: 10, Text: "run.A"})
	f.ok(err)
	f.equal(1, len(rows), "runs found by the prefix run.A")
}

func testEventsComeInPages(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepCompleted("s1", 1), stepStarted("s2", 1))
	page := func(evs []run.Event, err error) []run.Seq {
		f.Helper()
		f.ok(err)
		seqs := []run.Seq{}
		for _, e := range evs {
			seqs = append(seqs, e.Seq)
		}
		return seqs
	}
	f.equal([]run.Seq{3, 4}, page(f.store.Events(f.ctx(), id.RunID, 2, 2)), "after 2")
	f.equal([]run.Seq{}, page(f.store.Events(f.ctx(), id.RunID, 5, 2)), "after the head")
	f.equal([]run.Seq{3, 2}, page(f.store.EventsBefore(f.ctx(), id.RunID, 4, 2)), "before 4")
	f.equal([]run.Seq{5, 4, 3, 2, 1}, page(f.store.EventsBefore(f.ctx(), id.RunID, run.MaxSeq, 100)), "from the end")
}

func testAppendRefusesALogBelowMinHead(f *fixture) {
	id := f.run()
	_, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1)}, MinHead: 3})
	f.wantError(err, store.ErrRegressed)
	f.equal(2, len(f.log(id)), "events")
	f.appendAny(store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1)}, MinHead: 2})
}

func testUnknownRunsAreNotFound(f *fixture) {
	ctx := f.ctx()
	_, err := f.store.Append(ctx, store.Append{RunID: "nobody", Events: []run.Draft{stepStarted("s1", 1)}})
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.StartAttempt(ctx, store.StartAttempt{RunID: "nobody", StepID: "s1", LogicalAttempt: 1,
		EngineAttempt: 1,
		EmittedAt:     runtest.Epoch})
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.Load(ctx, "nobody")
	f.wantError(err, store.ErrNotFound)
	_, _, err = f.store.Since(ctx, "nobody", 0)
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.Get(ctx, "nobody")
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.ByRequest(ctx, "nokey")
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.Plan(ctx, "nosha")
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.Receipt(ctx, "nobody", "nosignal")
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.QueueRow(ctx, "nobody")
	f.wantError(err, store.ErrNotFound)
	f.wantError(f.store.InRun(ctx, "nobody", func(store.RunTx) error { return nil }), store.ErrNotFound)
	h, err := f.store.Heads(ctx, []string{"nobody"})
	f.ok(err)
	f.equal(0, len(h.ByRun), "heads of unknown runs")
}

func testCancelledContextWritesNothing(f *fixture) {
	id := f.run()
	ctx, cancel := context.WithCancel(f.ctx())
	cancel()
	_, err := f.store.Append(ctx, store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1)}})
	f.wantError(err, context.Canceled)
	_, err = f.store.Load(ctx, id.RunID)
	f.wantError(err, context.Canceled)
	f.append(id, stepStarted("s1", 1))
	f.equal(3, len(f.log(id)), "events")
}

func testBatchAboveTheLimitIsRefused(f *fixture) {
	id := f.run()
	drafts := make([]run.Draft, store.MaxBatch+1)
	for i := range drafts {
		drafts[i] = stepStarted("s1", i+1)
	}
	if _, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, Events: drafts}); err == nil {
		f.Error("Append() accepted a batch above MaxBatch, want an error")
	}
	f.append(id, drafts[:store.MaxBatch]...)
	f.equal(2+store.MaxBatch, len(f.log(id)), "events")
	f.equal(store.MaxBatch, f.head(id).Running, "running")
}
