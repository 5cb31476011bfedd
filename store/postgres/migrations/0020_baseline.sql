-- The schema of the StateStore on PostgreSQL. store/sqlite uses the same names and numbers.
-- Ids compare by bytes (COLLATE "C"). There are no foreign keys: every row of a run is written under the lock of its
-- head, which exists as long as the run.

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- Facts about the store itself.

CREATE TABLE meta (
  name  text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);
-- The value of authority grows with every change of a policy, token or setting, under the lock of its row.
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

CREATE INDEX run_of_starter ON run (tenant_id, triggered_by, created_at, run_id)
  INCLUDE (project_id, environment_id, plan_id);

-- A search by a part of the run id reads the ids of one tenant only (contract T101).
CREATE INDEX run_named ON run (tenant_id, run_id);

-- Heads.

-- Every append locks the head of its run. Only the primary key and the small index of open runs exist, and pages are
-- half full, so that each update can be HOT.
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

-- Open runs. Only the append that ends a run changes this index; all others stay HOT.
CREATE INDEX run_head_open ON run_head (run_id) WHERE NOT terminal;

-- The log.

-- Insert-only. The type json keeps the bytes of a payload.
CREATE TABLE event (
  run_id          text COLLATE "C" NOT NULL,
  run_seq         bigint NOT NULL,
  event_id        text COLLATE "C" NOT NULL,
  key             text COLLATE "C" NOT NULL,
  type            text COLLATE "C" NOT NULL,
  step_id         text COLLATE "C" NOT NULL,
  signal_id       text COLLATE "C" NOT NULL,
  logical_attempt              integer NOT NULL,
  engine_attempt              integer NOT NULL,
  emitted_at      timestamptz NOT NULL,
  persisted_at    timestamptz NOT NULL,
  emitted_by      text NOT NULL,
  payload         json,
  PRIMARY KEY (run_id, run_seq),
  CONSTRAINT event_key UNIQUE (run_id, key)
);
CREATE UNIQUE INDEX event_attempt_end ON event (run_id, step_id, logical_attempt)
  WHERE type IN ('StepCompleted', 'StepFailed', 'StepSkipped');
CREATE UNIQUE INDEX event_run_end ON event (run_id)
  WHERE type IN ('RunCompleted', 'RunFailed', 'RunCancelled');

-- One probe finds all events of an attempt that a decision needs.
CREATE INDEX event_attempt ON event (run_id, step_id, logical_attempt)
  WHERE type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped');
CREATE TRIGGER event_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON event
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON event FROM PUBLIC;

-- The highest seq of a run that was known before a restore, if the repair could not restore the events up to it
-- (contract T194).
CREATE TABLE run_repair (
  run_id    text COLLATE "C" PRIMARY KEY,
  known_seq bigint NOT NULL
);

-- Appends.

-- dvt_stamp adds a field to a compact JSON object that does not have it.
-- +goose StatementBegin
CREATE FUNCTION dvt_stamp(payload text, field text, value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT '{"' || field || '":' || value || CASE WHEN payload = '{}' THEN '}' ELSE ',' || substr(payload, 2) END $$;
-- +goose StatementEnd

-- dvt_append_one is dvt_append for the common case, at a third of the cost. It appends one event to a run that has not
-- ended and whose gate has no member of p_unless_gate. p_running is the change of the number of running attempts:
--   1   the StepStarted of an attempt that the log does not have
--   -1  the end of an attempt that has started and is not manual
--   0   an event of no attempt, with a key that the log does not have
-- If the log differs from that, the function changes nothing and returns NULL, and dvt_append must decide.
-- +goose StatementBegin
CREATE FUNCTION dvt_append_one(
  p_run text, p_min_head bigint, p_unless_gate int, p_running int,
  p_event_type text, p_event_step text, p_event_signal text, p_event_logical_attempt int, p_event_engine_attempt int,
  p_event_key text, p_event_id text, p_event_emitted_at timestamptz, p_event_emitted_by text, p_event_payload text,
  OUT last_seq bigint, OUT last_at timestamptz, OUT gate int, OUT running int, OUT ops_rev bigint, OUT signal_no bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  SELECT h.last_seq + 1, h.last_at, h.gate, h.running + p_running, h.ops_rev, h.signal_no
  INTO last_seq, last_at, gate, running, ops_rev, signal_no
  FROM run_head h WHERE h.run_id = p_run AND NOT h.terminal AND h.gate & p_unless_gate = 0
    AND h.last_seq >= p_min_head AND h.running + p_running >= 0 FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  last_at := greatest(clock_timestamp(), last_at); -- the clock is read after the lock is taken (contract T18)
  IF p_running = 0 THEN
    INSERT INTO event
    SELECT p_run, last_seq, p_event_id, p_event_key, p_event_type, p_event_step, p_event_signal,
      p_event_logical_attempt, p_event_engine_attempt, p_event_emitted_at, last_at, p_event_emitted_by,
      p_event_payload::json
    WHERE NOT EXISTS (SELECT FROM event e WHERE e.run_id = p_run AND e.key = p_event_key);
  ELSE
    INSERT INTO event
    SELECT p_run, last_seq, p_event_id, p_event_key, p_event_type, p_event_step, p_event_signal,
      p_event_logical_attempt, p_event_engine_attempt, p_event_emitted_at, last_at, p_event_emitted_by,
      p_event_payload::json
    WHERE (
      SELECT string_agg(e.type, ',') FROM event e
      WHERE e.run_id = p_run AND e.step_id = p_event_step AND e.logical_attempt = p_event_logical_attempt
        AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped')
    ) IS NOT DISTINCT FROM CASE WHEN p_running < 0 THEN 'StepStarted' END;
  END IF;
  IF NOT FOUND THEN
    last_seq := NULL;
    RETURN;
  END IF;
  UPDATE run_head h SET last_seq = dvt_append_one.last_seq, last_at = dvt_append_one.last_at,
    running = dvt_append_one.running WHERE h.run_id = p_run;
  UPDATE run_dirty d SET head_seq = last_seq, ops_rev = greatest(d.ops_rev, dvt_append_one.ops_rev)
  WHERE d.run_id = p_run;
  IF NOT FOUND THEN
    INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since) VALUES (p_run, last_seq, ops_rev, last_at)
    ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq),
      ops_rev = greatest(d.ops_rev, excluded.ops_rev);
  END IF;
