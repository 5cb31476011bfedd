-- The retention cuts the audit: it deletes the rows of a chain up to a number (ADR 113).

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE audit, audit_link IN ACCESS EXCLUSIVE MODE; -- in the order in which servers lock them

-- Up to which number the chain of a tenant is cut, by the newest cut. The row row_id of the audit records it.
CREATE TABLE audit_cut (
  tenant_id text COLLATE "C" PRIMARY KEY,
  no        bigint NOT NULL,
  row_id    uuid NOT NULL,
  ended_at  timestamptz -- NULL while rows are left
);

-- Deletes fail unless dvt_cut_audit does them. Servers have no privilege to delete (contract T208).
DROP TRIGGER audit_insert_only ON audit;
CREATE TRIGGER audit_insert_only BEFORE UPDATE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
CREATE TRIGGER audit_kept BEFORE DELETE ON audit FOR EACH STATEMENT
  WHEN (current_setting('dvt.retention', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION dvt_insert_only();
DROP TRIGGER audit_link_insert_only ON audit_link;
CREATE TRIGGER audit_link_insert_only BEFORE UPDATE OR TRUNCATE ON audit_link
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
CREATE TRIGGER audit_link_kept BEFORE DELETE ON audit_link FOR EACH STATEMENT
  WHEN (current_setting('dvt.retention', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION dvt_insert_only();

-- dvt_audit_lasts reports whether the row that made an object stays after a cut, because the object stays.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_lasts(p_object text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT split_part(p_object, '/', 1) IN ('token', 'revocation', 'policy', 'setting')
$$;
-- +goose StatementEnd

-- dvt_audit_cut_obstacle returns why no row of the tenant's audit may be deleted, or ''. A row may speak of a person in
-- a sealed text, so that an open hold on a person keeps them all.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_cut_obstacle(p_tenant text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN EXISTS (SELECT FROM legal_hold h WHERE h.tenant_id = p_tenant AND h.lifted_at IS NULL AND h.kind = 'SUBJECT')
      THEN 'HELD'
    WHEN EXISTS (SELECT FROM erasure e WHERE e.tenant_id = p_tenant AND e.finished_at IS NULL AND e.cancelled_at IS NULL)
      THEN 'ERASURE'
    ELSE '' END
$$;
-- +goose StatementEnd

-- dvt_audit_cut_end returns the highest number up to which every link above p_after, of at most p_limit, may be cut: the
-- row is in the store, is older than p_before, and speaks of no run that exists. p_after when there is none.
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_cut_end(p_tenant text, p_after bigint, p_before timestamptz, p_limit int) RETURNS bigint
LANGUAGE sql STABLE AS $$
  WITH links AS (
    SELECT l.no, a.id IS NOT NULL AND a.at < p_before AND NOT (a.run_id <> '' AND EXISTS (
        SELECT FROM run r WHERE r.run_id = a.run_id)) AS old
    FROM (SELECT x.no, x.id FROM audit_link x WHERE x.tenant_id = p_tenant AND x.no > p_after
      AND x.no < 4611686018427387904 ORDER BY x.no LIMIT p_limit) l
    LEFT JOIN audit a ON a.id = l.id AND a.tenant_id = p_tenant
  ), stop AS (SELECT min(no) AS no FROM links WHERE NOT old)
  SELECT greatest(p_after, coalesce((SELECT max(links.no) FROM links, stop
    WHERE stop.no IS NULL OR links.no < stop.no), p_after))
$$;
-- +goose StatementEnd

-- dvt_cut_audit deletes rows of the chain that the row p_row cuts: of the next p_limit links after p_after those that do
-- not last. It returns the number of the last link that it looked at; that of the cut when none is left; -1 when an
-- obstacle keeps them; -2 when p_row is no cut, or its rows are younger than a year or speak of a run. The links
-- before rows that stay, and the link of the cut, stay too, so that the hash of the row behind them can be computed.
-- +goose StatementBegin
CREATE FUNCTION dvt_cut_audit(p_tenant text, p_row uuid, p_after bigint, p_limit int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_no bigint;
  v_digest text;
  v_last bigint;
BEGIN
  PERFORM FROM audit_head h WHERE h.tenant_id = p_tenant FOR UPDATE;
  SELECT substr(a.object, 5)::bigint, a.digest INTO v_no, v_digest FROM audit a JOIN audit_link l ON l.id = a.id
    AND l.tenant_id = a.tenant_id AND l.no < 4611686018427387904
    WHERE a.id = p_row AND a.tenant_id = p_tenant AND a.action = 'CUT_AUDIT' AND a.outcome = 'ACCEPTED'
      AND a.object ~ '^cut/[1-9][0-9]{0,17}$' AND substr(a.object, 5)::bigint < l.no;
  IF v_no IS NULL OR EXISTS (SELECT FROM audit_cut c WHERE c.tenant_id = p_tenant AND c.no > v_no) OR NOT EXISTS (
      SELECT FROM audit_link l WHERE l.tenant_id = p_tenant AND l.no = v_no AND encode(l.hash, 'hex') = v_digest) THEN
    RETURN -2;
  END IF;
  IF dvt_audit_cut_obstacle(p_tenant) <> '' THEN
    RETURN -1;
  END IF;
  SELECT max(x.no) INTO v_last FROM (SELECT l.no FROM audit_link l WHERE l.tenant_id = p_tenant AND l.no > p_after
    AND l.no <= v_no ORDER BY l.no LIMIT p_limit) x;
  IF EXISTS (SELECT FROM audit_link l JOIN audit a ON a.id = l.id WHERE l.tenant_id = p_tenant AND l.no > p_after
      AND l.no <= v_last AND NOT dvt_audit_lasts(a.object) AND (a.at > clock_timestamp() - interval '365 days'
        OR a.run_id <> '' AND EXISTS (SELECT FROM run r WHERE r.run_id = a.run_id))) THEN
    RETURN -2;
  END IF;
  INSERT INTO audit_cut (tenant_id, no, row_id) VALUES (p_tenant, v_no, p_row)
    ON CONFLICT (tenant_id) DO UPDATE SET no = excluded.no, row_id = excluded.row_id, ended_at = NULL
    WHERE audit_cut.no < excluded.no;
  PERFORM set_config('dvt.retention', 'on', true);
  DELETE FROM audit a USING audit_link l WHERE l.tenant_id = p_tenant AND l.no > p_after AND l.no <= v_last
    AND a.id = l.id AND a.tenant_id = p_tenant AND NOT dvt_audit_lasts(a.object);
  DELETE FROM audit_link l WHERE l.tenant_id = p_tenant AND l.no > p_after AND l.no <= v_last AND l.no <> v_no
    AND NOT EXISTS (SELECT FROM audit a WHERE a.id = l.id)
    AND NOT EXISTS (SELECT FROM audit_link n JOIN audit a ON a.id = n.id WHERE n.tenant_id = p_tenant
      AND n.no = l.no + 1 AND dvt_audit_lasts(a.object));
  PERFORM set_config('dvt.retention', '', true);
  IF v_last IS NULL OR v_last >= v_no THEN
    UPDATE audit_cut SET ended_at = clock_timestamp() WHERE tenant_id = p_tenant AND no = v_no AND ended_at IS NULL;
    RETURN v_no;
  END IF;
  RETURN v_last;
END $$;
-- +goose StatementEnd

-- The function that runs with the owner's rights resolves names in this schema only.
-- +goose StatementBegin
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION dvt_cut_audit(text, uuid, bigint, int) SET search_path = %I, pg_temp',
    current_schema());
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION dvt_cut_audit(text, uuid, bigint, int) FROM PUBLIC;

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
