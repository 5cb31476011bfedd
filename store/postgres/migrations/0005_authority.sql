-- Who may do what: policies and API tokens (O3, O6, T202).

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- Grows with every change of a policy or token, under the lock of its row.
INSERT INTO meta (name, value) VALUES ('authority', 0);

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
  last_used_at timestamptz
);
CREATE INDEX api_token_tenant ON api_token (tenant_id, pos);
CREATE INDEX api_token_live ON api_token (expires_at) WHERE revoked_at IS NULL;

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
