package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// The arguments of dvt_append. The arrays of one group (entry, event, receipt) have the same length.
//
//nolint:gochecknoglobals // a table
var (
	appendArguments = []argument[*call]{
		{"p_run", "text", func(c *call) any { return c.id.RunID }},

		{"p_entry_last_event", "int[]", func(c *call) any { return c.lastEvent }},
		{"p_entry_parked_by", "int[]", func(c *call) any { return c.parkedBy }},
		{"p_entry_set_gate", "int[]", func(c *call) any { return c.setGate }},
		{"p_entry_clear_gate", "int[]", func(c *call) any { return c.clearGate }},
		{"p_entry_retry_deadline", "text[]", func(c *call) any { return c.deadline }},
		{"p_entry_if_started", "boolean[]", func(c *call) any { return c.ifStarted }},
		{"p_entry_min_head", "bigint[]", func(c *call) any { return c.minHead }},

		{"p_event_type", "text[]", func(c *call) any { return c.events.kind }},
		{"p_event_step", "text[]", func(c *call) any { return c.events.step }},
		{"p_event_signal", "text[]", func(c *call) any { return c.events.signal }},
		{"p_event_logical_attempt", "int[]", func(c *call) any { return c.events.logical }},
		{"p_event_engine_attempt", "int[]", func(c *call) any { return c.events.engine }},
		{"p_event_key", "text[]", func(c *call) any { return c.events.key }},
		{"p_event_id", "text[]", func(c *call) any { return c.events.id }},
		{"p_event_emitted_at", "timestamptz[]", func(c *call) any { return c.events.emitted }},
		{"p_event_emitted_by", "text[]", func(c *call) any { return c.events.by }},
		{"p_event_payload", "text[]", func(c *call) any { return c.events.payload }},

		{"p_receipt_entry", "int[]", func(c *call) any { return c.receipts.entry }},
		{"p_receipt_event", "int[]", func(c *call) any { return c.receipts.event }},
		{"p_receipt_signal", "text[]", func(c *call) any { return c.receipts.signal }},
		{"p_receipt_application", "text[]", func(c *call) any { return c.receipts.application }},
		{"p_receipt_reason", "text[]", func(c *call) any { return c.receipts.reason }},
	}
	appendSQL = callSQL(`event_number, verdict, run_seq, event_id, key, type, step_id, signal_id, logical_attempt,
		engine_attempt, emitted_at, persisted_at, emitted_by, payload,
		last_seq, last_at, terminal, gate, running, ops_rev, signal_no, window_opened`, "dvt_append", appendArguments)
)

// Verdicts of dvt_append about one event; verdictRegressed is about a whole entry.
const (
	verdictInserted      = "INSERTED"
	verdictDuplicate     = "DUPLICATE"
	verdictEnded         = "ENDED"
	verdictNotStarted    = "NOT_STARTED"
	verdictOrphaned      = "ORPHANED"
	verdictStartedBefore = "STARTED_BEFORE"
	verdictParked        = "PARKED"
	verdictRunEnded      = "RUN_ENDED"
	verdictRegressed     = "REGRESSED"
)

// call is one execution of dvt_append: its arguments by column, and its results.
type call struct {
	id       run.Identity
	results  []store.EntryResult // of all entries
	prepared []preparedEntry     // the valid entries, which are sent

	lastEvent, setGate, clearGate []int32
	parkedBy                      []*int32
	deadline                      []*string
	ifStarted                     []bool
	minHead                       []int64
	events                        columns
	receipts                      receiptChanges
}

// preparedEntry is a valid entry, with the indexes of its result and of its first event.
type preparedEntry struct {
	batch  authority.Batch
	begin  bool
	result int
	first  int
}

// receiptChanges holds changes of signal receipts by column.
type receiptChanges struct {
	entry, event                []int32
	signal, application, reason []string
}

func newCall(id run.Identity, entries []store.Entry) *call {
	c := &call{id: id, results: make([]store.EntryResult, len(entries))}
	for i, e := range entries {
		p := preparedEntry{result: i, first: len(c.events.seq)}
		if e.Start != nil {
			start, err := authority.PrepareStart(id, *e.Start)
			if err != nil {
				c.results[i].Err = err
				continue
			}
			p.batch, p.begin = start.Batch(), true
			park := int32(start.ParkingGates())
			c.parkedBy = append(c.parkedBy, &park)
			c.add(p)
			if e.Start.SignalID != "" {
				c.changeReceipt(e.Start.SignalID, run.SignalApplied, "", p.first+1)
			}
			continue
		}
		batch, err := authority.Prepare(id, *e.Append)
		if err != nil {
			c.results[i].Err = err
			continue
		}
		p.batch = batch
		c.parkedBy = append(c.parkedBy, nil)
		c.add(p)
		for _, o := range e.Append.Outcomes {
			event := 0
			if o.AppliedBy >= 0 && o.AppliedBy < len(e.Append.Events) {
				event = p.first + o.AppliedBy + 1
			}
			c.changeReceipt(o.SignalID, o.Application, o.Reason, event)
		}
	}
	return c
}