END $$;
-- +goose StatementEnd

-- dvt_append_many is dvt_append_one for many runs, each at most once, in one transaction. Element i of every array
-- belongs to event i. It returns one row for each event that it wrote, with the event's index in the arrays. It skips a
-- run whose head is locked, so that it waits for no head, and every event that dvt_append_one would leave to
-- dvt_append. It locks heads and marks in the order of run ids (contract T207). It may wait for marks, as dvt_append
-- does.
-- +goose StatementBegin
CREATE FUNCTION dvt_append_many(
  p_run text[], p_min_head bigint[], p_unless_gate int[], p_running int[],
  p_event_type text[], p_event_step text[], p_event_signal text[], p_event_logical_attempt int[],
  p_event_engine_attempt int[], p_event_key text[], p_event_id text[], p_event_emitted_at timestamptz[],
  p_event_emitted_by text[], p_event_payload text[]
) RETURNS TABLE (
  event_index bigint,
  last_seq bigint, last_at timestamptz, gate int, running int, ops_rev bigint, signal_no bigint
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  locked text[]; -- runs
  now_at timestamptz;
BEGIN
  SELECT array_agg(l.run_id) INTO locked
  FROM (SELECT h.run_id FROM run_head h WHERE h.run_id = ANY (p_run) ORDER BY h.run_id FOR UPDATE SKIP LOCKED) l;
  now_at := clock_timestamp(); -- the clock is read after the locks are taken (contract T18)
  RETURN QUERY WITH plain AS MATERIALIZED (
    SELECT u.*, h.last_seq + 1 AS seq, greatest(now_at, h.last_at) AS at, h.gate::int AS gate,
      h.running + u.adds AS running, h.ops_rev, h.signal_no
    FROM unnest(p_run, p_min_head, p_unless_gate, p_running, p_event_type, p_event_step, p_event_signal,
        p_event_logical_attempt, p_event_engine_attempt, p_event_key, p_event_id, p_event_emitted_at,
        p_event_emitted_by, p_event_payload)
      WITH ORDINALITY u (run, min_head, unless_gate, adds, type, step, signal, logical_attempt, engine_attempt, key, id,
        emitted_at, emitted_by, payload, event_index)
    JOIN run_head h ON h.run_id = u.run
    WHERE u.run = ANY (locked) AND NOT h.terminal AND h.gate & u.unless_gate = 0 AND h.last_seq >= u.min_head
      AND h.running + u.adds >= 0
      AND CASE WHEN u.adds = 0 THEN (SELECT true FROM event e WHERE e.run_id = u.run AND e.key = u.key) IS NULL
        ELSE (
          SELECT string_agg(e.type, ',') FROM event e
          WHERE e.run_id = u.run AND e.step_id = u.step AND e.logical_attempt = u.logical_attempt
            AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped')
        ) IS NOT DISTINCT FROM CASE WHEN u.adds < 0 THEN 'StepStarted' END
        END
    ORDER BY u.run
  ), logged AS (
    INSERT INTO event
    SELECT run, seq, id, key, type, step, signal, logical_attempt, engine_attempt, emitted_at, at, emitted_by,
      payload::json
    FROM plain
  ), head AS (
    UPDATE run_head h SET last_seq = p.seq, last_at = p.at, running = p.running FROM plain p WHERE h.run_id = p.run
  ), marked AS (
    UPDATE run_dirty d SET head_seq = p.seq, ops_rev = greatest(d.ops_rev, p.ops_rev)
    FROM plain p WHERE d.run_id = p.run RETURNING d.run_id
  ), unmarked AS (
    INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since)
    SELECT p.run, p.seq, p.ops_rev, p.at FROM plain p WHERE p.run NOT IN (SELECT m.run_id FROM marked m)
    ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq),
      ops_rev = greatest(d.ops_rev, excluded.ops_rev)
  )
  SELECT p.event_index, p.seq, p.at, p.gate, p.running, p.ops_rev, p.signal_no FROM plain p;
