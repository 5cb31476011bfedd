package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
	"github.com/dvt-engine/dvt/store/storetest"
)

const oldSQL = "testdata/v1.sql"

// old is the program of schema 1: it sends the statements that the program sent,
// in the same round trips and with the same driver settings.
type old struct {
	pool *pgxpool.Pool
	sql  map[string]string
}

func openOld(t *testing.T, dsn string) *old {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &old{pool: pool, sql: storetest.Statements(t, oldSQL)}
}

// do lends a connection and repeats what a deadlock undid, as the program did.
func (o *old) do(ctx context.Context, f func(c *pgx.Conn) error) error {
	for try := 1; ; try++ {
		conn, err := o.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		err = f(conn.Conn())
		if conn.Conn().PgConn().TxStatus() != 'I' {
			_, _ = conn.Exec(context.WithoutCancel(ctx), "rollback")
		}
		conn.Release()
		if !repeatable(err) || try == 5 {
			return err
		}
	}
}

func (o *old) begin(b *pgx.Batch) {
	b.Queue(o.sql["beginSQL"])
	b.Queue(o.sql["limitsSQL"], "30000", "10000")
}

func (o *old) create(ctx context.Context, id run.Identity) error {
	return o.do(ctx, func(c *pgx.Conn) error {
		var first, rest pgx.Batch
		var at time.Time
		o.begin(&first)
		first.Queue(o.sql["insertRunSQL"], id.RunID, id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion,
			"request of "+id.RunID, id.RunID, `{}`, "ola", "api", "", nil, `{}`, nil).QueryRow(
			func(row pgx.Row) error { return row.Scan(&at) })
		if err := c.SendBatch(ctx, &first).Close(); err != nil {
			return err
		}
		rest.Queue(o.sql["putPlanSQL"], "sha", []byte(`{}`))
		rest.Queue(o.sql["insertRun"], id.RunID)
		rest.Queue(o.sql["CreateRun"], id.RunID, id.TenantID, at)
		rest.Queue(o.sql["queueAudit"], "", id.TenantID, "ola", "START", id.RunID, "", "ACCEPTED", "", "", "", nil)
		rest.Queue(o.sql["dirtySQL"], id.RunID, 0, 0, at)
		rest.Queue(o.sql["commit2"])
		return c.SendBatch(ctx, &rest).Close()
	})
}

// append is lock, look up, write and commit in three round trips.
func (o *old) append(ctx context.Context, a store.Append) error {
	return o.do(ctx, func(c *pgx.Conn) error {
		var lock, look, write pgx.Batch
		id, h := run.Identity{RunID: a.RunID}, store.Head{RunID: a.RunID}
		var now time.Time
		o.begin(&lock)
		lock.Queue(o.sql["lockSQL"], a.RunID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&id.TenantID, &id.ProjectID, &id.EnvironmentID, &id.PlanID, &id.PlanVersion,
				&h.LastSeq, utc{&h.LastAt}, &h.Terminal, &h.Gate, &h.Running, &h.OpsRev, &h.SignalNo, utc{&now})
		})
		if err := c.SendBatch(ctx, &lock).Close(); err != nil {
			return err
		}
		b, err := authority.Prepare(id, a)
		if err != nil {
			return err
		}
		var f authority.Facts
		collect := func(rows pgx.Rows) error {
			evs, err := scanEvents(rows, id)
			f.Events = append(f.Events, evs...)
			return err
		}
		look.Queue(o.sql["factsByKeySQL"], a.RunID, b.Keys()).Query(collect)
		var steps []string
		var attempts []int32
		for _, at := range b.Attempts() {
			steps, attempts = append(steps, at.StepID), append(attempts, int32(at.Logical))
		}
		look.Queue(o.sql["factsBegunSQL"], a.RunID, steps, attempts).Query(collect)
		look.Queue(o.sql["factsTerminalSQL"], a.RunID, steps, attempts).Query(collect)
		if h.Terminal {
			look.Queue(o.sql["factsEndSQL"], a.RunID).Query(func(rows pgx.Rows) error {
				evs, err := scanEvents(rows, id)
				if len(evs) > 0 {
					f.End = &evs[0]
				}
				return err
			})
		}
		if err := c.SendBatch(ctx, &look).Close(); err != nil {
			return err
		}
		p, err := authority.Decide(h, b, f, now)
		if err != nil {
			return err
		}
		if len(p.Insert) > 0 {
			n := newColumns(len(p.Insert))
			for i := range p.Insert {
				n.add(&p.Insert[i])
			}
			write.Queue(o.sql["insertEventsSQL"], a.RunID, n.seq, n.id, n.key, n.kind, n.step, n.signal, n.la, n.ea, n.emitted,
				n.persisted, n.by, n.payload)
			write.Queue(o.sql["commit"], a.RunID, p.Head.LastSeq, p.Head.LastAt, p.Head.Terminal, p.Head.Gate, p.Head.Running,
				p.Head.OpsRev, p.Head.SignalNo)
			write.Queue(o.sql["dirtySQL"], a.RunID, p.Head.LastSeq, p.Head.OpsRev, p.Head.LastAt)
		}
		write.Queue(o.sql["commit2"])
		return c.SendBatch(ctx, &write).Close()
	})
}

