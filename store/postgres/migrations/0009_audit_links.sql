-- The database links the audit, dates its rows and names what each row made.

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE audit, audit_link, audit_pending IN ACCESS EXCLUSIVE MODE; -- in the order in which servers take them

-- Which credential the actor showed, from where, and by which way; the object that the row made, and its digest.
-- Rows from before this migration keep format 1, whose hash does not cover these columns.
ALTER TABLE audit ADD COLUMN format smallint NOT NULL DEFAULT 1;
ALTER TABLE audit ADD COLUMN credential text NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN address text NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN via text NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN object text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN digest text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX audit_object ON audit (object, tenant_id) WHERE object <> '';

-- The end of each chain. Its row is the lock of the tenant's chain; servers only read it.
CREATE TABLE audit_head (
  tenant_id text COLLATE "C" PRIMARY KEY,
  no        bigint NOT NULL CHECK (no >= 0 AND no < 4611686018427387904),
  hash      bytea NOT NULL CHECK (length(hash) IN (0, 32))
);
-- A number at or above 2^62 is a forgery: its link is left out, so that the chain goes on below it.
INSERT INTO audit_head (tenant_id, no, hash)
SELECT DISTINCT ON (tenant_id) tenant_id, no, hash FROM audit_link
WHERE no > 0 AND no < 4611686018427387904 ORDER BY tenant_id, no DESC;

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

-- A row waits for its link by the owner's right, so that servers need none on audit_pending but to read it.
ALTER FUNCTION dvt_audit_pending() SECURITY DEFINER;

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

-- What exists now has no row that names its digest. A BASELINE row of each says that this migration found it.
INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, object, digest)
SELECT gen_random_uuid(), tenant_id, 'dvt', 'BASELINE', run_id, '', 'ACCEPTED', '', 'schema 9 found it', '', object, encode(dvt_digest(parts), 'hex')
FROM (
  SELECT tenant_id, '' AS run_id, 'token/' || id AS object, ARRAY['token', id::text, kind, tenant_id, name, principal, provider,
    array_to_string(memberships, E'\x1f'), sha256, grants::text, created_by, (extract(epoch FROM expires_at) * 1000000)::bigint::text] AS parts
  FROM api_token
  UNION ALL
  SELECT tenant_id, '', 'revocation/' || id, ARRAY['revocation', id::text] FROM api_token WHERE revoked_at IS NOT NULL
  UNION ALL
  SELECT tenant_id, '', 'policy/' || version, ARRAY['policy', tenant_id, version::text, doc::text, actor, reason, request_id] FROM policy
  UNION ALL
  SELECT tenant_id, '', 'setting/' || kind || '/' || tenant_id || '/' || version,
    ARRAY['setting', kind, tenant_id, version::text, doc::text, actor, reason, request_id]
  FROM setting
  UNION ALL
  SELECT r.tenant_id, d.run_id, 'decision/' || d.run_id || '/' || d.principal,
    ARRAY['decision', d.run_id, d.principal, d.approved::text, d.reason, d.request_id]
  FROM approval_decision d JOIN run r ON r.run_id = d.run_id
) found;

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
