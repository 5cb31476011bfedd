package history

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func stepStarted(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepStartedEvent, step, attempt)
}
func stepCompleted(step string) run.Draft { return runtest.Draft(run.StepCompletedEvent, step, 1) }
func stepFailed(step string, attempt int) run.Draft {
	return runtest.Draft(run.StepFailedEvent, step, attempt)
}
func signalRejected(signal string) run.Draft { return runtest.Draft(run.SignalRejected, signal, 1) }

// story writes the history of one run that exercises every rule. With a fault, the store breaks one promise at one
// point of the history.
func story(t *testing.T, fault string) *pen {
	p := &pen{t: t, fault: fault, head: store.Head{RunID: "r"}, log: Log{Identity: runtest.ID, CreatedAt: runtest.Epoch,
		TriggeredBy: "ola"}}
	p.log.Identity.RunID = "r"
	p.feed("", 0)

	first := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1", "s2")}
	made := appendCall(store.Append{Events: first})
	made.Identity = &p.log.Identity
	id := p.call("w1", KindCreate, made)
	p.insert(first...)
	p.answer(id, Return{Wrote: true})

	p.append("w1", stepStarted("s1", 1)) // 3
	if p.is("a page of a run that is not found") {
		p.answer(p.call("r1", KindEvents, Call{Limit: 9}), Return{Missing: true})
		p.records[len(p.records)-1].Return.Effect = Nothing
	}
	if p.is("an undocumented error") {
		id := p.call("r1", KindEvents, Call{Limit: 9})
		p.records = append(
			p.records, Record{
				Return: &Return{Call: id, Effect: Unknown, Error: "boom", Strange: strange(KindEvents, errors.New("boom"))}})
	}
	p.begin("w2", "s2", 1, true, Answer{}) // 4
	p.append("w1", stepCompleted("s1"))    // 5
	p.repeat()
	p.refuse()
	p.gate()
	p.signal()
	p.lose()
	p.end()
	p.conclude()
	if fault != "" && !p.used {
		t.Fatalf("the story has no fault %q", fault)
	}
	return p
}

// repeat appends an event that the log has already.
func (p *pen) repeat() {
	d := stepCompleted("s1")
	id := p.call("w2", KindAppend, events(d))
	switch {
	case p.is("a duplicate with the seq of another event"):
		p.answer(id, p.result(p.outcome(4)))
	case p.is("a duplicate reported as inserted"):
		o := p.outcome(5)
		o.Deduplicated = false
		p.answer(id, p.result(o))
	case p.is("a mismatch of equal payloads"):
		o := p.outcome(5)
		o.PayloadMismatch = true
		p.answer(id, p.result(o))
	default:
		p.answer(id, p.result(p.outcome(5)))
	}
	if p.is("a duplicate inserted again") {
		p.append("w2", stepStarted("s1", 1))
	}
}

// refuse appends events that the store must refuse.
func (p *pen) refuse() {
	id := p.call("w2", KindAppend, events(stepFailed("s1", 1)))
	switch {
	case p.is("a second terminal"):
		p.answer(id, p.result(p.insert(stepFailed("s1", 1))...))
	case p.is("a refusal that carries the wrong winner"):
		p.answer(id, p.result(Outcome{Refused: run.CodeInvalidTransition, Existing: p.at(4)}))
	default:
		p.answer(id, p.result(Outcome{Refused: run.CodeInvalidTransition, Existing: p.at(5)}))
	}
	if p.is("a refusal without a reason") {
		p.answer(p.call("w2", KindAppend, events(stepFailed("s2", 7))),
			p.result(Outcome{Refused: run.CodeInvalidTransition, Existing: p.at(5)}))
	}
	if p.is("a duplicate refused") {
		p.answer(p.call("w2", KindAppend, events(stepCompleted("s1"))),
			p.result(Outcome{Refused: run.CodeInvalidTransition, Existing: p.at(5)}))
	}
}

