-- Admission: lanes, token buckets, waiting runs, approvals, and settings that people change while dvt runs.

-- +goose Up
SET LOCAL lock_timeout = '3s';

-- The tables that servers write, in the order in which they take them.
LOCK TABLE run_head, run_queue, signal, api_token IN ACCESS EXCLUSIVE MODE;

-- What is used and what waits: of the installation ('', ''), of each tenant (t, '') and of each of its
-- projects (t, p). Who changes any of them holds that of the installation first, after the heads of runs.
CREATE TABLE lane (
  tenant_id  text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  active     bigint NOT NULL DEFAULT 0, -- runs that hold a place
  waiting    bigint NOT NULL DEFAULT 0,
  pass       double precision NOT NULL DEFAULT 0, -- whose turn it is: the least
  turn       double precision NOT NULL DEFAULT 0, -- the pass of the one below that had its turn last
  ready      boolean NOT NULL DEFAULT true, -- false: nothing is admitted before ready_at, or before a run ends
  ready_at   timestamptz NOT NULL DEFAULT 'epoch',
  pace_ms    double precision NOT NULL DEFAULT 0, -- between two admissions of late; 0: not known
  admitted_at timestamptz NOT NULL DEFAULT 'epoch', -- the last that had waited, or since when the first waits
  PRIMARY KEY (tenant_id, project_id)
) WITH (fillfactor = 50);
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

-- A waiting row is not due for a server of the schema before: its not_before is far away.
ALTER TABLE run_queue
  ADD COLUMN project_id  text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN waiting     boolean NOT NULL DEFAULT false,
  ADD COLUMN place       boolean NOT NULL DEFAULT false,
  ADD COLUMN token_taken boolean NOT NULL DEFAULT false,
  ADD COLUMN priority    smallint NOT NULL DEFAULT 5,
  ADD COLUMN expires_at  timestamptz NOT NULL DEFAULT 'infinity',
  ADD COLUMN estimate_ms bigint NOT NULL DEFAULT 0;
DROP INDEX run_queue_due;
CREATE INDEX run_queue_due ON run_queue (waiting, created_at, run_id) WHERE status IN ('PENDING', 'LOCKED');
CREATE INDEX run_queue_lane ON run_queue (tenant_id, project_id, priority DESC, created_at, run_id) WHERE waiting;
CREATE INDEX run_queue_expiry ON run_queue (expires_at, run_id) WHERE waiting;

-- What runs now holds its place.
UPDATE run_queue q SET project_id = r.project_id, place = true FROM run r JOIN run_head h USING (run_id)
WHERE q.run_id = r.run_id AND q.status IN ('PENDING', 'LOCKED', 'STARTED') AND NOT h.terminal;
INSERT INTO lane AS l (tenant_id, project_id, active)
SELECT coalesce(tenant_id, ''), coalesce(project_id, ''), count(*) FROM run_queue WHERE place
GROUP BY GROUPING SETS ((), (tenant_id), (tenant_id, project_id)) HAVING count(*) > 0
ON CONFLICT (tenant_id, project_id) DO UPDATE SET active = excluded.active;

-- Lanes count their rows, whoever writes them. A lane that begins to wait, or in which a place is free, is asked again.
-- +goose StatementBegin
CREATE FUNCTION dvt_count_lane() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE a int := NEW.place::int; w int := NEW.waiting::int; first boolean;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    a := a - OLD.place::int; w := w - OLD.waiting::int;
  END IF;
  UPDATE lane SET active = active + a, waiting = waiting + w WHERE tenant_id = '' AND project_id = '';
  UPDATE lane SET active = active + a, waiting = waiting + w, ready = ready OR a < 0 OR (w > 0 AND waiting = 0),
    admitted_at = CASE WHEN w > 0 AND waiting = 0 THEN NEW.created_at ELSE admitted_at END
  WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id RETURNING w > 0 AND waiting = 1 INTO first;
  IF NOT FOUND THEN
    INSERT INTO lane (tenant_id, project_id, active, waiting, admitted_at) VALUES (NEW.tenant_id, NEW.project_id, a, w, NEW.created_at);
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
  WHEN (NEW.place OR NEW.waiting) EXECUTE FUNCTION dvt_count_lane();
CREATE TRIGGER queue_counts AFTER UPDATE OF place, waiting ON run_queue FOR EACH ROW
  WHEN (NEW.place <> OLD.place OR NEW.waiting <> OLD.waiting) EXECUTE FUNCTION dvt_count_lane();

-- Whatever ends a run frees its place, or ends its wait, in the same transaction: also a server of the schema before.
-- +goose StatementBegin
CREATE FUNCTION dvt_free_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE run_queue SET place = false, waiting = false, not_before = CASE WHEN waiting THEN created_at ELSE not_before END
  WHERE run_id = NEW.run_id AND (place OR waiting);
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

-- The limit per run and minute looks at the newest receipts, but for those of callers who may not signal it (T96).
CREATE INDEX signal_recent ON signal (run_id, received_at) WHERE rejection <> 'FORBIDDEN';

-- A text is looked up among the ids of the tenant's own runs: what others have costs nobody else anything (T101).
CREATE INDEX run_named ON run (tenant_id, run_id);

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
