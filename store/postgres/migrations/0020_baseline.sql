-- The schema of the StateStore on PostgreSQL. store/sqlite uses the same names and numbers.
-- Ids compare by bytes (COLLATE "C"). There are no foreign keys: every row of a run is written under the lock of its head,
-- which exists as long as the run.

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- Facts about the store itself.

CREATE TABLE meta (
  name  text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);
-- authority grows with every change of a policy or token, under the lock of its row.
INSERT INTO meta (name, value) VALUES ('epoch', 1), ('authority', 0), ('compatible_from', 20);

-- +goose StatementBegin
CREATE FUNCTION dvt_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is insert-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd

-- Runs: immutable facts.

CREATE TABLE plan_body (
  sha256     text COLLATE "C" PRIMARY KEY,
  body       bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Immutable facts.
CREATE TABLE run (
  run_id         text COLLATE "C" PRIMARY KEY,
  tenant_id      text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  plan_id        text COLLATE "C" NOT NULL,
  plan_version   text COLLATE "C" NOT NULL,
  request_key    text COLLATE "C" UNIQUE,
  request_id     text NOT NULL,
  plan_ref       json NOT NULL,
  triggered_by   text NOT NULL,
  trigger_source text NOT NULL,
  parent_run_id  text NOT NULL,
  params         json,
  policy         json NOT NULL,
  created_at     timestamptz NOT NULL
);
CREATE INDEX run_listed ON run (tenant_id, created_at, run_id);
CREATE INDEX run_of_project ON run (tenant_id, project_id, created_at, run_id) INCLUDE (environment_id);
CREATE INDEX run_of_environment ON run (tenant_id, environment_id, created_at, run_id);
CREATE INDEX run_of_plan ON run (tenant_id, plan_id, created_at, run_id);

-- Built beside servers that write, before this: see ahead/0008_bulk.sql.
CREATE INDEX run_of_starter ON run (tenant_id, triggered_by, created_at, run_id) INCLUDE (project_id, environment_id, plan_id);

-- A text is looked up among the ids of the tenant's own runs: what others have costs nobody else anything (T101).
CREATE INDEX run_named ON run (tenant_id, run_id);

-- Heads.

-- The lock. Only the primary key is indexed and pages are half full, so that
-- every update is HOT.
CREATE TABLE run_head (
  run_id    text COLLATE "C" PRIMARY KEY,
  last_seq  bigint NOT NULL DEFAULT 0,
  last_at   timestamptz NOT NULL DEFAULT 'epoch',
  terminal  boolean NOT NULL DEFAULT false,
  gate      smallint NOT NULL DEFAULT 0,
  running   integer NOT NULL DEFAULT 0,
  ops_rev   bigint NOT NULL DEFAULT 0,
  signal_no bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The runs that have not ended. Appends do not touch it, and stay HOT, but for the one that ends a run.
CREATE INDEX run_head_open ON run_head (run_id) WHERE NOT terminal;

-- The log.

-- The log: insert-only. json keeps a payload as it was written.
CREATE TABLE event (
  run_id          text COLLATE "C" NOT NULL,
  run_seq         bigint NOT NULL,
  event_id        text COLLATE "C" NOT NULL,
  key             text COLLATE "C" NOT NULL,
  type            text COLLATE "C" NOT NULL,
  step_id         text COLLATE "C" NOT NULL,
  signal_id       text COLLATE "C" NOT NULL,
  la              integer NOT NULL,
  ea              integer NOT NULL,
  emitted_at      timestamptz NOT NULL,
  persisted_at    timestamptz NOT NULL,
  emitted_by      text NOT NULL,
  payload         json,
  PRIMARY KEY (run_id, run_seq),
  CONSTRAINT event_key UNIQUE (run_id, key)
);
CREATE UNIQUE INDEX event_attempt_end ON event (run_id, step_id, la)
  WHERE type IN ('StepCompleted', 'StepFailed', 'StepSkipped');
CREATE UNIQUE INDEX event_run_end ON event (run_id)
  WHERE type IN ('RunCompleted', 'RunFailed', 'RunCancelled');

-- What a log holds about one attempt is one probe; the old index is a part of it.
CREATE INDEX event_attempt ON event (run_id, step_id, la)
  WHERE type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped');
CREATE TRIGGER event_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON event
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON event FROM PUBLIC;

-- Up to where the log of a run was known before a restore that it was repaired after (T30, T194).
CREATE TABLE run_repair (
  run_id    text COLLATE "C" PRIMARY KEY,
  known_seq bigint NOT NULL
);

-- Appends.

-- dvt_stamp sets one field of a compact JSON object that does not have it.
-- +goose StatementBegin
CREATE FUNCTION dvt_stamp(payload text, field text, value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT '{"' || field || '":' || value || CASE WHEN payload = '{}' THEN '}' ELSE ',' || substr(payload, 2) END $$;
-- +goose StatementEnd

-- dvt_append_one appends one event when that is plain: its subject is as expected,
-- the run goes on, no member of p_closed is in the gate. p_running is what the event
-- adds to the running attempts: 1 for the StepStarted of a fresh attempt, -1 for the
-- end of one that has begun and is not manual, 0 for what does not touch an attempt
-- and is not in the log. Otherwise it changes nothing and answers nothing, and
-- dvt_append decides. It is dvt_append for the common case, at a third of the price.
-- +goose StatementBegin
CREATE FUNCTION dvt_append_one(
  p_run text, p_min_head bigint, p_closed int, p_running int,
  p_type text, p_step text, p_signal text, p_la int, p_ea int, p_key text, p_id text, p_emitted timestamptz, p_by text, p_payload text,
  OUT last_seq bigint, OUT last_at timestamptz, OUT gate int, OUT running int, OUT ops_rev bigint, OUT signal_no bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  SELECT h.last_seq + 1, h.last_at, h.gate, h.running + p_running, h.ops_rev, h.signal_no
  INTO last_seq, last_at, gate, running, ops_rev, signal_no
  FROM run_head h WHERE h.run_id = p_run AND NOT h.terminal AND h.gate & p_closed = 0 AND h.last_seq >= p_min_head
    AND h.running + p_running >= 0 FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  last_at := greatest(clock_timestamp(), last_at); -- after the lock was won (T18)
  IF p_running = 0 THEN
    INSERT INTO event SELECT p_run, last_seq, p_id, p_key, p_type, p_step, p_signal, p_la, p_ea, p_emitted, last_at, p_by, p_payload::json
    WHERE NOT EXISTS (SELECT FROM event e WHERE e.run_id = p_run AND e.key = p_key);
  ELSE
    INSERT INTO event SELECT p_run, last_seq, p_id, p_key, p_type, p_step, p_signal, p_la, p_ea, p_emitted, last_at, p_by, p_payload::json
    WHERE (SELECT string_agg(e.type, ',') FROM event e WHERE e.run_id = p_run AND e.step_id = p_step AND e.la = p_la
        AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped'))
      IS NOT DISTINCT FROM CASE WHEN p_running < 0 THEN 'StepStarted' END;
  END IF;
  IF NOT FOUND THEN
    last_seq := NULL;
    RETURN;
  END IF;
  UPDATE run_head h SET last_seq = dvt_append_one.last_seq, last_at = dvt_append_one.last_at, running = dvt_append_one.running WHERE h.run_id = p_run;
  UPDATE run_dirty d SET head_seq = last_seq, ops_rev = greatest(d.ops_rev, dvt_append_one.ops_rev) WHERE d.run_id = p_run;
  IF NOT FOUND THEN
    INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since) VALUES (p_run, last_seq, ops_rev, last_at)
    ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq), ops_rev = greatest(d.ops_rev, excluded.ops_rev);
  END IF;
END $$;
-- +goose StatementEnd

-- dvt_append_many is dvt_append_one for many runs, none twice, in one transaction: event i
-- of p_run[i]. It answers one row for each event that it wrote, with its place in the
-- arrays. Of a run whose head somebody holds, and of what is not plain, it writes nothing
-- and says nothing, so that it waits for no head. Heads and marks are locked in the order
-- of runs (T207); marks it may wait for, as dvt_append does.
-- +goose StatementBegin
CREATE FUNCTION dvt_append_many(
  p_run text[], p_min_head bigint[], p_closed int[], p_running int[],
  p_type text[], p_step text[], p_signal text[], p_la int[], p_ea int[], p_key text[], p_id text[], p_emitted timestamptz[], p_by text[], p_payload text[]
) RETURNS TABLE (place bigint, last_seq bigint, last_at timestamptz, gate int, running int, ops_rev bigint, signal_no bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  held text[];
  now_at timestamptz;
BEGIN
  SELECT array_agg(l.run_id) INTO held
  FROM (SELECT h.run_id FROM run_head h WHERE h.run_id = ANY (p_run) ORDER BY h.run_id FOR UPDATE SKIP LOCKED) l;
  now_at := clock_timestamp(); -- after the locks were won (T18)
  RETURN QUERY WITH plain AS MATERIALIZED (
    SELECT u.*, h.last_seq + 1 AS seq, greatest(now_at, h.last_at) AS at, h.gate::int AS gate, h.running + u.adds AS running, h.ops_rev, h.signal_no
    FROM unnest(p_run, p_min_head, p_closed, p_running, p_type, p_step, p_signal, p_la, p_ea, p_key, p_id, p_emitted, p_by, p_payload)
      WITH ORDINALITY u (run, min_head, closed, adds, type, step, signal, la, ea, key, id, emitted, by, payload, place)
    JOIN run_head h ON h.run_id = u.run
    WHERE u.run = ANY (held) AND NOT h.terminal AND h.gate & u.closed = 0 AND h.last_seq >= u.min_head AND h.running + u.adds >= 0
      AND CASE WHEN u.adds = 0 THEN (SELECT true FROM event e WHERE e.run_id = u.run AND e.key = u.key) IS NULL
        ELSE (SELECT string_agg(e.type, ',') FROM event e WHERE e.run_id = u.run AND e.step_id = u.step AND e.la = u.la
            AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped'))
          IS NOT DISTINCT FROM CASE WHEN u.adds < 0 THEN 'StepStarted' END
        END
    ORDER BY u.run
  ), logged AS (
    INSERT INTO event SELECT run, seq, id, key, type, step, signal, la, ea, emitted, at, by, payload::json FROM plain
  ), head AS (
    UPDATE run_head h SET last_seq = p.seq, last_at = p.at, running = p.running FROM plain p WHERE h.run_id = p.run
  ), marked AS (
    UPDATE run_dirty d SET head_seq = p.seq, ops_rev = greatest(d.ops_rev, p.ops_rev) FROM plain p WHERE d.run_id = p.run
    RETURNING d.run_id
  ), unmarked AS (
    INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since)
    SELECT p.run, p.seq, p.ops_rev, p.at FROM plain p WHERE p.run NOT IN (SELECT m.run_id FROM marked m)
    ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq), ops_rev = greatest(d.ops_rev, excluded.ops_rev)
  )
  SELECT p.place, p.seq, p.at, p.gate, p.running, p.ops_rev, p.signal_no FROM plain p;
END $$;
-- +goose StatementEnd

-- dvt_append writes the entries of one call, all on one run, under the lock of
-- its head: dedupe by key, then the terminal of the same subject, then the end of
-- the run (T228), numbers, inserts, gate, receipts, head and dirty mark. It is
-- store/authority in SQL; the suite of every store compares the two.
--
-- Entry i has the events (p_upto[i-1], p_upto[i]]. It is a Begin when p_park[i]
-- is not null: the members of the gate that park it. p_deadline is a JSON string, and
-- payloads that may be stamped are compact objects without that field. Event arrays run in parallel,
-- as do those of the moves of receipts: m_event is the event that was the effect, 0
-- for none.
--
-- It answers one row per event and one per entry (event 0), in order; no row means
-- that there is no such run. Verdicts of events: I inserted, D stored before, T a
-- terminal won, N never started, O the run is over; of a Begin also R started
-- before, P parked, X the run is over. The row shows the stored event for D, R and
-- T. Verdict of an entry: E carried out, G the log is shorter than p_min_head.
-- +goose StatementBegin
CREATE FUNCTION dvt_append(
  p_run text, p_upto int[], p_park int[], p_set int[], p_clear int[], p_deadline text[], p_if_started boolean[], p_min_head bigint[],
  e_type text[], e_step text[], e_signal text[], e_la int[], e_ea int[], e_key text[], e_id text[], e_emitted timestamptz[], e_by text[], e_payload text[],
  m_entry int[], m_event int[], m_signal text[], m_application text[], m_reason text[]
) RETURNS TABLE (
  event int, verdict text,
  run_seq bigint, event_id text, key text, type text, step_id text, signal_id text, la int, ea int,
  emitted_at timestamptz, persisted_at timestamptz, emitted_by text, payload json,
  last_seq bigint, last_at timestamptz, terminal boolean, gate int, running int, ops_rev bigint, signal_no bigint, window_opened boolean
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  h run_head%ROWTYPE;
  old run_head%ROWTYPE;
  r event%ROWTYPE;       -- a stored event
  dup event%ROWTYPE;     -- the one with the same key
  won event%ROWTYPE;     -- the terminal of the same subject
  begun event%ROWTYPE;   -- the first StepStarted of the attempt
  manual boolean;
  now_at timestamptz;
  k int := 0;
  held int;              -- the last event that may open the retry window: inserted at the end of its entry
  held_seq bigint;
  seqs bigint[] := '{}';
  verdicts text[] := '{}';
  body text;
  inserted boolean;
  idle bigint;
  ends boolean;
  before int;
  moved int;
  ops boolean := false;
  app text;
  why text;
  at_seq bigint;
BEGIN
  SELECT * INTO h FROM run_head WHERE run_id = p_run FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  old := h;
  run_seq := 0; event_id := ''; key := ''; type := ''; step_id := ''; signal_id := ''; la := 0; ea := 0; emitted_by := '';
  last_seq := 0; terminal := false; gate := 0; running := 0; ops_rev := 0; signal_no := 0; window_opened := false;
  now_at := greatest(clock_timestamp(), h.last_at); -- after the lock was won (T18)
  FOR i IN 1 .. cardinality(p_upto) LOOP
    held := NULL; inserted := false; idle := NULL; ends := false;
    verdict := 'E'; window_opened := false;
    IF h.last_seq < p_min_head[i]
      AND NOT EXISTS (SELECT FROM run_repair x WHERE x.run_id = p_run AND x.known_seq >= p_min_head[i]) THEN
      verdict := 'G';
      k := p_upto[i];
    END IF;
    WHILE k < p_upto[i] LOOP
      k := k + 1;
      type := e_type[k]; step_id := e_step[k]; la := e_la[k]; key := e_key[k];
      dup := NULL; won := NULL; begun := NULL; manual := false;
      IF type IN ('StepStarted', 'StepCompleted', 'StepFailed', 'StepSkipped', 'StepAwaitingManualCompletion') THEN
        FOR r IN
          SELECT e.* FROM event e WHERE e.run_id = p_run AND e.key = e_key[k]
          UNION ALL
          SELECT e.* FROM event e WHERE e.run_id = p_run AND e.step_id = e_step[k] AND e.la = e_la[k]
            AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped')
        LOOP
          IF r.key = key THEN
            dup := r;
          END IF;
          IF r.type = 'StepStarted' THEN
            IF begun.run_seq IS NULL OR r.run_seq < begun.run_seq THEN
              begun := r;
            END IF;
          ELSIF r.type = 'StepAwaitingManualCompletion' THEN
            manual := true;
          ELSE
            won := r;
          END IF;
        END LOOP;
        IF held IS NOT NULL AND e_step[held] = step_id AND e_la[held] = la THEN
          IF e_type[held] = 'StepAwaitingManualCompletion' THEN
            manual := true;
          ELSE
            won.run_seq := held_seq;
          END IF;
        END IF;
      ELSE
        SELECT e.* INTO dup FROM event e WHERE e.run_id = p_run AND e.key = e_key[k];
        IF h.terminal AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled') THEN
          SELECT e.* INTO won FROM event e WHERE e.run_id = p_run AND e.type IN ('RunCompleted', 'RunFailed', 'RunCancelled');
        END IF;
      END IF;
      IF held IS NOT NULL AND e_key[held] = key THEN
        dup.run_seq := held_seq;
      END IF;

      r := NULL;
      IF p_park[i] IS NOT NULL THEN
        IF won.run_seq IS NOT NULL THEN
          verdict := 'T'; r := won;
        ELSIF h.terminal THEN
          verdict := 'X';
        ELSIF begun.run_seq IS NOT NULL THEN
          verdict := 'R'; r := begun;
        ELSIF h.gate & p_park[i] <> 0 THEN
          verdict := 'P';
        ELSE
          verdict := 'I';
        END IF;
      ELSIF dup.run_seq IS NOT NULL THEN
        verdict := 'D'; r := dup;
      ELSIF won.run_seq IS NOT NULL AND type NOT IN ('StepStarted', 'StepAwaitingManualCompletion') THEN
        verdict := 'T'; r := won;
      ELSIF p_if_started[i] AND begun.run_seq IS NULL AND type IN ('StepCompleted', 'StepFailed') THEN
        verdict := 'N';
      ELSIF h.terminal AND type NOT IN ('SignalAccepted', 'SignalRejected') THEN
        verdict := 'O';
        INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
        SELECT e_id[k]::uuid, f.tenant_id, e_by[k], 'APPEND', p_run, '', 'REJECTED', 'ORPHANED_TASK', '', '',
          json_build_object('eventType', e_type[k], 'stepId', e_step[k], 'logicalAttemptId', e_la[k], 'idempotencyKey', e_key[k])
        FROM run f WHERE f.run_id = p_run
        ON CONFLICT (id) DO NOTHING;
      ELSE
        verdict := 'I';
      END IF;

      IF verdict = 'I' THEN
        h.last_seq := h.last_seq + 1;
        h.last_at := now_at;
        before := h.running;
        IF type = 'StepStarted' THEN
          IF begun.run_seq IS NULL AND won.run_seq IS NULL AND NOT manual THEN
            h.running := h.running + 1;
          END IF;
        ELSIF begun.run_seq IS NOT NULL AND won.run_seq IS NULL AND NOT manual THEN
          h.running := greatest(0, h.running - 1);
        END IF;
        body := e_payload[k];
        IF type = 'RunPaused' THEN
          body := dvt_stamp(body, 'runningStepsCount', h.running::text);
        END IF;
        IF h.running = 0 AND (before > 0 OR type = 'RunPaused') THEN
          idle := h.last_seq;
        END IF;
        IF type IN ('RunCompleted', 'RunFailed', 'RunCancelled') THEN
          h.terminal := true; ends := true;
        END IF;
        inserted := true;
        IF p_deadline[i] IS NOT NULL AND type IN ('StepFailed', 'StepCompleted', 'StepAwaitingManualCompletion', 'RunResumed') THEN
          IF held IS NOT NULL THEN
            INSERT INTO event VALUES (p_run, held_seq, e_id[held], e_key[held], e_type[held], e_step[held], e_signal[held],
              e_la[held], e_ea[held], e_emitted[held], now_at, e_by[held], e_payload[held]::json);
          END IF;
          held := k; held_seq := h.last_seq;
        ELSE
          INSERT INTO event VALUES (p_run, h.last_seq, e_id[k], key, type, step_id, e_signal[k],
            la, e_ea[k], e_emitted[k], now_at, e_by[k], body::json);
        END IF;
        r.run_seq := h.last_seq; r.persisted_at := now_at;
      END IF;
      seqs[k] := r.run_seq; verdicts[k] := verdict;
      event := k; run_seq := coalesce(r.run_seq, 0); persisted_at := r.persisted_at;
      event_id := coalesce(r.event_id, ''); key := coalesce(r.key, ''); type := coalesce(r.type, ''); step_id := coalesce(r.step_id, '');
      signal_id := coalesce(r.signal_id, ''); la := coalesce(r.la, 0); ea := coalesce(r.ea, 0);
      emitted_at := r.emitted_at; emitted_by := coalesce(r.emitted_by, ''); payload := r.payload;
      RETURN NEXT;
      verdict := 'E';
    END LOOP;

    IF verdict = 'E' THEN
      IF inserted OR (i = 1 AND p_upto[i] = 0) OR (i > 1 AND p_upto[i] = p_upto[i - 1]) THEN
        h.gate := (h.gate & ~p_clear[i]) | p_set[i];
      END IF;
      IF held IS NOT NULL THEN
        body := e_payload[held];
        IF NOT h.terminal AND h.running = 0 AND h.gate & 2 <> 0 AND h.gate & 1 = 0 THEN -- failing, not paused (T221)
          window_opened := true;
          body := dvt_stamp(body, 'retryDeadline', p_deadline[i]);
        END IF;
        INSERT INTO event VALUES (p_run, held_seq, e_id[held], e_key[held], e_type[held], e_step[held], e_signal[held],
          e_la[held], e_ea[held], e_emitted[held], now_at, e_by[held], body::json);
      END IF;
      FOR m IN 1 .. coalesce(cardinality(m_entry), 0) LOOP
        CONTINUE WHEN m_entry[m] <> i;
        app := m_application[m]; why := m_reason[m]; at_seq := 0;
        IF m_event[m] > 0 THEN
          CONTINUE WHEN p_park[i] IS NOT NULL AND verdicts[m_event[m]] NOT IN ('I', 'R');
          CASE verdicts[m_event[m]]
            WHEN 'T' THEN app := 'NOT_APPLIED'; why := 'INVALID_TRANSITION';
            WHEN 'N' THEN app := 'NOT_APPLIED'; why := 'STEP_NOT_STARTED';
            WHEN 'O' THEN app := 'NOT_APPLIED'; why := 'ORPHANED_TASK';
            ELSE at_seq := seqs[m_event[m]];
          END CASE;
        END IF;
        IF app = 'DELIVERED' THEN
          UPDATE signal s SET application = app, delivered_at = now_at
          WHERE s.run_id = p_run AND s.signal_id = m_signal[m] AND NOT s.rejected AND s.application = 'PENDING';
        ELSE
          UPDATE signal s SET application = app, application_reason = why, applied_seq = at_seq,
            applied_at = CASE WHEN app = 'APPLIED' THEN now_at END
          WHERE s.run_id = p_run AND s.signal_id = m_signal[m] AND NOT s.rejected AND s.application IN ('PENDING', 'DELIVERED');
        END IF;
        ops := ops OR FOUND;
      END LOOP;
      IF ends THEN -- what was accepted and not applied never will be (T196)
        UPDATE signal s SET application = 'NOT_APPLIED', application_reason = 'RUN_TERMINAL'
        WHERE s.run_id = p_run AND NOT s.rejected AND s.application IN ('PENDING', 'DELIVERED');
        ops := ops OR FOUND;
        UPDATE delivery d SET delivered_no = d.up_to WHERE d.run_id = p_run;
      END IF;
      IF h.gate & 1 <> 0 AND h.running = 0 AND p_park[i] IS NULL THEN -- the newest pause has nothing running (O11)
        UPDATE signal s SET quiescent_seq = greatest(s.applied_seq, coalesce(idle, h.last_seq))
        WHERE s.run_id = p_run AND s.type = 'PAUSE' AND s.application = 'APPLIED' AND s.quiescent_seq = 0
          AND s.applied_seq = (SELECT max(n.applied_seq) FROM signal n
            WHERE n.run_id = p_run AND n.type = 'PAUSE' AND n.application = 'APPLIED');
        ops := ops OR FOUND;
      END IF;
    END IF;
    IF ops THEN
      h.ops_rev := old.ops_rev + 1;
    END IF;
    event := 0;
    last_seq := h.last_seq; last_at := h.last_at; terminal := h.terminal; gate := h.gate; running := h.running;
    ops_rev := h.ops_rev; signal_no := h.signal_no;
    RETURN NEXT;
  END LOOP;

  IF h IS DISTINCT FROM old THEN
    UPDATE run_head t SET last_seq = h.last_seq, last_at = h.last_at, terminal = h.terminal, gate = h.gate, running = h.running,
      ops_rev = h.ops_rev WHERE t.run_id = p_run;
    INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since) VALUES (p_run, h.last_seq, h.ops_rev, now_at)
    ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq), ops_rev = greatest(d.ops_rev, excluded.ops_rev);
  END IF;
END $$;
-- +goose StatementEnd

-- Checkpoints: caches.

-- Checkpoints: caches.
CREATE TABLE run_state (
  run_id        text COLLATE "C" PRIMARY KEY,
  tenant_id     text COLLATE "C" NOT NULL,
  project_id    text COLLATE "C" NOT NULL,
  status        text COLLATE "C" NOT NULL,
  seq           bigint NOT NULL,
  rev           integer NOT NULL,
  published_seq bigint NOT NULL DEFAULT 0,
  header        json NOT NULL,
  xid           xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX run_state_changed ON run_state (xid, run_id);

CREATE TABLE step_state (
  run_id      text COLLATE "C" NOT NULL,
  ord         integer NOT NULL,
  changed_seq bigint NOT NULL,
  body        json NOT NULL,
  PRIMARY KEY (run_id, ord)
) WITH (fillfactor = 80);

-- Marks of runs that have something to project.

-- One row a run with something to project and publish.
CREATE TABLE run_dirty (
  run_id     text COLLATE "C" PRIMARY KEY,
  head_seq   bigint NOT NULL,
  ops_rev    bigint NOT NULL,
  since      timestamptz NOT NULL,
  attempts   integer NOT NULL DEFAULT 0,
  upto       bigint NOT NULL DEFAULT 0,
  not_before timestamptz NOT NULL DEFAULT 'epoch'
) WITH (fillfactor = 50);
CREATE INDEX run_dirty_since ON run_dirty (since);

-- dvt_published says that everything of runs up to p_upto, and their operational
-- state up to p_ops, was published. What a mark says is read under its lock, and
-- marks are locked in the order of runs (T207). A mark that stays is as old as the
-- first event that was not published. Its plan does not depend on how many runs.
-- +goose StatementBegin
CREATE FUNCTION dvt_published(p_runs text[], p_upto bigint[], p_ops bigint[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  WITH sent AS (
    SELECT * FROM unnest(p_runs, p_upto, p_ops) u (run_id, upto, ops)
  ), mark AS (
    SELECT d.run_id, sent.upto, d.head_seq <= sent.upto AND d.ops_rev <= sent.ops AS done
    FROM run_dirty d JOIN sent USING (run_id) ORDER BY d.run_id FOR UPDATE OF d
  ), cleared AS (
    DELETE FROM run_dirty d USING mark WHERE d.run_id = mark.run_id AND mark.done
  ), kept AS (
    UPDATE run_dirty d SET attempts = 0, upto = 0, not_before = 'epoch', since = coalesce((SELECT e.persisted_at FROM event e
      WHERE e.run_id = d.run_id AND e.run_seq > mark.upto ORDER BY e.run_seq LIMIT 1), clock_timestamp())
    FROM mark WHERE d.run_id = mark.run_id AND NOT mark.done
  )
  UPDATE run_state st SET published_seq = greatest(st.published_seq, sent.upto), xid = pg_current_xact_id()
  FROM sent WHERE st.run_id = sent.run_id;
END $$;
-- +goose StatementEnd

CREATE TABLE outbox_dead (
  pos         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  tenant_id   text COLLATE "C" NOT NULL,
  project_id  text COLLATE "C" NOT NULL,
  run_id      text COLLATE "C" NOT NULL,
  from_seq    bigint NOT NULL,
  to_seq      bigint NOT NULL,
  attempts    integer NOT NULL,
  cause       text NOT NULL,
  buried_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  redriven_at timestamptz
);
CREATE INDEX outbox_dead_tenant ON outbox_dead (tenant_id, pos);

-- Lists of runs.

-- The status of each checkpoint beside the facts of its run: narrow, and written when
-- the status changes alone. An index on run_state would be written by every save.
CREATE TABLE run_status (
  run_id         text COLLATE "C" PRIMARY KEY,
  tenant_id      text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  plan_id        text COLLATE "C" NOT NULL,
  status         text COLLATE "C" NOT NULL,
  created_at     timestamptz NOT NULL,
  triggered_by   text COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX run_status_of_tenant ON run_status (tenant_id, status, created_at, run_id);
CREATE INDEX run_status_of_project ON run_status (tenant_id, project_id, status, created_at, run_id);
CREATE INDEX run_status_of_environment ON run_status (tenant_id, environment_id, status, created_at, run_id);
CREATE INDEX run_status_of_plan ON run_status (tenant_id, plan_id, status, created_at, run_id);
CREATE INDEX run_status_of_starter ON run_status (tenant_id, triggered_by, status, created_at, run_id) INCLUDE (project_id, environment_id, plan_id);

-- The places where runs are, and the runs before one, of its plan and place.
CREATE INDEX run_status_of_place ON run_status (tenant_id, project_id, environment_id, plan_id, status, created_at, run_id);

-- The plans that a tenant's projects have run: a part of a planId is looked for here.
CREATE TABLE run_plan (
  tenant_id  text COLLATE "C" NOT NULL,
  plan_id    text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, plan_id, project_id)
);

-- +goose StatementBegin
CREATE FUNCTION dvt_list_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    WITH facts AS (
      SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.created_at, r.triggered_by FROM run r WHERE r.run_id = NEW.run_id
    ), plan AS (
      INSERT INTO run_plan SELECT tenant_id, plan_id, project_id FROM facts ON CONFLICT DO NOTHING
    )
    INSERT INTO run_status (run_id, tenant_id, project_id, environment_id, plan_id, status, created_at, triggered_by)
    SELECT run_id, tenant_id, project_id, environment_id, plan_id, NEW.status, created_at, triggered_by FROM facts
    ON CONFLICT (run_id) DO UPDATE SET status = excluded.status;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE run_status s SET status = NEW.status WHERE s.run_id = NEW.run_id;
  ELSE
    UPDATE run_status s SET status = 'PENDING' WHERE s.run_id = OLD.run_id; -- what a run without a checkpoint is
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_state_listed AFTER INSERT OR DELETE ON run_state
  FOR EACH ROW EXECUTE FUNCTION dvt_list_run();
CREATE TRIGGER run_state_moved AFTER UPDATE OF status ON run_state
  FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION dvt_list_run();

-- Signals and their delivery.

CREATE TABLE signal (
  run_id             text COLLATE "C" NOT NULL,
  signal_id          text COLLATE "C" NOT NULL,
  pos                bigint GENERATED ALWAYS AS IDENTITY, -- order of arrival within a run
  no                 bigint NOT NULL,
  type               text NOT NULL,
  step_id            text NOT NULL,
  expected_attempt   integer NOT NULL,
  force              boolean NOT NULL,
  payload            json,
  actor              text NOT NULL,
  reason             text NOT NULL,
  rejected           boolean NOT NULL,
  rejection          text NOT NULL,
  reject_text        text NOT NULL,
  application        text NOT NULL,
  application_reason text NOT NULL,
  accepted_seq       bigint NOT NULL,
  applied_seq        bigint NOT NULL,
  quiescent_seq      bigint NOT NULL,
  received_at        timestamptz NOT NULL,
  delivered_at       timestamptz,
  applied_at         timestamptz,
  PRIMARY KEY (run_id, signal_id)
);
CREATE INDEX signal_received ON signal (run_id, pos);
CREATE INDEX signal_sent ON signal (actor, received_at);
CREATE UNIQUE INDEX signal_numbered ON signal (run_id, no) WHERE no > 0;

-- The limit per run and minute looks at the newest receipts, but for those of callers who may not signal it (T96).
CREATE INDEX signal_recent ON signal (run_id, received_at) WHERE rejection <> 'FORBIDDEN';

-- A row stays when nothing is left to deliver, so that its generation goes on growing.
CREATE TABLE delivery (
  run_id       text COLLATE "C" PRIMARY KEY,
  tenant_id    text COLLATE "C" NOT NULL,
  delivered_no bigint NOT NULL,
  up_to        bigint NOT NULL,
  owner        text NOT NULL DEFAULT '',
  generation   bigint NOT NULL DEFAULT 0,
  lease_until  timestamptz NOT NULL DEFAULT 'epoch',
  due_at       timestamptz NOT NULL,
  attempts     integer NOT NULL DEFAULT 0
);
CREATE INDEX delivery_due ON delivery (due_at) WHERE delivered_no < up_to;

-- The run queue and admission.

CREATE TABLE run_queue (
  run_id      text COLLATE "C" PRIMARY KEY,
  tenant_id   text COLLATE "C" NOT NULL,
  status      text COLLATE "C" NOT NULL DEFAULT 'PENDING'
    CHECK (status IN ('PENDING', 'LOCKED', 'STARTED', 'FAILED', 'CANCELLED')),
  owner       text NOT NULL DEFAULT '',
  generation  bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL DEFAULT 'epoch',
  not_before  timestamptz NOT NULL,
  created_at  timestamptz NOT NULL,
  attempts    integer NOT NULL DEFAULT 0,
  last_error  text NOT NULL DEFAULT '',
  project_id  text COLLATE "C" NOT NULL DEFAULT '',
  waiting     boolean NOT NULL DEFAULT false,
  place       boolean NOT NULL DEFAULT false,
  token_taken boolean NOT NULL DEFAULT false,
  priority    smallint NOT NULL DEFAULT 5,
  expires_at  timestamptz NOT NULL DEFAULT 'infinity',
  estimate_ms bigint NOT NULL DEFAULT 0
);
CREATE INDEX run_queue_due ON run_queue (waiting, created_at, run_id) WHERE status IN ('PENDING', 'LOCKED');
CREATE INDEX run_queue_lane ON run_queue (tenant_id, project_id, priority DESC, created_at, run_id) WHERE waiting;
CREATE INDEX run_queue_expiry ON run_queue (expires_at, run_id) WHERE waiting;

-- What is used and what waits: of the installation ('', ''), of each tenant (t, '') and of each of its
-- projects (t, p). Who changes any of them holds that of the installation first, after the heads of runs.
CREATE TABLE lane (
  tenant_id  text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  active     bigint NOT NULL DEFAULT 0, -- runs that hold a place
  waiting    bigint NOT NULL DEFAULT 0,
  pass       double precision NOT NULL DEFAULT 0, -- whose turn it is: the least
  turn       double precision NOT NULL DEFAULT 0, -- the pass of the one below that had its turn last
  ready      boolean NOT NULL DEFAULT true, -- false: nothing is admitted before ready_at, or before a run ends
  ready_at   timestamptz NOT NULL DEFAULT 'epoch',
  pace_ms    double precision NOT NULL DEFAULT 0, -- between two admissions of late; 0: not known
  admitted_at timestamptz NOT NULL DEFAULT 'epoch', -- the last that had waited, or since when the first waits
  PRIMARY KEY (tenant_id, project_id)
) WITH (fillfactor = 50);
INSERT INTO lane (tenant_id, project_id) VALUES ('', '');
CREATE INDEX lane_tenants ON lane (pass, tenant_id) WHERE project_id = '' AND tenant_id <> '' AND waiting > 0 AND ready;
CREATE INDEX lane_projects ON lane (tenant_id, pass, project_id) WHERE project_id <> '' AND waiting > 0 AND ready;
CREATE INDEX lane_held ON lane (ready_at) WHERE waiting > 0 AND NOT ready;

-- Token buckets by the time at which they are full again.
CREATE TABLE bucket (
  tenant_id  text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  action     text COLLATE "C" NOT NULL,
  full_at    timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, project_id, action)
);

-- Lanes count their rows, whoever writes them. A lane that begins to wait, or in which a place is free, is asked again.
-- +goose StatementBegin
CREATE FUNCTION dvt_count_lane() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE a int := NEW.place::int; w int := NEW.waiting::int; first boolean;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    a := a - OLD.place::int; w := w - OLD.waiting::int;
  END IF;
  UPDATE lane SET active = active + a, waiting = waiting + w WHERE tenant_id = '' AND project_id = '';
  UPDATE lane SET active = active + a, waiting = waiting + w, ready = ready OR a < 0 OR (w > 0 AND waiting = 0),
    admitted_at = CASE WHEN w > 0 AND waiting = 0 THEN NEW.created_at ELSE admitted_at END
  WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id RETURNING w > 0 AND waiting = 1 INTO first;
  IF NOT FOUND THEN
    INSERT INTO lane (tenant_id, project_id, active, waiting, admitted_at) VALUES (NEW.tenant_id, NEW.project_id, a, w, NEW.created_at);
    first := w > 0;
  END IF;
  UPDATE lane SET active = active + a, waiting = waiting + w, ready = ready OR a < 0 OR first
  WHERE tenant_id = NEW.tenant_id AND project_id = '';
  IF NOT FOUND THEN
    INSERT INTO lane (tenant_id, project_id, active, waiting) VALUES (NEW.tenant_id, '', a, w);
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER queue_counts_new AFTER INSERT ON run_queue FOR EACH ROW
  WHEN (NEW.place OR NEW.waiting) EXECUTE FUNCTION dvt_count_lane();
CREATE TRIGGER queue_counts AFTER UPDATE OF place, waiting ON run_queue FOR EACH ROW
  WHEN (NEW.place <> OLD.place OR NEW.waiting <> OLD.waiting) EXECUTE FUNCTION dvt_count_lane();

-- Whatever ends a run frees its place, or ends its wait, in the same transaction: also a server of the schema before.
-- +goose StatementBegin
CREATE FUNCTION dvt_free_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE run_queue SET place = false, waiting = false, not_before = CASE WHEN waiting THEN created_at ELSE not_before END
  WHERE run_id = NEW.run_id AND (place OR waiting);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER head_frees_place AFTER UPDATE OF terminal ON run_head FOR EACH ROW
  WHEN (NEW.terminal AND NOT OLD.terminal) EXECUTE FUNCTION dvt_free_place();

-- Approvals.

CREATE TABLE approval (
  run_id         text COLLATE "C" PRIMARY KEY,
  tenant_id      text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  required       smallint NOT NULL,
  priority       smallint NOT NULL,
  created_at     timestamptz NOT NULL,
  expires_at     timestamptz NOT NULL,
  rerun          json, -- what a rerun takes over: it goes into the RunApproved
  open           boolean NOT NULL DEFAULT true
);
CREATE INDEX approval_open ON approval (tenant_id, created_at, run_id) WHERE open;
CREATE INDEX approval_expiry ON approval (expires_at, run_id) WHERE open;

-- Whatever ends a run ends its wait in the same transaction.
-- +goose StatementBegin
CREATE FUNCTION dvt_close_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE approval SET open = false WHERE run_id = NEW.run_id AND open;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER head_closes_approval AFTER UPDATE OF terminal ON run_head FOR EACH ROW
  WHEN (NEW.terminal AND NOT OLD.terminal) EXECUTE FUNCTION dvt_close_approval();

CREATE TABLE approval_decision (
  pos        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id     text COLLATE "C" NOT NULL,
  principal  text COLLATE "C" NOT NULL,
  approved   boolean NOT NULL,
  reason     text NOT NULL,
  request_id text NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (run_id, principal)
);
CREATE TRIGGER approval_decision_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON approval_decision
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON approval_decision FROM PUBLIC;

-- Settings, policies and tokens.

CREATE TABLE setting (
  kind       text COLLATE "C" NOT NULL,
  tenant_id  text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  doc        json NOT NULL,
  actor      text NOT NULL,
  reason     text NOT NULL,
  request_id text NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (kind, tenant_id, version)
);
CREATE TRIGGER setting_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON setting
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON setting FROM PUBLIC;

CREATE TABLE policy (
  tenant_id  text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  doc        json NOT NULL,
  actor      text NOT NULL,
  reason     text NOT NULL,
  request_id text NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant_id, version)
);
CREATE TRIGGER policy_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON policy
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON policy FROM PUBLIC;

CREATE TABLE api_token (
  pos          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id           uuid NOT NULL UNIQUE,
  tenant_id    text COLLATE "C" NOT NULL,
  name         text NOT NULL,
  principal    text COLLATE "C" NOT NULL,
  sha256       text COLLATE "C" NOT NULL UNIQUE,
  grants       json NOT NULL,
  created_by   text NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at   timestamptz NOT NULL,
  revoked_at   timestamptz,
  revoked_by   text NOT NULL DEFAULT '',
  last_used_at timestamptz,
  kind         text COLLATE "C" NOT NULL DEFAULT 'API',
  provider     text COLLATE "C" NOT NULL DEFAULT '',
  memberships  text[] COLLATE "C" NOT NULL DEFAULT '{}'
);
CREATE INDEX api_token_tenant ON api_token (tenant_id, pos);
CREATE INDEX api_token_live ON api_token (expires_at) WHERE revoked_at IS NULL;

-- The audit.

-- Insert-only.
CREATE TABLE audit (
  id         uuid PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  tenant_id  text COLLATE "C" NOT NULL,
  actor      text NOT NULL,
  action     text NOT NULL,
  run_id     text COLLATE "C" NOT NULL,
  signal_id  text NOT NULL,
  outcome    text NOT NULL,
  code       text NOT NULL,
  reason     text NOT NULL,
  request_id text NOT NULL,
  detail     json,
  format     smallint NOT NULL DEFAULT 1,
  credential text NOT NULL DEFAULT '',
  address    text NOT NULL DEFAULT '',
  via        text NOT NULL DEFAULT '',
  object     text COLLATE "C" NOT NULL DEFAULT '',
  digest     text COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX audit_tenant ON audit (tenant_id, at);
CREATE INDEX audit_object ON audit (object, tenant_id) WHERE object <> '';
CREATE INDEX audit_of_run ON audit (run_id, signal_id) WHERE run_id <> ''; -- the row that made a run or a signal
CREATE TRIGGER audit_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON audit FROM PUBLIC;

-- Links, insert-only. A row of audit that was taken away leaves its link.
CREATE TABLE audit_link (
  tenant_id text COLLATE "C" NOT NULL,
  no        bigint NOT NULL,
  id        uuid NOT NULL UNIQUE,
  hash      bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (tenant_id, no)
);
CREATE TRIGGER audit_link_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_link
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON audit_link FROM PUBLIC;

-- The end of each chain. Its row is the lock of the tenant's chain; servers only read it.
CREATE TABLE audit_head (
  tenant_id text COLLATE "C" PRIMARY KEY,
  no        bigint NOT NULL CHECK (no >= 0 AND no < 4611686018427387904),
  hash      bytea NOT NULL CHECK (length(hash) IN (0, 32))
);

-- Rows that wait for their link, whoever wrote them: also servers of the schema before.
CREATE TABLE audit_pending (id uuid PRIMARY KEY);

-- A new row waits for its link by the owner's right, so that servers need none on audit_pending but to read it.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_pending() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO audit_pending (id) VALUES (NEW.id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_wait AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION dvt_audit_pending();

-- dvt_digest is SHA-256 over parts, each written as its length in bytes, a colon and itself.
-- +goose StatementBegin
CREATE FUNCTION dvt_digest(p_parts text[]) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT sha256(coalesce(string_agg(convert_to(octet_length(convert_to(p, 'UTF8')) || ':' || p, 'UTF8'), ''::bytea ORDER BY n), ''::bytea))
  FROM unnest(p_parts) WITH ORDINALITY u (p, n)
$$;
-- +goose StatementEnd

-- The database dates a row and sets its format, whatever the INSERT says.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_date() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.at := clock_timestamp();
  NEW.format := 2;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_date BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION dvt_audit_date();

-- Each link gets its number and hash here, under the lock of its tenant's head: no INSERT chooses them.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_link_next() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  head audit_head%ROWTYPE;
  r audit%ROWTYPE;
BEGIN
  INSERT INTO audit_head (tenant_id, no, hash) VALUES (NEW.tenant_id, 0, '') ON CONFLICT DO NOTHING;
  SELECT * INTO head FROM audit_head h WHERE h.tenant_id = NEW.tenant_id FOR UPDATE;
  SELECT * INTO r FROM audit a WHERE a.id = NEW.id AND a.tenant_id = NEW.tenant_id;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'tenant % has no audit row %', NEW.tenant_id, NEW.id USING ERRCODE = 'foreign_key_violation';
  END IF;
  NEW.no := head.no + 1;
  NEW.hash := dvt_digest(ARRAY['v' || r.format, encode(head.hash, 'hex'), NEW.no::text, r.id::text,
    to_char(r.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), r.tenant_id, r.actor, r.action, r.run_id, r.signal_id, r.outcome, r.code,
    r.reason, r.request_id, coalesce(r.detail::text, '')]
    || CASE WHEN r.format > 1 THEN ARRAY[r.credential, r.address, r.via, r.object, r.digest] END);
  UPDATE audit_head h SET no = NEW.no, hash = NEW.hash WHERE h.tenant_id = NEW.tenant_id;
  DELETE FROM audit_pending p WHERE p.id = NEW.id;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_link_next BEFORE INSERT ON audit_link FOR EACH ROW EXECUTE FUNCTION dvt_audit_link_next();

-- dvt_audit_link links the rows of a tenant that are committed and wait, in the order of at and id, at most p_limit, and
-- answers how many. It is the only way for servers to write audit_link. When another server links the same tenant it
-- links nothing.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_link(p_tenant text, p_limit int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  linked int;
BEGIN
  INSERT INTO audit_head (tenant_id, no, hash) VALUES (p_tenant, 0, '') ON CONFLICT DO NOTHING;
  PERFORM FROM audit_head h WHERE h.tenant_id = p_tenant FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  INSERT INTO audit_link (tenant_id, no, id, hash)
  SELECT p_tenant, 0, w.id, '' FROM (
    SELECT a.id FROM audit_pending p JOIN audit a ON a.id = p.id WHERE a.tenant_id = p_tenant ORDER BY a.at, a.id LIMIT p_limit
  ) w;
  GET DIAGNOSTICS linked = ROW_COUNT;
  RETURN linked;
END $$;
-- +goose StatementEnd

-- What runs as the owner looks up names in this schema only.
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION dvt_audit_pending() SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION dvt_audit_link_next() SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION dvt_audit_link(text, int) SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION dvt_audit_link(text, int) FROM PUBLIC;

-- Alerts.

-- Alerts that people or dvt itself raised about a run (T197).
CREATE TABLE alert (
  pos        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         uuid NOT NULL UNIQUE,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  tenant_id  text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  run_id     text COLLATE "C" NOT NULL,
  step_id    text COLLATE "C" NOT NULL,
  signal_id  text COLLATE "C" NOT NULL,
  level      text NOT NULL,
  code       text NOT NULL,
  note       text NOT NULL,
  actor      text NOT NULL
);
CREATE INDEX alert_tenant ON alert (tenant_id, pos);
CREATE INDEX alert_run ON alert (run_id, pos);
CREATE TRIGGER alert_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON alert
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON alert FROM PUBLIC;

-- Bulks.

CREATE TABLE bulk (
  pos         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  tenant_id   text COLLATE "C" NOT NULL,
  actor       text COLLATE "C" NOT NULL,
  request_id  text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  principal   json NOT NULL,
  action      json NOT NULL,
  reason      text NOT NULL,
  total       integer NOT NULL,
  accepted    integer NOT NULL DEFAULT 0,
  rejected    integer NOT NULL DEFAULT 0,
  refused     integer NOT NULL DEFAULT 0,
  not_sent    integer NOT NULL DEFAULT 0,
  paced       text NOT NULL DEFAULT '',
  paced_until timestamptz,
  rev         bigint NOT NULL DEFAULT 1,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at timestamptz,
  stopped_at  timestamptz,
  owner       text NOT NULL DEFAULT '',
  generation  bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL DEFAULT 'epoch',
  due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (tenant_id, actor, request_id)
);
CREATE INDEX bulk_listed ON bulk (tenant_id, actor, pos);
CREATE INDEX bulk_due ON bulk (due_at, pos) WHERE finished_at IS NULL;

CREATE TABLE bulk_row (
  bulk_id        text COLLATE "C" NOT NULL,
  no             integer NOT NULL,
  run_id         text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  signal_id      text COLLATE "C" NOT NULL,
  outcome        text COLLATE "C" NOT NULL DEFAULT 'WAITING',
  code           text NOT NULL DEFAULT '',
  message        text NOT NULL DEFAULT '',
  due_at         timestamptz NOT NULL DEFAULT 'epoch',
  at             timestamptz,
  PRIMARY KEY (bulk_id, no)
);
CREATE INDEX bulk_row_waiting ON bulk_row (bulk_id, no) WHERE outcome = 'WAITING';

-- Workers.

CREATE TABLE worker_report (
  account text COLLATE "C" NOT NULL,
  worker  text COLLATE "C" NOT NULL,
  queue   text COLLATE "C" NOT NULL,
  doc     json NOT NULL,
  at      timestamptz NOT NULL,
  PRIMARY KEY (account, worker, queue)
) WITH (fillfactor = 50);
CREATE INDEX worker_report_of_queue ON worker_report (queue, at);
