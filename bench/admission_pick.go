package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

const (
	waitingRuns    = 100_000
	waitingTenants = 1_000
	fewWaiting     = 10
	picks          = 400
)

// picker admits one waiting run and replaces it by another, so that the number of waiting runs stays the same.
type picker struct {
	store interface {
		store.Admissions
		store.Transactor
	}
	n int
}

func (p *picker) timed(ctx context.Context, _ int) (time.Duration, error) {
	var got store.Admitted
	took, err := rig.Timed(func() (err error) {
		got, err = p.store.AdmitWaiting(ctx, func(string, string) store.Terms { return benchTerms() }, 1)
		return err
	})
	if err == nil && len(got.Rows) != 1 {
		err = fmt.Errorf("%d runs were admitted, not 1", len(got.Rows))
	}
	if err != nil {
		return 0, err
	}
	return took, p.addWaiting(ctx, got.Rows[0].TenantID)
}

// addWaiting creates a run of a tenant that must wait.
func (p *picker) addWaiting(ctx context.Context, tenant string) error {
	held := benchTerms()
	held.Hold = true
	p.n++
	id := runtest.ID
	id.RunID, id.TenantID = rig.RunName(p.n), tenant
	_, _, err := p.store.CreateRun(ctx, startedRun(id, held))
	return err
}

// fill creates n waiting runs.
func (p *picker) fill(ctx context.Context, n int) error {
	for i := range n {
		if err := p.addWaiting(ctx, fmt.Sprint("t", i%waitingTenants)); err != nil {
			return err
		}
	}
	return nil
}

// Statements that copy a waiting run waitingRuns times. countLanesSQL then counts the lanes at once, which replaces the
// triggers.
const (
	fillWaitingRunsSQL = `INSERT INTO run SELECT 'w' || n, 't' || n %% %[2]d, project_id, environment_id, plan_id, plan_version, 'w' || n, 'w' || n, plan_ref,
  triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run, %[1]s WHERE run_id = '%[3]s'`
	fillWaitingHeadsSQL = `INSERT INTO run_head (run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no)
SELECT 'w' || n, last_seq, last_at, terminal, gate, running, ops_rev, signal_no FROM run_head, %[1]s WHERE run_id = '%[3]s'`
	fillWaitingQueueSQL = `INSERT INTO run_queue (run_id, tenant_id, project_id, status, owner, generation, lease_until, not_before, created_at, attempts, last_error,
  waiting, slot, token_taken, priority, expires_at, estimate_ms)
SELECT 'w' || n, 't' || n %% %[2]d, project_id, status, owner, generation, lease_until, not_before, created_at, attempts, last_error,
  waiting, slot, token_taken, priority, expires_at, estimate_ms FROM run_queue, %[1]s WHERE run_id = '%[3]s'`
	countLanesSQL = `INSERT INTO lane (tenant_id, project_id, waiting)
SELECT tenant_id, project_id, count(*) FROM run_queue WHERE NOT slot GROUP BY tenant_id, project_id
UNION ALL SELECT tenant_id, '', count(*) FROM run_queue WHERE NOT slot GROUP BY tenant_id
UNION ALL SELECT '', '', count(*) FROM run_queue WHERE NOT slot
ON CONFLICT (tenant_id, project_id) DO UPDATE SET waiting = excluded.waiting`
)

// fillWaiting creates waitingRuns copies of the waiting run sample, with the names of waitingTenants tenants.
func fillWaiting(ctx context.Context, series, sample string, exec func(ctx context.Context, query string) error) error {
	for _, query := range []string{fillWaitingRunsSQL, fillWaitingHeadsSQL, fillWaitingQueueSQL} {
		if err := exec(ctx, fmt.Sprintf(query, series, waitingTenants, sample)); err != nil {
			return err
		}
	}
	return exec(ctx, countLanesSQL)
}

func queuePickPostgres(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	many, dsn, err := r.Store(ctx, rig.OneMS, 2)
	if err != nil {
		return nil, err
	}
	few, _, err := r.Store(ctx, rig.OneMS, 2)
	if err != nil {
		return nil, err
	}
	full, small := &picker{store: many}, &picker{store: few}
	if err := errors.Join(full.fill(ctx, 1), small.fill(ctx, fewWaiting)); err != nil {
		return nil, err
	}
	err = rig.Connected(ctx, dsn, func(conn *pgx.Conn) error {
		exec := func(ctx context.Context, query string) error {
			_, err := conn.Exec(ctx, query)
			return err
		}
		// Without triggers, because they would update the same lane row a hundred thousand times.
		if err := exec(ctx, `ALTER TABLE run_queue DISABLE TRIGGER USER`); err != nil {
			return err
		}
		err := fillWaiting(ctx, fmt.Sprintf(`generate_series(1, %d) n`, waitingRuns), rig.RunName(1), exec)
		return errors.Join(err, exec(ctx, `ALTER TABLE run_queue ENABLE TRIGGER USER`), exec(ctx, `VACUUM ANALYZE`))
	})
	if err != nil {
		return nil, err
	}
	return &rig.Trial{
		Repeat: rig.Alternate(picks, full.timed, small.timed),
		Done:   func() error { return errors.Join(many.Close(), few.Close()) },
	}, nil
}

func queuePickSQLite(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	file := filepath.Join(r.Dir, "many.db")
	many, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	few, err := sqlite.Open(ctx, filepath.Join(r.Dir, "few.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	full, small := &picker{store: many}, &picker{store: few}
	if err := errors.Join(full.fill(ctx, 1), small.fill(ctx, fewWaiting)); err != nil {
		return nil, err
	}
	db, err := openDurable(file)
	if err != nil {
		return nil, err
	}
	series := fmt.Sprintf(
		`(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT n FROM s)`, waitingRuns)
	err = fillWaiting(ctx, series, rig.RunName(1), func(ctx context.Context, query string) error {
		if query == countLanesSQL {
			return nil // SQLite's triggers have counted them
		}
		_, err := db.ExecContext(ctx, query)
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return &rig.Trial{
		Repeat: rig.Alternate(picks, full.timed, small.timed),
		Done:   func() error { return errors.Join(many.Close(), few.Close()) },
	}, nil
}
