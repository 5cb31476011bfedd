package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Append implements store.Log.
func (s *Store) Append(ctx context.Context, a store.Append) (out store.Appended, err error) {
	err = s.inRun(ctx, a.RunID, func(t *runTx) (err error) {
		out, err = t.Append(ctx, a)
		return err
	})
	if err != nil {
		return store.Appended{}, err
	}
	return out, nil
}

// Begin implements store.Log.
func (s *Store) Begin(ctx context.Context, b store.Begin) (out store.Begun, err error) {
	err = s.inRun(ctx, b.RunID, func(t *runTx) (err error) {
		out, err = t.begin(ctx, b)
		return err
	})
	if err != nil {
		return store.Begun{}, err
	}
	return out, nil
}

// Events implements store.Log.
func (s *Store) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	return s.events(ctx, runID, `run_seq > ? ORDER BY run_seq LIMIT ?`, after, limit)
}

// EventsBefore implements store.Log.
func (s *Store) EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error) {
	return s.events(ctx, runID, `run_seq < ? ORDER BY run_seq DESC LIMIT ?`, before, limit)
}

func (s *Store) events(ctx context.Context, runID, rest string, bound run.Seq, limit int) (evs []run.Event, err error) {
	err = s.read(ctx, "read events", func(tx *sql.Tx) error {
		id, err := s.identity(ctx, tx, runID)
		if err != nil {
			return err
		}
		evs, err = queryEvents(ctx, tx, id, `SELECT `+eventColumns+` FROM event WHERE run_id = ? AND `+rest,
			runID, bound, clamp(limit, store.MaxPage))
		return s.failed("read events", err)
	})
	return evs, err
}

func clamp(limit, most int) int {
	if limit <= 0 || limit > most {
		return most
	}
	return limit
}

func queryEvents(ctx context.Context, q querier, id run.Identity, query string, args ...any) ([]run.Event, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	return collect(rows, err, func(row scanner) (run.Event, error) { return scanEvent(row, id) })
}

func (s *Store) identity(ctx context.Context, q querier, runID string) (run.Identity, error) {
	var id run.Identity
	err := q.QueryRowContext(ctx, `SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version
		FROM run WHERE run_id = ?`, runID).
		Scan(&id.RunID, &id.TenantID, &id.ProjectID, &id.EnvironmentID, &id.PlanID, &id.PlanVersion)
	return id, s.failed("run "+runID, err)
}

// Heads implements store.Log.
func (s *Store) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	if len(runIDs) > store.MaxHeads {
		return store.Heads{}, fmt.Errorf("sqlite: heads of %d runs, at most %d", len(runIDs), store.MaxHeads)
	}
	out := store.Heads{ByRun: make(map[string]store.Head, len(runIDs))}
	ids, err := json.Marshal(runIDs)
	if err != nil {
		return store.Heads{}, fmt.Errorf("sqlite: heads: %w", err)
	}
	err = s.read(ctx, "heads", func(tx *sql.Tx) error {
		var err error
		if out.Epoch, err = s.epoch(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT `+headColumns+` FROM run_head WHERE run_id IN (SELECT value FROM json_each(?))`, string(ids))
		heads, err := collect(rows, err, scanHead)
		for _, h := range heads {
			out.ByRun[h.RunID] = h
		}
		out.Now = s.now()
		return s.failed("heads", err)
	})
	return out, err
}

// CreateRun implements store.Transactor.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun) (r store.Run, created bool, err error) {
	err = s.write(ctx, "create run", func(tx *sql.Tx) error {
		if n.Run.RequestKey != "" {
			old, err := scanRun(tx.QueryRowContext(ctx, `SELECT `+runColumns+` FROM run WHERE request_key = ?`, n.Run.RequestKey))
			if err == nil {
				r, created = old, false
				return nil
			}
			if err := s.failed("create run", err); !isNotFound(err) {
				return err
			}
		}
		t := s.begin(tx, n.Run, store.Head{RunID: n.Run.RunID})
		t.run.CreatedAt = t.at // that of its first event
		r, created = t.run, true
		if err := t.create(ctx, n); err != nil {
			return err
		}
		if _, err := t.Append(ctx, store.Append{Events: n.Events}); err != nil {
			return err
		}
		if err := t.Audit(ctx, n.Audit...); err != nil {
			return err
		}
		return t.firstCheckpoint(ctx)
	})
	if err != nil {
		return store.Run{}, false, err
	}
	return r, created, nil
}

// Import implements store.Log.
func (s *Store) Import(ctx context.Context, n store.NewRun, evs []run.Event) error {
	return s.write(ctx, "import", func(tx *sql.Tx) error {
		r := n.Run
		if r.CreatedAt.IsZero() && len(evs) > 0 {
			r.CreatedAt = evs[0].PersistedAt
		}
		t := s.begin(tx, r, store.Head{RunID: r.RunID})
		if err := t.create(ctx, n); err != nil {
			return err
		}
		for _, e := range evs {
			if err := t.insert(ctx, e); err != nil {
				return err
			}
		}
		opsRev := t.head.OpsRev
		t.head = authority.Imported(r.RunID, evs)
		t.head.OpsRev = opsRev
		if err := t.importReceipts(ctx, n.Receipts); err != nil {
			return err
		}
		if err := t.Audit(ctx, n.Audit...); err != nil {
			return err
		}
		return t.firstCheckpoint(ctx)
	})
}

// create writes the facts of a new run, its head, plan and queue row.
func (t *runTx) create(ctx context.Context, n store.NewRun) error {
	r := t.run
	ref, err := authority.Encode(r.PlanRef)
	if err != nil {
		return fmt.Errorf("sqlite: plan reference: %w", err)
	}
	policy, err := authority.Encode(r.Policy)
	if err != nil {
		return fmt.Errorf("sqlite: policy: %w", err)
	}
	var key any
	if r.RequestKey != "" {
		key = r.RequestKey
	}
	if err := t.exec(ctx, "insert run", `INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
		request_key, request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion,
		key, r.RequestID, string(ref), r.TriggeredBy, r.TriggerSource, r.ParentRunID, blob(r.Params), string(policy), micros(r.CreatedAt)); err != nil {
		return err
	}
	if err := t.exec(ctx, "insert head", `INSERT INTO run_head (`+headColumns+`) VALUES (?, 0, 0, 0, 0, 0, 0, 0)`, r.RunID); err != nil {
		return err
	}
	if n.Plan != nil {
		if err := t.exec(ctx, "insert plan", putPlan, r.PlanRef.SHA256, n.Plan); err != nil {
			return err
		}
	}
	if !n.Queue {
		return nil
	}
	t.ops()
	return t.exec(ctx, "insert queue row", `INSERT INTO run_queue (`+queueColumns+`) VALUES (?, ?, ?, '', 0, 0, ?, ?, 0, '')`,
		r.RunID, r.TenantID, store.QueuePending, micros(t.at), micros(t.at))
}

// firstCheckpoint makes a new run visible in lists before any projector saw it.
func (t *runTx) firstCheckpoint(ctx context.Context) error {
	if err := t.finish(ctx); err != nil {
		return err
	}
	state, err := t.State(ctx)
	if err != nil {
		return err
	}
	_, err = t.s.save(ctx, t.sql, state, run.Changes{})
	return err
}
