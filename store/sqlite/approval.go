package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// needApproval writes the approval row of a new run.
func (t *runTx) needApproval(ctx context.Context, n *store.NeedApproval) error {
	var rerun any
	if n.Rerun != nil {
		doc, err := authority.Encode(n.Rerun)
		if err != nil {
			return fmt.Errorf("sqlite: rerun: %w", err)
		}
		rerun = string(doc)
	}
	t.bumpOpsRev()
	_, err := t.conn.exec(
		ctx, "insert approval", `INSERT INTO approval (run_id, tenant_id, project_id, environment_id, required, priority, created_at, expires_at, rerun)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.id.RunID, t.id.TenantID, t.id.ProjectID, t.id.EnvironmentID, n.Required, n.Priority, micros(t.at),
		micros(t.at.Add(n.TTL)), rerun)
	return err
}

// approvals reads the approvals that meet the condition pick. The query returns one row per decision, or one row for an
// approval without decisions.
func approvals(ctx context.Context, c *conn, pick, order string, args ...any) (out []store.Approval, err error) {
	err = c.query(ctx, "approvals", `SELECT a.run_id, a.tenant_id, a.project_id, a.environment_id, r.plan_id, r.plan_version,
		r.triggered_by, a.required, a.priority, a.created_at, a.expires_at, coalesce(a.rerun, 'null'), a.open,
		coalesce(d.principal, ''), coalesce(d.approved, 0), coalesce(d.reason, ''), coalesce(d.request_id, ''), d.at
		FROM (SELECT * FROM approval WHERE `+pick+`) a JOIN run r ON r.run_id = a.run_id LEFT JOIN approval_decision d ON d.run_id = a.run_id ORDER BY `+order+`d.pos`, args, func(r row) error {
		var a store.Approval
		var d store.ApprovalDecision
		var created, expires int64
		var rerun string
		var decided sql.NullInt64
		if err := r.Scan(&a.RunID, &a.TenantID, &a.ProjectID, &a.EnvironmentID, &a.PlanID, &a.PlanVersion,
			&a.TriggeredBy, &a.Required, &a.Priority,
			&created, &expires, &rerun, &a.Open,
			&d.Principal, &d.Approved, &d.Reason, &d.RequestID, &decided); err != nil {
			return err
		}
		if n := len(out); n == 0 || out[n-1].RunID != a.RunID {
			a.CreatedAt, a.ExpiresAt = instant(created), instant(expires)
			if err := json.Unmarshal([]byte(rerun), &a.Rerun); err != nil {
				return fmt.Errorf("sqlite: rerun of %s: %w", a.RunID, err)
			}
			out = append(out, a)
		}
		if last := &out[len(out)-1]; decided.Valid {
			d.At = instant(decided.Int64)
			last.Decisions = append(last.Decisions, d)
		}
		return nil
	})
	return out, err
}

func oneApproval(ctx context.Context, c *conn, runID string) (store.Approval, error) {
	found, err := approvals(ctx, c, `run_id = ?`, ``, runID)
	switch {
	case err != nil:
		return store.Approval{}, err
	case len(found) == 0:
		return store.Approval{}, notFound("approval of run " + runID)
	}
	return found[0], nil
}

// Approval implements store.Approvals.
func (s *Store) Approval(ctx context.Context, runID string) (a store.Approval, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		a, err = oneApproval(ctx, c, runID)
		return err
	})
	return a, err
}

// ApprovalsOf implements store.Approvals.
func (s *Store) ApprovalsOf(ctx context.Context, runIDs []string) (out []store.Approval, err error) {
	w := new(where)
	w.in(`run_id`, len(runIDs), func(i int) any { return runIDs[i] })
	err = s.read(ctx, func(c *conn) (err error) {
		out, err = approvals(ctx, c, w.String(), `a.run_id, `, w.args...)
		return err
	})
	return out, err
}

// OpenApprovals implements store.Approvals.
func (s *Store) OpenApprovals(ctx context.Context, f store.ApprovalFilter) (out []store.Approval, err error) {
	w := new(where)
	w.add("open = 1 AND tenant_id = ?", f.TenantID)
	if f.ProjectIDs != nil {
		w.in(`project_id`, len(f.ProjectIDs), func(i int) any { return f.ProjectIDs[i] })
	}
	if f.After != nil {
		w.add("(created_at, run_id) > (?, ?)", micros(f.After.CreatedAt), f.After.RunID)
	}
	err = s.read(ctx, func(c *conn) (err error) {
		out, err = approvals(ctx, c, w.String()+` ORDER BY created_at, run_id LIMIT ?`, `a.created_at, a.run_id, `,
			append(w.args, clamp(f.Limit, store.MaxPage))...)
		return err
	})
	return out, err
}

const decidedSQL = `run_id IN (SELECT d.run_id FROM approval_decision d JOIN approval USING (run_id)
	WHERE d.principal = ? AND tenant_id = ? AND d.pos > (SELECT coalesce(max(pos), 0) FROM approval_decision) - ?
	ORDER BY d.pos DESC LIMIT ?)`

// DecidedApprovals implements store.Approvals.
func (s *Store) DecidedApprovals(ctx context.Context, tenantID, principal string, limit int) (out []store.Approval,
	err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		out, err = approvals(ctx, c, decidedSQL, `a.run_id, `, principal, tenantID, store.MaxDecisionsSearched,
			clamp(limit, store.MaxPage))
		return err
	})
	store.SortByDecisionOf(principal, out)
	return out, err
}

// ExpiredApprovals implements store.Approvals.
func (s *Store) ExpiredApprovals(ctx context.Context, limit int) (out []store.Approval, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		out, err = approvals(ctx, c, `open = 1 AND expires_at <= ? ORDER BY expires_at, run_id LIMIT ?`,
			`a.expires_at, a.run_id, `, micros(s.now()), clamp(limit, store.MaxPage))
		return err
	})
	return out, err
}

// Approval implements store.ApprovalTx.
func (t *runTx) Approval(ctx context.Context) (store.Approval, error) {
	return oneApproval(ctx, t.conn, t.id.RunID)
}

// Decide implements store.ApprovalTx.
func (t *runTx) Decide(ctx context.Context, d store.ApprovalDecision) error {
	return t.changeApproval(ctx, `INSERT INTO approval_decision (run_id, principal, approved, reason, request_id, at)
		SELECT run_id, ?2, ?3, ?4, ?5, ?6 FROM approval WHERE run_id = ?1 AND open = 1 ON CONFLICT (run_id, principal) DO NOTHING`,
		t.id.RunID, d.Principal, d.Approved, d.Reason, d.RequestID, micros(t.at))
}

// CloseApproval implements store.ApprovalTx.
func (t *runTx) CloseApproval(ctx context.Context) error {
	return t.changeApproval(ctx, `UPDATE approval SET open = 0 WHERE run_id = ? AND open = 1`, t.id.RunID)
}

// changeApproval runs a statement that changes one row. If it changed none, it returns store.ErrNotFound when the run
// has no approval, and store.ErrConflict when the approval is in another state.
func (t *runTx) changeApproval(ctx context.Context, query string, args ...any) error {
	n, err := t.conn.exec(ctx, "change approval", query, args...)
	switch {
	case err != nil:
		return err
	case n > 0:
		t.bumpOpsRev()
		return nil
	}
	if _, err := t.Approval(ctx); errors.Is(err, store.ErrNotFound) {
		return err
	}
	return store.ErrConflict
}
