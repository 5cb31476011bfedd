package postgres

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

const appendSQL = `SELECT event, verdict, run_seq, event_id, key, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload,
  last_seq, last_at, terminal, gate, running, ops_rev, signal_no, window_opened
FROM dvt_append($1::text, $2::int[], $3::int[], $4::int[], $5::int[], $6::text[], $7::boolean[], $8::bigint[],
  $9::text[], $10::text[], $11::text[], $12::int[], $13::int[], $14::text[], $15::text[], $16::timestamptz[], $17::text[], $18::text[],
  $19::int[], $20::int[], $21::text[], $22::text[], $23::text[])`

// call is one execution of dvt_append: its arguments by column, and its answer.
type call struct {
	id       run.Identity
	results  []store.EntryResult // of all entries
	prepared []preparedEntry     // those that are sent

	upto, set, clear []int32
	park             []*int32
	deadline         []*string
	ifStarted        []bool
	minHead          []int64
	events           columns
	moves            moves
}

// preparedEntry is a valid entry, the place of its result and its first event.
type preparedEntry struct {
	batch  authority.Batch
	begin  bool
	result int
	first  int
}

// moves are moves of receipts by column.
type moves struct {
	entry, event                []int32
	signal, application, reason []string
}

func newCall(id run.Identity, entries []store.Entry) *call {
	c := &call{id: id, results: make([]store.EntryResult, len(entries))}
	for i, e := range entries {
		p := preparedEntry{result: i, first: len(c.events.seq)}
		if e.Begin != nil {
			beginning, err := authority.PrepareBegin(id, *e.Begin)
			if err != nil {
				c.results[i].Err = err
				continue
			}
			p.batch, p.begin = beginning.Batch(), true
			park := int32(beginning.Parked())
			c.park = append(c.park, &park)
			c.add(p)
			if e.Begin.SignalID != "" {
				c.move(e.Begin.SignalID, run.SignalApplied, "", p.first+1)
			}
			continue
		}
		batch, err := authority.Prepare(id, *e.Append)
		if err != nil {
			c.results[i].Err = err
			continue
		}
		p.batch = batch
		c.park = append(c.park, nil)
		c.add(p)
		for _, o := range e.Append.Outcomes {
			event := 0
			if o.AppliedBy >= 0 && o.AppliedBy < len(e.Append.Events) {
				event = p.first + o.AppliedBy + 1
			}
			c.move(o.SignalID, o.Application, o.Reason, event)
		}
	}
	return c
}

func (c *call) add(p preparedEntry) {
	a := p.batch.Append()
	for i, d := range a.Events {
		e := p.batch.Event(i, 0, d.EmittedAt)
		e.Payload = authority.Unstamped(d, !a.RetryDeadline.IsZero())
		c.events.add(&e)
	}
	var deadline *string
	if !a.RetryDeadline.IsZero() {
		if b, err := json.Marshal(a.RetryDeadline.Truncate(authority.Precision).UTC()); err == nil {
			s := string(b)
			deadline = &s
		}
	}
	c.prepared = append(c.prepared, p)
	c.upto = append(c.upto, int32(len(c.events.seq)))
	c.set, c.clear = append(c.set, int32(a.SetGate)), append(c.clear, int32(a.ClearGate))
	c.deadline = append(c.deadline, deadline)
	c.ifStarted, c.minHead = append(c.ifStarted, a.IfStarted), append(c.minHead, int64(a.MinHead))
}

func (c *call) move(signalID string, a run.Application, reason string, event int) {
	m := &c.moves
	m.entry, m.event = append(m.entry, int32(len(c.prepared))), append(m.event, int32(event))
	m.signal, m.application, m.reason = append(m.signal, signalID), append(m.application, string(a)),
		append(m.reason, reason)
}

func (c *call) args() []any {
	e, m := &c.events, &c.moves
	return []any{
		c.id.RunID, c.upto, c.park, c.set, c.clear, c.deadline, c.ifStarted, c.minHead,
		e.kind, e.step, e.signal, e.la, e.ea, e.key, e.id, e.emitted, e.by, e.payload,
		m.entry, m.event, m.signal, m.application, m.reason,
	}
}

