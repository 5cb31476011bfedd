-- Admission: lanes, token buckets, waiting runs, approvals, and settings that people change while dvt runs.

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- What is used and what waits: of the installation ('', ''), of each tenant (t, '') and of each of its
-- projects (t, p). Rows are locked in that order, after the heads of runs.
CREATE TABLE lane (
  tenant_id  text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  active     bigint NOT NULL DEFAULT 0, -- runs that hold a place
  waiting    bigint NOT NULL DEFAULT 0,
  pass       double precision NOT NULL DEFAULT 0, -- whose turn it is: the least
  ready      boolean NOT NULL DEFAULT true, -- false: nothing is admitted before ready_at, or before a run ends
  ready_at   timestamptz NOT NULL DEFAULT 'epoch',
  pace_ms    double precision NOT NULL DEFAULT 0, -- between two admissions of late; 0: not known
  admitted_at timestamptz NOT NULL DEFAULT 'epoch',
  PRIMARY KEY (tenant_id, project_id)
);
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

-- A waiting row is not due for a server of the schema before: its not_before is infinity.
ALTER TABLE run_queue
  ADD COLUMN project_id  text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN waiting     boolean NOT NULL DEFAULT false,
  ADD COLUMN place       boolean NOT NULL DEFAULT false,
  ADD COLUMN token_taken boolean NOT NULL DEFAULT false,
  ADD COLUMN priority    smallint NOT NULL DEFAULT 5,
  ADD COLUMN expires_at  timestamptz NOT NULL DEFAULT 'infinity',
  ADD COLUMN estimate_ms bigint NOT NULL DEFAULT 0;
DROP INDEX run_queue_due;
CREATE INDEX run_queue_due ON run_queue (created_at, run_id) WHERE status IN ('PENDING', 'LOCKED') AND NOT waiting;
CREATE INDEX run_queue_lane ON run_queue (tenant_id, project_id, priority DESC, created_at, run_id) WHERE waiting;
CREATE INDEX run_queue_expiry ON run_queue (expires_at, run_id) WHERE waiting;

-- What runs now holds its place.
UPDATE run_queue q SET project_id = r.project_id, place = true FROM run r JOIN run_head h USING (run_id)
WHERE q.run_id = r.run_id AND q.status IN ('PENDING', 'LOCKED', 'STARTED') AND NOT h.terminal;
INSERT INTO lane AS l (tenant_id, project_id, active)
SELECT coalesce(tenant_id, ''), coalesce(project_id, ''), count(*) FROM run_queue WHERE place
GROUP BY GROUPING SETS ((), (tenant_id), (tenant_id, project_id)) HAVING count(*) > 0
ON CONFLICT (tenant_id, project_id) DO UPDATE SET active = excluded.active;

-- Whatever ends a run frees its place in the same transaction: also a server of the schema before.
-- +goose StatementBegin
CREATE FUNCTION dvt_free_place() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE t text; p text;
BEGIN
  UPDATE run_queue SET place = false WHERE run_id = NEW.run_id AND place RETURNING tenant_id, project_id INTO t, p;
  IF FOUND THEN
    UPDATE lane SET active = active - 1, ready = true WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active - 1, ready = true WHERE tenant_id = t AND project_id = '';
    UPDATE lane SET active = active - 1, ready = true WHERE tenant_id = t AND project_id = p;
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER head_frees_place AFTER UPDATE OF terminal ON run_head FOR EACH ROW
  WHEN (NEW.terminal AND NOT OLD.terminal) EXECUTE FUNCTION dvt_free_place();

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

ALTER TABLE api_token ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'API';
ALTER TABLE api_token ADD COLUMN provider text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE api_token ADD COLUMN memberships text[] COLLATE "C" NOT NULL DEFAULT '{}';

-- The limit per run and minute looks at the newest receipts (T96).
CREATE INDEX signal_recent ON signal (run_id, received_at);

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
