package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

var modelCases = []testCase{
	// contract: T190
	{"StoreDecidesLikeTheAuthority", testStoreDecidesLikeTheAuthority},
}

// model is one run in memory. Package authority decides its appends.
type model struct {
	id       run.Identity
	evs      []run.Event
	head     store.Head
	receipts []run.SignalReceipt
}

func (m *model) facts() authority.Facts {
	f := authority.Facts{Events: m.evs}
	for _, e := range m.evs {
		if e.Type.EndsRun() {
			f.End = &e
		}
	}
	return f
}

func (m *model) append(a store.Append) (store.Appended, error) {
	b, err := authority.Prepare(m.id, a)
	if err != nil {
		return store.Appended{}, err
	}
	p, err := authority.Decide(m.head, b, m.facts(), time.Now())
	if err != nil {
		return store.Appended{}, err
	}
	m.apply(p)
	return p.Result(m.head), nil
}

func (m *model) startAttempt(b store.StartAttempt) (store.AttemptStarted, error) {
	prepared, err := authority.PrepareStart(m.id, b)
	if err != nil {
		return store.AttemptStarted{}, err
	}
	p, out := authority.DecideStart(m.head, prepared, m.facts(), time.Now())
	m.apply(p)
	out.Head = m.head
	return out, nil
}

func (m *model) apply(p authority.Plan) {
	opsRev, moved := m.head.OpsRev, false
	m.evs, m.head = append(m.evs, p.Insert...), p.Head
	for _, mv := range p.Moves {
		for i := range m.receipts {
			r := &m.receipts[i]
			switch {
			case r.Signal.ID != mv.SignalID || r.Rejected || r.Application.Final():
			case mv.Application != run.SignalDelivered:
				r.Application, r.ApplicationReason, r.AppliedSeq, moved = mv.Application, mv.Reason, mv.AppliedSeq, true
			case r.Application == run.SignalPending:
				r.Application, moved = run.SignalDelivered, true
			}
		}
	}
	applied := func(r *run.SignalReceipt) bool {
		return r.Signal.Type == run.Pause && r.Application == run.SignalApplied
	}
	newest := run.Seq(-1)
	for i := range m.receipts {
		r := &m.receipts[i]
		if p.EndsRun && !r.Rejected && !r.Application.Final() {
			r.Application, r.ApplicationReason, moved = run.SignalNotApply, string(run.CodeRunTerminal), true
		}
		if applied(r) {
			newest = max(newest, r.AppliedSeq)
		}
	}
	for i := range m.receipts {
		if r := &m.receipts[i]; p.QuiescentSeq > 0 && applied(r) && r.AppliedSeq == newest && r.QuiescentSeq == 0 {
			r.QuiescentSeq, moved = max(r.AppliedSeq, p.QuiescentSeq), true
		}
	}
	if m.head.OpsRev = opsRev; moved {
		m.head.OpsRev++
	}
}

// random makes calls that an engine could make, and calls that no engine should make.
type random struct{ *rand.Rand }

func (r random) pickOne(of ...string) string { return of[r.IntN(len(of))] }

func (r random) draft() run.Draft {
	t := runtest.Types[r.IntN(len(runtest.Types))]
	if r.IntN(3) > 0 {
		marks := []run.EventType{run.StepStartedEvent, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent,
			run.StepAwaitingManualCompletion}
		t = marks[r.IntN(len(marks))]
	}
	if t.EndsRun() && r.IntN(6) > 0 {
		t = run.RunResumed
	}
	subject, attempt := r.pickOne("s1", "s2", "s3"), 1+r.IntN(2)
	switch {
	case t.OfSignal():
		subject, attempt = r.pickOne("u1", "u2", "u3", "u4"), 1
	case t == run.RunPaused, t == run.RunResumed:
		subject, attempt = r.pickOne("u1", "u2"), 1+r.IntN(3)
	case !t.OfStep():
		subject, attempt = "", 1
	}
	var more []runtest.M
	if t == run.StepCompletedEvent && r.IntN(4) == 0 {
		more = append(more, runtest.M{"durationMs": r.IntN(3)})
	}
	return runtest.Draft(t, subject, attempt, more...)
}

