package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

const (
	admissions = 800
	benchLimit = 1_000_000 // never reached
)

// benchTerms returns terms with every limit set. No limit is reached, so the store must check all of them.
func benchTerms() store.Terms {
	share := store.Share{PerMinute: benchLimit, MaxActive: benchLimit, MaxWaiting: benchLimit, Weight: 1}
	t := store.Terms{Tenant: share, Project: share, MaxActive: benchLimit, Strategy: store.StrategyQueue, TTL: time.Hour}
	t.Project.PerMinute = -1 // inherit the limit of the tenant
	return t
}

// starter creates runs as startRun does: approved, with a queue row, under limits.
type starter struct {
	to store.Transactor
	n  int
}

func (s *starter) start(ctx context.Context, terms store.Terms) error {
	s.n++
	id := runtest.ID
	id.RunID = rig.RunName(s.n)
	_, _, err := s.to.CreateRun(ctx, startedRun(id, terms))
	return err
}

func startedRun(id run.Identity, terms store.Terms) store.NewRun {
	return store.NewRun{
		Run: store.Run{Identity: id, RequestID: id.RunID, RequestKey: run.Key(id.RunID), TriggeredBy: "bench",
			TriggerSource: "api"},
		Events:  []run.Draft{runtest.Draft(run.RunApproved, "", 1)},
		Enqueue: &store.Enqueue{Terms: terms, Priority: 5},
		Wait: func(a store.Admission) ([]run.Draft, error) {
			return []run.Draft{runtest.Draft(run.RunQueued, "", 1, runtest.M{"queuePosition": a.Position})}, nil
		},
	}
}

func (s *starter) timed(ctx context.Context, _ int) (time.Duration, error) {
	return rig.Timed(func() error { return s.start(ctx, benchTerms()) })
}

// bareRows returns the rows that the floor inserts into run, run_queue and event.
func bareRows(n int) [3][]any {
	id, now := rig.RunName(n), time.Now()
	key := runtest.Draft(run.RunApproved, "", 1).Key(runtest.ID)
	return [3][]any{
		{id, runtest.ID.TenantID, runtest.ID.ProjectID, runtest.ID.EnvironmentID, runtest.ID.PlanID, runtest.ID.PlanVersion,
			id, id, `{}`, "bench", "api", "", nil, `{}`, now},
		{id, runtest.ID.TenantID, runtest.ID.ProjectID, "PENDING", now, now},
		{id, 1, key.EventID() + id, string(key) + id, string(run.RunApproved), "", "", 1, 1, now, now, "planner", `{}`},
	}
}

// admissionPostgres measures the start of a run at the store. The floor inserts the rows of bareRows, in a transaction
// of one round trip, into tables with the same columns and indexes but without triggers.
func admissionPostgres(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	s, dsn, err := r.Store(ctx, rig.OneMS, 2)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	statements := [3]string{
		`INSERT INTO run_like VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		`INSERT INTO run_queue_like (run_id, tenant_id, project_id, status, not_before, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		`INSERT INTO event_like VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
	}
	for i, table := range [3]string{"run", "run_queue", "event"} {
		if _, err := conn.Exec(ctx, fmt.Sprintf(`CREATE TABLE %[1]s_like (LIKE %[1]s INCLUDING ALL)`, table)); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		if _, err := conn.Prepare(ctx, fmt.Sprint("bare", i), statements[i]); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	n := 0
	bare := func(ctx context.Context, _ int) (time.Duration, error) {
		n++
		var b pgx.Batch
		b.Queue(`begin`)
		for i, args := range bareRows(n) {
			b.Queue(fmt.Sprint("bare", i), args...)
		}
		b.Queue(`commit`)
		return rig.Timed(func() error { return conn.SendBatch(ctx, &b).Close() })
	}
	return &rig.Trial{
		Repeat: rig.Alternate(admissions, (&starter{to: s}).timed, bare),
		Done:   func() error { return errors.Join(conn.Close(context.WithoutCancel(ctx)), s.Close()) },
	}, nil
}

// admissionSQLite is admissionPostgres on a SQLite file.
func admissionSQLite(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	s, err := sqlite.Open(ctx, filepath.Join(r.Dir, "admission.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.Dir, "bare.db")
	schema, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	if err := schema.Close(); err != nil {
		return nil, err
	}
	db, err := openDurable(file)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"queue_counts_new", "run_planned"} {
		if _, err := conn.ExecContext(ctx, `DROP TRIGGER IF EXISTS `+name); err != nil {
			return nil, err
		}
	}
	var prepared []*sql.Stmt
	for _, query := range []string{
		`BEGIN IMMEDIATE`,
		`INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		`INSERT INTO run_queue (run_id, tenant_id, project_id, status, not_before, created_at, owner, generation, lease_until, attempts, last_error)
			VALUES (?, ?, ?, ?, ?, ?, '', 0, 0, 0, '')`,
		`INSERT INTO event (run_id, run_seq, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		`COMMIT`,
	} {
		st, err := conn.PrepareContext(ctx, query) //nolint:sqlclosecheck // the connection is closed
		if err != nil {
			return nil, err
		}
		prepared = append(prepared, st)
	}
	n := 0
	bare := func(ctx context.Context, _ int) (time.Duration, error) {
		n++
		rows := bareRows(n)
		rows[2][12] = []byte(`{}`) // the column is a BLOB in SQLite
		for _, args := range rows {
			for i, a := range args {
				if at, ok := a.(time.Time); ok {
					args[i] = at.UnixMicro()
				}
			}
		}
		return rig.Timed(func() error {
			for i, args := range [][]any{{}, rows[0], rows[1], rows[2], {}} {
				if _, err := prepared[i].ExecContext(ctx, args...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return &rig.Trial{
		Repeat: rig.Alternate(admissions, (&starter{to: s}).timed, bare),
		Done:   func() error { return errors.Join(conn.Close(), db.Close(), s.Close()) },
	}, nil
}
