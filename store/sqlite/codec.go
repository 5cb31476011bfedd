package sqlite

import (
	"database/sql"
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// micros returns a time as the integer that columns store: microseconds since 1970, or 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func instantOrNil(us sql.NullInt64) *time.Time {
	if !us.Valid {
		return nil
	}
	t := instant(us.Int64)
	return &t
}

func microsOrNil(t *time.Time) sql.NullInt64 {
	if t == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: micros(*t), Valid: true}
}

// blob returns raw as a BLOB parameter. nil becomes NULL, which differs from an empty document.
func blob(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return []byte(raw)
}

// text returns raw as a TEXT parameter, for columns that people read with the sqlite3 shell. nil becomes NULL.
func text(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return string(raw)
}

const eventColumns = `run_seq, key, event_id, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload`

// scanEvent reads eventColumns. The caller sets the identity, which is that of the run.
func scanEvent(row scanner) (run.Event, error) {
	var e run.Event
	var emitted, persisted int64
	var payload []byte
	err := row.Scan(&e.Seq, &e.Key, &e.EventID, &e.Type, &e.StepID, &e.SignalID,
		&e.LogicalAttempt, &e.EngineAttempt, &emitted, &persisted, &e.EmittedBy, &payload)
	e.EmittedAt, e.PersistedAt, e.Payload = instant(emitted), instant(persisted), payload
	return e, err
}

const runColumns = `run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
	coalesce(request_key, ''), request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at`

func scanRun(row scanner) (store.Run, error) {
	var r store.Run
	var ref, policy, params []byte
	var created int64
	if err := row.Scan(&r.RunID, &r.TenantID, &r.ProjectID, &r.EnvironmentID, &r.PlanID, &r.PlanVersion,
		&r.RequestKey, &r.RequestID, &ref, &r.TriggeredBy, &r.TriggerSource, &r.ParentRunID, &params, &policy,
		&created); err != nil {
		return store.Run{}, err
	}
	r.Params, r.CreatedAt = params, instant(created)
	if err := json.Unmarshal(ref, &r.PlanRef); err != nil {
		return store.Run{}, err
	}
	return r, json.Unmarshal(policy, &r.Policy)
}

const headColumns = `last_seq, last_at, terminal, gate, running, ops_rev, signal_no`

// scanHead reads headColumns. The caller sets RunID.
func scanHead(row scanner) (store.Head, error) {
	var h store.Head
	var at int64
	err := row.Scan(&h.LastSeq, &at, &h.Terminal, &h.Gate, &h.Running, &h.OpsRev, &h.SignalNo)
	h.LastAt = instant(at)
	return h, err
}

const signalColumns = `run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no,
	rejected, rejection, reject_text, application, application_reason,
	accepted_seq, applied_seq, quiescent_seq, received_at, delivered_at, applied_at`

func scanReceipt(row scanner) (run.SignalReceipt, error) {
	var r run.SignalReceipt
	var payload []byte
	var received int64
	var delivered, applied sql.NullInt64
	err := row.Scan(&r.RunID, &r.Signal.ID, &r.Signal.Type, &r.Signal.StepID, &r.Signal.ExpectedAttempt, &r.Signal.Force,
		&payload, &r.Actor, &r.Reason, &r.No, &r.Rejected, &r.Rejection, &r.RejectText,
		&r.Application, &r.ApplicationReason, &r.AcceptedSeq, &r.AppliedSeq, &r.QuiescentSeq, &received, &delivered, &applied)
	r.Payload, r.ReceivedAt = payload, instant(received)
	r.DeliveredAt, r.AppliedAt = instantOrNil(delivered), instantOrNil(applied)
	return r, err
}

const queueColumns = `run_id, tenant_id, project_id, waiting, priority, expires_at, estimate_ms,
	status, owner, generation, lease_until, not_before, created_at, attempts, last_error`

func scanQueue(row scanner) (store.QueueRow, error) { return scanQueueAnd(row) }

// scanQueueAnd reads queueColumns and scans the columns behind them into more.
func scanQueueAnd(row scanner, more ...any) (store.QueueRow, error) {
	var q store.QueueRow
	var expires, estimate, lease, due, created int64
	err := row.Scan(append([]any{&q.RunID, &q.TenantID, &q.ProjectID, &q.Waiting, &q.Priority, &expires, &estimate,
		&q.Status, &q.Owner, &q.Generation, &lease, &due, &created, &q.Attempts, &q.LastError}, more...)...)
	q.ExpiresAt, q.Estimate = instant(expires), time.Duration(estimate)*time.Millisecond
	q.LeaseUntil, q.CreatedAt = instant(lease), instant(created)
	if !q.Waiting {
		q.NotBefore = instant(due)
	}
	return q, err
}
