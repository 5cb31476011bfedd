package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
)

// AllRuns implements store.Upkeep.
func (s *Store) AllRuns(ctx context.Context, after string, limit int) ([]store.Run, error) {
	return collect(ctx, s, "all runs", func(row pgx.CollectableRow) (store.Run, error) { return scanRun(row) },
		`SELECT `+runColumns+` FROM run r WHERE run_id > $1 ORDER BY run_id LIMIT $2`, after, pageSize(limit))
}

// Checkpoint implements store.Upkeep.
func (s *Store) Checkpoint(ctx context.Context, runID string) (st run.State, err error) {
	err = s.do(ctx, "checkpoint", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT true, -1 AS ord, header FROM run_state WHERE run_id = $1 AND rev > 0
			UNION ALL SELECT false, ord, body FROM step_state WHERE run_id = $1 ORDER BY ord`, runID)
		if err != nil {
			return err
		}
		defer rows.Close()
		st = run.State{}
		found := false
		for rows.Next() {
			var header bool
			var ord int
			var doc []byte
			if err := rows.Scan(&header, &ord, &doc); err != nil {
				return err
			}
			if header {
				found = true
				if err := unmarshal(doc, &st.Header); err != nil {
					return err
				}
				continue
			}
			step := &run.Step{}
			if err := unmarshal(doc, step); err != nil {
				return err
			}
			st.Steps = append(st.Steps, step)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if !found {
			return store.ErrNotFound
		}
		return nil
	})
	return st, err
}

// DropCheckpoint implements store.Upkeep. It keeps the row without a usable state, because the row holds published_seq.
func (s *Store) DropCheckpoint(ctx context.Context, runID string) error {
	return s.withHeadLock(ctx, "drop checkpoint", runID, func(_ context.Context, t *tx) error {
		t.batch.Queue(`UPDATE run_state SET rev = 0, seq = 0 WHERE run_id = $1`, runID)
		t.batch.Queue(`DELETE FROM step_state WHERE run_id = $1`, runID)
		t.batch.Queue(dirtySQL, runID, t.head.LastSeq, t.head.OpsRev, t.at())
		return nil
	})
}

// MarkRepaired implements store.Upkeep.
func (s *Store) MarkRepaired(ctx context.Context, runID string, known run.Seq) error {
	return s.do(ctx, "repaired", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `INSERT INTO run_repair AS r (run_id, known_seq) VALUES ($1, $2)
			ON CONFLICT (run_id) DO UPDATE SET known_seq = greatest(r.known_seq, excluded.known_seq)`, runID, known)
		return err
	})
}

// importReceipts queues receipts unchanged and returns their highest number.
func importReceipts(b *pgx.Batch, runID string, receipts []run.SignalReceipt) (no int64) {
	for _, r := range receipts {
		b.Queue(putReceiptSQL, runID, r.Signal.ID, r.Signal.Type, r.Signal.StepID,
			r.Signal.ExpectedAttempt, r.Signal.Force, text(r.Payload), r.Actor, r.Reason, r.No, r.Rejected, r.Rejection,
			r.RejectText, r.Application, r.ApplicationReason, r.AcceptedSeq, r.AppliedSeq, r.QuiescentSeq,
			r.ReceivedAt, r.DeliveredAt, r.AppliedAt)
		no = max(no, r.No)
	}
	return no
}

const quietSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.plan_ref,
  h.last_seq, h.last_at, h.terminal, h.gate, h.running, h.ops_rev, h.signal_no, clock_timestamp(), coalesce(q.status,
  	''),
  CASE WHEN h.running > 0 THEN (SELECT json_agg(s.body) FROM step_state s WHERE s.run_id = h.run_id
    AND s.body->>'status' = 'RUNNING' AND s.body->>'substatus' IS DISTINCT FROM 'WAITING_MANUAL') END,
  coalesce(st.header->>'startedAt', ''), coalesce(st.header->'policy'->>'dueAt', ''), st.header->'rootCause',
  coalesce((st.header->'counts'->>'manual')::int, 0)
FROM run_head h JOIN run r USING (run_id) LEFT JOIN run_queue q USING (run_id) LEFT JOIN run_state st USING (run_id)
WHERE NOT h.terminal AND h.last_seq > 0 AND h.run_id > $1 AND h.last_at <= clock_timestamp() - $2::interval ORDER BY h.run_id LIMIT $3`

// ListQuietRuns implements store.Reconciliation.
func (s *Store) ListQuietRuns(ctx context.Context, quiet time.Duration, afterRunID string, limit int) ([]store.QuietRun,
	error) {
	return collect(ctx, s, "quiet runs", func(row pgx.CollectableRow) (q store.QuietRun, err error) {
		var ref, steps, cause json.RawMessage
		var started, due string
		h := &q.Head
		if err := row.Scan(&q.RunID, &q.TenantID, &q.ProjectID, &q.EnvironmentID, &q.PlanID, &q.PlanVersion, verbatim{&ref},
			&h.LastSeq, utc{&h.LastAt}, &h.Terminal, &h.Gate, &h.Running, &h.OpsRev, &h.SignalNo, utc{&q.Now}, &q.Queue,
			verbatim{&steps}, &started, &due, verbatim{&cause}, &q.Manual); err != nil {
			return q, err
		}
		h.RunID = q.RunID
		if steps != nil {
			err = unmarshal(steps, &q.Running)
		}
		if err == nil {
			err = q.ReadFacts(started, due, cause)
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

const erasureColumns = `pos, id, kind, tenant_id, subject, reason, requested_by, requested_at, expires_at, confirmed_by,
	confirmed_at, cancelled_by, cancelled_at, started_at, phase, position, counts, finished_at, certificate`

func scanErasure(row pgx.CollectableRow) (e store.Erasure, err error) {
	var counts, certificate string
	err = row.Scan(&e.Pos, &e.ID, &e.Kind, &e.TenantID, &e.Subject, &e.Reason, &e.RequestedBy, utc{&e.RequestedAt},
		utc{&e.ExpiresAt}, &e.ConfirmedBy, &e.ConfirmedAt, &e.CancelledBy, &e.CancelledAt, &e.StartedAt, &e.Phase,
		&e.Position, &counts, &e.FinishedAt, &certificate)
	if err != nil {
		return e, err
	}
	if certificate != "" {
		e.Certificate = json.RawMessage(certificate)
	}
	return e, json.Unmarshal([]byte(counts), &e.Counts)
}

// RequestErasure implements store.Erasures.
func (s *Store) RequestErasure(ctx context.Context, e store.Erasure, ttl time.Duration,
	audit ...store.AuditRow) (out store.Erasure, err error) {
	err = s.inTx(ctx, "request erasure", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		// Requests of a tenant come one after the other, so that two of them see each other.
		if _, err := c.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('dvt erasure ' || $1, 0))`,
			e.TenantID); err != nil {
			return err
		}
		tag, err := c.Exec(ctx, `INSERT INTO erasure (id, kind, tenant_id, subject, reason, requested_by, expires_at)
			SELECT $1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7)
			WHERE NOT EXISTS (SELECT FROM erasure o WHERE o.tenant_id = $3 AND o.kind = $2 AND o.subject = $4 AND o.id <> $1
				AND o.cancelled_at IS NULL AND o.finished_at IS NULL
				AND (o.confirmed_at IS NOT NULL OR o.expires_at > clock_timestamp())) ON CONFLICT (id) DO NOTHING`,
			e.ID, e.Kind, e.TenantID, e.Subject, e.Reason, e.RequestedBy, ttl.Seconds())
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 {
			queueAudit(last, audit)
		}
		out, err = erasureOf(ctx, c, e.TenantID, e.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrConflict
		}
		return err
	})
	return out, err
}

// DecideErasure implements store.Erasures.
func (s *Store) DecideErasure(ctx context.Context, tenantID, id, by string, confirm bool,
	audit ...store.AuditRow) (out store.Erasure, err error) {
	const undecided = ` WHERE id = $1 AND tenant_id = $2 AND cancelled_at IS NULL AND started_at IS NULL`
	sql := `UPDATE erasure SET cancelled_by = $3, cancelled_at = clock_timestamp()` + undecided
	if confirm {
		sql = `UPDATE erasure SET confirmed_by = $3, confirmed_at = clock_timestamp()` + undecided +
			` AND confirmed_at IS NULL AND requested_by <> $3 AND expires_at > clock_timestamp()`
	}
	err = s.inTx(ctx, "decide erasure", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		tag, err := c.Exec(ctx, sql, id, tenantID, by)
		if err != nil {
			return err
		}
		if out, err = erasureOf(ctx, c, tenantID, id); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return store.ErrConflict
		}
		queueAudit(last, audit)
		return nil
	})
	return out, err
}

func erasureOf(ctx context.Context, c *pgx.Conn, tenantID, id string) (store.Erasure, error) {
	rows, err := c.Query(ctx, `SELECT `+erasureColumns+` FROM erasure WHERE id = $1 AND tenant_id = $2`, id, tenantID)
	if err != nil {
		return store.Erasure{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanErasure)
}

// Erasures implements store.Erasures.
func (s *Store) Erasures(ctx context.Context, ef store.ErasureFilter) ([]store.Erasure, error) {
	f := filter{where: []string{"true"}}
	if ef.TenantID != "" {
		f.add("tenant_id = ?", ef.TenantID)
	}
	if ef.IDs != nil {
		f.add("id = ANY (?)", ef.IDs)
	}
	if ef.Before > 0 {
		f.add("pos < ?", ef.Before)
	}
	if ef.Open {
		f.where = append(f.where, "finished_at IS NULL AND cancelled_at IS NULL")
	}
	query := `SELECT ` + erasureColumns + ` FROM erasure WHERE ` + f.String() + ` ORDER BY pos DESC ` +
		f.bind(`LIMIT ?`, pageSize(ef.Limit))
	return collect(ctx, s, "erasures", scanErasure, query, f.args...)
}

// CountErasure implements store.Erasures.
func (s *Store) CountErasure(ctx context.Context, tenantID, subject string) (out store.ErasureCounts, err error) {
	scope := owner.Scope{TenantID: tenantID, Subject: subject}
	deleted, remaining := owner.CountStatements(owner.Postgres, scope, store.MaxErasureCount)
	if out.Deleted, err = s.countRows(ctx, deleted, scope); err != nil {
		return out, err
	}
	out.Remaining, err = s.countRows(ctx, remaining, scope)
	return out, err
}

func (s *Store) countRows(ctx context.Context, list []owner.Statement, scope owner.Scope) (map[string]int64, error) {
	out := map[string]int64{}
	for _, one := range list {
		n, err := s.countOf(ctx, "count "+one.Table, one.SQL, scope)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			out[one.Table] = n
		}
	}
	return out, nil
}

func (s *Store) countOf(ctx context.Context, what, sql string, scope owner.Scope) (n int64, err error) {
	err = s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, sql, scope.Args()...).Scan(&n)
	})
	return n, err
}

// ErasureHolds implements store.Erasures.
func (s *Store) ErasureHolds(ctx context.Context, tenantID, subject string) (int64, error) {
	scope := owner.Scope{TenantID: tenantID, Subject: subject}
	return s.countOf(ctx, "count holds", owner.HoldsStatement(owner.Postgres, scope), scope)
}