// load reads checkpoint and tail, and folds.
func (o *old) load(ctx context.Context, runID string) (l store.Loaded, err error) {
	err = o.do(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, o.sql["loadSQL"], runID, run.ReducerRev)
		if err != nil {
			return err
		}
		defer rows.Close()
		l = store.Loaded{}
		var checkpoint run.State
		var tail []run.Event
		for rows.Next() {
			var kind int
			var n int64
			var doc json.RawMessage
			var id, key, event, step, signal, by *string
			var la, ea *int
			var emitted, persisted time.Time
			if err := rows.Scan(&kind, &n, verbatim{&doc}, &id, &key, &event, &step, &signal, &la, &ea, utc{&emitted},
				utc{&persisted}, &by); err != nil {
				return err
			}
			switch kind {
			case 0:
				var facts store.Run
				err = errors.Join(json.Unmarshal(doc, &l.Head), json.Unmarshal(doc, &facts))
				l.Head.RunID, facts.RunID, facts.CreatedAt = runID, runID, facts.CreatedAt.UTC()
				checkpoint = authority.Base(facts)
			case 1:
				checkpoint.Header = run.Header{}
				err = json.Unmarshal(doc, &checkpoint.Header)
			case 2:
				s := &run.Step{}
				checkpoint.Steps, err = append(checkpoint.Steps, s), json.Unmarshal(doc, s)
			default:
				tail = append(tail, run.Event{Identity: checkpoint.Identity, EventID: *id, Type: run.EventType(*event),
					Seq: run.Seq(n), Key: run.Key(*key),
					StepID: *step, SignalID: *signal, LogicalAttempt: *la, EngineAttempt: *ea, EmittedAt: emitted,
					PersistedAt: persisted,
					EmittedBy:   run.Producer(*by), Payload: doc})
			}
			if err != nil {
				return err
			}
		}
		l = authority.Fold(l, checkpoint, tail)
		return rows.Err()
	})
	return l, err
}

func (o *old) save(ctx context.Context, st run.State, c run.Changes) error {
	return o.do(ctx, func(conn *pgx.Conn) error {
		var rev *int
		var seq *run.Seq
		if err := conn.QueryRow(ctx, o.sql["save"], st.RunID).Scan(&rev, &seq); err != nil {
			return err
		}
		base := run.Seq(-1)
		if rev != nil && *rev == st.Rev {
			if base = *seq; base >= st.Seq {
				return nil
			}
		}
		header, err := authority.Encode(st.Header)
		if err != nil {
			return err
		}
		var ords []int32
		var seqs []int64
		var bodies []string
		for _, step := range authority.ChangedSteps(st, c, base) {
			body, err := authority.Encode(step)
			if err != nil {
				return err
			}
			ords, seqs, bodies = append(ords, int32(step.Ord)), append(seqs, int64(step.ChangedSeq)),
				append(bodies, string(body))
		}
		var wrote int
		return conn.QueryRow(ctx, o.sql["saveSQL"], st.RunID, st.Status, st.Seq, st.Rev, rev, seq, string(header),
			len(st.Steps), ords, seqs, bodies).Scan(&wrote)
	})
}

// project is one sweep of the projector: every dirty run is saved and published.
func (o *old) project(ctx context.Context) (n int, err error) {
	var ids []string
	err = o.do(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, o.sql["Dirty"], time.Duration(0), 100)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id string, err error) {
			var head, ops int64
			var since time.Time
			return id, row.Scan(&id, &head, &ops, &since)
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		l, err := o.load(ctx, id)
		if err != nil {
			return 0, err
		}
		if err := o.save(ctx, l.State, l.Changes); err != nil {
			return 0, err
		}
		if err := o.do(ctx, func(c *pgx.Conn) error {
			var b pgx.Batch
			b.Queue(o.sql["Published"], id, l.Head.LastSeq, l.Head.OpsRev)
			b.Queue(o.sql["Published2"], id, l.Head.LastSeq)
			b.Queue(o.sql["Published3"], id, l.Head.LastSeq)
			return c.SendBatch(ctx, &b).Close()
		}); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

func (o *old) lease(ctx context.Context) (n int, err error) {
	err = o.do(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, o.sql["leaseSQL"], "old", time.Minute, 1)
		if err != nil {
			return err
		}
		defer rows.Close()
		for n = 0; rows.Next(); n++ {
		}
		return rows.Err()
	})
	return n, err
}

// newer does the same with the program of today.
type newer struct{ *Store }

func (s newer) append(ctx context.Context, a store.Append) error {
	_, err := s.Append(ctx, a)
	return err
}

func (s newer) project(ctx context.Context) (int, error) {
	dirty, err := s.Dirty(ctx, 0, 100)
	for i, d := range dirty {
		if i%2 == 1 { // the bus refuses it, and it is given up
			r, err := s.PublishFailed(ctx, d.RunID, d.HeadSeq, "test", 0)
			if err == nil {
				_, err = s.Bury(ctx, d.RunID, r.Upto, "test")
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return 0, err
			}
			continue
		}
		l, err := s.Load(ctx, d.RunID)
		if err == nil {
			_, err = s.Save(ctx, l.State, l.Changes)
		}
		if err == nil {
			err = s.Published(ctx, d.RunID, l.Head.LastSeq, l.Head.OpsRev)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(dirty), err
}

func (s newer) lease(ctx context.Context) (int, error) {
	rows, err := s.Lease(ctx, "new", time.Minute, 1)
	return len(rows), err
}

// version is what both programs do here.
type version interface {
	append(ctx context.Context, a store.Append) error
	project(ctx context.Context) (int, error)
	lease(ctx context.Context) (int, error)
}
