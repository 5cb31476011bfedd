package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// runTx is one decision about a run inside a write transaction, which holds all heads. finish writes the head once.
type runTx struct {
	s    *Store
	conn *conn
	id   run.Identity
	old  store.Head
	head store.Head
	at   time.Time // not before the last event (contract T18)
}

var _ store.RunTx = (*runTx)(nil)

// InRun implements store.Transactor.
func (s *Store) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	return s.inRun(ctx, runID, func(t *runTx) error { return f(t) })
}

func (s *Store) inRun(ctx context.Context, runID string, f func(*runTx) error) error {
	id, err := s.identity(ctx, runID)
	if err != nil {
		return err
	}
	return s.inRunOf(ctx, id, f)
}

func (s *Store) inRunOf(ctx context.Context, id run.Identity, f func(*runTx) error) error {
	return s.write(ctx, func(c *conn) error {
		head, err := collectOne(ctx, c, "head of run", scanHead, headSQL, id.RunID)
		if err != nil {
			return err
		}
		head.RunID = id.RunID
		t := s.begin(c, id, head)
		if err := f(t); err != nil {
			return err
		}
		return t.finish(ctx)
	})
}

const headSQL = `SELECT ` + headColumns + ` FROM run_head WHERE run_id = ?`

// begin starts a decision about the run with this head. The caller holds the write transaction.
func (s *Store) begin(c *conn, id run.Identity, head store.Head) *runTx {
	return &runTx{s: s, conn: c, id: id, old: head, head: head, at: run.Latest(s.now(), head.LastAt)}
}

const writeHead = `UPDATE run_head SET last_seq = ?2, last_at = ?3, terminal = ?4, gate = ?5, running = ?6, ops_rev = ?7, signal_no = ?8 WHERE run_id = ?1`

// finish writes the head if it changed, and marks the run dirty if there is something to publish (contracts T189,
// T204).
func (t *runTx) finish(ctx context.Context) error {
	if t.head == t.old {
		return nil
	}
	h := t.head
	if _, err := t.conn.exec(ctx, "write head", writeHead,
		h.RunID, h.LastSeq, micros(h.LastAt), h.Terminal, h.Gate, h.Running, h.OpsRev, h.SignalNo); err != nil {
		return err
	}
	if !t.isDirty() {
		return nil
	}
	return t.markDirty(ctx)
}

// isDirty reports whether there is something to publish.
func (t *runTx) isDirty() bool {
	return t.head.LastSeq != t.old.LastSeq || t.head.OpsRev != t.old.OpsRev
}

func (t *runTx) markDirty(ctx context.Context) error {
	_, err := t.conn.exec(ctx, "mark dirty", markDirty, t.head.RunID, t.head.LastSeq, t.head.OpsRev, micros(t.at))
	return err
}

// bumpOpsRev records a change of receipts, queue or delivery. It raises OpsRev at most once per transaction (contract
// T204).
func (t *runTx) bumpOpsRev() { t.head.OpsRev = t.old.OpsRev + 1 }

// touch is bumpOpsRev for writes without a runTx.
func (s *Store) touch(ctx context.Context, c *conn, runID string) error {
	h, err := collectOne(
		ctx, c, "head of run", scanHead, `UPDATE run_head SET ops_rev = ops_rev + 1 WHERE run_id = ? RETURNING `+
			headColumns, runID)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, "mark dirty", markDirty, runID, h.LastSeq, h.OpsRev, micros(s.now()))
	return err
}

// Head implements store.LogTx.
func (t *runTx) Head() store.Head { return t.head }

// State implements store.LogTx.
func (t *runTx) State(ctx context.Context) (run.State, error) {
	l, _, err := load(ctx, t.conn, t.id.RunID, 0, atHead)
	return l.State, err
}

// Append implements store.LogTx.
func (t *runTx) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	if a.RunID != "" && a.RunID != t.id.RunID {
		return store.Appended{}, fmt.Errorf("sqlite: append to run %s under the lock of run %s", a.RunID, t.id.RunID)
	}
	batch, err := authority.Prepare(t.id, a)
	if err != nil {
		return store.Appended{}, err
	}
	return t.append(ctx, a, batch)
}

// append decides about batch, which was prepared from a, and writes the plan.
func (t *runTx) append(ctx context.Context, a store.Append, batch authority.Batch) (out store.Appended, err error) {
	if batch, err = t.dropRepairedMinHead(ctx, a, batch); err != nil {
		return out, err
	}
	facts, err := t.facts(ctx, batch)
	if err != nil {
		return out, err
	}
	plan, err := authority.Decide(t.head, batch, facts, t.at)
	if err != nil {
		return out, err
	}
	if err := t.writePlan(ctx, plan); err != nil {
		return out, err
	}
	return plan.Result(t.head), nil
}

// dropRepairedMinHead returns batch, which was prepared from a. If a repair made the MinHead of a void, it returns a
// batch without it.
func (t *runTx) dropRepairedMinHead(ctx context.Context, a store.Append,
	batch authority.Batch) (authority.Batch, error) {
	if a.MinHead <= t.head.LastSeq {
		return batch, nil
	}
	var err error
	if a.MinHead, err = t.repairedMinHead(ctx, a.MinHead); err != nil {
		return batch, err
	}
	return authority.Prepare(t.id, a)
}

// writePlan writes a plan.
func (t *runTx) writePlan(ctx context.Context, p authority.Plan) error {
	t.advance(p)
	if err := t.insert(ctx, p.Insert); err != nil {
		return err
	}
	return t.writeRest(ctx, p)
}

// advance sets the head to that of a plan. OpsRev is not part of plans.
func (t *runTx) advance(p authority.Plan) {
	opsRev := t.head.OpsRev
	t.head = p.Head
	t.head.OpsRev = opsRev
}

// writeRest writes the parts of a plan other than its events.
func (t *runTx) writeRest(ctx context.Context, p authority.Plan) error {
	if err := t.moveReceipts(ctx, p); err != nil {
		return err
	}
	return t.Audit(ctx, p.Audit...)
}

// insertEvents uses OR FAIL, which keeps the rows before a refused one. Its callers roll back all of their work then,
// so SQLite need not journal how to undo a single statement.
var insertEvents = manyRows(`INSERT OR FAIL INTO event (run_id, `+eventColumns+`) VALUES `,
	`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``)

const eventWidth = 13

// eventValues appends the column values of an event.
func eventValues(args []any, runID string, e run.Event) []any {
	return append(args, runID, int64(e.Seq), string(e.Key), e.EventID, string(e.Type), e.StepID, e.SignalID,
		int64(e.LogicalAttempt), int64(e.EngineAttempt),
		micros(e.EmittedAt), micros(e.PersistedAt), string(e.EmittedBy), blob(e.Payload))
}

func (t *runTx) insert(ctx context.Context, evs []run.Event) error {
	for part := range slices.Chunk(evs, maxRows) {
		args := make([]any, 0, eventWidth*len(part))
		for _, e := range part {
			args = eventValues(args, t.id.RunID, e)
		}
		if err := insertEvents.exec(ctx, t.conn, "insert events", eventWidth, args); err != nil {
			return err
		}
	}
	return nil
}

// Audit implements store.RunTx.
func (t *runTx) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return audit(ctx, t.conn, t.at, rows)
}