func (r random) append(id run.Identity, head run.Seq) store.Append {
	a := store.Append{RunID: id.RunID, Events: make([]run.Draft, r.IntN(5))}
	if r.IntN(2) == 0 {
		a.Events = make([]run.Draft, 1)
	}
	for i := range a.Events {
		a.Events[i] = r.draft()
		if i > 0 && r.IntN(8) == 0 {
			a.Events[i] = a.Events[r.IntN(i)]
		}
	}
	if r.IntN(3) == 0 {
		a.SetGate = run.Gate(r.IntN(8))
	}
	if r.IntN(3) == 0 {
		a.ClearGate = run.Gate(r.IntN(8))
	}
	if r.IntN(2) == 0 {
		a.RetryDeadline = runtest.Epoch.Add(time.Duration(r.IntN(1e9)) * time.Microsecond)
	}
	a.IfStarted = r.IntN(3) == 0
	if r.IntN(5) == 0 {
		a.UnlessGate = run.Gate(r.IntN(8))
	}
	if r.IntN(10) == 0 {
		a.MinHead = head + run.Seq(r.IntN(3))
	}
	for range r.IntN(3) {
		application := []run.Application{run.SignalDelivered, run.SignalApplied, run.SignalNoop,
			run.SignalNotApply}[r.IntN(4)]
		a.Outcomes = append(a.Outcomes, store.SignalOutcome{
			SignalID: r.pickOne("p1", "p2", "p3", "p4", "p5"), Application: application, Reason: r.pickOne("", "SUPERSEDED"),
			AppliedBy: r.IntN(len(a.Events)+2) - 1,
		})
	}
	return a
}

// groupEntry makes a call. Many of these calls are suitable for a group.
func (r random) groupEntry(id run.Identity, head run.Seq) store.Entry {
	if r.IntN(4) == 0 {
		return store.Entry{Start: &store.StartAttempt{
			RunID: id.RunID, StepID: r.pickOne("s1", "s2", "s3"), LogicalAttempt: 1 + r.IntN(4), EngineAttempt: 1,
			EmittedAt:   runtest.Epoch,
			PassFailing: r.IntN(2) == 0,
		}}
	}
	a := r.append(id, head)
	a.Events, a.SetGate, a.ClearGate, a.Outcomes = []run.Draft{r.draft()}, 0, 0, nil
	return store.Entry{Append: &a}
}

// The test makes the same random calls on the store and on the model. Every result, the log, the head and the receipts
// must be equal.
func testStoreDecidesLikeTheAuthority(f *fixture) {
	seed := uint64(time.Now().UnixNano())
	f.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	const runs, calls = 40, 10
	ms := make([]*model, runs)
	for n := range ms {
		id := f.run()
		m := &model{id: id, head: store.Head{RunID: id.RunID}}
		for _, signal := range []struct {
			id string
			t  run.SignalType
		}{{"p1", run.Pause}, {"p2", run.Resume}, {"p3", run.Pause}, {"p4", run.RetryStep}} {
			m.receipts = append(m.receipts, f.acceptSignal(id, signal.id, signal.t, true))
		}
		m.evs = f.log(id)
		m.head = f.head(id)
		ms[n] = m
	}
	grouper, groups := f.store.(store.Grouper)
	written := 0
	for c := range calls {
		for n, m := range ms {
			if groups && n%10 == 0 {
				written += f.compareGroup(fmt.Sprintf("call %d, group %d", c, n), grouper, ms, r)
			}
			f.compare(fmt.Sprintf("run %d, call %d", n, c), m, r)
		}
	}
	if f.Logf("groups wrote %d events", written); groups && written < runs {
		f.Errorf("groups wrote %d events, want at least %d for a meaningful comparison", written, runs)
	}
	for n, m := range ms {
		f.equalExceptTimes(m.evs, f.log(m.id), fmt.Sprintf("the log of run %d", n))
		f.equalExceptTimes(m.head, f.head(m.id), fmt.Sprintf("the head of run %d", n))
		for i, want := range m.receipts {
			got := f.receipt(m.id, want.Signal.ID)
			want.DeliveredAt, want.AppliedAt, got.DeliveredAt, got.AppliedAt = nil, nil, nil, nil
			f.equal(want, got, fmt.Sprintf("receipt %d of run %d", i, n))
		}
	}
}