// gate closes and opens the gate.
func (p *pen) gate() {
	if p.is("parked at an open gate") {
		p.begin("w2", "s1", 2, false, Answer{Verdict: store.StartParked})
	}
	pause := runtest.Draft(run.RunPaused, "", 1, runtest.M{"runningStepsCount": 1})
	id := p.call("w1", KindAppend, appendCall(store.Append{Events: []run.Draft{pause}, SetGate: run.GatePaused}))
	if p.is("a wrong count of running steps") {
		pause = runtest.Draft(run.RunPaused, "", 1, runtest.M{"runningStepsCount": 2})
	}
	out := p.insert(pause)
	if !p.is("a head with another gate") {
		p.head.Gate = run.GatePaused
	}
	p.answer(id, p.result(out...))
	p.head.Gate = run.GatePaused
	p.begin("w2", "s1", 2, p.is("started through a closed gate"), Answer{Verdict: store.StartParked})
	if p.is("parked although it had started") {
		p.begin("w2", "s2", 1, false, Answer{Verdict: store.StartParked})
	}
	resume := runtest.Draft(run.RunResumed, "", 1)
	id = p.call("w1", KindAppend, appendCall(store.Append{Events: []run.Draft{resume}, ClearGate: run.GatePaused}))
	out = p.insert(resume)
	p.head.Gate = 0
	p.answer(id, p.result(out...))
	if p.fault != "started through a closed gate" {
		p.begin("w2", "s1", 2, true, Answer{})
	}
	switch {
	case p.is("started after the end of the attempt"):
		p.begin("w2", "s1", 1, false, Answer{Verdict: store.StartGranted, StartedSeq: 3})
	case p.is("run without a StepStarted"):
		p.begin("w2", "s1", 4, false, Answer{Verdict: store.StartGranted, StartedSeq: 5})
	case p.is("done without a terminal"):
		p.begin("w2", "s2", 1, false, Answer{Verdict: store.StartDone, Terminal: p.at(5)})
	case p.is("terminal before the end"):
		p.begin("w2", "s2", 3, false, Answer{Verdict: store.StartRunTerminal})
	}
}

// signal accepts a signal, and reads the log in several ways.
func (p *pen) signal() {
	accepted := runtest.Draft(run.SignalAccepted, "sig-1", 1)
	id := p.call("w1", KindTransact, events(accepted))
	out := p.insert(accepted)
	p.answer(id, p.result(out...))
	receipt := run.SignalReceipt{Signal: run.Signal{ID: "sig-1"}, No: 1, AcceptedSeq: out[0].Seq,
		Application: run.SignalNotApply}
	switch {
	case p.is("an accepted signal without a receipt"):
	case p.is("an open receipt of a run that ended"):
		receipt.Application = run.SignalPending
		fallthrough
	default:
		p.log.Receipts = []run.SignalReceipt{receipt}
	}
	p.page("r1", 0, 5, 0)
	var skip run.Seq
	if p.is("a page with a hole") {
		skip = p.head.LastSeq - 1
	}
	p.page("r1", 5, 99, skip)
	p.load("r1", "e1", p.head)
	p.save(p.head.LastSeq)
	seq := p.head.LastSeq
	if p.is("a change that the feed skips") {
		seq = 0
	}
	p.feed("+", seq)
	stale := p.head
	p.append("w1", signalRejected("no-1"))
	switch {
	case p.is("a stale read"):
		p.heads("r2", stale)
	case p.is("a page that ends too early"):
		p.answer(p.call("r2", KindEvents, Call{Seq: stale.LastSeq, Limit: 9}), Return{})
	case p.is("a page of other content"):
		s := *p.at(3)
		s.Sum = "other"
		p.answer(p.call("r2", KindEvents, Call{Seq: 2, Limit: 1}), Return{Page: []Seen{s}})
	case p.is("an epoch that changes by itself"):
		p.load("r2", "e2", p.head)
	case p.is("a head with wrong counts"):
		h := p.head
		h.Running++
		p.heads("r2", h)
	case p.is("an event seen before it was sent"):
		p.page("r2", 5, 99, 0)
		s := p.records[len(p.records)-1].Return
		s.Page = append(s.Page, Seen{}) // filled in by lose
	}
}

