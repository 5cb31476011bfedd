-- Records of reads of secrets, and orders to workers about secrets (ADR 102). No table has a value.

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- Insert-only.
CREATE TABLE secret_read (
  pos             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at              timestamptz NOT NULL DEFAULT clock_timestamp(),
  tenant_id       text COLLATE "C" NOT NULL,
  run_id          text COLLATE "C" NOT NULL,
  step_id         text COLLATE "C" NOT NULL,
  logical_attempt integer NOT NULL,
  engine_attempt  integer NOT NULL,
  no              integer NOT NULL,
  account         text COLLATE "C" NOT NULL,
  worker          text COLLATE "C" NOT NULL,
  provider        text COLLATE "C" NOT NULL,
  key             text COLLATE "C" NOT NULL,
  version         text NOT NULL,
  answered        text NOT NULL,
  given_as        text NOT NULL,
  cached          boolean NOT NULL,
  code            text NOT NULL,
  UNIQUE (run_id, step_id, logical_attempt, engine_attempt, no)
);
CREATE INDEX secret_read_tenant ON secret_read (tenant_id, at);
CREATE INDEX secret_read_key ON secret_read (tenant_id, key, at);
CREATE TRIGGER secret_read_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON secret_read
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON secret_read FROM PUBLIC;

CREATE TABLE secret_order (
  id         text COLLATE "C" PRIMARY KEY,
  kind       text NOT NULL,
  tenant_id  text COLLATE "C" NOT NULL, -- whose secrets
  actor      text NOT NULL,
  request_id text NOT NULL,
  reason     text NOT NULL,
  doc        text NOT NULL,
  at         timestamptz NOT NULL
);
CREATE INDEX secret_order_at ON secret_order (at);

CREATE TABLE secret_answer (
  order_id text COLLATE "C" NOT NULL,
  account  text COLLATE "C" NOT NULL,
  worker   text COLLATE "C" NOT NULL,
  doc      text NOT NULL,
  at       timestamptz NOT NULL,
  PRIMARY KEY (order_id, account, worker)
);

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
