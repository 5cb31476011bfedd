package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const beginSQL = `begin isolation level read committed`

// limitsSQL sets the server's limits for one transaction only, because a session may be shared through a pooler
// (contract T203).
const limitsSQL = `SELECT set_config('statement_timeout', $1, true),
  set_config('idle_in_transaction_session_timeout', $2, true)`

func queueBegin(b *pgx.Batch) {
	b.Queue(beginSQL)
	b.Queue(limitsSQL, milliseconds(callTimeout), milliseconds(idleTimeout))
}

// inTx runs f in a transaction and commits if f returns nil. What f puts into last is sent together with the commit.
func (s *Store) inTx(ctx context.Context, what string,
	f func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		var begin, last pgx.Batch
		queueBegin(&begin)
		if err := c.SendBatch(ctx, &begin).Close(); err != nil {
			return err
		}
		if err := f(ctx, c, &last); err != nil {
			return err
		}
		last.Queue(`commit`)
		return c.SendBatch(ctx, &last).Close()
	})
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// lockSQL locks the head. The subquery ensures that the clock is read after the lock is taken: in a flat query the
// planner would read it before (contract T18).
const lockSQL = `SELECT l.*, clock_timestamp() FROM (
  SELECT r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
    h.last_seq, h.last_at, h.terminal, h.gate, h.running, h.ops_rev, h.signal_no
  FROM run_head h JOIN run r USING (run_id) WHERE h.run_id = $1 FOR UPDATE OF h) l`

// tx is one transaction that holds the head lock of one run. It queues writes and sends them together, at the latest
// with the commit.
type tx struct {
	conn   *pgx.Conn
	id     run.Identity
	locked store.Head // when the lock was taken
	stored store.Head // now in the table
	head   store.Head // after the commit, except for OpsRev
	now    time.Time  // the store's clock after the lock was taken
	ops    bool       // operational state changed, so OpsRev grows by one (contract T204)
	batch  pgx.Batch
	alerts *store.AlertRoom
}

// withHeadLock runs f under the head lock of a run and commits if f returns nil. After a deadlock, which rolls
// everything back, it runs f again. It returns store.ErrNotFound for an unknown run.
func (s *Store) withHeadLock(ctx context.Context, what, runID string, f func(context.Context, *tx) error) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		t := &tx{conn: c, id: run.Identity{RunID: runID}, locked: store.Head{RunID: runID}, alerts: &s.alertRoom}
		queueBegin(&t.batch)
		h := &t.locked
		t.batch.Queue(lockSQL, runID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&t.id.TenantID, &t.id.ProjectID, &t.id.EnvironmentID, &t.id.PlanID, &t.id.PlanVersion,
				&h.LastSeq, utc{&h.LastAt}, &h.Terminal, &h.Gate, &h.Running, &h.OpsRev, &h.SignalNo, utc{&t.now})
		})
		if err := t.flush(ctx); err != nil {
			return err
		}
		t.stored, t.head = t.locked, t.locked
		if err := f(ctx, t); err != nil {
			return err
		}
		return t.commit(ctx)
	})
}

// flush sends the queued statements in one round trip and reads their results.
func (t *tx) flush(ctx context.Context) error {
	if t.batch.Len() == 0 {
		return nil
	}
	b := t.batch
	t.batch = pgx.Batch{}
	return t.conn.SendBatch(ctx, &b).Close()
}

// setHead takes over the head that dvt_append wrote.
func (t *tx) setHead(h store.Head) {
	t.stored = h
	h.SignalNo = t.head.SignalNo
	t.head = h
}

// commit writes the changes of the head and the dirty mark that dvt_append has not written, and commits.
func (t *tx) commit(ctx context.Context) error {
	if t.head = t.current(); t.head != t.stored {
		t.batch.Queue(`UPDATE run_head SET ops_rev = $2, signal_no = $3 WHERE run_id = $1`, t.id.RunID, t.head.OpsRev,
			t.head.SignalNo)
		t.batch.Queue(dirtySQL, t.id.RunID, t.head.LastSeq, t.head.OpsRev, t.at())
	}
	t.batch.Queue(`commit`)
	return t.flush(ctx)
}

// dirtySQL keeps the oldest since, because the lag of the projection is measured from it (contract T189).
const dirtySQL = `INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since) VALUES ($1, $2, $3, $4)
  ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq),
    ops_rev = greatest(d.ops_rev, excluded.ops_rev)`

// current returns the head as it would be committed now.
func (t *tx) current() store.Head {
	h := t.head
	if t.ops {
		h.OpsRev = t.locked.OpsRev + 1
	}
	return h
}

// at returns the time of everything that this transaction writes: the clock after the lock, but not before the last
// event.
func (t *tx) at() time.Time {
	if t.head.LastAt.After(t.now) {
		return t.head.LastAt
	}
	return t.now
}

// rowsAffected passes the number of rows that a queued statement changed to set.
func rowsAffected(set func(int64)) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		set(tag.RowsAffected())
		return nil
	}
}

// InRun implements store.Transactor.
func (s *Store) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	err := s.withHeadLock(ctx, "in run", runID, func(_ context.Context, t *tx) error {
		if err := f(runTx{t}); err != nil {
			return &ownError{err}
		}
		return nil
	})
	if own := (*ownError)(nil); errors.As(err, &own) {
		return own.err
	}
	return err
}

// ownError marks an error of the caller's function, which translate does not change.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }
func (e *ownError) Unwrap() error { return e.err }

// runTx is the view of a tx that a caller of InRun gets.
type runTx struct{ t *tx }

var _ store.RunTx = runTx{}

// Head implements store.LogTx.
func (r runTx) Head() store.Head { return r.t.current() }

// State implements store.LogTx.
func (r runTx) State(ctx context.Context) (run.State, error) {
	if err := r.t.flush(ctx); err != nil {
		return run.State{}, translate(ctx, err)
	}
	l, _, err := load(ctx, r.t.conn, r.t.id.RunID, 0, atHead)
	return l.State, translate(ctx, err)
}

// Append implements store.LogTx.
func (r runTx) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := r.t.append(ctx, a)
	return out, translate(ctx, err)
}

// Audit implements store.RunTx.
func (r runTx) Audit(_ context.Context, rows ...store.AuditRow) error {
	queueAudit(&r.t.batch, rows)
	return nil
}
