-- The one way into the log, and messages that the bus refuses one by one (T123, T189, T190).

-- +goose Up
SET LOCAL lock_timeout = '3s'; -- a wait for a table holds up every server behind it: give up, and try again
LOCK TABLE event, run_dirty, run_state IN ACCESS EXCLUSIVE MODE; -- at once, in the order of the program before: no deadlock with it
ALTER TABLE run_dirty
  ADD COLUMN attempts   integer NOT NULL DEFAULT 0,
  ADD COLUMN upto       bigint NOT NULL DEFAULT 0,
  ADD COLUMN not_before timestamptz NOT NULL DEFAULT 'epoch';

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

-- Up to where the log of a run was known before a restore that it was repaired after (T30, T194).
CREATE TABLE run_repair (
  run_id    text COLLATE "C" PRIMARY KEY,
  known_seq bigint NOT NULL
);

-- The feed reads in this order, from its cursor on, whatever the tenant (T186).
DROP INDEX run_state_changed;
CREATE INDEX run_state_changed ON run_state (xid, run_id);

-- dvt_stamp sets one field of a compact JSON object that does not have it.
-- +goose StatementBegin
CREATE FUNCTION dvt_stamp(payload text, field text, value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT '{"' || field || '":' || value || CASE WHEN payload = '{}' THEN '}' ELSE ',' || substr(payload, 2) END $$;
-- +goose StatementEnd

-- What a log holds about one attempt is one probe; the old index is a part of it.
CREATE INDEX event_attempt ON event (run_id, step_id, la)
  WHERE type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped');
DROP INDEX event_attempt_begun;

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

INSERT INTO meta (name, value) VALUES ('compatible_from', 1);
