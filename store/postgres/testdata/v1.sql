-- What the program of schema 1 sends, verbatim, by the name of its constant or of
-- the function that has it. Released: it does not change.

-- name: factsByKeySQL
SELECT e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.la, e.ea,
  e.emitted_at, e.persisted_at, e.emitted_by, e.payload
FROM unnest($2::text[]) k (key), LATERAL (SELECT * FROM event e WHERE e.run_id = $1 AND e.key = k.key LIMIT 1) e

-- name: factsBegunSQL
SELECT e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.la, e.ea,
  e.emitted_at, e.persisted_at, e.emitted_by, e.payload
FROM unnest($2::text[], $3::int[]) a (step_id, la),
  (VALUES ('StepStarted'), ('StepAwaitingManualCompletion')) w (type),
  LATERAL (SELECT * FROM event e WHERE e.run_id = $1 AND e.step_id = a.step_id AND e.la = a.la
    AND e.type = w.type AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion') ORDER BY run_seq LIMIT 1) e

-- name: factsTerminalSQL
SELECT e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.la, e.ea,
  e.emitted_at, e.persisted_at, e.emitted_by, e.payload
FROM unnest($2::text[], $3::int[]) a (step_id, la),
  LATERAL (SELECT * FROM event e WHERE e.run_id = $1 AND e.step_id = a.step_id AND e.la = a.la
    AND e.type IN ('StepCompleted', 'StepFailed', 'StepSkipped') LIMIT 1) e

-- name: factsEndSQL
SELECT e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.la, e.ea,
  e.emitted_at, e.persisted_at, e.emitted_by, e.payload FROM event e
WHERE run_id = $1 AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled')

-- name: insertEventsSQL
INSERT INTO event (run_id, run_seq, event_id, key, type, step_id, signal_id,
  la, ea, emitted_at, persisted_at, emitted_by, payload)
SELECT $1, seq, id, key, type, step, signal, la, ea, emitted, persisted, by, payload::json
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::int[],
  $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[])
  u (seq, id, key, type, step, signal, la, ea, emitted, persisted, by, payload)

-- name: Changed
SELECT ((SELECT value FROM meta WHERE name = 'epoch')::text || '.' ||
  substring(pg_walfile_name(pg_current_wal_lsn()) for 8)), pg_snapshot_xmin(pg_current_snapshot())::text::bigint

-- name: insertRunSQL
INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version,
  request_key, request_id, plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at)
VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, $9::text::json, $10, $11, $12, $13::text::json, $14::text::json,
  coalesce($15::timestamptz, clock_timestamp()))
ON CONFLICT DO NOTHING RETURNING created_at

-- name: CreateRun
INSERT INTO run_queue (run_id, tenant_id, not_before, created_at) VALUES ($1, $2, $3, $3)

-- name: insertRun
INSERT INTO run_head (run_id) VALUES ($1)

-- name: Events
SELECT e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.la, e.ea,
  e.emitted_at, e.persisted_at, e.emitted_by, e.payload FROM event e WHERE run_id = $1 AND run_seq > $2
		ORDER BY run_seq LIMIT $3

-- name: EventsBefore
SELECT e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.la, e.ea,
  e.emitted_at, e.persisted_at, e.emitted_by, e.payload FROM event e WHERE run_id = $1 AND run_seq < $2
		ORDER BY run_seq DESC LIMIT $3

-- name: identitySQL
SELECT tenant_id, project_id, environment_id, plan_id, plan_version FROM run WHERE run_id = $1

-- name: headsSQL
SELECT ((SELECT value FROM meta WHERE name = 'epoch')::text || '.' ||
  substring(pg_walfile_name(pg_current_wal_lsn()) for 8)), clock_timestamp(), h.run_id, h.last_seq, h.last_at, h.terminal, h.gate,
  h.running, h.ops_rev, h.signal_no
FROM (SELECT) one LEFT JOIN run_head h ON h.run_id = ANY($1)

-- name: checkSchema
SELECT coalesce(max(version_id), 0), current_setting('synchronous_commit')
			FROM goose_db_version WHERE is_applied

-- name: Epoch
SELECT ((SELECT value FROM meta WHERE name = 'epoch')::text || '.' ||
  substring(pg_walfile_name(pg_current_wal_lsn()) for 8))

