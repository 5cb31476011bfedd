package sqlite

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Append implements store.Log. What needs no lock is done before the turn.
func (s *Store) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	d, err := s.appending(ctx, a)
	if err != nil {
		return store.Appended{}, err
	}
	if err := s.writer.decide(ctx, d); err != nil {
		return store.Appended{}, err
	}
	return d.appended(), nil
}

// StartAttempt implements store.Log.
func (s *Store) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	d, err := s.beginning(ctx, b)
	if err != nil {
		return store.AttemptStarted{}, err
	}
	if err := s.writer.decide(ctx, d); err != nil {
		return store.AttemptStarted{}, err
	}
	return d.begun(), nil
}

// decision is an append or a begin that waits to be made: what comes of it is
// known from the head of its run and the facts alone, so a leader makes many
// together. One goroutine at a time has it.
type decision struct {
	id     run.Identity
	append store.Append // what batch was prepared of, for an append alone
	batch  authority.Batch
	decide func(store.Head, authority.Batch, authority.Facts, time.Time) (authority.Plan, error)
	heavy  *store.Bucket // of which a begin that inserts takes a token

	// What became of it: the plan and the head once it is carried out, or why not.
	plan     authority.Plan
	verdict  store.AttemptStarted // of a begin
	head     store.Head
	err      error
	panicked any
}

func (s *Store) appending(ctx context.Context, a store.Append) (*decision, error) {
	id, err := s.identity(ctx, a.RunID)
	if err != nil {
		return nil, err
	}
	batch, err := authority.Prepare(id, a)
	if err != nil {
		return nil, err
	}
	return &decision{id: id, append: a, batch: batch, decide: authority.Decide}, nil
}

func (s *Store) beginning(ctx context.Context, b store.StartAttempt) (*decision, error) {
	id, err := s.identity(ctx, b.RunID)
	if err != nil {
		return nil, err
	}
	beginning, err := authority.PrepareStart(id, b)
	if err != nil {
		return nil, err
	}
	d := &decision{id: id, batch: beginning.Batch(), heavy: b.Heavy}
	d.decide = func(head store.Head, _ authority.Batch, f authority.Facts, now time.Time) (p authority.Plan, err error) {
		p, d.verdict = authority.DecideStart(head, beginning, f, now)
		return p, nil
	}
	return d, nil
}

func (d *decision) appended() store.Appended { return d.plan.Appended(d.head) }

func (d *decision) begun() store.AttemptStarted {
	out := d.verdict
	out.Head = d.head
	return out
}

func (d *decision) events() int { return max(1, len(d.batch.Keys())) }

// outcome is what the caller of d is told, once its group has come to its end.
func (d *decision) outcome(end error) error {
	if d.panicked != nil {
		panic(d.panicked)
	}
	return cmp.Or(d.err, end)
}

// set is decisions that are made together: one statement reads their heads, one
// the facts, and one each writes the events, the heads and the marks. Nothing is
// written before all are decided but for tokens. A decision that follows others of its run
// decides on what they left.
type set struct {
	s         *Store
	conn      *conn
	decisions []*decision
	runs      map[string]*runOfSet
	order     []*runOfSet // as they were met
}

// runOfSet is the run of one or several decisions.
type runOfSet struct {
	runTx
	known  bool // there is such a run
	facts  []run.Event
	end    *run.Event
	shared *index // of the facts and of what the set adds, when there are several decisions
}

// index finds events by what a decision asks for.
type index struct {
	keys     map[run.Key]run.Event
	attempts map[authority.Attempt][]run.Event
}

func newIndex() *index {
	return &index{keys: map[run.Key]run.Event{}, attempts: map[authority.Attempt][]run.Event{}}
}

func (x *index) add(evs []run.Event) {
	for _, e := range evs {
		at := authority.Attempt{StepID: e.StepID, Logical: e.LogicalAttempt}
		x.keys[e.Key] = e
		x.attempts[at] = append(x.attempts[at], e)
	}
}

func (x *index) about(b authority.Batch) (evs []run.Event) {
	for _, key := range b.Keys() {
		if e, found := x.keys[key]; found {
			evs = append(evs, e)
		}
	}
	for _, at := range b.Attempts() {
		evs = append(evs, x.attempts[at]...)
	}
	return evs
}

// makeSet makes decisions in order. What became of each is in it; an error is one
// of the file, and what was written until then has to be taken back.
func (s *Store) makeSet(c *conn, decisions []*decision) error {
	ctx := context.Background() // it is everybody's
	g := &set{s: s, conn: c, decisions: decisions, runs: make(map[string]*runOfSet, len(decisions))}
	if err := g.readHeads(ctx); err != nil {
		return err
	}
	if err := g.readFacts(ctx); err != nil {
		return err
	}
	var inserts []any
	for _, d := range decisions {
		r := g.runs[d.id.RunID]
		if d.err = d.make(ctx, r); d.err != nil {
			continue
		}
		for _, e := range d.plan.Insert {
			inserts = eventValues(inserts, d.id.RunID, e)
		}
	}
	if err := insertEvents.exec(ctx, c, "insert events", eventWidth, inserts); err != nil {
		return err
	}
	for _, d := range decisions {
		if d.err == nil {
			if err := g.runs[d.id.RunID].settle(ctx, d); err != nil {
				return err
			}
		}
	}
	return g.finish(ctx)
}

