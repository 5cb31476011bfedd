package sqlite

import (
	"context"
	"database/sql"
	"errors"
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
	sql  *sql.Tx
	run  store.Run
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
	return s.write(ctx, "run transaction", func(tx *sql.Tx) error {
		t, err := s.lock(ctx, tx, runID)
		if err != nil {
			return err
		}
		if err := f(t); err != nil {
			return err
		}
		return t.finish(ctx)
	})
}

// lock reads the head that the write transaction already owns.
func (s *Store) lock(ctx context.Context, tx *sql.Tx, runID string) (*runTx, error) {
	r, err := scanRun(tx.QueryRowContext(ctx, `SELECT `+runColumns+` FROM run WHERE run_id = ?`, runID))
	if err != nil {
		return nil, s.failed("run "+runID, err)
	}
	head, err := scanHead(tx.QueryRowContext(ctx, `SELECT `+headColumns+` FROM run_head WHERE run_id = ?`, runID))
	if err != nil {
		return nil, s.failed("head of run "+runID, err)
	}
	return s.begin(tx, r, head), nil
}

func (s *Store) begin(tx *sql.Tx, r store.Run, head store.Head) *runTx {
	at := s.now()
	if head.LastAt.After(at) {
		at = head.LastAt
	}
	return &runTx{s: s, sql: tx, run: r, old: head, head: head, at: at}
}

// finish writes the head and marks the run dirty when anything moved (T189, T204).
func (t *runTx) finish(ctx context.Context) error {
	if t.head == t.old {
		return nil
	}
	h := t.head
	if err := t.exec(ctx, "write head", `UPDATE run_head SET last_seq = ?, last_at = ?, terminal = ?, gate = ?, running = ?,
		ops_rev = ?, signal_no = ? WHERE run_id = ?`,
		h.LastSeq, micros(h.LastAt), h.Terminal, h.Gate, h.Running, h.OpsRev, h.SignalNo, h.RunID); err != nil {
		return err
	}
	if h.LastSeq == t.old.LastSeq && h.OpsRev == t.old.OpsRev {
		return nil
	}
	return t.exec(ctx, "mark dirty", markDirty, h.RunID, h.LastSeq, h.OpsRev, micros(t.at))
}

// markDirty keeps the oldest since (T189).
const markDirty = `INSERT INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES (?, ?, ?, ?)
	ON CONFLICT (run_id) DO UPDATE SET head_seq = excluded.head_seq, ops_rev = excluded.ops_rev`

// ops notes a change of receipts, queue or delivery, once a transaction (T204).
func (t *runTx) ops() { t.head.OpsRev = t.old.OpsRev + 1 }

// touch is ops for writes that need nothing else of the run.
func (s *Store) touch(ctx context.Context, tx *sql.Tx, runID string) error {
	row := tx.QueryRowContext(ctx, `UPDATE run_head SET ops_rev = ops_rev + 1 WHERE run_id = ? RETURNING `+headColumns, runID)
	h, err := scanHead(row)
	if err != nil {
		return s.failed("head of run "+runID, err)
	}
	_, err = tx.ExecContext(ctx, markDirty, runID, h.LastSeq, h.OpsRev, micros(s.now()))
	return s.failed("mark dirty", err)
}

func (t *runTx) exec(ctx context.Context, what, query string, args ...any) error {
	_, err := t.count(ctx, what, query, args...)
	return err
}

// count is exec that tells how many rows changed.
func (t *runTx) count(ctx context.Context, what, query string, args ...any) (int64, error) {
	res, err := t.sql.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, t.s.failed(what, err)
	}
	n, err := res.RowsAffected()
	return n, t.s.failed(what, err)
}

// Head implements store.LogTx.
func (t *runTx) Head() store.Head { return t.head }

// State implements store.LogTx.
func (t *runTx) State(ctx context.Context) (run.State, error) {
	l, err := t.s.load(ctx, t.sql, t.run.RunID)
	return l.State, err
}

// Append implements store.LogTx.
func (t *runTx) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	if a.RunID != "" && a.RunID != t.run.RunID {
		return store.Appended{}, fmt.Errorf("sqlite: append to run %s under the lock of run %s", a.RunID, t.run.RunID)
	}
	var err error
	if a.MinHead, err = t.forgiven(ctx, a.MinHead); err != nil {
		return store.Appended{}, err
	}
	batch, err := authority.Prepare(t.run.Identity, a)
	if err != nil {
		return store.Appended{}, err
	}
	facts, err := t.facts(ctx, batch)
	if err != nil {
		return store.Appended{}, err
	}
	plan, err := authority.Decide(t.head, batch, facts, t.at)
	if err != nil {
		return store.Appended{}, err
	}
	for i, o := range plan.Outcomes {
		if o.PayloadMismatch {
			t.s.log.WarnContext(ctx, "append repeated with another payload; the first one stays",
				slog.String("runId", t.run.RunID), slog.Int64("runSeq", int64(o.Seq)), slog.String("eventType", string(a.Events[i].Type)))
		}
	}
	if err := t.carryOut(ctx, plan); err != nil {
		return store.Appended{}, err
	}
	return plan.Appended(t.head), nil
}

func (t *runTx) begin(ctx context.Context, b store.Begin) (store.Begun, error) {
	beginning, err := authority.PrepareBegin(t.run.Identity, b)
	if err != nil {
		return store.Begun{}, err
	}
	facts, err := t.facts(ctx, beginning.Batch())
	if err != nil {
		return store.Begun{}, err
	}
	plan, begun := authority.DecideBegin(t.head, beginning, facts, t.at)
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

func (t *runTx) insert(ctx context.Context, e run.Event) error {
	return t.exec(ctx, "insert event", `INSERT INTO event (run_id, `+eventColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.run.RunID, e.Seq, e.Key, e.EventID, e.Type, e.StepID, e.SignalID, e.LogicalAttempt, e.EngineAttempt,
		micros(e.EmittedAt), micros(e.PersistedAt), e.EmittedBy, blob(e.Payload))
}

// facts reads what the log holds about a batch.
func (t *runTx) facts(ctx context.Context, b authority.Batch) (authority.Facts, error) {
	var f authority.Facts
	add := func(query string, args ...any) error {
		evs, err := queryEvents(ctx, t.sql, t.run.Identity, query, args...)
		f.Events = append(f.Events, evs...)
		return t.s.failed("look up events", err)
	}
	for _, key := range b.Keys() {
		if err := add(`SELECT `+eventColumns+` FROM event WHERE run_id = ? AND key = ?`, t.run.RunID, key); err != nil {
			return f, err
		}
	}
	for _, a := range b.Attempts() {
		if err := add(`SELECT `+eventColumns+` FROM event WHERE run_id = ? AND step_id = ? AND step_id <> '' AND la = ?
			AND type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped')`,
			t.run.RunID, a.StepID, a.Logical); err != nil {
			return f, err
		}
	}
	if !t.head.Terminal {
		return f, nil
	}
	end, err := scanEvent(t.sql.QueryRowContext(ctx, `SELECT `+eventColumns+` FROM event
		WHERE run_id = ? AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled')`, t.run.RunID), t.run.Identity)
	if errors.Is(err, sql.ErrNoRows) {
		return f, nil
	}
	f.End = &end
	return f, t.s.failed("look up the end of the run", err)
}

// Audit implements store.RunTx.
func (t *runTx) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return t.s.audit(ctx, t.sql, t.at, rows)
}
