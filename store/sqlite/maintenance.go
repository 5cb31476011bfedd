package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
)

// AllRuns implements store.Upkeep.
func (s *Store) AllRuns(ctx context.Context, after string, limit int) ([]store.Run, error) {
	return readAll(ctx, s, "all runs", scanRun, `SELECT `+runColumns+` FROM run WHERE run_id > ? ORDER BY run_id LIMIT ?`,
		after, clamp(limit, store.MaxPage))
}

// Checkpoint implements store.Upkeep.
func (s *Store) Checkpoint(ctx context.Context, runID string) (st run.State, err error) {
	found := false
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, "checkpoint", `SELECT -1 AS ord, header FROM run_state WHERE run_id = ?1 AND rev > 0
			UNION ALL SELECT ord, body FROM step_state WHERE run_id = ?1 ORDER BY ord`, []any{runID}, func(r row) error {
			var ord run.Ord
			var doc []byte
			if err := r.Scan(&ord, &doc); err != nil {
				return err
			}
			if ord < 0 {
				found = true
				return json.Unmarshal(doc, &st.Header)
			}
			step := new(run.Step)
			st.Steps = append(st.Steps, step)
			return json.Unmarshal(doc, step)
		})
	})
	if err == nil && !found {
		err = notFound("checkpoint of run " + runID)
	}
	if err != nil {
		return run.State{}, err
	}
	return st, nil
}

// DropCheckpoint implements store.Upkeep. It keeps the row without a usable state, because the row holds published_seq.
func (s *Store) DropCheckpoint(ctx context.Context, runID string) error {
	return s.inRun(ctx, runID, func(t *runTx) error {
		if _, err := t.conn.exec(ctx, "drop steps", `DELETE FROM step_state WHERE run_id = ?`, runID); err != nil {
			return err
		}
		if _, err := t.conn.exec(ctx, "drop checkpoint", `UPDATE run_state SET rev = 0, seq = 0 WHERE run_id = ?`,
			runID); err != nil {
			return err
		}
		return t.markDirty(ctx)
	})
}

// MarkRepaired implements store.Upkeep.
func (s *Store) MarkRepaired(ctx context.Context, runID string, known run.Seq) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "repaired", `INSERT INTO run_repair (run_id, known_seq) VALUES (?, ?)
			ON CONFLICT (run_id) DO UPDATE SET known_seq = max(known_seq, excluded.known_seq)`, runID, known)
		return err
	})
}

const repairSQL = `SELECT coalesce(max(known_seq), 0) FROM run_repair WHERE run_id = ?`

// repairedMinHead returns 0 if a repair recorded that the events up to minHead are lost, otherwise minHead.
func (t *runTx) repairedMinHead(ctx context.Context, minHead run.Seq) (run.Seq, error) {
	known, err := collectOne(ctx, t.conn, "look for a repair", value[run.Seq], repairSQL, t.id.RunID)
	if err == nil && minHead <= known {
		return 0, nil
	}
	return minHead, err
}

// importReceipts writes receipts unchanged.
func (t *runTx) importReceipts(ctx context.Context, receipts []run.SignalReceipt) error {
	for _, r := range receipts {
		if err := t.insertReceipt(ctx, r); err != nil {
			return err
		}
		t.head.SignalNo = max(t.head.SignalNo, r.No)
	}
	return nil
}

const openRuns = `st.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')` // the condition of the partial index

const quietSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.plan_ref,
	h.last_seq, h.last_at, h.terminal, h.gate, h.running, h.ops_rev, h.signal_no,
	coalesce((SELECT q.status FROM run_queue q WHERE q.run_id = st.run_id), ''),
	CASE WHEN h.running > 0 THEN (SELECT json_group_array(json(s.body)) FROM step_state s WHERE s.run_id = st.run_id
		AND s.body ->> 'status' = 'RUNNING' AND s.body ->> 'substatus' IS NOT 'WAITING_MANUAL') END,
	st.header ->> '$.startedAt', st.header ->> '$.policy.dueAt', st.header -> '$.rootCause',
	coalesce(st.header ->> '$.counts.manual', 0)
