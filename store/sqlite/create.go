package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// CreateRun implements store.Transactor. Before the commit no other transaction sees the head, so its first events need
// no lookup of facts.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun) (r store.Run, created bool, err error) {
	var written store.Written
	err = s.write(ctx, func(c *conn) error {
		t := s.begin(c, n.Run.Identity, store.Head{RunID: n.Run.RunID})
		if n.Bulk != nil {
			if err := t.HoldBulk(ctx, *n.Bulk); err != nil {
				return err
			}
		}
		r = n.Run
		r.CreatedAt = t.at // the time of its first event
		if created, err = t.create(ctx, r, n); err != nil {
			return err
		}
		if !created {
			r, err = collectOne(ctx, c, "create run", scanRun, byRequestSQL, n.Run.RequestKey)
			if errors.Is(err, store.ErrNotFound) {
				err = fmt.Errorf("sqlite: run %s exists: %w", n.Run.RunID, store.ErrConflict)
			}
			return err
		}
		if n.UnlessRerun {
			if err := t.checkNotRerun(ctx, r); err != nil {
				return err
			}
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
		state, err := t.writeFirstEvents(ctx, r, events, n.Audit)
		if err == nil && n.Written != nil {
			written, err = t.written(ctx, state, n.Enqueue != nil)
		}
		return err
	})
	if err != nil {
		return store.Run{}, false, err
	}
	if created && n.Written != nil {
		n.Written(written)
	}
	return r, created, nil
}

// written returns what readers will find after the commit.
func (t *runTx) written(ctx context.Context, state run.State, queued bool) (w store.Written, err error) {
	w.Loaded = store.Loaded{State: state, Head: t.head, CheckpointAt: state.Seq, Now: t.at}
	if w.Loaded.Epoch, err = collectOne(ctx, t.conn, "epoch", value[string], epochSQL); err != nil || !queued {
		return w, err
	}
	row, err := t.Queue(ctx)
	w.Queue = &row
	return w, err
}

// writeFirstEvents writes the first events of a new run, its head and its checkpoint, and returns the state. The
// checkpoint makes the run visible in lists before a projector has seen it.
func (t *runTx) writeFirstEvents(ctx context.Context, r store.Run, events []run.Draft,
	rows []store.AuditRow) (run.State, error) {
	batch, err := authority.Prepare(t.id, store.Append{Events: events})
	if err != nil {
		return run.State{}, err
	}
	plan, err := authority.Decide(t.head, batch, authority.Facts{}, t.at)
	if err != nil {
		return run.State{}, err
	}
	t.advance(plan)
	if err := t.insert(ctx, plan.Insert); err != nil {
		return run.State{}, err
	}
	if err := t.Audit(ctx, slices.Concat(plan.Audit, rows)...); err != nil {
		return run.State{}, err
	}
	if err := t.insertHead(ctx); err != nil {
		return run.State{}, err
	}
	if t.isDirty() {
		if err := t.markDirty(ctx); err != nil {
			return run.State{}, err
		}
	}
	state := authority.Fold(store.Loaded{}, authority.Base(r), plan.Insert).State
	return state, saveFirst(ctx, t.conn, state)
}

// enqueueNew puts a new run into the queue and returns its first events. A run that waits gets its events from n.Wait.
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
		created, err := t.create(ctx, r, n)
		if err == nil && !created {
			err = fmt.Errorf("sqlite: run %s exists: %w", r.RunID, store.ErrConflict)
		}
		if err != nil {
			return err
		}
		if err := t.insertHead(ctx); err != nil {
			return err
		}
		if err := t.insert(ctx, evs); err != nil {
			return err
		}
		opsRev := t.head.OpsRev
		t.head = authority.HeadOfImport(r.RunID, evs)
		t.head.OpsRev = opsRev
		if err := t.importReceipts(ctx, n.Receipts); err != nil {
			return err
		}
		if err := t.importAnnotations(ctx, n); err != nil {
			return err
		}
		if err := t.Audit(ctx, n.Audit...); err != nil {
			return err
		}
		return t.finishImport(ctx)
	})
}

// create writes the row of a new run and its plan. It returns false if the run id or the request exists.
func (t *runTx) create(ctx context.Context, r store.Run, n store.NewRun) (bool, error) {
	ref, err := authority.Encode(r.PlanRef)
	if err != nil {
		return false, fmt.Errorf("sqlite: plan reference: %w", err)
	}
	policy, err := authority.Encode(r.Policy)
	if err != nil {
		return false, fmt.Errorf("sqlite: policy: %w", err)
	}
	var key any
	if r.RequestKey != "" {
		key = r.RequestKey
	}
	made, err := t.conn.exec(ctx, "insert run", insertRunSQL,
		r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion,
		key, r.RequestID, string(ref), r.TriggeredBy, r.TriggerSource, r.ParentRunID, blob(r.Params), string(policy),
		micros(r.CreatedAt))
	if err != nil || made == 0 {
		return false, err
	}
	if n.Plan != nil {
		_, err = t.conn.exec(ctx, "insert plan", putPlan, r.PlanRef.SHA256, n.Plan)
	}
	return true, err
}

const insertRunSQL = `INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
	request_key, request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

const insertHeadSQL = `INSERT INTO run_head (run_id, ` + headColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

// insertHead writes the current head of a new run.
func (t *runTx) insertHead(ctx context.Context) error {
	h := t.head
	_, err := t.conn.exec(ctx, "insert head", insertHeadSQL, h.RunID, h.LastSeq, micros(h.LastAt), h.Terminal, h.Gate,
		h.Running, h.OpsRev, h.SignalNo)
	return err
}

// finishImport marks an imported run dirty and writes its first checkpoint.
func (t *runTx) finishImport(ctx context.Context) error {
	if err := t.finish(ctx); err != nil {
		return err
	}
	state, err := t.State(ctx)
	if err != nil {
		return err
	}
	return saveFirst(ctx, t.conn, state)
}

// saveFirst writes the first checkpoint of a run.
func saveFirst(ctx context.Context, c *conn, state run.State) error {
	if len(state.Steps) > 0 {
		if err := saveSteps(ctx, c, state, run.Changes{}, -1); err != nil {
			return err
		}
	}
	header, err := authority.Encode(state.Header)
	if err != nil {
		return fmt.Errorf("sqlite: header of run %s: %w", state.RunID, err)
	}
	change, err := nextChange(ctx, c)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, "write header", writeHeader, writeHeaderArgs(state, change, header)...)
	return err
}
