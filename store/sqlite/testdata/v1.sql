-- What the program of schema 1 sends, verbatim, by the name of its constant or of
-- the function that has it. Released: it does not change.

-- name: events
SELECT run_seq, key, event_id, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload FROM event WHERE run_id = ? AND run_seq > ? ORDER BY run_seq LIMIT ?

-- name: identity
SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version
		FROM run WHERE run_id = ?

-- name: Heads
SELECT run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no FROM run_head WHERE run_id IN (SELECT value FROM json_each(?))

-- name: CreateRun
SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
	coalesce(request_key, ''), request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run WHERE request_key = ?

-- name: create
INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
		request_key, request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: create2
INSERT INTO run_head (run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no) VALUES (?, 0, 0, 0, 0, 0, 0, 0)

-- name: create3
INSERT INTO run_queue (run_id, tenant_id, status, owner, generation, lease_until, not_before, created_at, attempts, last_error) VALUES (?, ?, ?, '', 0, 0, ?, ?, 0, '')

-- name: audit
INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING

-- name: epoch
SELECT value FROM meta WHERE name = 'epoch'

-- name: BumpEpoch
UPDATE meta SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'

-- name: Lease
UPDATE run_queue SET status = 'LOCKED', owner = ?1, generation = generation + 1,
				attempts = attempts + 1, lease_until = ?2
			WHERE run_id IN (SELECT run_id FROM run_queue WHERE status IN ('PENDING', 'LOCKED')
				AND ((status = 'PENDING' AND not_before <= ?3) OR (status = 'LOCKED' AND lease_until < ?3))
				ORDER BY created_at, run_id LIMIT ?4)
			RETURNING run_id, tenant_id, status, owner, generation, lease_until, not_before, created_at, attempts, last_error

-- name: Started
UPDATE run_queue SET status = 'STARTED', last_error = ''
		WHERE run_id = ? AND generation = ? AND status IN ('LOCKED', 'STARTED')

-- name: Release
UPDATE run_queue SET status = 'PENDING', owner = '', lease_until = 0,
		not_before = ?, last_error = ? WHERE run_id = ? AND generation = ? AND status = 'LOCKED'

-- name: settleQueue
SELECT 1 FROM run_queue WHERE run_id = ?

-- name: queueRow
SELECT run_id, tenant_id, status, owner, generation, lease_until, not_before, created_at, attempts, last_error FROM run_queue WHERE run_id = ?

-- name: SetQueue
UPDATE run_queue SET status = ?, owner = ?, lease_until = ?, not_before = ?, last_error = ?
		WHERE run_id = ? AND generation = ?

-- name: SetQueue2
SELECT 1 FROM run_queue WHERE run_id = ?

-- name: oneRun
SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
	coalesce(request_key, ''), request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = ?

-- name: putPlan
INSERT INTO plan_body (sha256, body) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING

-- name: Plan
SELECT body FROM plan_body WHERE sha256 = ?

-- name: List
SELECT st.header, st.created_at, h.last_seq, h.ops_rev, st.change FROM run_state st JOIN run_head h ON h.run_id = st.run_id WHERE st.tenant_id = ? ORDER BY st.created_at DESC, st.run_id DESC LIMIT ?

-- name: Changed
SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'change'

-- name: Changed2
SELECT st.header, st.created_at, h.last_seq, h.ops_rev, st.change FROM run_state st JOIN run_head h ON h.run_id = st.run_id WHERE st.tenant_id = ? AND st.change > ? ORDER BY st.change LIMIT ?

-- name: receipt
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no,
	rejected, rejection, reject_text, application, application_reason,
	accepted_seq, applied_seq, quiescent_seq, received_at, delivered_at, applied_at FROM signal WHERE run_id = ? AND signal_id = ?

-- name: Receipts
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no,
	rejected, rejection, reject_text, application, application_reason,
	accepted_seq, applied_seq, quiescent_seq, received_at, delivered_at, applied_at FROM signal WHERE run_id = ?1
		AND pos > coalesce((SELECT pos FROM signal WHERE run_id = ?1 AND signal_id = ?2), 0) ORDER BY pos LIMIT ?3

-- name: ReceiptsOf
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no,
	rejected, rejection, reject_text, application, application_reason,
	accepted_seq, applied_seq, quiescent_seq, received_at, delivered_at, applied_at FROM signal
		WHERE actor = ?1 AND run_id IN (SELECT run_id FROM run WHERE tenant_id = ?2)
		ORDER BY received_at DESC, run_id, pos DESC LIMIT ?3

-- name: After
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no,
	rejected, rejection, reject_text, application, application_reason,
	accepted_seq, applied_seq, quiescent_seq, received_at, delivered_at, applied_at FROM signal WHERE run_id = ? AND no > ? AND no > 0 ORDER BY no LIMIT ?

-- name: LeaseDeliveries
UPDATE delivery SET owner = ?1, generation = generation + 1, attempts = attempts + 1, lease_until = ?2
			WHERE run_id IN (SELECT run_id FROM delivery WHERE delivered_no < up_to AND due_at <= ?3 AND lease_until < ?3
				ORDER BY due_at, run_id LIMIT ?4)
			RETURNING run_id, tenant_id, generation, delivered_no, attempts

-- name: Delivered
UPDATE delivery SET delivered_no = max(delivered_no, min(?, up_to)), attempts = 0
			WHERE run_id = ? AND generation = ? AND lease_until > 0