FROM run_state st JOIN run_head h ON h.run_id = st.run_id JOIN run r ON r.run_id = st.run_id
WHERE ` + openRuns + ` AND st.run_id > ?1 AND h.terminal = 0 AND h.last_seq > 0 AND h.last_at <= ?2 ORDER BY st.run_id LIMIT ?3`

// ListQuietRuns implements store.Reconciliation.
func (s *Store) ListQuietRuns(ctx context.Context, quiet time.Duration, afterRunID string, limit int) ([]store.QuietRun,
	error) {
	now := s.now()
	return readAll(ctx, s, "quiet runs", func(row scanner) (store.QuietRun, error) {
		q := store.QuietRun{Now: now}
		var at int64
		var ref, steps, cause []byte
		var started, due sql.NullString
		err := row.Scan(&q.RunID, &q.TenantID, &q.ProjectID, &q.EnvironmentID, &q.PlanID, &q.PlanVersion, &ref,
			&q.Head.LastSeq, &at, &q.Head.Terminal, &q.Head.Gate, &q.Head.Running, &q.Head.OpsRev, &q.Head.SignalNo, &q.Queue,
			&steps, &started, &due, &cause, &q.Manual)
		q.Head.RunID, q.Head.LastAt = q.RunID, instant(at)
		if err == nil && steps != nil {
			err = json.Unmarshal(steps, &q.Running)
		}
		if err == nil {
			err = q.ReadFacts(started.String, due.String, cause)
		}
		return q, errors.Join(err, json.Unmarshal(ref, &q.PlanRef))
	}, quietSQL, afterRunID, micros(now.Add(-quiet)), clamp(limit, store.MaxPage))
}

// stoppingSQL reads few rows of signal, because a gate that was stopped (4, run.GateStopped) never opens again.
const stoppingSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, s.signal_id, s.received_at
FROM run_state st JOIN run_head h ON h.run_id = st.run_id JOIN run r ON r.run_id = st.run_id
	JOIN signal s ON s.run_id = st.run_id AND s.no = (SELECT min(x.no) FROM signal x WHERE x.run_id = st.run_id AND x.no > 0
		AND x.type IN ('CANCEL', 'EMERGENCY_STOP') AND x.application IN ('PENDING', 'DELIVERED'))
WHERE ` + openRuns + ` AND st.run_id > ?1 AND h.terminal = 0 AND h.gate & 4 <> 0 AND s.received_at <= ?2 ORDER BY st.run_id LIMIT ?3`

// ListStoppingRuns implements store.Reconciliation.
func (s *Store) ListStoppingRuns(ctx context.Context, age time.Duration, afterRunID string,
	limit int) ([]store.StoppingRun,
	error) {
	return readAll(ctx, s, "stopping runs", func(row scanner) (r store.StoppingRun, err error) {
		var received int64
		err = row.Scan(&r.RunID, &r.TenantID, &r.ProjectID, &r.EnvironmentID, &r.PlanID, &r.PlanVersion, &r.SignalID,
			&received)
		r.ReceivedAt = instant(received)
		return r, err
	}, stoppingSQL, afterRunID, micros(s.now().Add(-age)), clamp(limit, store.MaxPage))
}

const stuckStartsSQL = `SELECT ` + queueColumns + ` FROM run_queue WHERE waiting = 0 AND status IN ('PENDING', 'LOCKED')
	AND max(CASE status WHEN 'PENDING' THEN not_before ELSE lease_until END, created_at) <= ?1 ORDER BY created_at,
		run_id LIMIT ?2`

// ListStuckStarts implements store.Reconciliation.
func (s *Store) ListStuckStarts(ctx context.Context, age time.Duration, limit int) ([]store.QueueRow, error) {
	return readAll(ctx, s, "stuck starts", scanQueue, stuckStartsSQL, micros(s.now().Add(-age)),
		clamp(limit, store.MaxPage))
}

const waitingSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.plan_ref, r.triggered_by,
	e.step_id, e.logical_attempt, e.persisted_at, e.payload
