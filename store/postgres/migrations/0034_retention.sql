-- Which runs are in the archive, legal holds, and what the last pass of the retention did (ADR 105).

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE event, approval_decision, alert, run_note IN ACCESS EXCLUSIVE MODE; -- in the order in which servers lock them

CREATE TABLE run_archive (
  run_id       text COLLATE "C" PRIMARY KEY,
  tenant_id    text COLLATE "C" NOT NULL,
  head_seq     bigint NOT NULL, -- of the last event in the archive
  location     text NOT NULL,
  sha256       text NOT NULL,
  bytes        bigint NOT NULL,
  events       bigint NOT NULL,
  subjects     text[] NOT NULL, -- principals that a hold may name, because the receipts may be deleted
  ended_at     timestamptz NOT NULL,
  marked_at    timestamptz NOT NULL,
  emptied_at   timestamptz, -- NULL while events are left
  receipts_at  timestamptz
);
CREATE INDEX run_archive_of_tenant ON run_archive (tenant_id, ended_at, run_id);
CREATE INDEX run_archive_events ON run_archive (tenant_id, ended_at, run_id) WHERE emptied_at IS NULL;
CREATE INDEX run_archive_receipts ON run_archive (tenant_id, ended_at, run_id) WHERE receipts_at IS NULL;

CREATE TABLE legal_hold (
  n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         text COLLATE "C" NOT NULL UNIQUE,
  tenant_id  text COLLATE "C" NOT NULL,
  kind       text COLLATE "C" NOT NULL CHECK (kind IN ('RUN', 'PLAN', 'SUBJECT')),
  subject    text COLLATE "C" NOT NULL,
  reason     text NOT NULL,
  placed_by  text NOT NULL,
  placed_at  timestamptz NOT NULL,
  lifted_by  text NOT NULL DEFAULT '',
  lifted_at  timestamptz,
  lifted_for text NOT NULL DEFAULT ''
);
CREATE INDEX legal_hold_of_tenant ON legal_hold (tenant_id, n);
CREATE INDEX legal_hold_open ON legal_hold (tenant_id, kind, subject) WHERE lifted_at IS NULL;

CREATE TABLE retention_pass (
  tenant_id text COLLATE "C" PRIMARY KEY,
  doc       json NOT NULL
);

