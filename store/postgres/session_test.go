package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func loaded(t *testing.T) *Store {
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

// With a transaction-level pooler the next transaction may run in another
// session: nothing may be left in this one, and nothing needed from it.
func TestSession_T203_NothingStaysInIt(t *testing.T) {
	s := loaded(t)
	err := s.do(context.Background(), "look", func(ctx context.Context, c *pgx.Conn) error {
		var statements, locks int
		var timeout, idle string
		if err := c.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_prepared_statements),
			(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
			current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')`).
			Scan(&statements, &locks, &timeout, &idle); err != nil {
			return err
		}
		if statements > 0 || locks > 0 || timeout != "0" || idle != "0" {
			t.Errorf("%d prepared statements, %d advisory locks, statement_timeout %s, idle_in_transaction %s", statements, locks, timeout, idle)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The look-ups of an append use an index on tables that were never analysed.
func TestFacts_UseIndexesWithoutStatistics(t *testing.T) {
	ctx := context.Background()
	s := loaded(t)
	err := s.do(ctx, "explain", func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.Exec(ctx, `ALTER TABLE event SET (autovacuum_enabled = off)`); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, `INSERT INTO event SELECT 'r' || n % 20, n, 'e' || n, 'k' || n, 'StepStarted', 's' || n, '', 1, 1,
			now(), now(), 'engine', '{}' FROM generate_series(100, 20000) n`); err != nil {
			return err
		}
		keys, steps, attempts := make([]string, 512), make([]string, 512), make([]int32, 512)
		for i := range keys {
			keys[i], steps[i], attempts[i] = fmt.Sprint("k", i), fmt.Sprint("s", i), 1
		}
		for _, q := range []struct {
			sql, index string
			args       []any
		}{
			{factsByKeySQL, "event_key", []any{"r1", keys}},
			{factsBegunSQL, "event_attempt_begun", []any{"r1", steps, attempts}},
			{factsTerminalSQL, "event_attempt_end", []any{"r1", steps, attempts}},
			{factsEndSQL, "event_run_end", []any{"r1"}},
		} {
			rows, err := c.Query(ctx, `EXPLAIN `+q.sql, q.args...)
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan on event") || !strings.Contains(plan, q.index) {
				t.Errorf("%s\n%s", q.sql, plan)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
