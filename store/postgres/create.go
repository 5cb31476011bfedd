package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
	"github.com/dvt-engine/dvt/store/authority"
)

const insertRunSQL = `INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
  request_key, request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, $9::text::json, $10, $11, $12, $13::text::json, $14::text::json,
  coalesce($15::timestamptz, clock_timestamp()))
ON CONFLICT DO NOTHING RETURNING created_at`

// errExists says that the run or its request is there already.
var errExists = fmt.Errorf("run exists: %w", store.ErrConflict)

// CreateRun implements store.Transactor. The store's clock sets CreatedAt.
// store.ErrConflict when the run id is taken by another request.
//
// It takes two round trips, and one more when the run has to wait. Nobody else sees
// the head before the commit, so package authority decides about the first events
// here, and they are inserted as those of Import are.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun) (r store.Run, created bool, err error) {
	first, err := authority.Prepare(n.Run.Identity, store.Append{RunID: n.Run.RunID, Events: n.Events})
	if err != nil {
		return store.Run{}, false, err
	}
	err = s.do(ctx, "create run", func(ctx context.Context, c *pgx.Conn) error {
		var rows admission.Rows
		t, at, err := insertRun(ctx, c, n, time.Time{}, &rows)
		if err != nil {
			return err
		}
		events := first
		if n.Enqueue != nil {
			t.now = rows.Now
			if events, err = t.enqueueNew(ctx, n, rows, first); err != nil {
				return err
			}
		}
		if n.NeedApproval != nil {
			if err := t.needApproval(n.NeedApproval, at); err != nil {
				return err
			}
		}
		queueAudit(&t.batch, n.Audit)
		plan, err := authority.Decide(t.head, events, authority.Facts{}, t.now)
		if err != nil {
			return err
		}
		queueAudit(&t.batch, plan.Audit)
		queueEvents(&t.batch, n.Run.RunID, plan.Insert)
		t.insertHead(plan.Head)
		r, created = n.Run, true
		r.CreatedAt = at
		if err := t.firstCheckpoint(r, plan.Insert); err != nil {
			return err
		}
		return t.commit(ctx)
	})
	if errors.Is(err, errExists) && n.Run.RequestKey != "" {
		if r, known := s.ByRequest(ctx, n.Run.RequestKey); !errors.Is(known, store.ErrNotFound) {
			return r, false, known
		}
	}
	if err != nil {
		return store.Run{}, false, err
	}
	return r, created, nil
}

// enqueueNew puts a new run into the queue and returns its first events: those that
// were prepared, or what Wait makes of it.
func (t *tx) enqueueNew(ctx context.Context, n store.NewRun, rows admission.Rows, first authority.Batch) (authority.Batch, error) {
	a, err := t.arrive(ctx, *n.Enqueue, rows)
	if err != nil || !a.Waiting || n.Wait == nil {
		return first, err
	}
	events, err := n.Wait(a)
	if err != nil {
		return first, &ownError{err}
	}
	return authority.Prepare(n.Run.Identity, store.Append{RunID: n.Run.RunID, Events: events})
}

// insertHead queues the head of a new run with its mark.
func (t *tx) insertHead(h store.Head) {
	t.head = h
	t.head = t.current()
	t.stored, h = t.head, t.head
	var lastAt *time.Time
	if h.LastSeq > 0 {
		lastAt = &h.LastAt
	}
	t.batch.Queue(`INSERT INTO run_head (run_id, last_seq, last_at, terminal, gate, running, ops_rev)
		VALUES ($1, $2, coalesce($3::timestamptz, 'epoch'), $4, $5, $6, $7)`, h.RunID, h.LastSeq, lastAt, h.Terminal, h.Gate, h.Running, h.OpsRev)
	if h.LastSeq > 0 || h.OpsRev > 0 {
		t.batch.Queue(dirtySQL, h.RunID, h.LastSeq, h.OpsRev, t.at())
	}
}