-- Deletes fail unless a function of this file does them. The owner's own statements still fail, because only the
-- functions set dvt.retention for their statements, and servers have no privilege to delete (contract T208).
DROP TRIGGER event_insert_only ON event;
CREATE TRIGGER event_insert_only BEFORE UPDATE OR TRUNCATE ON event
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
CREATE TRIGGER event_kept BEFORE DELETE ON event FOR EACH STATEMENT
  WHEN (current_setting('dvt.retention', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION dvt_insert_only();
DROP TRIGGER approval_decision_insert_only ON approval_decision;
CREATE TRIGGER approval_decision_insert_only BEFORE UPDATE OR TRUNCATE ON approval_decision
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
CREATE TRIGGER approval_decision_kept BEFORE DELETE ON approval_decision FOR EACH STATEMENT
  WHEN (current_setting('dvt.retention', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION dvt_insert_only();
DROP TRIGGER run_note_insert_only ON run_note;
CREATE TRIGGER run_note_insert_only BEFORE UPDATE OR TRUNCATE ON run_note
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
CREATE TRIGGER run_note_kept BEFORE DELETE ON run_note FOR EACH STATEMENT
  WHEN (current_setting('dvt.retention', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION dvt_insert_only();
DROP TRIGGER alert_insert_only ON alert;
CREATE TRIGGER alert_insert_only BEFORE UPDATE OR TRUNCATE ON alert
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
CREATE TRIGGER alert_kept BEFORE DELETE ON alert FOR EACH STATEMENT
  WHEN (current_setting('dvt.retention', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION dvt_insert_only();

-- dvt_held reports whether an open hold covers the run.
-- +goose StatementBegin
CREATE FUNCTION dvt_held(p_run text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM run r JOIN legal_hold h ON h.tenant_id = r.tenant_id AND h.lifted_at IS NULL
    WHERE r.run_id = p_run AND (h.kind = 'RUN' AND h.subject = r.run_id OR h.kind = 'PLAN' AND h.subject = r.plan_id
      OR h.kind = 'SUBJECT' AND (h.subject = r.triggered_by
        OR EXISTS (SELECT FROM signal s WHERE s.run_id = r.run_id AND s.actor = h.subject)
        OR EXISTS (SELECT FROM approval_decision d WHERE d.run_id = r.run_id AND d.principal = h.subject)
        OR EXISTS (SELECT FROM run_note n WHERE n.run_id = r.run_id AND n.author = h.subject)
        OR EXISTS (SELECT FROM run_archive a WHERE a.run_id = r.run_id AND h.subject = ANY (a.subjects)))))
$$;
-- +goose StatementEnd

-- dvt_archive_obstacle returns why the run may not be archived or deleted, or ''. See store.ArchiveObstacle.
-- +goose StatementBegin
CREATE FUNCTION dvt_archive_obstacle(p_run text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT CASE
    WHEN NOT h.terminal THEN 'OPEN'
    WHEN h.last_at > clock_timestamp() - interval '24 hours' THEN 'RECENT'
    WHEN dvt_held(p_run) THEN 'HELD'
    WHEN EXISTS (SELECT FROM run c JOIN run_head ch ON ch.run_id = c.run_id
      WHERE c.parent_run_id = p_run AND c.parent_run_id <> '' AND NOT ch.terminal) THEN 'RERUN'
    WHEN EXISTS (SELECT FROM run_dirty d WHERE d.run_id = p_run)
      OR NOT EXISTS (SELECT FROM run_state st WHERE st.run_id = p_run AND st.seq = h.last_seq)
      OR EXISTS (SELECT FROM delivery d WHERE d.run_id = p_run AND d.delivered_no < d.up_to)
      OR EXISTS (SELECT FROM run_queue q WHERE q.run_id = p_run AND (q.waiting OR q.slot)) THEN 'UNDELIVERED'
    ELSE '' END FROM run_head h WHERE h.run_id = p_run), 'UNKNOWN')
$$;
-- +goose StatementEnd

-- dvt_mark_archived records a verified archive under the lock of the head. It returns the obstacle, or ''.
-- +goose StatementBegin
CREATE FUNCTION dvt_mark_archived(p_run text, p_head bigint, p_location text, p_sha256 text, p_bytes bigint,
  p_events bigint) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_head run_head%ROWTYPE;
  v_obstacle text;
BEGIN
  SELECT * INTO v_head FROM run_head WHERE run_id = p_run FOR UPDATE;
  IF EXISTS (SELECT FROM run_archive WHERE run_id = p_run AND head_seq >= p_head) THEN
    RETURN '';
  END IF;
  v_obstacle := dvt_archive_obstacle(p_run);
  IF v_obstacle = '' AND v_head.last_seq <> p_head THEN
    v_obstacle := 'MOVED';
  END IF;
  IF v_obstacle <> '' THEN
    RETURN v_obstacle;
  END IF;
  INSERT INTO run_archive (run_id, tenant_id, head_seq, location, sha256, bytes, events, subjects, ended_at, marked_at)
  SELECT r.run_id, r.tenant_id, p_head, p_location, p_sha256, p_bytes, p_events, ARRAY(
      SELECT s.actor FROM signal s WHERE s.run_id = p_run
      UNION SELECT d.principal FROM approval_decision d WHERE d.run_id = p_run
      UNION SELECT n.author FROM run_note n WHERE n.run_id = p_run),
    v_head.last_at, clock_timestamp() FROM run r WHERE r.run_id = p_run
  ON CONFLICT (run_id) DO NOTHING;
  RETURN '';
END $$;
-- +goose StatementEnd

-- dvt_delete_archived_events deletes at most p_limit archived events of the run. It returns how many, or -1 when an
-- obstacle prevents it.
-- +goose StatementBegin
CREATE FUNCTION dvt_delete_archived_events(p_run text, p_limit int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_archive run_archive%ROWTYPE;
  n int;
BEGIN
  SELECT * INTO v_archive FROM run_archive WHERE run_id = p_run FOR UPDATE;
  IF NOT FOUND OR dvt_held(p_run) OR NOT EXISTS (SELECT FROM run_head WHERE run_id = p_run AND terminal) THEN
    RETURN -1;
  END IF;
  PERFORM set_config('dvt.retention', 'on', true);
  DELETE FROM event WHERE run_id = p_run AND run_seq IN (SELECT e.run_seq FROM event e
    WHERE e.run_id = p_run AND e.run_seq <= v_archive.head_seq ORDER BY e.run_seq LIMIT p_limit);
  GET DIAGNOSTICS n = ROW_COUNT;
  PERFORM set_config('dvt.retention', '', true);
  IF n < p_limit THEN
    UPDATE run_archive SET emptied_at = clock_timestamp() WHERE run_id = p_run AND emptied_at IS NULL;
  END IF;
  RETURN n;
END $$;
-- +goose StatementEnd

-- dvt_delete_archived_receipts deletes the receipts of the run, which are in the archive too. Returns as above.
-- +goose StatementBegin
CREATE FUNCTION dvt_delete_archived_receipts(p_run text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE n int;
BEGIN
  PERFORM FROM run_archive WHERE run_id = p_run FOR UPDATE;
  IF NOT FOUND OR dvt_held(p_run) THEN
    RETURN -1;
  END IF;
  DELETE FROM signal WHERE run_id = p_run;
  GET DIAGNOSTICS n = ROW_COUNT;
  UPDATE run_archive SET receipts_at = clock_timestamp() WHERE run_id = p_run;
  RETURN n;
END $$;
-- +goose StatementEnd

-- dvt_delete_archived_run deletes the rest of a run whose archived events were deleted. It returns the obstacle, or ''.
-- +goose StatementBegin
CREATE FUNCTION dvt_delete_archived_run(p_run text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_archive run_archive%ROWTYPE;
  v_obstacle text;
BEGIN
  PERFORM FROM run_head WHERE run_id = p_run FOR UPDATE;
  SELECT * INTO v_archive FROM run_archive WHERE run_id = p_run FOR UPDATE;
  IF NOT FOUND THEN
    RETURN 'NOT_ARCHIVED';
  ELSIF v_archive.emptied_at IS NULL THEN
    RETURN 'NOT_EMPTIED';
  END IF;
  v_obstacle := dvt_archive_obstacle(p_run);
  IF v_obstacle <> '' THEN
    RETURN v_obstacle;
  END IF;
  PERFORM set_config('dvt.retention', 'on', true);
  DELETE FROM event WHERE run_id = p_run; -- signals that came after the run was archived
  DELETE FROM signal WHERE run_id = p_run;
  DELETE FROM delivery WHERE run_id = p_run;
  DELETE FROM run_queue WHERE run_id = p_run;
  DELETE FROM approval_decision WHERE run_id = p_run;
  DELETE FROM approval WHERE run_id = p_run;
  DELETE FROM run_tag WHERE run_id = p_run;
  DELETE FROM run_note WHERE run_id = p_run;
  DELETE FROM run_repair WHERE run_id = p_run;
  DELETE FROM step_state WHERE run_id = p_run;
  DELETE FROM run_state WHERE run_id = p_run;
  DELETE FROM run_status WHERE run_id = p_run;
  DELETE FROM run_head WHERE run_id = p_run;
  DELETE FROM run WHERE run_id = p_run;
  DELETE FROM run_archive WHERE run_id = p_run;
  PERFORM set_config('dvt.retention', '', true);
  RETURN '';
END $$;
-- +goose StatementEnd

-- dvt_trim_rows deletes at most p_limit old rows of a kind and returns how many. See store.TrimKind.
-- +goose StatementBegin
CREATE FUNCTION dvt_trim_rows(p_kind text, p_tenant text, p_before timestamptz, p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_all int := 0;
  v_more int;
  v_old bigint[];
BEGIN
  IF p_before > clock_timestamp() - interval '24 hours' THEN
    RETURN 0;
  END IF;
  PERFORM set_config('dvt.retention', 'on', true);
  IF p_kind = 'DEAD_LETTERS' THEN
    DELETE FROM dead_letter WHERE pos IN (SELECT d.pos FROM dead_letter d
      WHERE d.tenant_id = p_tenant AND d.created_at < p_before ORDER BY d.pos LIMIT p_limit);
    GET DIAGNOSTICS v_all = ROW_COUNT;
    DELETE FROM destination_dead x WHERE x.n IN (SELECT d.n FROM destination_dead d
      WHERE d.tenant_id = p_tenant AND d.at < p_before ORDER BY d.n LIMIT p_limit - v_all);
    GET DIAGNOSTICS v_more = ROW_COUNT;
    v_all := v_all + v_more;
  ELSIF p_kind = 'ALERTS' THEN
    v_old := ARRAY(SELECT s.pos FROM alert_state s
      WHERE s.tenant_id = p_tenant AND s.resolved_at < p_before ORDER BY s.pos LIMIT p_limit);
    v_all := cardinality(v_old);
    DELETE FROM alert_change WHERE pos = ANY (v_old);
    DELETE FROM alert_state WHERE pos = ANY (v_old);
    DELETE FROM alert WHERE pos = ANY (v_old);
    DELETE FROM incident_alert WHERE alert = ANY (v_old);
    v_old := ARRAY(SELECT i.pos FROM incident i
      WHERE i.tenant_id = p_tenant AND i.closed_at < p_before ORDER BY i.pos LIMIT p_limit - v_all);
    v_all := v_all + cardinality(v_old);
    DELETE FROM incident_note WHERE incident = ANY (v_old);
    DELETE FROM incident_alert WHERE incident = ANY (v_old);
    DELETE FROM incident WHERE pos = ANY (v_old);
  END IF;
  PERFORM set_config('dvt.retention', '', true);
  RETURN v_all;
END $$;
-- +goose StatementEnd

-- Functions that run with the owner's rights resolve names in this schema only.
-- +goose StatementBegin
DO $$
DECLARE f text;
BEGIN
  FOREACH f IN ARRAY ARRAY['dvt_mark_archived(text, bigint, text, text, bigint, bigint)',
    'dvt_delete_archived_events(text, int)', 'dvt_delete_archived_receipts(text)', 'dvt_delete_archived_run(text)',
    'dvt_trim_rows(text, text, timestamptz, int)'] LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