func (c *call) add(p preparedEntry) {
	a := p.batch.Append()
	for i, d := range a.Events {
		e := p.batch.Event(i, 0, d.EmittedAt)
		e.Payload = authority.WithoutStamp(d, !a.RetryDeadline.IsZero())
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
	c.lastEvent = append(c.lastEvent, int32(len(c.events.seq)))
	c.setGate, c.clearGate = append(c.setGate, int32(a.SetGate)), append(c.clearGate, int32(a.ClearGate))
	c.deadline = append(c.deadline, deadline)
	c.ifStarted, c.minHead = append(c.ifStarted, a.IfStarted), append(c.minHead, int64(a.MinHead))
}

func (c *call) changeReceipt(signalID string, a run.Application, reason string, event int) {
	m := &c.receipts
	m.entry, m.event = append(m.entry, int32(len(c.prepared))), append(m.event, int32(event))
	m.signal, m.application, m.reason = append(m.signal, signalID), append(m.application, string(a)),
		append(m.reason, reason)
}

func (c *call) args() []any { return valuesOf(appendArguments, c) }

// eventAnswer is one row about an event.
type eventAnswer struct {
	verdict string
	event   run.Event
}

// read stores the rows of dvt_append in the results. It returns store.ErrNotFound if the run does not exist.
func (c *call) read(rows pgx.Rows) error {
	defer rows.Close()
	var events []eventAnswer // of the call
	entry := 0
	for rows.Next() {
		var number int
		row := eventAnswer{event: run.Event{Identity: c.id}}
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
			return errors.New("dvt_append returned more entries than it received")
		}
		p := c.prepared[entry]
		result := &c.results[p.result]
		switch {
		case row.verdict == verdictRegressed:
			result.Err = fmt.Errorf("%w: head %d, known %d", store.ErrRegressed, head.LastSeq, p.batch.Append().MinHead)
		case p.begin:
			result.Started = startResult(events[len(events)-1], head)
		default:
			result.Appended = c.appendResult(p, events, head, opened)
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

func startResult(a eventAnswer, head store.Head) store.AttemptStarted {
	b := store.AttemptStarted{Head: head}
	switch a.verdict {
	case verdictInserted, verdictStartedBefore:
		b.Verdict, b.StartedSeq = store.StartGranted, a.event.Seq
	case verdictEnded:
		b.Verdict, b.Terminal = store.StartDone, &a.event
	case verdictRunEnded:
		b.Verdict = store.StartRunTerminal
	case verdictParked:
		b.Verdict = store.StartParked
	}
	return b
}

// appendResult builds the result of an append from the last rows of events.
func (c *call) appendResult(p preparedEntry, events []eventAnswer, head store.Head, opened bool) store.Appended {
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
			e := c.storedEvent(p, mine, row.event, head)
			*o = store.EventOutcome{Seq: e.Seq, EventID: e.EventID, EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt,
				Deduplicated: true}
			if !authority.SamePayload(e.Type, a.Events[i].Payload, e.Payload) {
				o.PayloadMismatch, o.Existing = true, &e
			}
			if at := authority.WindowOf(e); at != nil {
				out.WindowOpened = at
			}
		case verdictEnded:
			e := c.storedEvent(p, mine, row.event, head)
			*o = store.EventOutcome{Refused: run.CodeInvalidTransition, Existing: &e}
		case verdictNotStarted:
			o.Refused = run.CodeStepNotStarted
		case verdictOrphaned:
			o.Refused = run.CodeOrphanedTask
		}
	}
	if opened {
		at := a.RetryDeadline.Truncate(authority.Precision).UTC()
		out.WindowOpened = &at
	}
	return out
}

// storedEvent returns the existing event of a row. If the same entry inserted it, the row has only its sequence number,
// and storedEvent takes the event from the batch.
func (c *call) storedEvent(p preparedEntry, mine []eventAnswer, e run.Event, head store.Head) run.Event {
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

// argument is one argument of a database function for calls of type C.
type argument[C any] struct {
	name, kind string
	value      func(C) any
}

// callSQL returns a select of columns from function that passes every argument by name.
func callSQL[C any](columns, function string, arguments []argument[C]) string {
	named := make([]string, len(arguments))
	for i, a := range arguments {
		named[i] = fmt.Sprintf("%s => $%d::%s", a.name, i+1, a.kind)
	}
	return "SELECT " + columns + " FROM " + function + "(" + strings.Join(named, ", ") + ")"
}

// valuesOf returns the values of the arguments for c, in the order of callSQL.
func valuesOf[C any](arguments []argument[C], c C) []any {
	values := make([]any, len(arguments))
	for i, a := range arguments {
		values[i] = a.value(c)
	}
	return values
}

// needsLock reports whether Go must decide about an entry under the lock of the run's head, because dvt_append alone
// cannot. These are starts that take a token, appends that a closed gate stops, and ends of hooks.
func needsLock(e store.Entry) bool {
	if e.Start != nil {
		return e.Start.Heavy != nil
	}
	return e.Append.UnlessGate != 0 || endsHook(*e.Append)
}

func endsHook(a store.Append) bool {
	for _, d := range a.Events {
		if d.Type.EndsHook() {
			return true
		}
	}
	return false
}

// appendFirstEnds is write for an append that ends hooks. The two ends of a hook exclude each other, but dvt_append
// cannot see that, because their keys differ. So appendFirstEnds removes an end whose hook already has the other end,
// and refuses it like package authority does.
func (t *tx) appendFirstEnds(ctx context.Context, a store.Append) (store.Appended, error) {
	batch, err := authority.Prepare(t.id, a)
	if err != nil {
		return store.Appended{}, err
	}
	stored, err := t.eventsOf(ctx, batch.Keys())
	if err != nil {
		return store.Appended{}, err
	}
	rest := a
	rest.Events, rest.Outcomes = nil, nil
	index := make([]int, len(a.Events)) // index in rest, or -1
	winner := make([]*run.Event, len(a.Events))
	wonBy := make([]int, len(a.Events)) // index of the winning draft in this append, if winner is nil
	passed := map[run.Key]int{}
	over := t.head.Terminal
	for i, d := range a.Events {
		key := batch.Keys()[i]
		rival, ends := batch.Rival(i)
		_, repeated := passed[key]
		if _, isStored := stored[key]; ends && !isStored && !repeated {
			j, inAppend := passed[rival]
			if e, rivalStored := stored[rival]; rivalStored {
				winner[i], index[i] = &e, -1
				continue
			} else if inAppend && !over {
				wonBy[i], index[i] = j, -1
				continue
			}
		}
		if !repeated {
			passed[key] = i
		}
		index[i] = len(rest.Events)
		rest.Events = append(rest.Events, d)
		over = over || d.Type.EndsRun()
	}
	if len(rest.Events) == 0 { // nothing is inserted, so the gate stays
		rest.SetGate, rest.ClearGate = 0, 0
	}
	rest.Outcomes = remapOutcomes(a.Outcomes, index)
	out, err := t.write(ctx, rest)
	if err != nil {
		return store.Appended{}, err
	}
	all := make([]store.EventOutcome, len(a.Events))
	for i := range all {
		switch {
		case index[i] >= 0:
			all[i] = out.Outcomes[index[i]]
		case winner[i] != nil:
			all[i] = store.EventOutcome{Refused: run.CodeInvalidTransition, Existing: winner[i]}
		default:
			won := batch.Event(wonBy[i], all[wonBy[i]].Seq, all[wonBy[i]].PersistedAt)
			all[i] = store.EventOutcome{Refused: run.CodeInvalidTransition, Existing: &won}
		}
	}
	out.Outcomes = all
	return out, nil
}

// remapOutcomes maps the outcomes of signals to the new indexes of their events. A removed event did not apply its
// signal.
func remapOutcomes(outcomes []store.SignalOutcome, index []int) []store.SignalOutcome {
	moved := make([]store.SignalOutcome, 0, len(outcomes))
	for _, o := range outcomes {
		if i := o.AppliedBy; i >= 0 && i < len(index) {
			if o.AppliedBy = index[i]; index[i] < 0 {
				o.Application, o.Reason = run.SignalNotApply, string(run.CodeInvalidTransition)
			}
		}
		moved = append(moved, o)
	}
	return moved
}

// eventsOf reads the events of the run with these keys.
func (t *tx) eventsOf(ctx context.Context, keys []run.Key) (map[run.Key]run.Event, error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
	}
	var evs []run.Event
	t.batch.Queue(`SELECT `+eventColumns+` FROM event e WHERE e.run_id = $1 AND e.key = ANY($2)`, t.id.RunID, names).
		Query(func(rows pgx.Rows) (err error) {
			evs, err = scanEvents(rows, t.id)
			return err
		})
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	byKey := make(map[run.Key]run.Event, len(evs))
	for _, e := range evs {
		byKey[e.Key] = e
	}
	return byKey, nil
}