// answered is one row about an event.
type answered struct {
	verdict string
	event   run.Event
}

// read takes the answer; store.ErrNotFound when there is no such run.
func (c *call) read(rows pgx.Rows) error {
	defer rows.Close()
	var events []answered // of the call
	entry := 0
	for rows.Next() {
		var number int
		row := answered{event: run.Event{Identity: c.id}}
		head := store.Head{RunID: c.id.RunID}
		var opened bool
		e := &row.event
		targets := append([]any{&number, &row.verdict}, eventTargets(e)...)
		targets = append(targets, &head.LastSeq, utc{&head.LastAt}, &head.Terminal, &head.Gate, &head.Running, &head.OpsRev,
			&head.SignalNo, &opened)
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if number > 0 {
			events = append(events, row)
			continue
		}
		if entry == len(c.prepared) {
			return errors.New("dvt_append answered more entries than it was asked")
		}
		p := c.prepared[entry]
		result := &c.results[p.result]
		switch {
		case row.verdict == verdictLogRegressed:
			result.Err = fmt.Errorf("%w: head %d, known %d", store.ErrRegressed, head.LastSeq, p.batch.Append().MinHead)
		case p.begin:
			result.Begun = begun(events[len(events)-1], head)
		default:
			result.Appended = c.appended(p, events, head, opened)
		}
		entry++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if entry == 0 {
		return store.ErrNotFound
	}
	return nil
}

func begun(a answered, head store.Head) store.Begun {
	b := store.Begun{Head: head}
	switch a.verdict {
	case verdictInserted, verdictBegunBefore:
		b.Verdict, b.StartedSeq = store.BeginRun, a.event.Seq
	case verdictTerminalWon:
		b.Verdict, b.Terminal = store.BeginDone, &a.event
	case verdictRunTerminal:
		b.Verdict = store.BeginRunTerminal
	case verdictParked:
		b.Verdict = store.BeginParked
	}
	return b
}

// appended makes the answer of an append from the last rows of events.
func (c *call) appended(p preparedEntry, events []answered, head store.Head, opened bool) store.Appended {
	a := p.batch.Append()
	out := store.Appended{Head: head, Outcomes: make([]store.EventOutcome, len(a.Events))}
	mine := events[len(events)-len(a.Events):]
	for i, row := range mine {
		o := &out.Outcomes[i]
		switch row.verdict {
		case verdictInserted:
			e := p.batch.Event(i, row.event.Seq, row.event.PersistedAt)
			*o = store.EventOutcome{Seq: e.Seq, EventID: e.EventID, EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt}
		case verdictDuplicate:
			e := c.stored(p, mine, row.event, head)
			*o = store.EventOutcome{Seq: e.Seq, EventID: e.EventID, EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt,
				Deduplicated: true}
			if !authority.SamePayload(e.Type, a.Events[i].Payload, e.Payload) {
				o.PayloadMismatch, o.Existing = true, &e
			}
			if at := authority.WindowOf(e); at != nil {
				out.WindowOpened = at
			}
		case verdictTerminalWon:
			e := c.stored(p, mine, row.event, head)
			*o = store.EventOutcome{Refused: run.CodeInvalidTransition, Existing: &e}
		case verdictNotStarted:
			o.Refused = run.CodeStepNotStarted
		case verdictOrphan:
			o.Refused = run.CodeOrphanedTask
		}
	}
	if opened {
		at := a.RetryDeadline.Truncate(authority.Precision).UTC()
		out.WindowOpened = &at
	}
	return out
}

// stored is the event of a row; one that was inserted by the same entry is not in
// the row, but for its number.
func (c *call) stored(p preparedEntry, mine []answered, e run.Event, head store.Head) run.Event {
	if e.EventID != "" {
		return e
	}
	for i, row := range mine {
		if row.verdict == verdictInserted && row.event.Seq == e.Seq {
			return p.batch.Event(i, e.Seq, head.LastAt)
		}
	}
	return e
}