// lose makes writes whose results are lost.
func (p *pen) lose() {
	early := p.records[len(p.records)-1].Return
	p.call("w3", KindAppend, events(stepCompleted("s2"), stepFailed("s1", 2)))
	known := p.head
	if !p.is("half of an append") {
		p.insert(stepCompleted("s2"))
	}
	p.insert(stepFailed("s1", 2))
	if p.fault == "an event seen before it was sent" {
		early.Page[len(early.Page)-1] = *p.at(known.LastSeq + 1)
	}
	p.heads("r1", p.head)
	if p.is("a reader that sees an older head") {
		p.heads("r1", known)
	}
	a, b := signalRejected("no-2"), signalRejected("no-3")
	long := p.call("w1", KindAppend, events(a, b))
	short := p.call("w2", KindAppend, events(signalRejected("no-4")))
	if p.is("an append that is split by another one") {
		out := p.insert(a)
		p.answer(short, p.result(p.insert(signalRejected("no-4"))...))
		p.answer(long, p.result(append(out, p.insert(b)...)...))
	} else {
		p.answer(long, p.result(p.insert(a, b)...))
		p.answer(short, p.result(p.insert(signalRejected("no-4"))...))
	}
	if p.is("an order against real time") {
		later := p.result(p.insert(signalRejected("no-6"))...) // called after no-5 was acknowledged, but before it in the log
		p.append("w1", signalRejected("no-5"))
		p.answer(p.call("w2", KindAppend, events(signalRejected("no-6"))), later)
	}
}

func (p *pen) end() {
	p.append("w1", runtest.Draft(run.RunCompleted, "", 1))
	id := p.call("w2", KindAppend, events(stepStarted("s2", 2)))
	if p.is("a step after the end") {
		p.answer(id, p.result(p.insert(stepStarted("s2", 2))...))
	} else {
		p.answer(id, p.result(Outcome{Refused: run.CodeOrphanedTask}))
	}
	p.begin("w2", "s2", 5, false, Answer{Verdict: store.StartRunTerminal})
	p.begin("w2", "s1", 1, false, Answer{Verdict: store.StartDone, Terminal: p.at(5)})
	if p.is("an event that no call sent") {
		p.insert(signalRejected("no-9"))
	}
	if p.is("a clock that goes back") {
		last := &p.log.Events[len(p.log.Events)-1]
		last.PersistedAt = last.PersistedAt.Add(-time.Hour)
		for _, r := range p.records {
			for _, a := range answersOf(r) {
				for i := range a.Outcomes {
					if a.Outcomes[i].Seq == last.Seq {
						a.Outcomes[i].PersistedAt = last.PersistedAt
					}
				}
				if a.Head.LastSeq == last.Seq {
					a.Head.LastAt = last.PersistedAt
				}
			}
		}
		p.head.LastAt = last.PersistedAt
	}
}

func answersOf(r Record) (out []*Answer) {
	if r.Return != nil {
		for i := range r.Return.Answers {
			out = append(out, &r.Return.Answers[i])
		}
	}
	return out
}

// conclude records the log that a new connection reads at the end.
func (p *pen) conclude() {
	last := p.head.LastSeq
	if !p.is("a run that the feed never returns") {
		p.save(last)
	}
	p.records = append(p.records, Record{Drained: true})
	if p.fault == "a run that the feed never returns" {
		p.feed("++", 0)
	} else {
		p.feed("++", last)
	}
	if p.is("an acknowledged event that is lost") {
		kept, head := p.log.Events, p.head
		p.append("w1", signalRejected("no-8"))
		p.log.Events, p.head = kept, head
	}
	p.log.Head = p.head
	if p.is("a key of another event") {
		p.log.Events[last-1].Key = p.log.Events[2].Key
	}
	p.records = append(p.records, Record{Log: &p.log})
}

