-- The audit of a tenant is a chain.

-- +goose Up
SET LOCAL lock_timeout = '3s';

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

-- Rows that wait for their link, whoever wrote them: also servers of the schema before.
CREATE TABLE audit_pending (id uuid PRIMARY KEY);
-- A server of the schema before has no right of its own here. The ids alone say nothing.
GRANT INSERT ON audit_pending TO PUBLIC;
-- +goose StatementBegin
CREATE FUNCTION dvt_audit_pending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit_pending (id) VALUES (NEW.id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_wait AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION dvt_audit_pending();
INSERT INTO audit_pending (id) SELECT id FROM audit;

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