END $$;
-- +goose StatementEnd

-- dvt_append writes the entries of one call, all on one run, in one transaction under the lock of the run's head. It is
-- package store/authority in SQL; the conformance suite compares the two. For each event it looks for, in this
-- order: an event with the same key, an end of the same attempt, hook or run, and the end of the run (contract T228).
--
-- The arguments are three tables by column. Each array has one element for each row:
--   p_entry_*    the entries in order. The events of an entry follow those of the previous entry, up to the number in
--                p_entry_last_event. If p_entry_parked_by is not null, the entry starts an attempt, and a gate with
--                one of these members parks it. p_entry_retry_deadline is a JSON string.
--   p_event_*    the events of all entries. A payload that may be stamped is a compact object without the stamped
--                field.
--   p_receipt_*  changes of receipts. p_receipt_event is the number of the event that applied the signal, or 0.
--
-- The result has a row for each event, in order, and after the events of each entry a row for the entry, whose
-- event_number is 0. It has no row if the run does not exist. Verdicts of an event:
--   INSERTED        it is in the log now
--   DUPLICATE       the log has an event with its key, which the row shows
--   ENDED           its attempt, hook or run has an end, which the row shows
--   NOT_STARTED     the entry requires a start that the log does not have
--   ORPHANED        the run has ended
--   STARTED_BEFORE  only for entries that start an attempt: the attempt has a start, which the row shows
--   PARKED          only for entries that start an attempt: the gate is closed
--   RUN_ENDED       only for entries that start an attempt: the run has ended
-- Verdicts of an entry:
--   WRITTEN         the verdicts of its events are valid
--   REGRESSED       the log is shorter than p_entry_min_head, so nothing of the entry was written
-- +goose StatementBegin
CREATE FUNCTION dvt_append(
  p_run text,
  p_entry_last_event int[], p_entry_parked_by int[], p_entry_set_gate int[], p_entry_clear_gate int[],
  p_entry_retry_deadline text[], p_entry_if_started boolean[], p_entry_min_head bigint[],
  p_event_type text[], p_event_step text[], p_event_signal text[], p_event_logical_attempt int[],
  p_event_engine_attempt int[], p_event_key text[], p_event_id text[], p_event_emitted_at timestamptz[],
  p_event_emitted_by text[], p_event_payload text[],
  p_receipt_entry int[], p_receipt_event int[], p_receipt_signal text[], p_receipt_application text[],
  p_receipt_reason text[]
) RETURNS TABLE (
  event_number int, verdict text,
  run_seq bigint, event_id text, key text, type text, step_id text, signal_id text, logical_attempt int,
  engine_attempt int, emitted_at timestamptz, persisted_at timestamptz, emitted_by text, payload json,
  last_seq bigint, last_at timestamptz, terminal boolean, gate int, running int, ops_rev bigint, signal_no bigint,
  window_opened boolean
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  gate_paused CONSTANT int := 1;  -- run.GatePaused
  gate_failing CONSTANT int := 2; -- run.GateFailing

  head run_head%ROWTYPE;
  head_before run_head%ROWTYPE;
  now_at timestamptz;
  ops_changed boolean := false; -- receipts changed (contract T204)

  n int := 0;                   -- number of the event
  stored event%ROWTYPE;         -- a stored event; later the one that the row shows
  duplicate event%ROWTYPE;      -- the stored event with the same key
  ended event%ROWTYPE;          -- the stored end of the same attempt, hook or run
  started event%ROWTYPE;        -- the first StepStarted of the same attempt
  manual boolean;               -- the attempt waits for manual completion
  body text;
  running_before int;
  seqs bigint[] := '{}';        -- by number of the event
  verdicts text[] := '{}';

  -- State of the current entry:
  starts_attempt boolean;
  is_empty boolean;             -- the entry has no event
  inserted boolean;
  idle_seq bigint;              -- the event after which nothing was running
  ends_run boolean;
  held int;                     -- number of the last event that may open the retry window; inserted last in the entry
  held_seq bigint;

  new_application text;
  new_reason text;
  effect_seq bigint;
BEGIN
  SELECT * INTO head FROM run_head WHERE run_id = p_run FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  head_before := head;
  now_at := greatest(clock_timestamp(), head.last_at); -- the clock is read after the lock is taken (contract T18)
  run_seq := 0; event_id := ''; key := ''; type := ''; step_id := ''; signal_id := ''; logical_attempt := 0;
  engine_attempt := 0; emitted_by := ''; last_seq := 0; terminal := false; gate := 0; running := 0; ops_rev := 0;
  signal_no := 0; window_opened := false;

  FOR i IN 1 .. cardinality(p_entry_last_event) LOOP
    starts_attempt := p_entry_parked_by[i] IS NOT NULL;
    is_empty := n = p_entry_last_event[i];
    inserted := false; idle_seq := NULL; ends_run := false; held := NULL;
    verdict := 'WRITTEN'; window_opened := false;
    IF head.last_seq < p_entry_min_head[i] AND NOT EXISTS (
      SELECT FROM run_repair x WHERE x.run_id = p_run AND x.known_seq >= p_entry_min_head[i]) THEN
      verdict := 'REGRESSED';
      n := p_entry_last_event[i];
    END IF;

    WHILE n < p_entry_last_event[i] LOOP
      n := n + 1;
      type := p_event_type[n]; step_id := p_event_step[n]; logical_attempt := p_event_logical_attempt[n];
      key := p_event_key[n];

      -- Look up the event's key and subject in the log.
      duplicate := NULL; ended := NULL; started := NULL; manual := false;
      IF type IN ('StepStarted', 'StepCompleted', 'StepFailed', 'StepSkipped', 'StepAwaitingManualCompletion') THEN
        FOR stored IN
          SELECT e.* FROM event e WHERE e.run_id = p_run AND e.key = p_event_key[n]
          UNION ALL
          SELECT e.* FROM event e
          WHERE e.run_id = p_run AND e.step_id = p_event_step[n] AND e.logical_attempt = p_event_logical_attempt[n]
            AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped')
        LOOP
          IF stored.key = key THEN
            duplicate := stored;
          END IF;
          IF stored.type = 'StepStarted' THEN
            IF started.run_seq IS NULL OR stored.run_seq < started.run_seq THEN
              started := stored;
            END IF;
          ELSIF stored.type = 'StepAwaitingManualCompletion' THEN
            manual := true;
          ELSE
            ended := stored;
          END IF;
        END LOOP;
        IF held IS NOT NULL AND p_event_step[held] = step_id AND p_event_logical_attempt[held] = logical_attempt THEN
          IF p_event_type[held] = 'StepAwaitingManualCompletion' THEN
            manual := true;
          ELSE
            ended.run_seq := held_seq;
          END IF;
        END IF;
      ELSE
        SELECT e.* INTO duplicate FROM event e WHERE e.run_id = p_run AND e.key = p_event_key[n];
        IF head.terminal AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled') THEN
          SELECT e.* INTO ended FROM event e
          WHERE e.run_id = p_run AND e.type IN ('RunCompleted', 'RunFailed', 'RunCancelled');
        END IF;
      END IF;
      IF held IS NOT NULL AND p_event_key[held] = key THEN
        duplicate.run_seq := held_seq;
      END IF;

      -- Decide the verdict.
      stored := NULL;
      IF starts_attempt THEN
        IF ended.run_seq IS NOT NULL THEN
          verdict := 'ENDED'; stored := ended;
        ELSIF head.terminal THEN
          verdict := 'RUN_ENDED';
        ELSIF started.run_seq IS NOT NULL THEN
          verdict := 'STARTED_BEFORE'; stored := started;
        ELSIF head.gate & p_entry_parked_by[i] <> 0 THEN
          verdict := 'PARKED';
        ELSE
          verdict := 'INSERTED';
        END IF;
      ELSIF duplicate.run_seq IS NOT NULL THEN
        verdict := 'DUPLICATE'; stored := duplicate;
      ELSIF ended.run_seq IS NOT NULL AND type NOT IN ('StepStarted', 'StepAwaitingManualCompletion') THEN
        verdict := 'ENDED'; stored := ended;
      ELSIF p_entry_if_started[i] AND started.run_seq IS NULL AND type IN ('StepCompleted', 'StepFailed') THEN
        verdict := 'NOT_STARTED';
      ELSIF head.terminal AND type NOT IN ('SignalAccepted', 'SignalRejected') THEN
        verdict := 'ORPHANED';
        INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
        SELECT p_event_id[n]::uuid, f.tenant_id, p_event_emitted_by[n], 'APPEND', p_run, '', 'REJECTED',
          'ORPHANED_TASK', '', '', json_build_object('eventType', p_event_type[n], 'stepId', p_event_step[n],
            'logicalAttemptId', p_event_logical_attempt[n], 'idempotencyKey', p_event_key[n])
        FROM run f WHERE f.run_id = p_run
        ON CONFLICT (id) DO NOTHING;
      ELSE
        verdict := 'INSERTED';
      END IF;

      IF verdict = 'INSERTED' THEN
        inserted := true;
        head.last_seq := head.last_seq + 1;
        head.last_at := now_at;
        running_before := head.running;
        IF type = 'StepStarted' THEN
          IF started.run_seq IS NULL AND ended.run_seq IS NULL AND NOT manual THEN
            head.running := head.running + 1;
          END IF;
        ELSIF started.run_seq IS NOT NULL AND ended.run_seq IS NULL AND NOT manual THEN
          head.running := greatest(0, head.running - 1);
        END IF;
        body := p_event_payload[n];
        IF type = 'RunPaused' THEN
          body := dvt_stamp(body, 'runningStepsCount', head.running::text);
        END IF;
        IF head.running = 0 AND (running_before > 0 OR type = 'RunPaused') THEN
          idle_seq := head.last_seq;
        END IF;
        IF type IN ('RunCompleted', 'RunFailed', 'RunCancelled') THEN
          head.terminal := true; ends_run := true;
        END IF;
        IF p_entry_retry_deadline[i] IS NOT NULL
          AND type IN ('StepFailed', 'StepCompleted', 'StepAwaitingManualCompletion', 'RunResumed') THEN
          IF held IS NOT NULL THEN
            INSERT INTO event VALUES (p_run, held_seq, p_event_id[held], p_event_key[held], p_event_type[held],
              p_event_step[held], p_event_signal[held], p_event_logical_attempt[held], p_event_engine_attempt[held],
              p_event_emitted_at[held], now_at, p_event_emitted_by[held], p_event_payload[held]::json);
          END IF;
          held := n; held_seq := head.last_seq;
        ELSE
          INSERT INTO event VALUES (p_run, head.last_seq, p_event_id[n], key, type, step_id, p_event_signal[n],
            logical_attempt, p_event_engine_attempt[n], p_event_emitted_at[n], now_at, p_event_emitted_by[n],
            body::json);
        END IF;
        stored.run_seq := head.last_seq; stored.persisted_at := now_at;
      END IF;

      seqs[n] := stored.run_seq; verdicts[n] := verdict;
      event_number := n; run_seq := coalesce(stored.run_seq, 0); persisted_at := stored.persisted_at;
      event_id := coalesce(stored.event_id, ''); key := coalesce(stored.key, ''); type := coalesce(stored.type, '');
      step_id := coalesce(stored.step_id, ''); signal_id := coalesce(stored.signal_id, '');
      logical_attempt := coalesce(stored.logical_attempt, 0); engine_attempt := coalesce(stored.engine_attempt, 0);
      emitted_at := stored.emitted_at; emitted_by := coalesce(stored.emitted_by, ''); payload := stored.payload;
      RETURN NEXT;
      verdict := 'WRITTEN';
    END LOOP;

    IF verdict = 'WRITTEN' THEN
      IF inserted OR is_empty THEN -- a repeated entry must not close a gate that was opened since
        head.gate := (head.gate & ~p_entry_clear_gate[i]) | p_entry_set_gate[i];
      END IF;
      IF held IS NOT NULL THEN
        body := p_event_payload[held];
        IF NOT head.terminal AND head.running = 0
          AND head.gate & gate_failing <> 0 AND head.gate & gate_paused = 0 THEN -- contract T221
          window_opened := true;
          body := dvt_stamp(body, 'retryDeadline', p_entry_retry_deadline[i]);
        END IF;
        INSERT INTO event VALUES (p_run, held_seq, p_event_id[held], p_event_key[held], p_event_type[held],
          p_event_step[held], p_event_signal[held], p_event_logical_attempt[held], p_event_engine_attempt[held],
          p_event_emitted_at[held], now_at, p_event_emitted_by[held], body::json);
      END IF;

      FOR m IN 1 .. coalesce(cardinality(p_receipt_entry), 0) LOOP
        CONTINUE WHEN p_receipt_entry[m] <> i;
        new_application := p_receipt_application[m]; new_reason := p_receipt_reason[m]; effect_seq := 0;
        IF p_receipt_event[m] > 0 THEN
          CONTINUE WHEN starts_attempt AND verdicts[p_receipt_event[m]] NOT IN ('INSERTED', 'STARTED_BEFORE');
          CASE verdicts[p_receipt_event[m]]
            WHEN 'ENDED' THEN new_application := 'NOT_APPLIED'; new_reason := 'INVALID_TRANSITION';
            WHEN 'NOT_STARTED' THEN new_application := 'NOT_APPLIED'; new_reason := 'STEP_NOT_STARTED';
            WHEN 'ORPHANED' THEN new_application := 'NOT_APPLIED'; new_reason := 'ORPHANED_TASK';
            ELSE effect_seq := seqs[p_receipt_event[m]];
          END CASE;
        END IF;
        IF new_application = 'DELIVERED' THEN
          UPDATE signal s SET application = new_application, delivered_at = now_at
          WHERE s.run_id = p_run AND s.signal_id = p_receipt_signal[m] AND NOT s.rejected AND s.application = 'PENDING';
        ELSE
          UPDATE signal s SET application = new_application, application_reason = new_reason, applied_seq = effect_seq,
            applied_at = CASE WHEN new_application = 'APPLIED' THEN now_at END
          WHERE s.run_id = p_run AND s.signal_id = p_receipt_signal[m] AND NOT s.rejected
            AND s.application IN ('PENDING', 'DELIVERED');
        END IF;
        ops_changed := ops_changed OR FOUND;
      END LOOP;
      IF ends_run THEN -- signals that are not applied by now never will be (contract T196)
        UPDATE signal s SET application = 'NOT_APPLIED', application_reason = 'RUN_TERMINAL'
        WHERE s.run_id = p_run AND NOT s.rejected AND s.application IN ('PENDING', 'DELIVERED');
        ops_changed := ops_changed OR FOUND;
        UPDATE delivery d SET delivered_no = d.up_to WHERE d.run_id = p_run;
      END IF;
      IF head.gate & gate_paused <> 0 AND head.running = 0 AND NOT starts_attempt THEN
        -- The newest pause has become quiescent (contract O11).
        UPDATE signal s SET quiescent_seq = greatest(s.applied_seq, coalesce(idle_seq, head.last_seq))
        WHERE s.run_id = p_run AND s.type = 'PAUSE' AND s.application = 'APPLIED' AND s.quiescent_seq = 0
          AND s.applied_seq = (SELECT max(newest.applied_seq) FROM signal newest
            WHERE newest.run_id = p_run AND newest.type = 'PAUSE' AND newest.application = 'APPLIED');
        ops_changed := ops_changed OR FOUND;
      END IF;
    END IF;
    IF ops_changed THEN
      head.ops_rev := head_before.ops_rev + 1;
    END IF;
    event_number := 0;
    last_seq := head.last_seq; last_at := head.last_at; terminal := head.terminal; gate := head.gate;
    running := head.running; ops_rev := head.ops_rev; signal_no := head.signal_no;
    RETURN NEXT;
  END LOOP;

  IF head IS DISTINCT FROM head_before THEN
    UPDATE run_head h SET last_seq = head.last_seq, last_at = head.last_at, terminal = head.terminal, gate = head.gate,
      running = head.running, ops_rev = head.ops_rev WHERE h.run_id = p_run;
    INSERT INTO run_dirty AS d (run_id, head_seq, ops_rev, since) VALUES (p_run, head.last_seq, head.ops_rev, now_at)
    ON CONFLICT (run_id) DO UPDATE SET head_seq = greatest(d.head_seq, excluded.head_seq),
      ops_rev = greatest(d.ops_rev, excluded.ops_rev);
  END IF;
END $$;
-- +goose StatementEnd

-- Checkpoints of runs. They are caches: the log is the truth.

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

-- Dirty marks of runs that have something to project and publish, and dead letters for messages that the bus refused
-- permanently.

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

-- dvt_published records that everything of the runs up to p_upto, and their operational state up to p_ops, was
-- published. It reads a mark after it has locked it, and locks marks in the order of run ids (contract T207). A mark
-- that remains gets the time of the first event that was not published. The settings force the same query plan for any
-- number of runs.
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
    UPDATE run_dirty d SET attempts = 0, upto = 0, not_before = 'epoch', since = coalesce((
      SELECT e.persisted_at FROM event e
      WHERE e.run_id = d.run_id AND e.run_seq > mark.upto ORDER BY e.run_seq LIMIT 1), clock_timestamp())
    FROM mark WHERE d.run_id = mark.run_id AND NOT mark.done
  )
  UPDATE run_state st SET published_seq = greatest(st.published_seq, sent.upto), xid = pg_current_xact_id()
  FROM sent WHERE st.run_id = sent.run_id;
