package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func newLoadedStore(t *testing.T) *Store {
	t.Helper()
	ctx := context.Background()
	s, err := Open(ctx, testserver.Postgres(t), Options{Migrate: true, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	n := store.NewRun{Run: store.Run{Identity: run.Identity{
		RunID: "r1", TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan", PlanVersion: "1"}}}
	if _, _, err := s.CreateRun(ctx, n); err != nil {
		t.Fatal(err)
	}
	_, err = s.Append(ctx, store.Append{RunID: "r1", Events: []run.Draft{{Type: run.StepStartedEvent, StepID: "s1",
		LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Behind a transaction-level pooler the next transaction may run in another session. So a transaction must leave
// nothing in its session and need nothing from it.
// contract: T203
func TestSession_TransactionsLeaveNothingBehind(t *testing.T) {
	s := newLoadedStore(t)
	err := s.do(context.Background(), "look", func(ctx context.Context, c *pgx.Conn) error {
		var locks int
		var timeout, idle string
		if err := c.QueryRow(
			ctx, `SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
			current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')`).
			Scan(&locks, &timeout, &idle); err != nil {
			return err
		}
		if locks > 0 || timeout != "0" || idle != "0" {
			t.Errorf("%d advisory locks, statement_timeout %s and idle_in_transaction %s after a transaction; want 0 of each",
				locks, timeout, idle)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A pooler that gives the next transaction to another session loses prepared statements. The caller does not notice it,
// and from then on the store prepares none.
// contract: T203
func TestSession_SurvivesLostPreparedStatements(t *testing.T) {
	ctx := context.Background()
	for _, operation := range []struct {
		name string
		call func(s *Store) error
	}{
		{"append", func(s *Store) error {
			_, err := s.Append(ctx, store.Append{RunID: "r1", Events: []run.Draft{{Type: run.StepStartedEvent, StepID: "s2",
				LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine}}})
			return err
		}},
		{"transaction", func(s *Store) error {
			return s.InRun(ctx, "r1", func(tx store.RunTx) error {
				_, err := tx.State(ctx)
				return err
			})
		}},
	} {
		s := newLoadedStore(t)
		if err := operation.call(s); err != nil {
			t.Fatal(err)
		}
		deallocate := func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.PgConn().Exec(ctx, `DEALLOCATE ALL`).ReadAll()
			return err
		}
		if err := s.do(ctx, "deallocate", deallocate); err != nil {
			t.Fatal(err)
		}
		if err := operation.call(s); err != nil {
			t.Errorf("%s after the statements were lost: %v, want no error", operation.name, err)
		}
		err := s.do(ctx, "look", func(ctx context.Context, c *pgx.Conn) (err error) {
			var n int
			if err := c.QueryRow(ctx, `SELECT count(*) FROM pg_prepared_statements`).Scan(&n); n > 0 {
				t.Errorf("%s: %d statements are prepared afterwards, want none", operation.name, n)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// explainedSession returns a session that reports the plan of every statement in plans. Its tables were never analyzed.
func explainedSession(t *testing.T, s *Store) (c *pgx.Conn, plans *strings.Builder) {
	t.Helper()
	ctx := context.Background()
	cfg := s.pool.Load().Config().ConnConfig.Copy()
	plans = &strings.Builder{}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { plans.WriteString(n.Message + "\n") }
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(ctx) })
	for _, q := range []string{
		`ALTER TABLE event SET (autovacuum_enabled = off)`,
		`INSERT INTO event SELECT 'r' || n % 20, n, 'e' || n, 'k' || n, 'StepStarted', 's' || n, '', 1, 1,
			now(), now(), 'engine', '{}' FROM generate_series(100, 20000) n`,
		`LOAD 'auto_explain'`, `SET auto_explain.log_min_duration = 0`, `SET auto_explain.log_nested_statements = on`,
		`SET client_min_messages = log`,
	} {
		if _, err := c.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	return c, plans
}

// Every statement of an append uses an index, on tables that were never analyzed and with the cached plans of a
// session. So its cost does not grow with the run or the log.
func TestAppend_UsesIndexesWithoutStatistics(t *testing.T) {
	ctx := context.Background()
	c, plans := explainedSession(t, newLoadedStore(t))
	id := run.Identity{RunID: "r1", TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan", PlanVersion: "1"}
	draft := func(e run.EventType, step string) run.Draft {
		return run.Draft{Type: e, StepID: step, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(),
			EmittedBy: run.ByEngine,
			Payload:   []byte(`{"errorCode":"ENGINE_LOST","errorMessage":"m","retryable":false,"failureCategory":"USER"}`)}
	}
	call := func(drafts ...run.Draft) {
		t.Helper()
		call := newCall(id, []store.Entry{{Append: &store.Append{RunID: "r1", Events: drafts}}})
		err := call.results[0].Err
		if err != nil {
			t.Fatal(err)
		}
		rows, err := c.Query(ctx, appendSQL, call.args()...)
		if err == nil {
			err = call.read(rows)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		call(draft(run.StepStartedEvent, fmt.Sprint("n", i)), draft(run.StepFailedEvent, fmt.Sprint("n", i)))
	}
	for range 8 {
		call(draft(run.RunFailed, ""))
	}
	got := plans.String()
	for _, index := range []string{"event_key", "event_attempt", "event_run_end"} {
		if !strings.Contains(got, "using "+index+" on event") {
			t.Errorf("no plan uses %s", index)
		}
	}
	for _, wrong := range []string{"Seq Scan", "using event_pkey on event", "Sort"} {
		if at := strings.Index(got, wrong); at >= 0 {
			t.Errorf("a plan contains %q, want index scans only: %s", wrong, got[max(0, at-600):min(len(got), at+300)])
		}
	}
}

// Every statement of a group uses an index, on tables that were never analyzed. So its cost does not grow with the runs
// or the log.
func TestGroup_UsesIndexesWithoutStatistics(t *testing.T) {
	ctx := context.Background()
	c, plans := explainedSession(t, newLoadedStore(t))
	if _, err := c.Exec(
		ctx, `INSERT INTO run_head (run_id) SELECT 'g' || n FROM generate_series(1, 20000) n`); err != nil {
		t.Fatal(err)
	}
	for n := range 8 {
		g := newGroup(40)
		for i := range 40 {
			id := run.Identity{RunID: fmt.Sprint("g", 1+i), TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan",
				PlanVersion: "1"}
			d := run.Draft{Type: run.StepStartedEvent, StepID: fmt.Sprint("n", n), LogicalAttempt: 1, EngineAttempt: 1,
				EmittedAt: time.Now(), EmittedBy: run.ByEngine}
			if i%2 == 0 {
				d = runtest.Draft(run.SignalAccepted, fmt.Sprint("u", n), 1)
			}
			p, ok, err := plainOf(id, store.Entry{Append: &store.Append{RunID: id.RunID, Events: []run.Draft{d}}})
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			g.add(&p)
		}
		rows, err := c.Query(ctx, appendManySQL, g.args()...)
		if err != nil {
			t.Fatal(err)
		}
		results := make([]*store.EntryResult, 40)
		if err := g.read(rows, results); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(results, nil) {
			t.Fatalf("round %d: an event was skipped, want all written", n)
		}
	}
	got := plans.String()
	for _, index := range []string{"using event_key on event", "using event_attempt on event",
		"using run_head_pkey on run_head", "using run_dirty_pkey on run_dirty"} {
		if !strings.Contains(got, index) {
			t.Errorf("no plan contains %q", index)
		}
	}
	for _, wrong := range []string{"Seq Scan", "using event_pkey on event", "run_dirty_since", "Hash Join", "Merge Join"} {
		if at := strings.Index(got, wrong); at >= 0 {
			t.Errorf("a plan contains %q, want index scans only: %s", wrong, got[max(0, at-600):min(len(got), at+300)])
		}
	}
}
