package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// plain is an entry that consists of one event and changes no receipts or gates.
type plain struct {
	event      run.Event // without Seq and PersistedAt
	begin      bool
	running    int      // the change of the number of running attempts if the attempt is in the expected state
	unlessGate run.Gate // if the head has one of these gates, dvt_append must decide
	minHead    run.Seq
}

// RunID implements store.Plain.
func (p *plain) RunID() string { return p.event.RunID }

// plainOf returns the event of an entry that may be plain. ok is false for entries that need dvt_append.
func plainOf(id run.Identity, e store.Entry) (p plain, ok bool, err error) {
	p.unlessGate = run.GatePaused // the event may complete the quiescence of a pause
	var batch authority.Batch
	if b := e.Start; b != nil {
		if b.SignalID != "" || b.Heavy != nil {
			return p, false, nil
		}
		start, err := authority.PrepareStart(id, *b)
		if err != nil {
			return p, false, err
		}
		p.begin, p.running = true, 1
		p.unlessGate |= start.ParkingGates()
		batch = start.Batch()
	} else {
		a := e.Append
		if len(a.Events) != 1 || len(a.Outcomes) > 0 || a.SetGate|a.ClearGate != 0 || needsLock(e) {
			return p, false, nil
		}
		switch t := a.Events[0].Type; {
		case t == run.StepStartedEvent:
			p.running = 1
		case t == run.StepCompletedEvent, t == run.StepFailedEvent:
			p.running = -1
		case t == run.RunPaused, t == run.StepAwaitingManualCompletion, t.EndsAttempt(), t.EndsRun():
			return p, false, nil
		}
		if batch, err = authority.Prepare(id, *a); err != nil {
			return p, false, err
		}
		p.minHead = a.MinHead
		if !a.RetryDeadline.IsZero() {
			p.unlessGate |= run.GateFailing // the event may open the retry window
		}
	}
	p.event = batch.Event(0, 0, time.Time{})
	if e.Append != nil && !e.Append.RetryDeadline.IsZero() {
		p.event.Payload = authority.WithoutStamp(e.Append.Events[0], true)
	}
	return p, true, nil
}

// result returns the result of the entry, whose event is the last one under head.
func (p *plain) result(head store.Head) store.EntryResult {
	if p.begin {
		return store.EntryResult{Started: store.AttemptStarted{Verdict: store.StartGranted, StartedSeq: head.LastSeq,
			Head: head}}
	}
	return store.EntryResult{Appended: store.Appended{Head: head, Outcomes: []store.EventOutcome{
		{Seq: head.LastSeq, EventID: p.event.EventID, EmittedAt: p.event.EmittedAt, PersistedAt: head.LastAt},
	}}}
}

//nolint:gochecknoglobals // a table
var (
	appendOneArguments = []argument[*plain]{
		{"p_run", "text", func(p *plain) any { return p.event.RunID }},
		{"p_min_head", "bigint", func(p *plain) any { return int64(p.minHead) }},
		{"p_unless_gate", "int", func(p *plain) any { return int(p.unlessGate) }},
		{"p_running", "int", func(p *plain) any { return p.running }},
		{"p_event_type", "text", func(p *plain) any { return string(p.event.Type) }},
		{"p_event_step", "text", func(p *plain) any { return p.event.StepID }},
		{"p_event_signal", "text", func(p *plain) any { return p.event.SignalID }},
		{"p_event_logical_attempt", "int", func(p *plain) any { return p.event.LogicalAttempt }},
		{"p_event_engine_attempt", "int", func(p *plain) any { return p.event.EngineAttempt }},
		{"p_event_key", "text", func(p *plain) any { return string(p.event.Key) }},
		{"p_event_id", "text", func(p *plain) any { return p.event.EventID }},
		{"p_event_emitted_at", "timestamptz", func(p *plain) any { return p.event.EmittedAt }},
		{"p_event_emitted_by", "text", func(p *plain) any { return string(p.event.EmittedBy) }},
		{"p_event_payload", "text", func(p *plain) any { return text(p.event.Payload) }},
	}
	appendOneSQL = callSQL("last_seq, last_at, gate, running, ops_rev, signal_no", "dvt_append_one", appendOneArguments)
)

// appendOne writes a plain entry in one statement. done is false if the state of the run requires dvt_append; then
// nothing was written.
func (s *Store) appendOne(ctx context.Context, p *plain) (r store.EntryResult, done bool, err error) {
	var seq *int64
	head := store.Head{RunID: p.event.RunID}
	err = s.do(ctx, "append", func(ctx context.Context, conn *pgx.Conn) error {
		var gate, now *int
		var opsRev, signalNo *int64
		err := conn.QueryRow(ctx, appendOneSQL, valuesOf(appendOneArguments, p)...).
			Scan(&seq, utc{&head.LastAt}, &gate, &now, &opsRev, &signalNo)
		if err == nil && seq != nil {
			head.Gate, head.Running, head.OpsRev, head.SignalNo = run.Gate(*gate), *now, *opsRev, *signalNo
		}
		return err
	})
	if errors.Is(err, run.ErrSchema) {
		return store.EntryResult{Err: err}, true, nil
	}
	if err != nil || seq == nil {
		return store.EntryResult{}, false, err
	}
	head.LastSeq = run.Seq(*seq)
	return p.result(head), true, nil
}