END $$;
-- +goose StatementEnd

CREATE TABLE dead_letter (
  pos         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  tenant_id   text COLLATE "C" NOT NULL,
  project_id  text COLLATE "C" NOT NULL,
  run_id      text COLLATE "C" NOT NULL,
  from_seq    bigint NOT NULL,
  to_seq      bigint NOT NULL,
  attempts    integer NOT NULL,
  cause       text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  redriven_at timestamptz
);
CREATE INDEX dead_letter_tenant ON dead_letter (tenant_id, pos);

-- Lists of runs.

-- The status of each checkpoint next to the facts of its run. The table is narrow and written only when the status
-- changes. An index on run_state would be written by every save.
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
CREATE INDEX run_status_of_starter ON run_status (tenant_id, triggered_by, status, created_at, run_id)
  INCLUDE (project_id, environment_id, plan_id);

-- Finds the scopes that have runs, and the earlier runs of a plan in one scope.
CREATE INDEX run_status_of_scope
  ON run_status (tenant_id, project_id, environment_id, plan_id, status, created_at, run_id);

-- The plans that a tenant's projects have run, for searches by a part of the plan id.
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
      SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.created_at, r.triggered_by
      FROM run r WHERE r.run_id = NEW.run_id
    ), plan AS (
      INSERT INTO run_plan SELECT tenant_id, plan_id, project_id FROM facts ON CONFLICT DO NOTHING
    )
    INSERT INTO run_status (run_id, tenant_id, project_id, environment_id, plan_id, status, created_at, triggered_by)
    SELECT run_id, tenant_id, project_id, environment_id, plan_id, NEW.status, created_at, triggered_by FROM facts
    ON CONFLICT (run_id) DO UPDATE SET status = excluded.status;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE run_status s SET status = NEW.status WHERE s.run_id = NEW.run_id;
  ELSE
    UPDATE run_status s SET status = 'PENDING' WHERE s.run_id = OLD.run_id; -- without a checkpoint: pending
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
  pos                bigint GENERATED ALWAYS AS IDENTITY CHECK (pos > 0), -- order of arrival within a run
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