-- name: BumpEpoch
UPDATE meta SET value = value + 1 WHERE name = 'epoch'

-- name: leaseSQL
WITH due AS (
  SELECT q.run_id FROM run_queue q JOIN run_head h USING (run_id)
  WHERE (q.status = 'PENDING' AND q.not_before <= clock_timestamp())
    OR (q.status = 'LOCKED' AND q.lease_until < clock_timestamp())
  ORDER BY q.created_at, q.run_id LIMIT $3 FOR UPDATE OF q, h SKIP LOCKED
), ops AS (
  UPDATE run_head h SET ops_rev = ops_rev + 1 FROM due WHERE h.run_id = due.run_id
  RETURNING h.run_id, h.last_seq, h.ops_rev
), marks AS (
  INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since)
  SELECT run_id, last_seq, ops_rev, clock_timestamp() FROM ops ORDER BY run_id
  ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq),
    ops_rev = greatest(d.ops_rev, excluded.ops_rev)
), leased AS (
  UPDATE run_queue q SET status = 'LOCKED', owner = $1, generation = generation + 1, attempts = attempts + 1,
    lease_until = clock_timestamp() + $2::interval
  FROM due WHERE q.run_id = due.run_id RETURNING q.*
)
SELECT q.run_id, q.tenant_id, q.status, q.owner, q.generation, q.lease_until, q.not_before,
  q.created_at, q.attempts, q.last_error FROM leased q ORDER BY q.created_at, q.run_id

-- name: Started
UPDATE run_queue SET status = 'STARTED', last_error = ''
		WHERE run_id = $1 AND generation = $2 AND status IN ('LOCKED', 'STARTED')

-- name: Release
UPDATE run_queue SET status = 'PENDING', owner = '', lease_until = 'epoch',
		not_before = clock_timestamp() + $3::interval, last_error = $4
		WHERE run_id = $1 AND generation = $2 AND status = 'LOCKED'

-- name: moveQueue
SELECT 1 FROM run_queue WHERE run_id = $1

-- name: queueSQL
SELECT q.run_id, q.tenant_id, q.status, q.owner, q.generation, q.lease_until, q.not_before,
  q.created_at, q.attempts, q.last_error FROM run_queue q WHERE run_id = $1

-- name: SetQueue
UPDATE run_queue SET status = $3, owner = $4, lease_until = $5, not_before = $6, last_error = $7
		WHERE run_id = $1 AND generation = $2

-- name: Get
SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  coalesce(r.request_key, ''), r.request_id, r.plan_ref, r.triggered_by, r.trigger_source, r.parent_run_id,
  r.params, r.policy, r.created_at FROM run r WHERE run_id = $1

-- name: byRequestSQL
SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  coalesce(r.request_key, ''), r.request_id, r.plan_ref, r.triggered_by, r.trigger_source, r.parent_run_id,
  r.params, r.policy, r.created_at FROM run r WHERE request_key = $1

-- name: putPlanSQL
INSERT INTO plan_body (sha256, body) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING

-- name: Plan
SELECT body FROM plan_body WHERE sha256 = $1

-- name: receiptSQL
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no, rejected,
  rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
  received_at, delivered_at, applied_at FROM signal WHERE run_id = $1 AND signal_id = $2

-- name: Receipts
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no, rejected,
  rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
  received_at, delivered_at, applied_at FROM signal WHERE run_id = $1
		AND pos > coalesce((SELECT pos FROM signal WHERE run_id = $1 AND signal_id = $2), 0) ORDER BY pos LIMIT $3

-- name: ReceiptsOf
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no, rejected,
  rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
  received_at, delivered_at, applied_at FROM signal
		WHERE actor = $1 AND run_id IN (SELECT run_id FROM run WHERE tenant_id = $2)
		ORDER BY received_at DESC, run_id, pos DESC LIMIT $3

-- name: After
SELECT run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no, rejected,
  rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
  received_at, delivered_at, applied_at FROM signal WHERE run_id = $1 AND no > $2 AND no > 0
		ORDER BY no LIMIT $3

-- name: putReceiptSQL
INSERT INTO signal (run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no, rejected,
  rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
  received_at, delivered_at, applied_at)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
ON CONFLICT (run_id, signal_id) DO NOTHING RETURNING run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no, rejected,
  rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
  received_at, delivered_at, applied_at