-- name: Delivered2
SELECT 1 FROM delivery WHERE run_id = ?

-- name: Delivered3
UPDATE signal SET application = 'DELIVERED', delivered_at = ?
			WHERE run_id = ? AND no > 0 AND no <= ? AND application = 'PENDING'

-- name: Settle
UPDATE delivery SET owner = '', lease_until = 0, due_at = ?
			WHERE run_id = ? AND generation = ? AND lease_until > 0

-- name: Settle2
SELECT 1 FROM delivery WHERE run_id = ?

-- name: PutReceipt
INSERT INTO signal (run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no,
	rejected, rejection, reject_text, application, application_reason,
	accepted_seq, applied_seq, quiescent_seq, received_at, delivered_at, applied_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: PutReceipt2
INSERT INTO delivery (run_id, tenant_id, delivered_no, up_to, owner, generation, lease_until, due_at, attempts)
			VALUES (?1, ?2, ?3 - 1, ?3, '', 0, 0, ?4, 0)
			ON CONFLICT (run_id) DO UPDATE SET up_to = excluded.up_to,
				delivered_no = CASE WHEN delivered_no = up_to THEN excluded.delivered_no ELSE delivered_no END,
				due_at = CASE WHEN delivered_no = up_to THEN excluded.due_at ELSE due_at END

-- name: moveReceipts
UPDATE signal SET application = 'NOT_APPLIED', application_reason = ?
			WHERE run_id = ? AND rejected = 0 AND application IN ('PENDING', 'DELIVERED')

-- name: moveReceipts2
UPDATE delivery SET delivered_no = up_to WHERE run_id = ?

-- name: moveReceipts3
UPDATE signal SET quiescent_seq = max(applied_seq, ?2)
			WHERE run_id = ?1 AND type = 'PAUSE' AND application = 'APPLIED' AND quiescent_seq = 0
			AND applied_seq = (SELECT max(applied_seq) FROM signal WHERE run_id = ?1 AND type = 'PAUSE' AND application = 'APPLIED')

-- name: move
UPDATE signal SET application = 'DELIVERED', delivered_at = ?
			WHERE run_id = ? AND signal_id = ? AND rejected = 0 AND application = 'PENDING'

-- name: move2
UPDATE signal SET application = ?, application_reason = ?, applied_seq = ?, applied_at = ?
		WHERE run_id = ? AND signal_id = ? AND rejected = 0 AND application IN ('PENDING', 'DELIVERED')

-- name: load
SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
	coalesce(request_key, ''), request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = ?

-- name: load2
SELECT run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no FROM run_head WHERE run_id = ?

-- name: load3
SELECT run_seq, key, event_id, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload FROM event WHERE run_id = ? AND run_seq > ? ORDER BY run_seq

-- name: checkpoint
SELECT rev, published_seq, header FROM run_state WHERE run_id = ?

-- name: checkpoint2
SELECT body FROM step_state WHERE run_id = ? ORDER BY ord

-- name: save
SELECT seq, rev FROM run_state WHERE run_id = ?

-- name: save2
UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = 'change'

-- name: save3
INSERT INTO run_state (run_id, tenant_id, project_id, environment_id, plan_id, status, created_at,
			seq, rev, published_seq, change, header)
		SELECT run_id, tenant_id, project_id, environment_id, plan_id, ?2, created_at, ?3, ?4, 0,
			(SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'change'), ?5
		FROM run WHERE run_id = ?1
		ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, seq = excluded.seq, rev = excluded.rev,
			change = excluded.change, header = excluded.header

-- name: saveSteps
DELETE FROM step_state WHERE run_id = ?

-- name: saveSteps2
INSERT INTO step_state (run_id, ord, changed_seq, body) VALUES (?, ?, ?, ?)
			ON CONFLICT (run_id, ord) DO UPDATE SET changed_seq = excluded.changed_seq, body = excluded.body

-- name: Dirty
SELECT run_id, head_seq, ops_rev, since FROM run_dirty WHERE since <= ? ORDER BY since, run_id LIMIT ?

-- name: Published
UPDATE run_state SET published_seq = max(published_seq, ?) WHERE run_id = ?

-- name: Published2
DELETE FROM run_dirty WHERE run_id = ? AND head_seq <= ? AND ops_rev <= ?

-- name: lock
SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
	coalesce(request_key, ''), request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = ?

-- name: lock2
SELECT run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no FROM run_head WHERE run_id = ?

-- name: finish
UPDATE run_head SET last_seq = ?, last_at = ?, terminal = ?, gate = ?, running = ?,
		ops_rev = ?, signal_no = ? WHERE run_id = ?

-- name: markDirty
INSERT INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES (?, ?, ?, ?)
	ON CONFLICT (run_id) DO UPDATE SET head_seq = excluded.head_seq, ops_rev = excluded.ops_rev

-- name: touch
UPDATE run_head SET ops_rev = ops_rev + 1 WHERE run_id = ? RETURNING run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no

-- name: insert
INSERT INTO event (run_id, run_seq, key, event_id, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: facts
SELECT run_seq, key, event_id, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload FROM event WHERE run_id = ? AND key = ?

-- name: facts2
SELECT run_seq, key, event_id, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload FROM event WHERE run_id = ? AND step_id = ? AND step_id <> '' AND la = ?
			AND type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped')

-- name: facts3
SELECT run_seq, key, event_id, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload FROM event
		WHERE run_id = ? AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled')