-- The rate limit of a run counts the newest receipts, without those of callers who may not signal (contract T96).
CREATE INDEX signal_recent ON signal (run_id, received_at) WHERE rejection <> 'FORBIDDEN';

-- A row remains when nothing is left to deliver, because its generation must never repeat.
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
  slot        boolean NOT NULL DEFAULT false,
  token_taken boolean NOT NULL DEFAULT false,
  priority    smallint NOT NULL DEFAULT 5,
  expires_at  timestamptz NOT NULL DEFAULT 'infinity',
  estimate_ms bigint NOT NULL DEFAULT 0
);
CREATE INDEX run_queue_due ON run_queue (waiting, created_at, run_id) WHERE status IN ('PENDING', 'LOCKED');
CREATE INDEX run_queue_lane ON run_queue (tenant_id, project_id, priority DESC, created_at, run_id) WHERE waiting;
CREATE INDEX run_queue_expiry ON run_queue (expires_at, run_id) WHERE waiting;

-- The number of used slots and of waiting runs: of the installation ('', ''), of each tenant (t, '') and of each
-- project (t, p). A transaction that changes a lane locks heads of runs first, then the lane of the installation, then
-- the others.
CREATE TABLE lane (
  tenant_id  text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  active     bigint NOT NULL DEFAULT 0, -- runs that hold a slot
  waiting    bigint NOT NULL DEFAULT 0,
  pass       double precision NOT NULL DEFAULT 0, -- the lane with the lowest pass is next
  turn       double precision NOT NULL DEFAULT 0, -- pass of the child lane that was served last
  ready      boolean NOT NULL DEFAULT true, -- false: no run is admitted before ready_at or the end of a run
  ready_at   timestamptz NOT NULL DEFAULT 'epoch',
  pace_ms    double precision NOT NULL DEFAULT 0, -- average time between recent admissions; 0: unknown
  admitted_at timestamptz NOT NULL DEFAULT 'epoch', -- last admission of a waiting run, or when the first began to wait
  PRIMARY KEY (tenant_id, project_id)
) WITH (fillfactor = 50);
INSERT INTO lane (tenant_id, project_id) VALUES ('', '');
CREATE INDEX lane_tenants ON lane (pass, tenant_id) WHERE project_id = '' AND tenant_id <> '' AND waiting > 0 AND ready;
CREATE INDEX lane_projects ON lane (tenant_id, pass, project_id) WHERE project_id <> '' AND waiting > 0 AND ready;
CREATE INDEX lane_held ON lane (ready_at) WHERE waiting > 0 AND NOT ready;

