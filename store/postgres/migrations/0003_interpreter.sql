-- What sweeping, manual steps and signals need.

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- The runs that have not ended. Appends do not touch it, and stay HOT, but for the one that ends a run.
CREATE INDEX IF NOT EXISTS run_head_open ON run_head (run_id) WHERE NOT terminal;

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

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