-- name: putDeliverySQL
INSERT INTO delivery AS d (run_id, tenant_id, delivered_no, up_to, due_at) VALUES ($1, $2, $3 - 1, $3, $4)
ON CONFLICT (run_id) DO UPDATE SET up_to = excluded.up_to,
  delivered_no = CASE WHEN d.delivered_no = d.up_to THEN excluded.delivered_no ELSE d.delivered_no END,
  due_at = CASE WHEN d.delivered_no = d.up_to THEN excluded.due_at ELSE d.due_at END

-- name: queueMove
UPDATE signal SET application = 'DELIVERED', delivered_at = $3
			WHERE run_id = $1 AND signal_id = $2 AND NOT rejected AND application = 'PENDING'

-- name: queueMove2
UPDATE signal SET application = $3, application_reason = $4, applied_seq = $5, applied_at = $6
		WHERE run_id = $1 AND signal_id = $2 AND NOT rejected AND application IN ('PENDING', 'DELIVERED')

-- name: queueEnd
UPDATE signal SET application = 'NOT_APPLIED', application_reason = $2
		WHERE run_id = $1 AND NOT rejected AND application IN ('PENDING', 'DELIVERED')

-- name: queueEnd2
UPDATE delivery SET delivered_no = up_to WHERE run_id = $1

-- name: queueQuiescent
UPDATE signal SET quiescent_seq = greatest(applied_seq, $2)
		WHERE run_id = $1 AND type = 'PAUSE' AND application = 'APPLIED' AND quiescent_seq = 0
		AND applied_seq = (SELECT max(applied_seq) FROM signal WHERE run_id = $1 AND type = 'PAUSE' AND application = 'APPLIED')