-- Token buckets, each stored as the time when it is full again.
CREATE TABLE bucket (
  tenant_id  text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  action     text COLLATE "C" NOT NULL,
  full_at    timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, project_id, action)
);

-- Triggers count the rows of each lane. A lane that begins to wait or gets a free slot becomes ready.
-- +goose StatementBegin
CREATE FUNCTION dvt_count_lane() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE a int := NEW.slot::int; w int := NEW.waiting::int; first boolean;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    a := a - OLD.slot::int; w := w - OLD.waiting::int;
  END IF;
  UPDATE lane SET active = active + a, waiting = waiting + w WHERE tenant_id = '' AND project_id = '';
  UPDATE lane SET active = active + a, waiting = waiting + w, ready = ready OR a < 0 OR (w > 0 AND waiting = 0),
    admitted_at = CASE WHEN w > 0 AND waiting = 0 THEN NEW.created_at ELSE admitted_at END
  WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id RETURNING w > 0 AND waiting = 1 INTO first;
  IF NOT FOUND THEN
    INSERT INTO lane (tenant_id, project_id, active, waiting, admitted_at)
    VALUES (NEW.tenant_id, NEW.project_id, a, w, NEW.created_at);
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
  WHEN (NEW.slot OR NEW.waiting) EXECUTE FUNCTION dvt_count_lane();
