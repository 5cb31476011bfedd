package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// Sizes of the large logs.
const (
	longRun        = 100_000 // events of the run to which the figure appends
	shortRun       = 100     // events of each other run
	largeEvents    = 10_000_000
	sqliteEvents   = 1_000_000
	fillers        = 2 // connections that fill the log
	appendsToLarge = 1500
)

// largeLog fills one database and leaves another empty. The keys and ids of the rows are as long and as random as real
// ones; the payloads are empty. It drops constraints and indexes first and creates them again from their definitions
// after the rows are inserted, because that is faster.
func largeLog(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	s, dsn, err := r.Store(ctx, rig.NativeFlush, 2)
	if err != nil {
		return nil, err
	}
	empty, _, err := r.Store(ctx, rig.NativeFlush, 2)
	if err != nil {
		return nil, err
	}
	for _, to := range []*postgres.Store{s, empty} {
		if err := rig.MakeRun(ctx, to, rig.RunName(0), stepsOfRun); err != nil {
			return nil, err
		}
	}
	if err := fill(ctx, dsn); err != nil {
		return nil, err
	}
	return &rig.Trial{
		Repeat: rig.Alternate(appendsToLarge, afterLong(s).TimeAppend, rig.WritersOf(empty, []string{rig.RunName(0)},
			stepsOfRun)[0].TimeAppend),
		Done: func() error { return errors.Join(s.Close(), empty.Close()) },
	}, nil
}

// afterLong returns a Writer that continues the long run after the events that fill inserted.
func afterLong(log store.Log) *rig.Writer {
	return &rig.Writer{Log: log, RunID: rig.RunName(0), Steps: stepsOfRun, N: longRun}
}

// Statements that fill the log. The long run has the events of a rig.Writer. The other runs have one attempt of each
// step.
const (
	fillLongSQL = `INSERT INTO event (run_id, run_seq, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload)
SELECT '` + "%[1]s" + `', n + 2, md5('e' || n)::uuid::text, encode(sha256(n::text::bytea), 'hex'),
	CASE n %% 2 WHEN 0 THEN 'StepStarted' ELSE 'StepCompleted' END,
  's' || lpad((n / 2 %% %[2]d)::text, 5, '0'), '', 1 + n / 2 / %[2]d, 1, now(), now(), 'engine', '{}'
FROM generate_series(0, %[3]d) n`

	fillRunsSQL = `INSERT INTO run SELECT md5('r' || r)::uuid::text, f.tenant_id, f.project_id, f.environment_id, f.plan_id, f.plan_version,
  encode(sha256(r::text::bytea), 'hex'), r::text, f.plan_ref, f.triggered_by, f.trigger_source, f.parent_run_id,
  	f.params, f.policy, f.created_at
FROM run f, generate_series($1::int, $2::int) r WHERE f.run_id = $3`

	fillHeadsSQL = `INSERT INTO run_head (run_id, last_seq, last_at) SELECT md5('r' || r)::uuid::text, $3::int, now() FROM generate_series($1::int, $2::int) r`

	fillEventsSQL = `INSERT INTO event (run_id, run_seq, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload)
SELECT h.id, n, md5(h.id || n)::uuid::text, encode(sha256((h.id || n)::bytea), 'hex'),
	CASE n % 2 WHEN 1 THEN 'StepStarted' ELSE 'StepCompleted' END,
  's' || lpad(((n - 1) / 2)::text, 5, '0'), '', 1, 1, now(), now(), 'engine', '{}'
FROM (SELECT md5('r' || r)::uuid::text AS id FROM generate_series($1::int, $2::int) r) h, generate_series(1, $3::int) n`
)

// fill inserts the rows of the large log.
func fill(ctx context.Context, dsn string) error {
	began := time.Now()
	report := func(what string) {
		fmt.Fprintf(os.Stderr, "       large-log: %s after %s\n", what, time.Since(began).Round(time.Second))
	}
	return rig.Connected(ctx, dsn, func(conn *pgx.Conn) error {
		indexes, err := definitions(ctx, conn)
		if err != nil {
			return err
		}
		for _, x := range indexes {
			if _, err := conn.Exec(ctx, x.drop); err != nil {
				return err
			}
		}
		if _, err := conn.Exec(ctx, fmt.Sprintf(fillLongSQL, rig.RunName(0), stepsOfRun, longRun-1)); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `UPDATE run_head SET last_seq = $1 WHERE run_id = $2`, longRun+1,
			rig.RunName(0)); err != nil {
			return err
		}
		if err := fillOthers(ctx, dsn, (largeEvents-longRun)/shortRun, report); err != nil {
			return err
		}
		for _, x := range indexes {
			if _, err := conn.Exec(ctx, x.create); err != nil {
				return err
			}
		}
		report("indexes created")
		for _, q := range []string{`VACUUM (ANALYZE) event`, `ANALYZE`, `CHECKPOINT`} {
			if _, err := conn.Exec(ctx, q); err != nil {
				return err
			}
		}
		report("ready")
		return nil
	})
}

