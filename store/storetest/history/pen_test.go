package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// pen writes the history of one run on a store that keeps its promises except for one fault.
type pen struct {
	t       *testing.T
	fault   string
	used    bool
	records []Record
	log     Log
	head    store.Head
	calls   int
}

// is reports whether the store has this fault.
func (p *pen) is(fault string) bool {
	p.used = p.used || p.fault == fault
	return p.fault == fault
}

// history returns the history that Read returns for the journal.
func (p *pen) history() *History {
	p.t.Helper()
	var journal bytes.Buffer
	for _, r := range p.records {
		journal.WriteByte('\n')
		if err := json.NewEncoder(&journal).Encode(r); err != nil {
			p.t.Fatal(err)
		}
	}
	h, err := Read(&journal)
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

func (p *pen) call(actor string, kind Kind, c Call) string {
	p.calls++
	c.ID, c.Actor, c.Kind = fmt.Sprint("#", p.calls), actor, kind
	if c.RunID == "" && kind != KindHeads && kind != KindChanged {
		c.RunID = p.log.Identity.RunID
	}
	p.records = append(p.records, Record{Call: &c})
	return c.ID
}

func (p *pen) answer(id string, r Return) {
	r.Call, r.Effect = id, Done
	p.records = append(p.records, Record{Return: &r})
}

// insert inserts drafts into the log.
func (p *pen) insert(drafts ...run.Draft) []Outcome {
	var out []Outcome
	for _, d := range drafts {
		p.head.LastSeq++
		p.head.LastAt = runtest.Epoch.Add(time.Duration(p.head.LastSeq) * time.Second)
		s := ofDraft(d)
		e := run.Event{
			Identity: p.log.Identity, EventID: fmt.Sprint("id-", p.head.LastSeq), Type: d.Type, Seq: p.head.LastSeq,
			Key:    s.key(p.log.Identity),
			StepID: d.StepID, SignalID: d.SignalID, LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt,
			EmittedAt: d.EmittedAt, PersistedAt: p.head.LastAt, EmittedBy: d.EmittedBy, Payload: d.Payload,
		}
		p.log.Events = append(p.log.Events, Event{Event: e, SignalID: e.SignalID})
		b := &book{}
		for _, e := range p.log.Events {
			b.events = append(b.events, e.Event)
		}
		b.index()
		p.head.Running, p.head.Terminal = b.running[p.head.LastSeq], b.end > 0
		out = append(out, Outcome{Seq: e.Seq, EventID: e.EventID, PersistedAt: e.PersistedAt})
	}
	return out
}

// outcome returns the outcome of a duplicate of the event at seq.
func (p *pen) outcome(seq run.Seq) Outcome {
	e := p.log.Events[seq-1]
	return Outcome{Seq: seq, EventID: e.EventID, PersistedAt: e.PersistedAt, Deduplicated: true}
}

func (p *pen) at(seq run.Seq) *Seen {
	e := p.log.Events[seq-1]
	e.Event.SignalID = e.SignalID
	s := see(e.Event)
	return &s
}

func appendCall(a store.Append) Call { return Call{Entries: []Entry{{Append: &a}}} }

func events(drafts ...run.Draft) Call { return appendCall(store.Append{Events: drafts}) }

func (p *pen) result(outcomes ...Outcome) Return {
	return Return{Answers: []Answer{{Effect: Done, Outcomes: outcomes, Head: p.head}}}
}

// append makes a call of an actor that inserts drafts.
func (p *pen) append(actor string, drafts ...run.Draft) {
	id := p.call(actor, KindAppend, events(drafts...))
	p.answer(id, p.result(p.insert(drafts...)...))
}

// begin makes a call of StartAttempt. If start is true, it inserts a StepStarted.
func (p *pen) begin(actor, step string, attempt int, start bool, a Answer) {
	id := p.call(actor, KindStartAttempt, Call{
		Entries: []Entry{{Start: &store.StartAttempt{StepID: step, LogicalAttempt: attempt}}}})
	if start {
		o := p.insert(runtest.Draft(run.StepStartedEvent, step, attempt))
		a.Verdict, a.StartedSeq = store.StartGranted, o[0].Seq
	}
	a.Effect, a.Head = Done, p.head
	p.answer(id, Return{Answers: []Answer{a}})
}

func (p *pen) state(seq run.Seq) run.State {
	var evs []run.Event
	for _, e := range p.log.Events[:seq] {
		evs = append(evs, e.Event)
	}
	s, _, _ := run.Fold(run.State{Header: run.Header{
		Identity: p.log.Identity, Rev: run.ReducerRev, Status: run.Pending, CreatedAt: p.log.CreatedAt,
		TriggeredBy: p.log.TriggeredBy,
	}}, evs)
	return s
}

func (p *pen) page(actor string, after run.Seq, limit int, skip run.Seq) {
	var page []Seen
	for seq := after + 1; seq <= p.head.LastSeq && len(page) < limit; seq++ {
		if seq != skip {
			page = append(page, *p.at(seq))
		}
	}
	p.answer(p.call(actor, KindEvents, Call{Seq: after, Limit: limit}), Return{Page: page})
}

func (p *pen) load(actor, epoch string, head store.Head) {
	s := p.state(head.LastSeq)
	if p.is("a state that is not the fold") && actor == "r1" {
		s.Counts.Running++
	}
	p.answer(p.call(actor, KindLoad, Call{}), Return{Epoch: epoch, Heads: []store.Head{head}, Folds: []Fold{
		{Of: OfState, RunID: s.RunID, Seq: s.Seq, Head: head.LastSeq, Sum: digest(s)},
	}})
}

func (p *pen) heads(actor string, h store.Head) {
	p.answer(p.call(actor, KindHeads, Call{RunIDs: []string{h.RunID}}), Return{Epoch: "e1", Heads: []store.Head{h}})
}

func (p *pen) save(seq run.Seq) {
	p.answer(p.call("p1", KindSave, Call{Seq: seq}), Return{Wrote: true})
}

// feed reads a page of the feed that has the run at seq, or no row if seq is 0.
func (p *pen) feed(cursor string, seq run.Seq) {
	r := Return{Next: cursor + "+"}
	if seq > 0 {
		h := p.state(seq).Header
		r.Folds = []Fold{{Of: OfHeader, RunID: h.RunID, Seq: seq, Head: p.head.LastSeq, Sum: digest(h)}}
	}
	p.answer(p.call("c1", KindChanged, Call{Cursor: cursor, Limit: 10}), r)
}