var headsOf = manyRows(`WITH want (run_id) AS (VALUES `, `(?)`, `) SELECT h.run_id, `+headColumns+`
	FROM want CROSS JOIN run_head h ON h.run_id = want.run_id`).alone(`SELECT run_id, ` + headColumns +
	` FROM run_head WHERE run_id = ?`)

func (g *set) readHeads(ctx context.Context) error {
	ids := make([]any, 0, len(g.decisions))
	for _, d := range g.decisions {
		if r := g.runs[d.id.RunID]; r != nil {
			r.shared = newIndex()
			continue
		}
		r := &runOfSet{runTx: runTx{s: g.s, conn: g.conn, id: d.id}}
		g.runs[d.id.RunID] = r
		g.order = append(g.order, r)
		ids = append(ids, d.id.RunID)
	}
	now := g.s.now()
	return headsOf.query(ctx, g.conn, "heads of runs", 1, ids, func(row row) error {
		head, err := scanHead(row[1:])
		if err == nil {
			err = row.Scan(&head.RunID)
		}
		if err != nil {
			return err
		}
		r := g.runs[head.RunID]
		r.known, r.old, r.head, r.at = true, head, head, run.Latest(now, head.LastAt)
		return nil
	})
}

func (g *set) readFacts(ctx context.Context) error {
	want := make([]any, 0, 4*len(g.decisions))
	for _, d := range g.decisions {
		want = wanted(want, d.id.RunID, d.batch)
	}
	if err := factsOf.query(ctx, g.conn, "look up events", 4, want, func(row row) error {
		var runID string
		if err := row.Scan(&runID); err != nil {
			return err
		}
		e, err := scanEvent(row[1:])
		r := g.runs[runID]
		e.Identity = r.id
		r.facts = append(r.facts, e)
		return err
	}); err != nil {
		return err
	}
	for _, r := range g.order {
		var err error
		if r.end, err = r.runTx.end(ctx); err != nil {
			return err
		}
		if r.shared != nil {
			r.shared.add(r.facts)
		}
	}
	return nil
}

// make decides on r and leaves in r what the next decision finds. It writes
// nothing but the token that it takes; a panic is kept for the caller of the decision.
func (d *decision) make(ctx context.Context, r *runOfSet) (err error) {
	defer func() {
		if d.panicked = recover(); d.panicked != nil {
			err = errAbandoned
		}
	}()
	if !r.known {
		return notFound("head of run")
	}
	if d.batch, err = r.forgive(ctx, d.append, d.batch); err != nil {
		return err
	}
	f := authority.Facts{Events: r.facts, End: r.end}
	if r.shared != nil {
		f.Events = r.shared.about(d.batch)
	}
	if d.plan, err = d.decide(r.head, d.batch, f, r.at); err != nil {
		return err
	}
	if wait, err := r.pay(ctx, d.heavy, d.plan); err != nil {
		return err
	} else if wait != 0 {
		d.plan, d.verdict = authority.Plan{Head: r.head, At: d.plan.At}, authority.Throttled(r.head, wait)
	}
	r.advance(d.plan)
	if r.shared != nil {
		r.shared.add(d.plan.Insert)
	}
	if d.plan.EndsRun {
		for i := range d.plan.Insert {
			if e := &d.plan.Insert[i]; e.Type.EndsRun() {
				r.end = e
			}
		}
	}
	return nil
}

// settle writes what else belongs to a decision, whose events are written.
func (r *runOfSet) settle(ctx context.Context, d *decision) error {
	t := r.runTx
	t.old.OpsRev = r.head.OpsRev // each decision counts once (T204)
	if err := t.settle(ctx, d.plan); err != nil {
		return err
	}
	r.head.OpsRev = t.head.OpsRev
	d.head = d.plan.Head
	d.head.OpsRev = r.head.OpsRev
	return nil
}

var (
	writeHeads = manyRows(`INSERT OR FAIL INTO run_head (run_id, `+headColumns+`) VALUES `, `(?, ?, ?, ?, ?, ?, ?, ?)`,
		` ON CONFLICT (run_id) DO UPDATE SET last_seq = excluded.last_seq, last_at = excluded.last_at, terminal = excluded.terminal,
		gate = excluded.gate, running = excluded.running, ops_rev = excluded.ops_rev, signal_no = excluded.signal_no`).alone(
		writeHead)
	markAllDirty = manyRows(`INSERT OR FAIL INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES `, `(?, ?, ?, ?)`,
		keepSince)
)

// finish writes the heads that moved and marks their runs dirty, as runTx does.
func (g *set) finish(ctx context.Context) error {
	var heads, marks []any
	for _, r := range g.order {
		h := r.head
		if h == r.old {
			continue
		}
		heads = append(heads, h.RunID, int64(h.LastSeq), micros(h.LastAt), h.Terminal, int64(h.Gate), int64(h.Running),
			h.OpsRev, h.SignalNo)
		if r.moved() {
			marks = append(marks, h.RunID, int64(h.LastSeq), h.OpsRev, micros(r.at))
		}
	}
	return errors.Join(writeHeads.exec(ctx, g.conn, "write heads", 8, heads),
		markAllDirty.exec(ctx, g.conn, "mark dirty", 4, marks))
}
