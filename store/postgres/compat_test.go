package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// old is the program of schema 1: it sends the statements that the program sent,
// in the same round trips and with the same driver settings.
type old struct {
	pool *pgxpool.Pool
	sql  map[string]string
}

func oldStatements(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/v1.sql")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, part := range strings.Split(string(text), "\n-- name: ")[1:] {
		name, sql, _ := strings.Cut(part, "\n")
		out[name] = sql
	}
	return out
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
	return &old{pool: pool, sql: oldStatements(t)}
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
			"request of "+id.RunID, id.RunID, `{}`, "ola", "api", "", nil, `{}`, nil).QueryRow(func(row pgx.Row) error { return row.Scan(&at) })
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
			write.Queue(o.sql["insertEventsSQL"], a.RunID, n.seq, n.id, n.key, n.kind, n.step, n.signal, n.la, n.ea, n.emitted, n.persisted, n.by, n.payload)
			write.Queue(o.sql["commit"], a.RunID, p.Head.LastSeq, p.Head.LastAt, p.Head.Terminal, p.Head.Gate, p.Head.Running, p.Head.OpsRev, p.Head.SignalNo)
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
			if err := rows.Scan(&kind, &n, verbatim{&doc}, &id, &key, &event, &step, &signal, &la, &ea, utc{&emitted}, utc{&persisted}, &by); err != nil {
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
				tail = append(tail, run.Event{Identity: checkpoint.Identity, EventID: *id, Type: run.EventType(*event), Seq: run.Seq(n), Key: run.Key(*key),
					StepID: *step, SignalID: *signal, LogicalAttempt: *la, EngineAttempt: *ea, EmittedAt: emitted, PersistedAt: persisted,
					EmittedBy: run.Producer(*by), Payload: doc})
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
			ords, seqs, bodies = append(ords, int32(step.Ord)), append(seqs, int64(step.ChangedSeq)), append(bodies, string(body))
		}
		var wrote int
		return conn.QueryRow(ctx, o.sql["saveSQL"], st.RunID, st.Status, st.Seq, st.Rev, rev, seq, string(header), len(st.Steps), ords, seqs, bodies).Scan(&wrote)
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

