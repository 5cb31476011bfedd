package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// CreateRun implements store.Transactor.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun) (r store.Run, created bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		if n.Run.RequestKey != "" {
			old, err := one(ctx, c, "create run", scanRun, byRequestSQL, n.Run.RequestKey)
			if err == nil {
				r, created = old, false
				return nil
			}
			if !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		t := s.begin(c, n.Run.Identity, store.Head{RunID: n.Run.RunID})
		r, created = n.Run, true
		r.CreatedAt = t.at // that of its first event
		if err := t.create(ctx, r, n); err != nil {
			return err
		}
		if n.NeedApproval != nil {
			if err := t.needApproval(ctx, n.NeedApproval); err != nil {
				return err
			}
		}
		events, err := t.enqueueNew(ctx, n)
		if err != nil {
			return err
		}
		if _, err := t.Append(ctx, store.Append{Events: events}); err != nil {
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

// enqueueNew puts a new run into the queue and returns its first events: those that
// are given, or what Wait makes of it.
func (t *runTx) enqueueNew(ctx context.Context, n store.NewRun) ([]run.Draft, error) {
	if n.Enqueue == nil {
		return n.Events, nil
	}
	a, err := t.Enqueue(ctx, *n.Enqueue)
	if err != nil || !a.Waiting || n.Wait == nil {
		return n.Events, err
	}
	return n.Wait(a)
}

// Import implements store.Log.
func (s *Store) Import(ctx context.Context, n store.NewRun, evs []run.Event) error {
	return s.write(ctx, func(c *conn) error {
		r := n.Run
		if r.CreatedAt.IsZero() && len(evs) > 0 {
			r.CreatedAt = evs[0].PersistedAt
		}
		t := s.begin(c, r.Identity, store.Head{RunID: r.RunID})
		if err := t.create(ctx, r, n); err != nil {
			return err
		}
		if err := t.insert(ctx, evs); err != nil {
			return err
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

// create writes the facts of a new run, its head and plan.
func (t *runTx) create(ctx context.Context, r store.Run, n store.NewRun) error {
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
	if _, err := t.conn.exec(ctx, "insert run", `INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
		request_key, request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion,
		key, r.RequestID, string(ref), r.TriggeredBy, r.TriggerSource, r.ParentRunID, blob(r.Params), string(policy), micros(r.CreatedAt)); err != nil {
		return err
	}
	if _, err := t.conn.exec(ctx, "insert head", `INSERT INTO run_head (run_id, `+headColumns+`) VALUES (?, 0, 0, 0, 0, 0, 0, 0)`, r.RunID); err != nil {
		return err
	}
	if n.Plan != nil {
		if _, err := t.conn.exec(ctx, "insert plan", putPlan, r.PlanRef.SHA256, n.Plan); err != nil {
			return err
		}
	}
	return nil
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
	_, err = saveState(ctx, t.conn, state, run.Changes{})
	return err
}