CREATE TRIGGER queue_counts AFTER UPDATE OF slot, waiting ON run_queue FOR EACH ROW
  WHEN (NEW.slot <> OLD.slot OR NEW.waiting <> OLD.waiting) EXECUTE FUNCTION dvt_count_lane();

-- The write that ends a run also frees its slot or ends its wait.
-- +goose StatementBegin
CREATE FUNCTION dvt_free_slot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE run_queue SET slot = false, waiting = false,
    not_before = CASE WHEN waiting THEN created_at ELSE not_before END
  WHERE run_id = NEW.run_id AND (slot OR waiting);
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER head_frees_slot AFTER UPDATE OF terminal ON run_head FOR EACH ROW
  WHEN (NEW.terminal AND NOT OLD.terminal) EXECUTE FUNCTION dvt_free_slot();

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
  rerun          json, -- the part of the earlier run that a rerun reuses; copied into RunApproved
  open           boolean NOT NULL DEFAULT true
);
CREATE INDEX approval_open ON approval (tenant_id, created_at, run_id) WHERE open;
CREATE INDEX approval_expiry ON approval (expires_at, run_id) WHERE open;

-- The write that ends a run also closes its approval.
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
  pos        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (pos > 0),
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
  version    bigint NOT NULL CHECK (version > 0),
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
  version    bigint NOT NULL CHECK (version > 0),
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
  pos          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY CHECK (pos > 0),
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