// Every statement of the previous version means something on today's schema.
func TestUpgrade_R508_EveryStatementOfThePreviousVersionPrepares(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	if err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	c := dial(t, dsn)
	for name, sql := range oldStatements(t) {
		if _, err := c.Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Indexes that this version put in the place of others serve the previous one, too.
func TestUpgrade_R508_LookUpsOfThePreviousVersionStayProbes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	if err := Migrate(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	c := dial(t, dsn)
	if _, err := c.Exec(ctx, `INSERT INTO event SELECT 'r' || n % 20, n, 'e' || n, 'k' || n, 'StepStarted', 's' || n, '', 1, 1,
		now(), now(), 'engine', '{}' FROM generate_series(100, 20000) n`); err != nil {
		t.Fatal(err)
	}
	statements := oldStatements(t)
	keys, steps, attempts := []string{"k100", "k120"}, []string{"s100", "s120"}, []int32{1, 1}
	for name, q := range map[string]struct {
		index string
		args  []any
	}{
		"factsByKeySQL": {"event_key", []any{"r1", keys}}, "factsBegunSQL": {"event_attempt", []any{"r1", steps, attempts}},
		"factsTerminalSQL": {"event_attempt", []any{"r1", steps, attempts}}, "factsEndSQL": {"event_run_end", []any{"r1"}},
		"Events": {"event_pkey", []any{"r1", 100, 10}}, "EventsBefore": {"event_pkey", []any{"r1", 300, 10}},
	} {
		rows, err := c.Query(ctx, `EXPLAIN `+statements[name], q.args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan on event") || !strings.Contains(plan, q.index) {
			t.Errorf("%s is no probe of %s:\n%s", name, q.index, plan)
		}
	}
}

// Servers of the previous version write and project while the database is
// migrated under them, and go on beside servers of this version.
func TestUpgrade_R508_ThePreviousVersionRunsOnWhileThisOneStarts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	migrateTo(t, dsn, upTo(t, 1))
	before := openOld(t, dsn)
	const runs = 4
	id := func(i int) run.Identity {
		return run.Identity{RunID: fmt.Sprint("r", i), TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan", PlanVersion: "1"}
	}
	for i := range runs {
		if err := before.create(ctx, id(i)); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var writers, projectors sync.WaitGroup
	var leases atomic.Int64
	var written [2]atomic.Int64
	work := func(v version, as int) {
		draft := func(kind run.EventType, step string, la int) run.Draft {
			d := run.Draft{Type: kind, StepID: step, LogicalAttempt: la, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine, Payload: []byte(`{}`)}
			if kind == run.StepFailedEvent {
				d.Payload = []byte(`{"errorCode":"EXIT_STATUS","retryable":true}`)
			}
			return d
		}
		for i := range runs {
			for w := range 2 {
				own := fmt.Sprintf("s-%d-%d", as, w)
				writers.Go(func() {
					for n := 1; !stopped(); n++ {
						end := run.StepCompletedEvent
						if as == 1 {
							end = run.StepFailedEvent
						}
						for _, events := range [][]run.Draft{ // both programs fight for the attempts of the step "shared"
							{draft(run.StepStartedEvent, own, n), draft(run.StepStartedEvent, "shared", n)},
							{draft(run.StepCompletedEvent, own, n), draft(end, "shared", n)},
						} {
							if err := v.append(ctx, store.Append{RunID: id(i).RunID, Events: events}); err != nil {
								t.Errorf("version %d: append: %v", as+1, err)
								return
							}
							written[as].Add(1)
						}
					}
				})
			}
		}
		projectors.Go(func() {
			for !stopped() {
				if _, err := v.project(ctx); err != nil {
					t.Errorf("version %d: project: %v", as+1, err)
					return
				}
				n, err := v.lease(ctx)
				if err != nil {
					t.Errorf("version %d: lease: %v", as+1, err)
					return
				}
				leases.Add(int64(n))
			}
		})
	}
	work(before, 0)
	time.Sleep(200 * time.Millisecond)
	if err := Migrate(ctx, dsn); err != nil {
		t.Error(err)
	}
	after, err := Open(ctx, dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	beside := written[0].Load()
	work(newer{after}, 1)
	time.Sleep(1500 * time.Millisecond)
	close(stop)
	writers.Wait()
	projectors.Wait()
	if beside == 0 || written[0].Load() == beside || written[1].Load() == 0 {
		t.Errorf("appends of version 1 before and after the migration: %d, %d; of version 2: %d", beside, written[0].Load()-beside, written[1].Load())
	}
	for range runs { // what nobody had the time for
		n, err := before.lease(ctx)
		if err != nil {
			t.Fatal(err)
		}
		leases.Add(int64(n))
	}
	if n := leases.Load(); n != runs {
		t.Errorf("%d leases of %d runs", n, runs)
	}

	// One ends each run, whichever comes first.
	for i := range runs {
		var ends sync.WaitGroup
		for as, v := range []version{before, newer{after}} {
			kind := []run.EventType{run.RunCompleted, run.RunCancelled}[as]
			ends.Go(func() {
				d := run.Draft{Type: kind, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine, Payload: []byte(`{}`)}
				if err := v.append(ctx, store.Append{RunID: id(i).RunID, Events: []run.Draft{d}}); err != nil {
					t.Errorf("end by version %d: %v", as+1, err)
				}
			})
		}
		ends.Wait()
	}
	for range 3 { // the old one empties what the new one held back, too
		if _, err := before.project(ctx); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, dsn)
	for i := range runs {
		verifyLog(t, c, id(i).RunID)
		sameState(t, before, after, c, id(i).RunID)
	}
}

// This version, with its statements and plans prepared, runs on while the next one migrates.
func TestUpgrade_R508_ThisVersionRunsOnWhileTheNextMigrates(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	s, err := Open(ctx, dsn, Options{Migrate: true, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	round := func(n int) {
		t.Helper()
		writeOne(t, s, fmt.Sprint("r", n))
		both := []run.Draft{
			{Type: run.StepStartedEvent, StepID: "s2", LogicalAttempt: n, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine},
			{Type: run.StepCompletedEvent, StepID: "s2", LogicalAttempt: n, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine, Payload: []byte(`{}`)},
		}
		for range 2 { // the second time they are found
			if _, err := s.Append(ctx, store.Append{RunID: "r1", Events: both}); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Begin(ctx, store.Begin{RunID: "r1", StepID: "s3", LogicalAttempt: n, EngineAttempt: 1, EmittedAt: time.Now()}); err != nil {
			t.Error(err)
		}
		if _, err := (newer{s}).project(ctx); err != nil {
			t.Error(err)
		}
		if _, err := (newer{s}).lease(ctx); err != nil {
			t.Error(err)
		}
		if _, err := s.Heads(ctx, []string{"r1"}); err != nil {
			t.Error(err)
		}
		if _, err := s.Events(ctx, "r1", 0, 100); err != nil {
			t.Error(err)
		}
		if _, err := s.List(ctx, store.RunFilter{TenantID: "t1", Limit: 10}); err != nil {
			t.Error(err)
		}
	}
	round(1)
	round(2)
	alter := "SET LOCAL lock_timeout = '3s';\n"
	for _, r := range rights {
		if !strings.HasPrefix(r.table, "goose") {
			alter += "ALTER TABLE " + r.table + " ADD COLUMN later int NOT NULL DEFAULT 7;\n"
		}
	}
	migrateTo(t, dsn, upTo(t, schema, later, alter))
	round(3)
}

// verifyLog checks the log of a run and its head against the rules.
func verifyLog(t *testing.T, c *pgx.Conn, runID string) {
	t.Helper()
	var broken []string
	if err := c.QueryRow(t.Context(), `SELECT array_remove(ARRAY[
		CASE WHEN max(run_seq) <> count(*) OR min(run_seq) <> 1 THEN 'holes' END,
		CASE WHEN count(DISTINCT key) <> count(*) THEN 'a key twice' END,
		CASE WHEN count(DISTINCT event_id) <> count(*) THEN 'an event id twice' END,
		CASE WHEN max(run_seq) <> (SELECT last_seq FROM run_head WHERE run_id = $1) THEN 'head elsewhere' END,
		CASE WHEN max(persisted_at) <> (SELECT last_at FROM run_head WHERE run_id = $1) THEN 'time of the head' END,
		CASE WHEN NOT (SELECT terminal FROM run_head WHERE run_id = $1) THEN 'head not terminal' END,
		CASE WHEN count(*) FILTER (WHERE type LIKE 'Run%') <> 1 THEN 'ends' END,
		CASE WHEN count(*) FILTER (WHERE type = 'StepStarted') - count(*) FILTER (WHERE type IN ('StepCompleted', 'StepFailed'))
			<> (SELECT running FROM run_head WHERE run_id = $1) THEN 'running' END,
		CASE WHEN EXISTS (SELECT FROM (SELECT persisted_at, lag(persisted_at) OVER (ORDER BY run_seq) AS prev FROM event WHERE run_id = $1) x
			WHERE persisted_at < prev) THEN 'time falls' END,
		CASE WHEN (SELECT published_seq FROM run_state WHERE run_id = $1) <> max(run_seq) THEN 'not all published' END,
		CASE WHEN EXISTS (SELECT FROM run_dirty WHERE run_id = $1) THEN 'still dirty' END
		], NULL) FROM event WHERE run_id = $1`, runID).Scan(&broken); err != nil {
		t.Fatal(err)
	}
	if len(broken) > 0 {
		t.Errorf("%s: %v", runID, broken)
	}
}

// sameState compares what both programs load with what the log alone says.
func sameState(t *testing.T, before *old, after *Store, c *pgx.Conn, runID string) {
	t.Helper()
	states := make([]string, 0, 3)
	keep := func(l store.Loaded, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(struct {
			Header run.Header
			Steps  []*run.Step
			Head   run.Seq
		}{l.State.Header, l.State.Steps, l.Head.LastSeq})
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, string(doc))
	}
	keep(before.load(t.Context(), runID))
	keep(after.Load(t.Context(), runID))
	for _, table := range []string{"run_state", "step_state"} {
		if _, err := c.Exec(t.Context(), `DELETE FROM `+table+` WHERE run_id = $1`, runID); err != nil {
			t.Fatal(err)
		}
	}
	keep(after.Load(t.Context(), runID))
	for i, name := range []string{"version 1", "version 2"} {
		if diff := cmp.Diff(states[2], states[i]); diff != "" {
			t.Errorf("%s: %s (-the log says, +it loads):\n%s", runID, name, diff)
		}
	}
}

func writeOne(t *testing.T, s *Store, runID string) {
	t.Helper()
	n := store.NewRun{Run: store.Run{Identity: run.Identity{RunID: runID, TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan", PlanVersion: "1"}}}
	if _, _, err := s.CreateRun(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	d := run.Draft{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine}
	if _, err := s.Append(t.Context(), store.Append{RunID: runID, Events: []run.Draft{d}}); err != nil {
		t.Fatal(err)
	}
}
