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

// Append implements store.Log. It prepares the append before its turn to write, so that other writers do not wait for
// that.
func (s *Store) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	d, err := s.prepareAppend(ctx, a)
	if err != nil {
		return store.Appended{}, err
	}
	if err := s.writer.decide(ctx, d); err != nil {
		return store.Appended{}, err
	}
	return d.appendResult(), nil
}

// StartAttempt implements store.Log.
func (s *Store) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	d, err := s.prepareStart(ctx, b)
	if err != nil {
		return store.AttemptStarted{}, err
	}
	if err := s.writer.decide(ctx, d); err != nil {
		return store.AttemptStarted{}, err
	}
	return d.startResult(), nil
}

// decision is an append or a start of an attempt that waits for its turn. Its result depends only on the head of its
// run and on the facts, so the leader of a group can decide many together. Only one goroutine at a time may use it.
type decision struct {
	id     run.Identity
	append store.Append // the source of batch; zero for a start
	batch  authority.Batch
	decide func(store.Head, authority.Batch, authority.Facts, time.Time) (authority.Plan, error)
	heavy  *store.Bucket // a start that inserts takes a token from it

	// The result: the plan and the new head, or the error.
	plan     authority.Plan
	verdict  store.AttemptStarted // of a start
	head     store.Head
	err      error
	panicked any
}

func (s *Store) prepareAppend(ctx context.Context, a store.Append) (*decision, error) {
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

func (s *Store) prepareStart(ctx context.Context, b store.StartAttempt) (*decision, error) {
	id, err := s.identity(ctx, b.RunID)
	if err != nil {
		return nil, err
	}
	start, err := authority.PrepareStart(id, b)
	if err != nil {
		return nil, err
	}
	d := &decision{id: id, batch: start.Batch(), heavy: b.Heavy}
	d.decide = func(head store.Head, _ authority.Batch, f authority.Facts, now time.Time) (p authority.Plan, err error) {
		p, d.verdict = authority.DecideStart(head, start, f, now)
		return p, nil
	}
	return d, nil
}

func (d *decision) appendResult() store.Appended { return d.plan.Result(d.head) }

func (d *decision) startResult() store.AttemptStarted {
	out := d.verdict
	out.Head = d.head
	return out
}

func (d *decision) events() int { return max(1, len(d.batch.Keys())) }

// outcome returns the error for the caller of d after its group has ended with end. It repeats a panic of the decision
// in the caller.
func (d *decision) outcome(end error) error {
	if d.panicked != nil {
		panic(d.panicked)
	}
	return cmp.Or(d.err, end)
}

// set is a list of decisions that are made together: one statement reads their heads and one their facts; one each
// writes the events, the heads and the dirty marks. Except for tokens, nothing is written before all decisions are
// made. A later decision on the same run sees the results of the earlier ones.
type set struct {
	s         *Store
	conn      *conn
	decisions []*decision
	runs      map[string]*runOfSet
	order     []*runOfSet // in the order of their first decisions
}

// runOfSet is the run of one or more decisions of a set.
type runOfSet struct {
	runTx
	known  bool // the run exists
	facts  []run.Event
	end    *run.Event
	shared *index // the facts and the events that the set adds; nil for a single decision
}

// index finds events by key and by attempt.
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

// decideSet makes decisions in order and stores each result in its decision. An error means that the database failed,
// and the caller must roll back everything that the set wrote.
func (s *Store) decideSet(c *conn, decisions []*decision) error {
	ctx := context.Background() // the set belongs to many callers, so none of their contexts may end it
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
		if d.err = d.evaluate(ctx, r); d.err != nil {
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
			if err := g.runs[d.id.RunID].writeRest(ctx, d); err != nil {
				return err
			}
		}
	}
	return g.finish(ctx)
}

var headsOf = manyRows(`WITH want (run_id) AS (VALUES `, `(?)`, `) SELECT h.run_id, `+headColumns+`
	FROM want CROSS JOIN run_head h ON h.run_id = want.run_id`).withSingle(`SELECT run_id, ` + headColumns +
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
		want = appendWanted(want, d.id.RunID, d.batch)
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

// evaluate decides on r and updates r for the next decision of the set. It writes nothing except the token that it
// takes. It recovers a panic and keeps it for the caller of the decision.
func (d *decision) evaluate(ctx context.Context, r *runOfSet) (err error) {
	defer func() {
		if d.panicked = recover(); d.panicked != nil {
			err = errAbandoned
		}
	}()
	if !r.known {
		return notFound("head of run")
	}
	if d.batch, err = r.dropRepairedMinHead(ctx, d.append, d.batch); err != nil {
		return err
	}
	f := authority.Facts{Events: r.facts, End: r.end}
	if r.shared != nil {
		f.Events = r.shared.about(d.batch)
	}
	if d.plan, err = d.decide(r.head, d.batch, f, r.at); err != nil {
		return err
	}
	if wait, err := r.takeHeavyToken(ctx, d.heavy, d.plan); err != nil {
		return err
	} else if wait != 0 {
		d.plan, d.verdict = authority.Plan{Head: r.head, At: d.plan.At}, authority.ThrottledResult(r.head, wait)
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

// writeRest writes the rows of a decision other than its events, which are already written.
func (r *runOfSet) writeRest(ctx context.Context, d *decision) error {
	t := r.runTx
	t.old.OpsRev = r.head.OpsRev // so that each decision raises ops_rev once (contract T204)
	if err := t.writeRest(ctx, d.plan); err != nil {
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
		gate = excluded.gate, running = excluded.running, ops_rev = excluded.ops_rev, signal_no = excluded.signal_no`).withSingle(
		writeHead)
	markAllDirty = manyRows(`INSERT OR FAIL INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES `, `(?, ?, ?, ?)`,
		keepSince)
)

// finish writes the heads that changed and marks their runs dirty, as runTx.finish does for one run.
func (g *set) finish(ctx context.Context) error {
	var heads, marks []any
	for _, r := range g.order {
		h := r.head
		if h == r.old {
			continue
		}
		heads = append(heads, h.RunID, int64(h.LastSeq), micros(h.LastAt), h.Terminal, int64(h.Gate), int64(h.Running),
			h.OpsRev, h.SignalNo)
		if r.isDirty() {
			marks = append(marks, h.RunID, int64(h.LastSeq), h.OpsRev, micros(r.at))
		}
	}
	return errors.Join(writeHeads.exec(ctx, g.conn, "write heads", 8, heads),
		markAllDirty.exec(ctx, g.conn, "mark dirty", 4, marks))
}