func TestCheck_AcceptsAGoodHistory(t *testing.T) {
	t.Parallel()
	for _, v := range story(t, "").history().Check() {
		t.Errorf("Check() of a correct history found %v", v)
	}
}

// Each fault violates only the rules that it breaks.
func TestCheck_FindsEachFault(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string][]Rule{
		"a duplicate inserted again": {Keys},
		"a key of another event":     {Keys},

		"a second terminal":    {Terminals},
		"a step after the end": {Terminals},

		"an acknowledged event that is lost":        {Acknowledged},
		"an event that no call sent":                {Acknowledged},
		"a duplicate with the seq of another event": {Acknowledged},
		"a duplicate reported as inserted":          {Acknowledged, Order},
		"a mismatch of equal payloads":              {Acknowledged},

		"a refusal without a reason":              {Refused},
		"a refusal that carries the wrong winner": {Refused},
		"a duplicate refused":                     {Refused},

		"half of an append":                      {Together},
		"an append that is split by another one": {Together},
		"an accepted signal without a receipt":   {Together},
		"an open receipt of a run that ended":    {Together},
		"an order against real time":             {Order},
		"a clock that goes back":                 {Order},
		"a page with a hole":                     {Prefix},
		"a page of other content":                {Prefix},
		"an event seen before it was sent":       {Prefix},
		"a page of a run that is not found":      {Fresh},
		"a page that ends too early":             {Fresh},
		"a stale read":                           {Fresh},
		"a reader that sees an older head":       {Monotonic},
		"an epoch that changes by itself":        {Monotonic},
		"a state that is not the fold":           {Folded},
		"a head with wrong counts":               {Folded},
		"a wrong count of running steps":         {Folded},
		"a change that the feed skips":           {Feeding},
		"a run that the feed never returns":      {Feeding},
		"parked at an open gate":                 {Gating},
		"started through a closed gate":          {Gating},
		"a head with another gate":               {Gating},
		"parked although it had started":         {Beginning},
		"started after the end of the attempt":   {Beginning},
		"run without a StepStarted":              {Beginning},
		"done without a terminal":                {Beginning},
		"terminal before the end":                {Beginning},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			found := story(t, fault).history().Check()
			var got []Rule
			for _, v := range found {
				got = append(got, v.Rule)
			}
			if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
				t.Errorf("rules broken (-want +got):\n%s", diff)
				for _, v := range found {
					t.Log(v)
				}
			}
		})
	}
}

// The checker computes keys itself. Its formula must give the values of the contract.
// contract: T05
func TestKey_HasTheValuesOfTheTestVectors(t *testing.T) {
	t.Parallel()
	for want, s := range map[run.Key]subject{
		"60977858e4ebb84692607c2b13ba5a1377fc19f83cfb39c74b7d884b5585efcc": {run.RunStarted, "", "", 1, ""},
		"e19c8d6ebb559eaf8ba50c5d56e0b1d613ec1fe904620f40a05845323fdddd2f": {run.StepStartedEvent, "s1", "", 1, ""},
		"5ef3315cc7e01c86b5c8c87f864d2ca8c76b0c2a915eda7774e58666aefbe646": {run.StepStartedEvent, "s1", "", 2, ""},
		"14c90ae39078fc93bbe4b1a2fca8e6b8093278467a23404d497d221374da05d6": {run.RunPaused, "", "", 1, ""},
		"db23099b5b320c3409ef9b8dd80a8c4366e1873749c5bca56b3c581f5f7f388d": {run.RunPaused, "", "", 2, ""},
		"6bcb18ac2bfd68fe7ce5abf7ecc25a100c6412a7e1ac58db3d298a174ee80fe5": {run.SignalAccepted, "",
			"11111111-1111-4111-8111-111111111111", 1, ""},
	} {
		if got := s.key(runtest.ID); got != want {
			t.Errorf("key of %v is %s, want %s", s, got, want)
		}
	}
}
