package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// queueApproval queues the approval row of a new run.
func queueApproval(b *pgx.Batch, r store.Run, n *store.NeedApproval) error {
	var rerun []byte
	if n.Rerun != nil {
		var err error
		if rerun, err = authority.Encode(n.Rerun); err != nil {
			return fmt.Errorf("postgres: rerun: %w", err)
		}
	}
	b.Queue(`INSERT INTO approval (run_id, tenant_id, project_id, environment_id, required, priority, created_at, expires_at, rerun)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		r.RunID, r.TenantID, r.ProjectID, r.EnvironmentID, n.Required, n.Priority, r.CreatedAt, r.CreatedAt.Add(n.TTL),
		text(rerun))
	return nil
}

// approvalsSQL selects the approvals that meet the condition pick: one row per decision, or one row for an approval
// without decisions.
func approvalsSQL(pick, order string) string {
	return `SELECT a.run_id, a.tenant_id, a.project_id, a.environment_id, r.plan_id, r.plan_version,
  r.triggered_by, a.required, a.priority, a.created_at, a.expires_at, coalesce(a.rerun, 'null'), a.open,
  d.pos IS NOT NULL, coalesce(d.principal, ''), coalesce(d.approved, false), coalesce(d.reason, ''), coalesce(d.request_id, ''), d.at
FROM (SELECT * FROM approval WHERE ` + pick + `) a JOIN run r USING (run_id) LEFT JOIN approval_decision d USING (run_id) ORDER BY ` + order + `d.pos`
}

func collectApprovals(rows pgx.Rows) (out []store.Approval, err error) {
	defer rows.Close()
	for rows.Next() {
		var a store.Approval
		var decided bool
		var d store.ApprovalDecision
		var rerun json.RawMessage
		if err := rows.Scan(&a.RunID, &a.TenantID, &a.ProjectID, &a.EnvironmentID, &a.PlanID, &a.PlanVersion,
			&a.TriggeredBy, &a.Required, &a.Priority,
			utc{&a.CreatedAt}, utc{&a.ExpiresAt}, verbatim{&rerun}, &a.Open,
			&decided, &d.Principal, &d.Approved, &d.Reason, &d.RequestID, utc{&d.At}); err != nil {
			return nil, err
		}
		if n := len(out); n == 0 || out[n-1].RunID != a.RunID {
			if err := json.Unmarshal(rerun, &a.Rerun); err != nil {
				return nil, fmt.Errorf("postgres: rerun of %s: %w", a.RunID, err)
			}
			out = append(out, a)
		}
		if last := &out[len(out)-1]; decided {
			last.Decisions = append(last.Decisions, d)
		}
	}
	return out, rows.Err()
}

func approvals(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]store.Approval, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return collectApprovals(rows)
}

func oneApproval(ctx context.Context, c *pgx.Conn, runID string) (store.Approval, error) {
	found, err := approvals(ctx, c, approvalsSQL(`run_id = $1`, ``), runID)
	switch {
	case err != nil:
		return store.Approval{}, err
	case len(found) == 0:
		return store.Approval{}, store.ErrNotFound
	}
	return found[0], nil
}

// Approval implements store.Approvals.
func (s *Store) Approval(ctx context.Context, runID string) (a store.Approval, err error) {
	err = s.do(ctx, "approval", func(ctx context.Context, c *pgx.Conn) (err error) {
		a, err = oneApproval(ctx, c, runID)
		return err
	})
	return a, err
}

// ApprovalsOf implements store.Approvals.
func (s *Store) ApprovalsOf(ctx context.Context, runIDs []string) (out []store.Approval, err error) {
	err = s.do(ctx, "approvals of runs", func(ctx context.Context, c *pgx.Conn) (err error) {
		out, err = approvals(ctx, c, approvalsSQL(`run_id = ANY($1)`, `a.run_id, `), runIDs)
		return err
	})
	return out, err
}

// OpenApprovals implements store.Approvals.
func (s *Store) OpenApprovals(ctx context.Context, af store.ApprovalFilter) (out []store.Approval, err error) {
	var f filter
	pick := f.bind(`open AND tenant_id = ?`, af.TenantID)
	if af.ProjectIDs != nil {
		pick += f.bind(` AND project_id = ANY(?)`, af.ProjectIDs)
	}
	if af.After != nil {
		pick += f.bind(` AND (created_at, run_id) > (?, ?)`, af.After.CreatedAt, af.After.RunID)
	}
	pick += f.bind(` ORDER BY created_at, run_id LIMIT ?`, pageSize(af.Limit))
	err = s.do(ctx, "open approvals", func(ctx context.Context, c *pgx.Conn) (err error) {
		out, err = approvals(ctx, c, approvalsSQL(pick, `a.created_at, a.run_id, `), f.args...)
		return err
	})
	return out, err
}

const decidedSQL = `run_id IN (SELECT d.run_id FROM approval_decision d JOIN approval USING (run_id)
  WHERE d.principal = $1 AND tenant_id = $2 AND d.pos > (SELECT coalesce(max(pos), 0) FROM approval_decision) - $3
  ORDER BY d.pos DESC LIMIT $4)`

// DecidedApprovals implements store.Approvals.
func (s *Store) DecidedApprovals(ctx context.Context, tenantID, principal string, limit int) (out []store.Approval,
	err error) {
	err = s.do(ctx, "decided approvals", func(ctx context.Context, c *pgx.Conn) (err error) {
		out, err = approvals(ctx, c, approvalsSQL(decidedSQL, `a.run_id, `), principal, tenantID,
			store.MaxDecisionsSearched, pageSize(limit))
		return err
	})
	store.SortByDecisionOf(principal, out)
	return out, err
}

// ExpiredApprovals implements store.Approvals.
func (s *Store) ExpiredApprovals(ctx context.Context, limit int) (out []store.Approval, err error) {
	err = s.do(ctx, "expired approvals", func(ctx context.Context, c *pgx.Conn) (err error) {
		out, err = approvals(
			ctx, c, approvalsSQL(`open AND expires_at <= clock_timestamp() ORDER BY expires_at, run_id LIMIT $1`,
				`a.expires_at, a.run_id, `),
			pageSize(limit))
		return err
	})
	return out, err
}

// Approval implements store.ApprovalTx.
func (r runTx) Approval(ctx context.Context) (store.Approval, error) {
	if err := r.t.flush(ctx); err != nil {
		return store.Approval{}, translate(ctx, err)
	}
	a, err := oneApproval(ctx, r.t.conn, r.t.id.RunID)
	return a, translate(ctx, err)
}

// Decide implements store.ApprovalTx.
func (r runTx) Decide(ctx context.Context, d store.ApprovalDecision) error {
	return r.changeApproval(ctx, `INSERT INTO approval_decision (run_id, principal, approved, reason, request_id, at)
		SELECT run_id, $2, $3, $4, $5, $6 FROM approval WHERE run_id = $1 AND open ON CONFLICT (run_id, principal) DO NOTHING`,
		r.t.id.RunID, d.Principal, d.Approved, d.Reason, d.RequestID, r.t.at())
}

// CloseApproval implements store.ApprovalTx.
func (r runTx) CloseApproval(ctx context.Context) error {
	return r.changeApproval(ctx, `UPDATE approval SET open = false WHERE run_id = $1 AND open`, r.t.id.RunID)
}

// changeApproval runs a statement that changes one row. If it changed none, it returns store.ErrNotFound when the run
// has no approval, and store.ErrConflict when the approval is in another state.
func (r runTx) changeApproval(ctx context.Context, sql string, args ...any) error {
	var changed int64
	r.t.batch.Queue(sql, args...).Exec(rowsAffected(func(n int64) { changed = n }))
	if err := r.t.flush(ctx); err != nil {
		return translate(ctx, err)
	}
	if changed > 0 {
		r.t.ops = true
		return nil
	}
	if _, err := r.Approval(ctx); errors.Is(err, store.ErrNotFound) {
		return err
	}
	return store.ErrConflict
}
