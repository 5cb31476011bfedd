package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// runTx is one decision under the head lock of one run. The head is written once,
// by finish.
type runTx struct {
	s    *Store
	conn *conn
	id   run.Identity
	old  store.Head
	head store.Head
	at   time.Time // never before the head's last time (T18)
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
		head, err := one(ctx, c, "head of run", scanHead, headSQL, id.RunID)
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

// begin starts a decision on the head that the write transaction owns.
func (s *Store) begin(c *conn, id run.Identity, head store.Head) *runTx {
	at := s.now()
	if head.LastAt.After(at) {
		at = head.LastAt
	}
	return &runTx{s: s, conn: c, id: id, old: head, head: head, at: at}
}

const writeHead = `UPDATE run_head SET last_seq = ?, last_at = ?, terminal = ?, gate = ?, running = ?, ops_rev = ?, signal_no = ? WHERE run_id = ?`

// finish writes the head and marks the run dirty when anything moved (T189, T204).
func (t *runTx) finish(ctx context.Context) error {
	if t.head == t.old {
		return nil
	}
	h := t.head
	if _, err := t.conn.exec(ctx, "write head", writeHead,
		h.LastSeq, micros(h.LastAt), h.Terminal, h.Gate, h.Running, h.OpsRev, h.SignalNo, h.RunID); err != nil {
		return err
	}
	if h.LastSeq == t.old.LastSeq && h.OpsRev == t.old.OpsRev {
		return nil
	}
	return t.markDirty(ctx)
}

func (t *runTx) markDirty(ctx context.Context) error {
	_, err := t.conn.exec(ctx, "mark dirty", markDirty, t.head.RunID, t.head.LastSeq, t.head.OpsRev, micros(t.at))
	return err
}

// ops notes a change of receipts, queue or delivery, once a transaction (T204).
func (t *runTx) ops() { t.head.OpsRev = t.old.OpsRev + 1 }

// touch is ops for writes that need nothing else of the run.
func (s *Store) touch(ctx context.Context, c *conn, runID string) error {
	h, err := one(ctx, c, "head of run", scanHead, `UPDATE run_head SET ops_rev = ops_rev + 1 WHERE run_id = ? RETURNING `+headColumns, runID)
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

// append decides and writes the batch that was prepared of a.
func (t *runTx) append(ctx context.Context, a store.Append, batch authority.Batch) (out store.Appended, err error) {
	if a.MinHead > t.head.LastSeq {
		if a.MinHead, err = t.forgiven(ctx, a.MinHead); err != nil {
			return out, err
		}
		if batch, err = authority.Prepare(t.id, a); err != nil {
			return out, err
		}
	}
	facts, err := t.facts(ctx, batch)
	if err != nil {
		return out, err
	}
	plan, err := authority.Decide(t.head, batch, facts, t.at)
	if err != nil {
		return out, err
	}
	for i, o := range plan.Outcomes {
		if o.PayloadMismatch {
			t.s.log.WarnContext(ctx, "append repeated with another payload; the first one stays",
				slog.String("runId", t.id.RunID), slog.Int64("runSeq", int64(o.Seq)), slog.String("eventType", string(a.Events[i].Type)))
		}
	}
	if err := t.carryOut(ctx, plan); err != nil {
		return out, err
	}
	return plan.Appended(t.head), nil
}

func (t *runTx) begin(ctx context.Context, b authority.Beginning) (store.Begun, error) {
	facts, err := t.facts(ctx, b.Batch())
	if err != nil {
		return store.Begun{}, err
	}
	plan, begun := authority.DecideBegin(t.head, b, facts, t.at)
	if err := t.carryOut(ctx, plan); err != nil {
		return store.Begun{}, err
	}
	begun.Head = t.head
	return begun, nil
}

// carryOut writes a plan.
func (t *runTx) carryOut(ctx context.Context, p authority.Plan) error {
	opsRev := t.head.OpsRev
	t.head = p.Head
	t.head.OpsRev = opsRev
	for _, e := range p.Insert {
		if err := t.insert(ctx, e); err != nil {
			return err
		}
	}
	if err := t.moveReceipts(ctx, p); err != nil {
		return err
	}
	return t.Audit(ctx, p.Audit...)
}

const insertEvent = `INSERT INTO event (run_id, ` + eventColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (t *runTx) insert(ctx context.Context, e run.Event) error {
	_, err := t.conn.exec(ctx, "insert event", insertEvent,
		t.id.RunID, e.Seq, e.Key, e.EventID, e.Type, e.StepID, e.SignalID, e.LogicalAttempt, e.EngineAttempt,
		micros(e.EmittedAt), micros(e.PersistedAt), e.EmittedBy, blob(e.Payload))
	return err
}

// Audit implements store.RunTx.
func (t *runTx) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return audit(ctx, t.conn, t.at, rows)
}