// compareGroup makes one call on each of many runs. Calls that the store accepts for a group are made in one group, the
// others one by one. It returns the number of calls that the group wrote.
func (f *fixture) compareGroup(what string, g store.Grouper, ms []*model, r random) (written int) {
	f.Helper()
	var entries []store.Entry
	var of []*model
	var prepared []store.Plain
	for _, n := range r.Perm(len(ms))[:1+r.IntN(len(ms))] {
		m := ms[n]
		e := r.groupEntry(m.id, m.head.LastSeq)
		if p, ok := g.Plain(e); ok {
			entries, of, prepared = append(entries, e), append(of, m), append(prepared, p)
		}
	}
	results, err := g.Group(f.ctx(), prepared)
	f.ok(err)
	for i, e := range entries {
		if results[i] == nil {
			continue
		}
		written++
		f.checkResult(fmt.Sprintf("%s, result %d", what, i), of[i], e, *results[i])
	}
	for i, e := range entries {
		if results[i] == nil {
			f.checkResult(fmt.Sprintf("%s, result %d, which the group did not write", what, i), of[i], e, f.call(e))
		}
	}
	return written
}

// compare makes some calls on the store and on the model: one by one, or as a batch if the store supports batches.
func (f *fixture) compare(what string, m *model, r random) {
	f.Helper()
	entries := make([]store.Entry, 1+r.IntN(5))
	for i := range entries {
		if r.IntN(4) == 0 {
			entries[i].Start = &store.StartAttempt{
				RunID: m.id.RunID, StepID: r.pickOne("s1", "s2", "s3"), LogicalAttempt: 1 + r.IntN(2), EngineAttempt: 1,
				EmittedAt:   runtest.Epoch,
				PassFailing: r.IntN(2) == 0, SignalID: r.pickOne("", "p4", "p2"),
			}
			continue
		}
		a := r.append(m.id, m.head.LastSeq)
		entries[i].Append = &a
	}
	batcher, can := f.store.(store.Batcher)
	results := make([]store.EntryResult, len(entries))
	if asBatch := can && r.IntN(2) == 0; asBatch {
		var err error
		results, err = batcher.Batch(f.ctx(), m.id.RunID, entries)
		f.ok(err)
	} else {
		for i, e := range entries {
			results[i] = f.call(e)
		}
	}
	for i, e := range entries {
		f.checkResult(fmt.Sprintf("%s, result %d", what, i), m, e, results[i])
	}
	m.head.OpsRev = f.head(m.id).OpsRev // a batch is one transaction, so it increments OpsRev once
}

// call makes one call on the store.
func (f *fixture) call(e store.Entry) (r store.EntryResult) {
	if e.Start != nil {
		r.Started, r.Err = f.store.StartAttempt(f.ctx(), *e.Start)
	} else {
		r.Appended, r.Err = f.store.Append(f.ctx(), *e.Append)
	}
	return r
}

// checkResult makes the call on the model and compares its result with that of the store.
func (f *fixture) checkResult(what string, m *model, e store.Entry, got store.EntryResult) {
	f.Helper()
	var want store.EntryResult
	said := fmt.Sprintf("%s, to %+v", what, e.Append)
	if e.Start != nil {
		want.Started, want.Err = m.startAttempt(*e.Start)
		said = fmt.Sprintf("%s, to %+v", what, e.Start)
	} else {
		want.Appended, want.Err = m.append(*e.Append)
	}
	if (want.Err == nil) != (got.Err == nil) {
		f.Fatalf("%s: error %v, want %v", said, got.Err, want.Err)
	}
	want.Err, got.Err = nil, nil
	f.equalExceptTimes(want, got, said)
}

// equalExceptTimes is equal without the times of the store's clock and OpsRev.
func (f *fixture) equalExceptTimes(want, got any, what string) {
	f.Helper()
	apart := []cmp.Option{
		cmpopts.IgnoreFields(store.Head{}, "LastAt", "OpsRev"), cmpopts.IgnoreFields(store.EventOutcome{}, "PersistedAt"),
		cmpopts.IgnoreFields(run.Event{}, "PersistedAt"),
	}
	if diff := cmp.Diff(want, got, append(apart, alike)...); diff != "" {
		f.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}
