package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The first row of the chain that made a run or a signal. Rows of earlier versions name no object. A row of a
// completion that was refused, and one with RUN_MOVED, made no receipt.
const (
	runMadeSQL = `LEFT JOIN audit m ON m.id = (SELECT a.id FROM audit a LEFT JOIN audit_link l ON l.id = a.id
		WHERE a.run_id = r.run_id AND a.run_id <> '' AND a.signal_id = '' AND a.tenant_id = r.tenant_id AND a.outcome = 'ACCEPTED'
			AND (a.object = 'run/' || r.run_id OR a.object = '' AND a.action IN ('START', 'RERUN'))
		ORDER BY l.no IS NULL, l.no, a.at, a.id LIMIT 1)`
	signalMadeSQL = `LEFT JOIN audit m ON m.id = (SELECT a.id FROM audit a LEFT JOIN audit_link l ON l.id = a.id
		WHERE a.run_id = s.run_id AND a.run_id <> '' AND a.signal_id = s.signal_id AND a.tenant_id = r.tenant_id
			AND (a.object = 'signal/' || s.run_id || '/' || s.signal_id OR a.object = '' AND a.code <> 'RUN_MOVED'
				AND (a.outcome = 'ACCEPTED' AND NOT s.rejected OR a.outcome = 'REJECTED' AND s.rejected AND a.action <> 'COMPLETE_MANUAL_STEP'))
		ORDER BY l.no IS NULL, l.no, a.at, a.id LIMIT 1)`
	madeColumns = `coalesce(m.id, ''), coalesce(m.actor, ''), coalesce(m.action, ''), coalesce(m.reason, ''), m.detail,
		coalesce(m.object, ''), coalesce(m.digest, '')`
)

func madeTargets(r *store.AuditRow) []any {
	return []any{&r.ID, &r.Actor, &r.Action, &r.Reason, (*[]byte)(&r.Detail), &r.Object, &r.Digest}
}

// auditRunsSQL hashes each plan of the page once.
const auditRunsSQL = `WITH page AS MATERIALIZED (
		SELECT * FROM run WHERE tenant_id = ?1 AND run_id > ?2 ORDER BY run_id LIMIT ?3
	), body AS MATERIALIZED (
		SELECT sha256, dvt_sha256(body) AS sum FROM plan_body WHERE sha256 IN (SELECT json_extract(plan_ref, '$.sha256') FROM page)
	)
	SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, coalesce(r.request_key, ''), r.request_id,
	r.plan_ref, r.triggered_by, r.trigger_source, r.parent_run_id, r.params, r.policy, r.created_at, coalesce(b.sum, ''), ` + madeColumns + `
	FROM page r LEFT JOIN body b ON b.sha256 = json_extract(r.plan_ref, '$.sha256') ` + runMadeSQL + ` ORDER BY r.run_id`

// auditRuns pages by run id.
func (s *Store) auditRuns(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	return readAll(ctx, s, "audit runs", func(row scanner) (store.AuditObject, error) {
		var made store.AuditRow
		var body string
		r, err := scanRun(withTargets{row, append([]any{&body}, madeTargets(&made)...)})
		o := store.CheckRun(r, made, body)
		o.Cursor = r.RunID
		return o, err
	}, auditRunsSQL, f.TenantID, f.After, min(clamp(f.Limit, store.MaxPage), store.MaxCheckedRuns))
}

// auditSignalsSQL names the columns of signal, because run has some of the same names.
const auditSignalsSQL = `SELECT s.run_id, s.signal_id, s.type, s.step_id, s.expected_attempt, s.force, s.payload, s.actor, s.reason, s.no,
	s.rejected, s.rejection, s.reject_text, s.accepted_seq, s.pos, ` + madeColumns + `
	FROM run r JOIN signal s ON s.run_id = r.run_id ` + signalMadeSQL + `
	WHERE r.tenant_id = ?1 AND r.run_id >= ?2 AND (r.run_id > ?2 OR s.pos > ?3) ORDER BY r.run_id, s.pos LIMIT ?4`

// auditSignals pages by run id, and within a run by arrival.
func (s *Store) auditSignals(ctx context.Context, f store.AuditObjectFilter) ([]store.AuditObject, error) {
	number, runID, _ := strings.Cut(f.After, "/")
	pos, err := after(number)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "audit signals", func(row scanner) (store.AuditObject, error) {
		var made store.AuditRow
		var r run.Receipt
		var pos int64
		err := row.Scan(append([]any{&r.RunID, &r.Signal.ID, &r.Signal.Type, &r.Signal.StepID, &r.Signal.ExpectedAttempt,
			&r.Signal.Force, (*[]byte)(&r.Payload), &r.Actor, &r.Reason, &r.No, &r.Rejected, &r.Rejection, &r.RejectText,
			&r.AcceptedSeq, &pos}, madeTargets(&made)...)...)
		o := store.CheckSignal(f.TenantID, r, made)
		o.Cursor = fmt.Sprintf("%d/%s", pos, r.RunID)
		return o, err
	}, auditSignalsSQL, f.TenantID, runID, pos, clamp(f.Limit, store.MaxPage))
}