// insertRun opens a transaction, inserts the run and reads what is to be known of
// lanes when it is to be enqueued; plan body (and nothing else) is queued then.
func insertRun(ctx context.Context, c *pgx.Conn, n store.NewRun, createdAt time.Time, rows *admission.Rows) (*tx, time.Time, error) {
	ref, err := json.Marshal(n.Run.PlanRef)
	if err != nil {
		return nil, time.Time{}, err
	}
	policy, err := json.Marshal(n.Run.Policy)
	if err != nil {
		return nil, time.Time{}, err
	}
	var given *time.Time
	if !createdAt.IsZero() {
		given = &createdAt
	}
	r := n.Run
	t := &tx{conn: c, id: r.Identity, locked: store.Head{RunID: r.RunID}, head: store.Head{RunID: r.RunID}}
	queueBegin(&t.batch)
	t.batch.Queue(insertRunSQL, r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion,
		r.RequestKey, r.RequestID, string(ref), r.TriggeredBy, r.TriggerSource, r.ParentRunID, text(r.Params), string(policy), given).
		QueryRow(func(row pgx.Row) error {
			if err := row.Scan(utc{&t.now}); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return errExists
		})
	if n.Enqueue != nil {
		t.queueArrival(rows)
	}
	if err := t.flush(ctx); err != nil {
		return nil, time.Time{}, err
	}
	if n.Plan != nil {
		t.batch.Queue(putPlanSQL, r.PlanRef.SHA256, n.Plan)
	}
	return t, t.now, nil
}

const firstHeaderSQL = `INSERT INTO run_state (run_id, tenant_id, project_id, status, seq, rev, header) VALUES ($1, $2, $3, $4, $5, $6, $7::text::json)`

// firstCheckpoint makes a new run visible in lists before any projector saw it.
func (t *tx) firstCheckpoint(r store.Run, evs []run.Event) error {
	l := authority.Fold(store.Loaded{}, authority.Base(r), evs)
	if st := l.State; len(st.Steps) == 0 {
		header, err := authority.Encode(st.Header)
		t.batch.Queue(firstHeaderSQL, r.RunID, r.TenantID, r.ProjectID, st.Status, st.Seq, st.Rev, string(header))
		return err
	}
	args, err := saveArgs(l.State, l.Changes, nil, nil)
	if err != nil {
		return err
	}
	t.batch.Queue(saveSQL, args...)
	return nil
}

// Import implements store.Log. The run keeps a CreatedAt that is given, else it
// has that of its first event.
// store.ErrConflict when the run, its request or one of the places exists.
func (s *Store) Import(ctx context.Context, n store.NewRun, evs []run.Event) error {
	return s.do(ctx, "import", func(ctx context.Context, c *pgx.Conn) error {
		r := n.Run
		if r.CreatedAt.IsZero() && len(evs) > 0 {
			r.CreatedAt = evs[0].PersistedAt
		}
		n.Enqueue = nil
		t, at, err := insertRun(ctx, c, n, r.CreatedAt, nil)
		if err != nil {
			return err
		}
		t.batch.Queue(`INSERT INTO run_head (run_id) VALUES ($1)`, r.RunID)
		r.CreatedAt = at
		queueAudit(&t.batch, n.Audit)
		for page := range slices.Chunk(evs, store.MaxPage) {
			queueEvents(&t.batch, n.Run.RunID, page)
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
		t.head = authority.Imported(r.RunID, evs)
		t.head.SignalNo = importReceipts(&t.batch, r.RunID, n.Receipts)
		h := t.head
		t.batch.Queue(`UPDATE run_head SET last_seq = $2, last_at = $3, terminal = $4, gate = $5, running = $6 WHERE run_id = $1`,
			r.RunID, h.LastSeq, h.LastAt, h.Terminal, h.Gate, h.Running)
		if err := t.firstCheckpoint(r, evs); err != nil {
			return err
		}
		return t.commit(ctx)
	})
}