-- Links of the audit chains, insert-only. A deleted audit row leaves its link behind, which reveals the deletion.
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

-- The end of each chain. Its row is the lock of the tenant's chain. Servers may only read it.
CREATE TABLE audit_head (
  tenant_id text COLLATE "C" PRIMARY KEY,
  no        bigint NOT NULL CHECK (no >= 0 AND no < 4611686018427387904),
  hash      bytea NOT NULL CHECK (length(hash) IN (0, 32))
);

-- Audit rows that have no link yet.
CREATE TABLE audit_pending (id uuid PRIMARY KEY);

-- The trigger runs with the owner's rights, so that servers need only SELECT on audit_pending.
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
  SELECT sha256(coalesce(
    string_agg(convert_to(octet_length(convert_to(p, 'UTF8')) || ':' || p, 'UTF8'), ''::bytea ORDER BY n), ''::bytea))
  FROM unnest(p_parts) WITH ORDINALITY u (p, n)
$$;
-- +goose StatementEnd

-- The database sets the time and the format of a row, whatever the INSERT says.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_date() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.at := clock_timestamp();
  NEW.format := 2;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_date BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION dvt_audit_date();

-- This trigger sets the number and the hash of each link under the lock of its tenant's head, so that no INSERT can
-- choose them.
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
    to_char(r.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), r.tenant_id, r.actor, r.action, r.run_id,
    r.signal_id, r.outcome, r.code,
    r.reason, r.request_id, coalesce(r.detail::text, '')]
    || CASE WHEN r.format > 1 THEN ARRAY[r.credential, r.address, r.via, r.object, r.digest] END);
  UPDATE audit_head h SET no = NEW.no, hash = NEW.hash WHERE h.tenant_id = NEW.tenant_id;
  DELETE FROM audit_pending p WHERE p.id = NEW.id;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_link_next BEFORE INSERT ON audit_link FOR EACH ROW EXECUTE FUNCTION dvt_audit_link_next();

-- dvt_audit_link links at most p_limit committed rows of a tenant, in the order of at and id, and returns how many it
-- linked. It is the only way for servers to write audit_link. It links none while another server links the same tenant.
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
    SELECT a.id FROM audit_pending p JOIN audit a ON a.id = p.id
    WHERE a.tenant_id = p_tenant ORDER BY a.at, a.id LIMIT p_limit
  ) w;
  GET DIAGNOSTICS linked = ROW_COUNT;
  RETURN linked;
END $$;
-- +goose StatementEnd

-- Functions that run with the owner's rights resolve names in this schema only.
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

-- Alerts about a run, raised by people or by dvt (contract T197).
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