// fillOthers creates n short runs with several connections, 1,000 runs per statement.
func fillOthers(ctx context.Context, dsn string, n int, report func(string)) error {
	const portion = 1000
	g, ctx := errgroup.WithContext(ctx)
	for f := range fillers {
		g.Go(func() error {
			return rig.Connected(ctx, dsn, func(conn *pgx.Conn) error {
				for first := f * portion; first < n; first += fillers * portion {
					last := min(first+portion, n) - 1
					for _, q := range []struct {
						query string
						third any
					}{{fillRunsSQL, rig.RunName(0)}, {fillHeadsSQL, shortRun}, {fillEventsSQL, shortRun}} {
						if _, err := conn.Exec(ctx, q.query, first, last, q.third); err != nil {
							return err
						}
					}
					if (last+1)%(10*fillers*portion) == 0 {
						report(fmt.Sprintf("about %d events inserted", (last+1)*shortRun))
					}
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// index holds the statements for a constraint or an index.
type index struct{ drop, create string }

// definitions returns the constraints and indexes of the table event.
func definitions(ctx context.Context, conn *pgx.Conn) ([]index, error) {
	rows, err := conn.Query(ctx, `SELECT 'ALTER TABLE event DROP CONSTRAINT ' || conname,
	    'ALTER TABLE event ADD CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(oid)
	  FROM pg_constraint WHERE conrelid = 'event'::regclass AND contype IN ('p', 'u')
	UNION ALL SELECT 'DROP INDEX ' || indexname, indexdef FROM pg_indexes
	  WHERE tablename = 'event' AND indexname NOT IN (SELECT conname FROM pg_constraint WHERE conrelid = 'event'::regclass)`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (x index, err error) {
		return x,
			row.Scan(&x.drop, &x.create)
	})
}

// sqliteLargeLog fills one file and leaves another empty.
func sqliteLargeLog(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	large, none := filepath.Join(r.Dir, "large.db"), filepath.Join(r.Dir, "empty.db")
	var opened []*sqlite.Store
	for _, file := range []string{large, none} {
		s, err := sqlite.Open(ctx, file, sqlite.Options{})
		if err != nil {
			return nil, err
		}
		opened = append(opened, s)
		if err := rig.MakeRun(ctx, s, rig.RunName(0), stepsOfRun); err != nil {
			return nil, err
		}
	}
	if err := fillSQLite(ctx, large); err != nil {
		return nil, err
	}
	return &rig.Trial{
		Repeat: rig.Alternate(appendsToLarge, afterLong(opened[0]).TimeAppend, rig.WritersOf(opened[1],
			[]string{rig.RunName(0)},
			stepsOfRun)[0].TimeAppend),
		Done: func() error { return errors.Join(opened[0].Close(), opened[1].Close()) },
	}, nil
}

const fillSQLiteSQL = `WITH RECURSIVE t (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t WHERE n + 1 < ?2)
INSERT INTO event (run_id, run_seq, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt,
	emitted_at, persisted_at, emitted_by, payload)
SELECT CASE ?3 WHEN 0 THEN ?1 ELSE printf('%s%08d', substr(?1, 1, 28), n / ?3) END, 
	CASE ?3 WHEN 0 THEN n + 2 ELSE n % ?3 + 1 END,
  lower(hex(randomblob(18))), lower(hex(randomblob(32))), CASE n % 2 WHEN 0 THEN 'StepStarted' ELSE 'StepCompleted' END,
  printf('s%05d', n / 2 % ?4), '', 1 + n / 2 / ?4, 1, 1, 1, 'engine', x'7b7d'
FROM t`

func fillSQLite(ctx context.Context, file string) error {
	db, err := openDurable(file)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, q := range []struct {
		query string
		args  []any
	}{
		{`PRAGMA cache_size = -524288`, nil}, // 512 MiB keep the new pages in memory
		{fillSQLiteSQL, []any{rig.RunName(0), longRun, 0, stepsOfRun}},
		{`UPDATE run_head SET last_seq = ? WHERE run_id = ?`, []any{longRun + 1, rig.RunName(0)}},
		{fillSQLiteSQL, []any{"4" + rig.RunName(0)[1:], sqliteEvents - longRun, shortRun, sqliteEvents}},
		{`PRAGMA wal_checkpoint(TRUNCATE)`, nil},
	} {
		if _, err := db.ExecContext(ctx, q.query, q.args...); err != nil {
			return err
		}
	}
	return nil
}