//nolint:gochecknoglobals // a table
var (
	appendManyArguments = []argument[*group]{
		{"p_run", "text[]", func(g *group) any { return g.run }},
		{"p_min_head", "bigint[]", func(g *group) any { return g.minHead }},
		{"p_unless_gate", "int[]", func(g *group) any { return g.unlessGate }},
		{"p_running", "int[]", func(g *group) any { return g.running }},
		{"p_event_type", "text[]", func(g *group) any { return g.events.kind }},
		{"p_event_step", "text[]", func(g *group) any { return g.events.step }},
		{"p_event_signal", "text[]", func(g *group) any { return g.events.signal }},
		{"p_event_logical_attempt", "int[]", func(g *group) any { return g.events.logical }},
		{"p_event_engine_attempt", "int[]", func(g *group) any { return g.events.engine }},
		{"p_event_key", "text[]", func(g *group) any { return g.events.key }},
		{"p_event_id", "text[]", func(g *group) any { return g.events.id }},
		{"p_event_emitted_at", "timestamptz[]", func(g *group) any { return g.events.emitted }},
		{"p_event_emitted_by", "text[]", func(g *group) any { return g.events.by }},
		{"p_event_payload", "text[]", func(g *group) any { return g.events.payload }},
	}
	appendManySQL = callSQL("event_index, last_seq, last_at, gate, running, ops_rev, signal_no", "dvt_append_many",
		appendManyArguments)
)

// Plain implements store.Grouper. An entry is not plain if this process has not read the identity of its run yet.
func (s *Store) Plain(e store.Entry) (store.Plain, bool) {
	id, known := s.identities.Get(e.RunID())
	if !known {
		return nil, false
	}
	p, ok, err := plainOf(id, e)
	if err != nil || !ok {
		return nil, false
	}
	return &p, true
}

// Group implements store.Grouper in one statement. When the database refuses the data of one event, all results are nil
// and the caller writes the entries one by one.
func (s *Store) Group(ctx context.Context, prepared []store.Plain) ([]*store.EntryResult, error) {
	if len(prepared) > store.MaxEntries {
		return nil, fmt.Errorf("postgres: group of %d entries, at most %d", len(prepared), store.MaxEntries)
	}
	g := newGroup(len(prepared))
	for _, of := range prepared {
		p, own := of.(*plain)
		if !own {
			return nil, fmt.Errorf("postgres: the group contains a %T, which another store prepared", of)
		}
		g.add(p)
	}
	results := make([]*store.EntryResult, len(prepared))
	err := s.do(ctx, "append", func(ctx context.Context, conn *pgx.Conn) error {
		clear(results) // of an earlier try that was rolled back
		rows, err := conn.Query(ctx, appendManySQL, g.args()...)
		if err != nil {
			return err
		}
		return g.read(rows, results)
	})
	switch {
	case err == nil:
		return results, nil
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrOverloaded), ctx.Err() != nil:
		return nil, err
	}
	return make([]*store.EntryResult, len(prepared)), nil
}

// group is one execution of dvt_append_many: its arguments by column.
type group struct {
	plain               []*plain
	run                 []string
	minHead             []int64
	unlessGate, running []int32
	events              *columns
}

func newGroup(n int) *group {
	return &group{
		plain: make([]*plain, 0, n), run: make([]string, 0, n), minHead: make([]int64, 0, n),
		unlessGate: make([]int32, 0, n), running: make([]int32, 0, n), events: newColumns(n),
	}
}

func (g *group) add(p *plain) {
	g.plain, g.run, g.minHead = append(g.plain, p), append(g.run, p.event.RunID), append(g.minHead, int64(p.minHead))
	g.unlessGate, g.running = append(g.unlessGate, int32(p.unlessGate)), append(g.running, int32(p.running))
	g.events.add(&p.event)
}

func (g *group) args() []any { return valuesOf(appendManyArguments, g) }

// read stores the rows of dvt_append_many in results. An event without a row keeps nil.
func (g *group) read(rows pgx.Rows, results []*store.EntryResult) error {
	defer rows.Close()
	answers := make([]store.EntryResult, len(results))
	var index int // from 1
	var head store.Head
	targets := []any{&index, &head.LastSeq, utc{&head.LastAt}, &head.Gate, &head.Running, &head.OpsRev, &head.SignalNo}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		p := g.plain[index-1]
		head.RunID = p.event.RunID
		answers[index-1] = p.result(head)
		results[index-1] = &answers[index-1]
	}
	return rows.Err()
}
