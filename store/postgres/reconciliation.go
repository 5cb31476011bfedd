package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const quietSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.plan_ref,
  h.last_seq, h.last_at, h.terminal, h.gate, h.running, h.ops_rev, h.signal_no, clock_timestamp(), coalesce(q.status,
  	''),
  CASE WHEN h.running > 0 THEN (SELECT json_agg(s.body) FROM step_state s WHERE s.run_id = h.run_id
    AND s.body->>'status' = 'RUNNING' AND s.body->>'substatus' IS DISTINCT FROM 'WAITING_MANUAL') END
FROM run_head h JOIN run r USING (run_id) LEFT JOIN run_queue q USING (run_id)
WHERE NOT h.terminal AND h.last_seq > 0 AND h.run_id > $1 AND h.last_at <= clock_timestamp() - $2::interval ORDER BY h.run_id LIMIT $3`

// ListQuietRuns implements store.Reconciliation.
func (s *Store) ListQuietRuns(ctx context.Context, quiet time.Duration, afterRunID string, limit int) ([]store.QuietRun,
	error) {
	return collect(ctx, s, "quiet runs", func(row pgx.CollectableRow) (q store.QuietRun, err error) {
		var ref, steps json.RawMessage
		h := &q.Head
		if err := row.Scan(&q.RunID, &q.TenantID, &q.ProjectID, &q.EnvironmentID, &q.PlanID, &q.PlanVersion, verbatim{&ref},
			&h.LastSeq, utc{&h.LastAt}, &h.Terminal, &h.Gate, &h.Running, &h.OpsRev, &h.SignalNo, utc{&q.Now}, &q.Queue,
			verbatim{&steps}); err != nil {
			return q, err
		}
		h.RunID = q.RunID
		if steps != nil {
			err = unmarshal(steps, &q.Running)
		}
		return q, errors.Join(err, unmarshal(ref, &q.PlanRef))
	}, quietSQL, afterRunID, quiet, pageSize(limit))
}

// stoppingSQL reads few rows of signal, because a gate that was stopped (4, run.GateStopped) never opens again.
const stoppingSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, s.signal_id, s.received_at
FROM run_head h JOIN run r USING (run_id) JOIN LATERAL (
  SELECT s.signal_id, s.received_at FROM signal s WHERE s.run_id = h.run_id AND s.no > 0
    AND s.type IN ('CANCEL', 'EMERGENCY_STOP') AND s.application IN ('PENDING',
    	'DELIVERED') ORDER BY s.no LIMIT 1) s ON true
WHERE NOT h.terminal AND h.gate & 4 <> 0 AND h.run_id > $1 AND s.received_at <= clock_timestamp() - $2::interval
ORDER BY h.run_id LIMIT $3`

// ListStoppingRuns implements store.Reconciliation.
func (s *Store) ListStoppingRuns(ctx context.Context, age time.Duration, afterRunID string,
	limit int) ([]store.StoppingRun,
	error) {
	return collect(ctx, s, "stopping runs", func(row pgx.CollectableRow) (r store.StoppingRun, err error) {
		return r, row.Scan(&r.RunID, &r.TenantID, &r.ProjectID, &r.EnvironmentID, &r.PlanID, &r.PlanVersion,
			&r.SignalID, utc{&r.ReceivedAt})
	}, stoppingSQL, afterRunID, age, pageSize(limit))
}

const stuckStartsSQL = `SELECT ` + queueColumns +
	` FROM run_queue q WHERE NOT q.waiting AND q.status IN ('PENDING', 'LOCKED')
  AND greatest(CASE q.status WHEN 'PENDING' THEN q.not_before ELSE q.lease_until END,
  	q.created_at) <= clock_timestamp() - $1::interval
  ORDER BY q.created_at, q.run_id LIMIT $2`

// ListStuckStarts implements store.Reconciliation.
func (s *Store) ListStuckStarts(ctx context.Context, age time.Duration, limit int) ([]store.QueueRow, error) {
	return collect(ctx, s, "stuck starts", func(row pgx.CollectableRow) (store.QueueRow, error) { return scanQueue(row) },
		stuckStartsSQL, age, pageSize(limit))
}

// waitingSQL finds the runs by their checkpoints, which count the waiting steps, and then checks the log.
const waitingSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.plan_ref, r.triggered_by,
  e.step_id, e.logical_attempt, e.persisted_at, e.payload
FROM run_head h JOIN run r USING (run_id) JOIN run_state st USING (run_id)
  JOIN step_state s ON s.run_id = h.run_id AND s.body->>'substatus' = 'WAITING_MANUAL'
  JOIN event e ON e.run_id = s.run_id AND e.step_id = s.body->>'stepId' AND e.logical_attempt = (s.body->>'logicalAttemptId')::int
    AND e.type = 'StepAwaitingManualCompletion'
WHERE NOT h.terminal AND (st.header->'counts'->>'manual')::int > 0
  AND NOT EXISTS (SELECT FROM event x WHERE x.run_id = e.run_id AND x.step_id = e.step_id AND x.logical_attempt = e.logical_attempt
    AND x.type IN ('StepCompleted', 'StepFailed', 'StepSkipped'))
  AND r.tenant_id = $1 AND ($2::text[] IS NULL OR r.project_id = ANY ($2)) AND ($3 = '' OR r.environment_id = $3) AND ($4 = '' OR h.run_id = $4)
  AND ($9 OR r.environment_id = ANY ($10) OR r.project_id = ANY ($11) OR r.project_id || '/' ||
  	r.environment_id = ANY ($12))
  AND ($5::timestamptz IS NULL OR (e.persisted_at, e.run_id, e.step_id) > ($5, $6::text COLLATE "C",
  	$7::text COLLATE "C"))
ORDER BY e.persisted_at, e.run_id, e.step_id LIMIT $8`

// ListWaits implements store.Reconciliation.
func (s *Store) ListWaits(ctx context.Context, f store.WaitFilter) ([]store.Wait, error) {
	var since *time.Time
	var at store.WaitPos
	if f.After != nil {
		at, since = *f.After, &f.After.Since
	}
	environments, projects, places, all := f.Scopes.Split()
	return collect(ctx, s, "waiting steps", func(row pgx.CollectableRow) (w store.Wait, err error) {
		var ref, payload json.RawMessage
		if err := row.Scan(&w.RunID, &w.TenantID, &w.ProjectID, &w.EnvironmentID, &w.PlanID, &w.PlanVersion, verbatim{&ref},
			&w.TriggeredBy,
			&w.StepID, &w.LogicalAttempt, utc{&w.Since}, verbatim{&payload}); err != nil {
			return w, err
		}
		p, err := run.PayloadOf[run.AwaitingPayload](payload)
		w.Deadline = p.Deadline
		return w, errors.Join(err, unmarshal(ref, &w.PlanRef))
	}, waitingSQL, f.TenantID, f.ProjectIDs, f.EnvironmentID, f.RunID, since, at.RunID, at.StepID, pageSize(f.Limit),
		all, environments, projects, places)
}