-- name: leaseDeliveriesSQL
WITH due AS (
  SELECT run_id FROM delivery WHERE delivered_no < up_to AND due_at <= clock_timestamp() AND lease_until < clock_timestamp()
  ORDER BY due_at, run_id LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE delivery d SET owner = $1, generation = generation + 1, attempts = attempts + 1,
  lease_until = clock_timestamp() + $2::interval
FROM due WHERE d.run_id = due.run_id
RETURNING d.run_id, d.tenant_id, d.generation, d.delivered_no, d.attempts

-- name: Delivered
UPDATE delivery SET delivered_no = greatest(delivered_no, least($3, up_to)), attempts = 0
			WHERE run_id = $1 AND generation = $2 AND lease_until > 'epoch'

-- name: Delivered2
UPDATE signal SET application = 'DELIVERED', delivered_at = $3
			WHERE run_id = $1 AND no > 0 AND no <= $2 AND application = 'PENDING'

-- name: Settle
UPDATE delivery SET owner = '', lease_until = 'epoch', due_at = clock_timestamp() + $3::interval
			WHERE run_id = $1 AND generation = $2 AND lease_until > 'epoch'

-- name: queueAudit
INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
			VALUES (coalesce(nullif($1, '')::uuid, gen_random_uuid()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::json)
			ON CONFLICT (id) DO NOTHING

-- name: loadSQL
WITH st AS (SELECT seq, published_seq, header, rev = $2 AND (header -> 'counts' ->> 'total')::int =
    (SELECT count(*) FROM step_state WHERE run_id = $1) AS usable FROM run_state WHERE run_id = $1)
SELECT 0 AS kind, 0 AS n, json_build_object(
    'tenantId', r.tenant_id, 'projectId', r.project_id, 'environmentId', r.environment_id,
    'planId', r.plan_id, 'planVersion', r.plan_version, 'createdAt', r.created_at, 'triggeredBy', r.triggered_by,
    'lastSeq', h.last_seq, 'lastAt', h.last_at, 'terminal', h.terminal, 'gate', h.gate, 'running', h.running,
    'opsRev', h.ops_rev, 'signalNo', h.signal_no,
    'published', coalesce((SELECT published_seq FROM st), 0),
    'epoch', ((SELECT value FROM meta WHERE name = 'epoch')::text || '.' ||
  substring(pg_walfile_name(pg_current_wal_lsn()) for 8)), 'now', clock_timestamp()) AS doc,
  NULL::text AS event_id, NULL::text AS key, NULL::text AS type, NULL::text AS step_id, NULL::text AS signal_id,
  NULL::int AS la, NULL::int AS ea, NULL::timestamptz AS emitted_at, NULL::timestamptz AS persisted_at, NULL::text AS emitted_by
FROM run_head h JOIN run r USING (run_id) WHERE h.run_id = $1
UNION ALL
SELECT 1, seq, header, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM st WHERE usable
UNION ALL
SELECT 2, ord, body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM step_state WHERE run_id = $1 AND (SELECT usable FROM st)
UNION ALL
SELECT 3, run_seq, payload, event_id, key, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by
FROM event WHERE run_id = $1 AND run_seq > coalesce((SELECT seq FROM st WHERE usable), 0)
ORDER BY kind, n

-- name: saveSQL
WITH h AS (
  INSERT INTO run_state AS st (run_id, tenant_id, project_id, status, seq, rev, header)
  SELECT run_id, tenant_id, project_id, $2, $3, $4, $7::text::json FROM run WHERE run_id = $1
  ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, seq = excluded.seq, rev = excluded.rev,
    header = excluded.header, xid = pg_current_xact_id()
  WHERE st.rev = $5::int AND st.seq = $6::bigint
  RETURNING run_id
), surplus AS (
  DELETE FROM step_state st USING h WHERE st.run_id = h.run_id AND st.ord >= $8
), steps AS (
  INSERT INTO step_state AS st (run_id, ord, changed_seq, body)
  SELECT h.run_id, u.ord, u.seq, u.body::json FROM h, unnest($9::int[], $10::bigint[], $11::text[]) u (ord, seq, body)
  ON CONFLICT (run_id, ord) DO UPDATE SET changed_seq = excluded.changed_seq, body = excluded.body
)
SELECT count(*) FROM h

-- name: save
SELECT st.rev, st.seq FROM run LEFT JOIN run_state st USING (run_id) WHERE run_id = $1

-- name: Dirty
SELECT run_id, head_seq, ops_rev, since FROM run_dirty
			WHERE since <= clock_timestamp() - $1::interval ORDER BY since, run_id LIMIT $2

-- name: Published
DELETE FROM run_dirty WHERE run_id = $1 AND head_seq <= $2 AND ops_rev <= $3

-- name: Published2
UPDATE run_dirty SET since = coalesce((SELECT persisted_at FROM event
			WHERE run_id = $1 AND run_seq > $2 ORDER BY run_seq LIMIT 1), clock_timestamp()) WHERE run_id = $1

-- name: Published3
UPDATE run_state SET published_seq = greatest(published_seq, $2), xid = pg_current_xact_id()
			WHERE run_id = $1

-- name: beginSQL
begin isolation level read committed

-- name: limitsSQL
SELECT set_config('statement_timeout', $1, true),
  set_config('idle_in_transaction_session_timeout', $2, true)

-- name: lockSQL
SELECT l.*, clock_timestamp() FROM (
  SELECT r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
    h.last_seq, h.last_at, h.terminal, h.gate, h.running, h.ops_rev, h.signal_no
  FROM run_head h JOIN run r USING (run_id) WHERE h.run_id = $1 FOR UPDATE OF h) l

-- name: commit
UPDATE run_head SET last_seq = $2, last_at = $3, terminal = $4, gate = $5, running = $6,
			ops_rev = $7, signal_no = $8 WHERE run_id = $1

-- name: commit2
commit

-- name: dirtySQL
INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since) VALUES ($1, $2, $3, $4)
  ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq),
    ops_rev = greatest(d.ops_rev, excluded.ops_rev)

-- name: List
SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  r.created_at, r.triggered_by, st.header, h.last_seq, h.ops_rev FROM run r JOIN run_head h USING (run_id) LEFT JOIN run_state st USING (run_id)
		WHERE r.tenant_id = $1 ORDER BY r.created_at DESC, r.run_id DESC LIMIT $2

-- name: changedSQL
SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  r.created_at, r.triggered_by, st.header, h.last_seq, h.ops_rev, st.xid::text::bigint FROM run_state st JOIN run r USING (run_id) JOIN run_head h USING (run_id)
		WHERE st.tenant_id = $1 AND st.xid >= (SELECT CASE WHEN ((SELECT value FROM meta WHERE name = 'epoch')::text || '.' ||
  substring(pg_walfile_name(pg_current_wal_lsn()) for 8)) = $2 THEN $3 ELSE '0' END)::xid8 ORDER BY st.xid LIMIT $4