FROM run_state st JOIN run_head h ON h.run_id = st.run_id JOIN run r ON r.run_id = st.run_id
	JOIN step_state s ON s.run_id = st.run_id AND s.body ->> 'substatus' = 'WAITING_MANUAL'
	JOIN event e ON e.run_id = s.run_id AND e.step_id = s.body ->> 'stepId' AND e.step_id <> '' AND e.logical_attempt = s.body ->> 'logicalAttemptId'
		AND e.type = 'StepAwaitingManualCompletion'
WHERE ` + openRuns + ` AND st.header ->> '$.counts.manual' > 0 AND h.terminal = 0
	AND NOT EXISTS (SELECT 1 FROM event x WHERE x.run_id = e.run_id AND x.step_id = e.step_id AND x.logical_attempt = e.logical_attempt
		AND x.type IN ('StepCompleted', 'StepFailed', 'StepSkipped')) AND `

// ListWaits implements store.Reconciliation.
func (s *Store) ListWaits(ctx context.Context, f store.WaitFilter) ([]store.Wait, error) {
	w := scope(store.RunFilter{TenantID: f.TenantID, ProjectIDs: f.ProjectIDs})
	if term, args := inScopes(`st.`, f.Scopes); term != "" {
		w.add(term, args...)
	}
	if f.EnvironmentID != "" {
		w.add(`st.environment_id = ?`, f.EnvironmentID)
	}
	if f.RunID != "" {
		w.add(`st.run_id = ?`, f.RunID)
	}
	if a := f.After; a != nil {
		w.add(`(e.persisted_at, e.run_id, e.step_id) > (?, ?, ?)`, micros(a.Since), a.RunID, a.StepID)
	}
	return readAll(ctx, s, "waiting steps", func(row scanner) (store.Wait, error) {
		var out store.Wait
		var at int64
		var ref, payload []byte
		if err := row.Scan(&out.RunID, &out.TenantID, &out.ProjectID, &out.EnvironmentID, &out.PlanID, &out.PlanVersion, &ref,
			&out.TriggeredBy, &out.StepID, &out.LogicalAttempt, &at, &payload); err != nil {
			return out, err
		}
		out.Since = instant(at)
		p, err := run.PayloadOf[run.AwaitingPayload](payload)
		if err != nil {
			return out, fmt.Errorf("sqlite: wait of %s in run %s: %w", out.StepID, out.RunID, err)
		}
		out.Deadline = p.Deadline
		return out, json.Unmarshal(ref, &out.PlanRef)
	}, waitingSQL+w.String()+` ORDER BY e.persisted_at, e.run_id, e.step_id LIMIT ?`,
		append(w.args, clamp(f.Limit, store.MaxPage))...)
}

const erasureColumns = `pos, id, kind, tenant_id, subject, reason, requested_by, requested_at, expires_at, confirmed_by,
	confirmed_at, cancelled_by, cancelled_at, started_at, phase, position, counts, finished_at, certificate`

func scanErasure(row scanner) (e store.Erasure, err error) {
	var counts, certificate string
	var requested, expires int64
	var confirmed, cancelled, started, finished sql.NullInt64
	err = row.Scan(&e.Pos, &e.ID, &e.Kind, &e.TenantID, &e.Subject, &e.Reason, &e.RequestedBy, &requested, &expires,
		&e.ConfirmedBy, &confirmed, &e.CancelledBy, &cancelled, &started, &e.Phase, &e.Position, &counts, &finished,
		&certificate)
	if err != nil {
		return e, err
	}
	e.RequestedAt, e.ExpiresAt = instant(requested), instant(expires)
	e.ConfirmedAt, e.CancelledAt = instantOrNil(confirmed), instantOrNil(cancelled)
	e.StartedAt, e.FinishedAt = instantOrNil(started), instantOrNil(finished)
	if certificate != "" {
		e.Certificate = json.RawMessage(certificate)
	}
	return e, json.Unmarshal([]byte(counts), &e.Counts)
}

// RequestErasure implements store.Erasures.
func (s *Store) RequestErasure(ctx context.Context, e store.Erasure, ttl time.Duration,
	rows ...store.AuditRow) (out store.Erasure, err error) {
	err = s.write(ctx, func(c *conn) error {
		now := s.now()
		n, err := c.exec(ctx, "request erasure", `INSERT INTO erasure (id, kind, tenant_id, subject, reason, requested_by,
			requested_at, expires_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE NOT EXISTS (SELECT 1 FROM erasure o
			WHERE o.tenant_id = ?3 AND o.kind = ?2 AND o.subject = ?4 AND o.id <> ?1 AND o.cancelled_at IS NULL
			AND o.finished_at IS NULL AND (o.confirmed_at IS NOT NULL OR o.expires_at > ?7)) ON CONFLICT (id) DO NOTHING`,
			e.ID, e.Kind, e.TenantID, e.Subject, e.Reason, e.RequestedBy, micros(now), micros(now.Add(ttl)))
		if err != nil {
			return err
		}
		if n > 0 {
			if err := audit(ctx, c, now, rows); err != nil {
				return err
			}
		}
		out, err = erasureOf(ctx, c, e.TenantID, e.ID)
		if errors.Is(err, store.ErrNotFound) {
			return store.ErrConflict
		}
		return err
	})
	return out, err
}

// DecideErasure implements store.Erasures.
func (s *Store) DecideErasure(ctx context.Context, tenantID, id, by string, confirm bool,
	rows ...store.AuditRow) (out store.Erasure, err error) {
	const undecided = ` WHERE id = ?1 AND tenant_id = ?2 AND cancelled_at IS NULL AND started_at IS NULL`
	sql := `UPDATE erasure SET cancelled_by = ?3, cancelled_at = ?4` + undecided
	if confirm {
		sql = `UPDATE erasure SET confirmed_by = ?3, confirmed_at = ?4` + undecided +
			` AND confirmed_at IS NULL AND requested_by <> ?3 AND expires_at > ?4`
	}
	err = s.write(ctx, func(c *conn) error {
		now := s.now()
		n, err := c.exec(ctx, "decide erasure", sql, id, tenantID, by, micros(now))
		if err != nil {
			return err
		}
		if out, err = erasureOf(ctx, c, tenantID, id); err != nil {
			return err
		}
		if n == 0 {
			return store.ErrConflict
		}
		return audit(ctx, c, now, rows)
	})
	return out, err
}

func erasureOf(ctx context.Context, c *conn, tenantID, id string) (store.Erasure, error) {
	return collectOne(ctx, c, "erasure", scanErasure, `SELECT `+erasureColumns+` FROM erasure
		WHERE id = ? AND tenant_id = ?`, id, tenantID)
}

// Erasures implements store.Erasures.
func (s *Store) Erasures(ctx context.Context, f store.ErasureFilter) ([]store.Erasure, error) {
	w := &where{terms: []string{"true"}}
	if f.TenantID != "" {
		w.add("tenant_id = ?", f.TenantID)
	}
	if f.IDs != nil {
		w.add("id IN (SELECT value FROM json_each(?))", array(f.IDs))
	}
	if f.Before > 0 {
		w.add("pos < ?", f.Before)
	}
	if f.Open {
		w.add("finished_at IS NULL AND cancelled_at IS NULL")
	}
	return readAll(ctx, s, "erasures", scanErasure, `SELECT `+erasureColumns+` FROM erasure WHERE `+w.String()+
		` ORDER BY pos DESC LIMIT ?`, append(w.args, clamp(f.Limit, store.MaxPage))...)
}

// CountErasure implements store.Erasures.
func (s *Store) CountErasure(ctx context.Context, tenantID, subject string) (out store.ErasureCounts, err error) {
	scope := owner.Scope{TenantID: tenantID, Subject: subject}
	deleted, remaining := owner.CountStatements(owner.SQLite, scope, store.MaxErasureCount)
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

func (s *Store) countOf(ctx context.Context, what, query string, scope owner.Scope) (int64, error) {
	return readOne(ctx, s, what, func(row scanner) (n int64, err error) {
		err = row.Scan(&n)
		return n, err
	}, query, scope.Args()...)
}

// ErasureHolds implements store.Erasures.
func (s *Store) ErasureHolds(ctx context.Context, tenantID, subject string) (int64, error) {
	scope := owner.Scope{TenantID: tenantID, Subject: subject}
	return s.countOf(ctx, "count holds", owner.HoldsStatement(owner.SQLite, scope), scope)
}
