package postgres

import (
	"cmp"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// oldRuns creates a database with this program's schema and the given number of runs.
func oldRuns(t *testing.T, runs int) (dsn string, c *pgx.Conn) {
	t.Helper()
	dsn = testserver.Postgres(t)
	migrateTo(t, dsn, upTo(t, schema))
	c = dial(t, dsn)
	seed(t, c, runs)
	return dsn, c
}

func seed(t *testing.T, c *pgx.Conn, runs int) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, triggered_by, request_id, plan_ref, trigger_source, parent_run_id, policy, created_at)
			SELECT md5(n::text), 't1', 'p' || n % 5, 'prod', 'plan' || n % 50, '1', CASE WHEN n % 1000 = 0 THEN 'ana' ELSE 'scheduler' END, '', '{}', '', '', '{}',
			timestamptz '2026-01-01Z' + n * interval '1 second' FROM generate_series(1, $1::int) n`,
		`INSERT INTO run_status SELECT run_id, tenant_id, project_id, environment_id, plan_id, 'COMPLETED', created_at, triggered_by FROM run WHERE $1 > 0`,
	} {
		if _, err := c.Exec(t.Context(), sql, runs); err != nil {
			t.Fatal(err)
		}
	}
}

// oldRun returns the id of the n-th run of oldRuns.
func oldRun(n int) string { return fmt.Sprintf("%x", md5.Sum([]byte(strconv.Itoa(n)))) }

// oldServer does what servers of this program do: it creates runs, saves old ones and lists runs, at least once and
// until ctx ends. It returns the longest duration of a statement and the number of statements.
func oldServer(ctx context.Context, dsn string, no int) (longest time.Duration, statements int, err error) {
	c, err := pgx.Connect(context.WithoutCancel(ctx), dsn)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close(context.Background())
	const saves = `INSERT INTO run_state (run_id, tenant_id, project_id, status, seq, rev, header) SELECT run_id, tenant_id, project_id, 'RUNNING', 1, 1, '{}' FROM run
		WHERE run_id = $1 ON CONFLICT (run_id) DO NOTHING`
	started := time.Now().UnixNano()
	for n := 1; n == 1 || ctx.Err() == nil; n++ {
		for _, do := range []struct{ sql, id string }{
			{`INSERT INTO run VALUES ($1, 't1', 'p1', 'prod', 'plan1', '1', NULL, '', '{}', 'ben', '', '', NULL, '{}', now())`,
				""},
			{saves, ""},
			{saves, oldRun(3*n + no)},
			{`UPDATE run_state SET status = 'COMPLETED' WHERE run_id = $1`, ""},
			{`SELECT run_id FROM run_status WHERE tenant_id = 't1' AND status = 'COMPLETED' AND $1 <> '' ORDER BY created_at DESC, run_id DESC LIMIT 51`, ""},
		} {
			id := cmp.Or(do.id, fmt.Sprintf("new-%d-%d-%d", no, started, n))
			from := time.Now()
			if _, err := c.Exec(context.Background(), do.sql, id); err != nil {
				return longest, statements, fmt.Errorf("%s: %w", do.sql, err)
			}
			longest = max(longest, time.Since(from))
			statements++
		}
	}
	return longest, statements, nil
}

// Servers of this version continue while the next version fills old rows and builds indexes. No server waits long, and
// rows that they write meanwhile are filled, too. Two processes migrate at the same time.
// contract: R508
func TestMigrate_ServersGoOnWhileALargeDatabaseIsMigrated(t *testing.T) {
	t.Parallel()
	dsn, c := oldRuns(t, testtime.Rounds(10_000))
	ctx, stop := context.WithCancel(t.Context())
	var servers sync.WaitGroup
	waits, statements, errs := make([]time.Duration, 3), make([]int, 3), make([]error, 3)
	for i := range waits {
		servers.Go(func() { waits[i], statements[i], errs[i] = oldServer(ctx, dsn, i) })
	}
	from := time.Now()
	var log logBuffer
	m := nextVersion(t)
	m.Logger = log.logger()
	migrated := make(chan error, 2)
	for range 2 {
		go func() { migrated <- m.Run(t.Context(), dsn) }()
	}
	migrateErr := errors.Join(<-migrated, <-migrated)
	took := time.Since(from)
	stop()
	servers.Wait()
	if err := errors.Join(append(errs, migrateErr)...); err != nil {
		t.Fatal(err)
	}
	longest := max(waits[0], waits[1], waits[2])
	if longest > testtime.Of(time.Second) && longest > took/4 {
		t.Errorf("a server waited %v during a migration of %v, after %v statements; want at most a second or a quarter:\n%s",
			longest, took, statements, log.String())
	}
	checkFilledAndBuilt(t, c)
	var most int
	if err := c.QueryRow(t.Context(), `SELECT max(n) FROM (SELECT count(*) AS n FROM run_status GROUP BY xmin) w`).Scan(
		&most); err != nil || most > 1000 {
		t.Errorf("one transaction filled %d rows, %v; want at most 1000", most, err)
	}
	if n := strings.Count(log.String(), "an index is built"); n != 2 {
		t.Errorf("%d indexes were built ahead of the migration, want 2:\n%s", n, log.String())
	}
}

// checkFilledAndBuilt checks that every run has its label and that every index is valid.
func checkFilledAndBuilt(t *testing.T, c *pgx.Conn) {
	t.Helper()
	var missing, invalid int
	if err := c.QueryRow(
		t.Context(), `SELECT (SELECT count(*) FROM run_status s JOIN run r USING (run_id) WHERE s.label <> r.triggered_by),
		(SELECT count(*) FROM pg_index WHERE NOT indisvalid)`).Scan(&missing, &invalid); err != nil || missing+invalid > 0 {
		t.Errorf("%d rows are not filled and %d indexes are invalid, %v; want none", missing, invalid, err)
	}
}

// A process is killed while it fills old rows. Servers of this version continue, and the next process fills the rest.
// contract: R508
func TestMigrate_KilledWhileItFillsOldRows(t *testing.T) {
	t.Parallel()
	const runs = 3000
	dsn, c := oldRuns(t, runs)
	if _, err := c.Exec(
		t.Context(), `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.003); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON run_status FOR EACH ROW EXECUTE FUNCTION slow()`); err != nil {
		t.Fatal(err)
	}
	victim := child(t, "next "+dsn)
	await(t, c, `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'run_status'::regclass AND attname = 'label')`)
	await(t, c, `SELECT EXISTS (SELECT FROM run_status WHERE label <> '')`)
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // an error, because it was killed
	await(t, c, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%SKIP LOCKED%' AND state = 'active' AND pid <> pg_backend_pid())`)
	var filled int
	if err := c.QueryRow(t.Context(), `SELECT count(*) FROM run_status WHERE label <> ''`).Scan(
		&filled); err != nil || filled == 0 || filled == runs {
		t.Fatalf("%d of %d rows are filled, %v; want some but not all", filled, runs, err)
	}
	if _, err := c.Exec(t.Context(), `DROP TRIGGER slow ON run_status`); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, _, err := oldServer(ctx, dsn, 0); err != nil {
		t.Errorf("a server of this version: %v, want no error", err)
	}
	var log logBuffer
	m := nextVersion(t)
	m.Logger = log.logger()
	if err := m.Run(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("rows=%d ", runs-filled); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not contain %s:\n%s", want, log.String())
	}
	checkFilledAndBuilt(t, c)
}

// A process is killed while it builds an index and leaves an invalid one behind. The next process builds it again.
// contract: R508
func TestMigrate_KilledWhileItBuildsAnIndex(t *testing.T) {
	t.Parallel()
	dsn, c := oldRuns(t, 100)
	reader := dial(t, dsn)
	if _, err := reader.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM run`); err != nil {
		t.Fatal(err)
	}
	victim := child(t, "next "+dsn)
	const builds = ` FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active'`
	await(t, c, `SELECT EXISTS (SELECT`+builds+` AND wait_event_type = 'Lock')`)
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, n, err := oldServer(ctx, dsn, 0); err != nil || n == 0 {
		t.Errorf("a server of this version: %d statements, %v; want some and no error", n, err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // an error, because it was killed
	if _, err := c.Exec(t.Context(), `SELECT pg_terminate_backend(pid)`+builds); err != nil {
		t.Fatal(err)
	}
	await(t, c, `SELECT EXISTS (SELECT FROM pg_index WHERE NOT indisvalid)`)
	if _, err := reader.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := nextVersion(t).Run(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	checkFilledAndBuilt(t, c)
}
