-- Bulks: the same signal to many runs. Lists of what somebody started.

-- +goose Up
SET LOCAL lock_timeout = '1s';
LOCK TABLE run, run_status IN SHARE MODE; -- in the order in which servers take them

CREATE TABLE bulk (
  pos         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  tenant_id   text COLLATE "C" NOT NULL,
  actor       text COLLATE "C" NOT NULL,
  request_id  text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  principal   json NOT NULL,
  action      json NOT NULL,
  reason      text NOT NULL,
  total       integer NOT NULL,
  accepted    integer NOT NULL DEFAULT 0,
  rejected    integer NOT NULL DEFAULT 0,
  refused     integer NOT NULL DEFAULT 0,
  not_sent    integer NOT NULL DEFAULT 0,
  paced       text NOT NULL DEFAULT '',
  paced_until timestamptz,
  rev         bigint NOT NULL DEFAULT 1,
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at timestamptz,
  stopped_at  timestamptz,
  owner       text NOT NULL DEFAULT '',
  generation  bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL DEFAULT 'epoch',
  due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (tenant_id, actor, request_id)
);
CREATE INDEX bulk_listed ON bulk (tenant_id, actor, pos);
CREATE INDEX bulk_due ON bulk (due_at, pos) WHERE finished_at IS NULL;

CREATE TABLE bulk_row (
  bulk_id        text COLLATE "C" NOT NULL,
  no             integer NOT NULL,
  run_id         text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  signal_id      text COLLATE "C" NOT NULL,
  outcome        text COLLATE "C" NOT NULL DEFAULT 'WAITING',
  code           text NOT NULL DEFAULT '',
  message        text NOT NULL DEFAULT '',
  due_at         timestamptz NOT NULL DEFAULT 'epoch',
  at             timestamptz,
  PRIMARY KEY (bulk_id, no)
);
CREATE INDEX bulk_row_waiting ON bulk_row (bulk_id, no) WHERE outcome = 'WAITING';

-- Built beside servers that write, before this: see ahead/0008_bulk.sql.
CREATE INDEX IF NOT EXISTS run_of_starter ON run (tenant_id, triggered_by, created_at, run_id) INCLUDE (project_id, environment_id, plan_id);
CREATE INDEX IF NOT EXISTS run_status_of_starter ON run_status (tenant_id, triggered_by, status, created_at, run_id) INCLUDE (project_id, environment_id, plan_id);
-- The places where runs are, and the runs before one, of its plan and place.
CREATE INDEX IF NOT EXISTS run_status_of_place ON run_status (tenant_id, project_id, environment_id, plan_id, status, created_at, run_id);

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
