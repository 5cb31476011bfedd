-- The tables of the StateStore. Names and numbers agree with store/sqlite.
-- Ids compare by bytes (COLLATE "C"). There are no foreign keys: every row of a
-- run is written under the lock of its head, which exists as long as the run.

-- +goose Up
CREATE TABLE meta (
  name  text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);
INSERT INTO meta (name, value) VALUES ('epoch', 1);

CREATE TABLE plan_body (
  sha256     text COLLATE "C" PRIMARY KEY,
  body       bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Immutable facts.
CREATE TABLE run (
  run_id         text COLLATE "C" PRIMARY KEY,
  tenant_id      text COLLATE "C" NOT NULL,
  project_id     text COLLATE "C" NOT NULL,
  environment_id text COLLATE "C" NOT NULL,
  plan_id        text COLLATE "C" NOT NULL,
  plan_version   text COLLATE "C" NOT NULL,
  request_key    text COLLATE "C" UNIQUE,
  request_id     text NOT NULL,
  plan_ref       json NOT NULL,
  triggered_by   text NOT NULL,
  trigger_source text NOT NULL,
  parent_run_id  text NOT NULL,
  params         json,
  policy         json NOT NULL,
  created_at     timestamptz NOT NULL
);
CREATE INDEX run_listed ON run (tenant_id, created_at, run_id);

-- The lock. Only the primary key is indexed and pages are half full, so that
-- every update is HOT.
CREATE TABLE run_head (
  run_id    text COLLATE "C" PRIMARY KEY,
  last_seq  bigint NOT NULL DEFAULT 0,
  last_at   timestamptz NOT NULL DEFAULT 'epoch',
  terminal  boolean NOT NULL DEFAULT false,
  gate      smallint NOT NULL DEFAULT 0,
  running   integer NOT NULL DEFAULT 0,
  ops_rev   bigint NOT NULL DEFAULT 0,
  signal_no bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The log: insert-only. json keeps a payload as it was written.
CREATE TABLE event (
  run_id          text COLLATE "C" NOT NULL,
  run_seq         bigint NOT NULL,
  event_id        text COLLATE "C" NOT NULL,
  key             text COLLATE "C" NOT NULL,
  type            text COLLATE "C" NOT NULL,
  step_id         text COLLATE "C" NOT NULL,
  signal_id       text COLLATE "C" NOT NULL,
  la              integer NOT NULL,
  ea              integer NOT NULL,
  emitted_at      timestamptz NOT NULL,
  persisted_at    timestamptz NOT NULL,
  emitted_by      text NOT NULL,
  payload         json,
  PRIMARY KEY (run_id, run_seq),
  CONSTRAINT event_key UNIQUE (run_id, key)
);
CREATE UNIQUE INDEX event_attempt_end ON event (run_id, step_id, la)
  WHERE type IN ('StepCompleted', 'StepFailed', 'StepSkipped');
CREATE UNIQUE INDEX event_run_end ON event (run_id)
  WHERE type IN ('RunCompleted', 'RunFailed', 'RunCancelled');
-- Not unique: imported logs may start an attempt twice.
CREATE INDEX event_attempt_begun ON event (run_id, step_id, la, type)
  WHERE type IN ('StepStarted', 'StepAwaitingManualCompletion');

-- Checkpoints: caches.
CREATE TABLE run_state (
  run_id        text COLLATE "C" PRIMARY KEY,
  tenant_id     text COLLATE "C" NOT NULL,
  project_id    text COLLATE "C" NOT NULL,
  status        text COLLATE "C" NOT NULL,
  seq           bigint NOT NULL,
  rev           integer NOT NULL,
  published_seq bigint NOT NULL DEFAULT 0,
  header        json NOT NULL,
  xid           xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX run_state_changed ON run_state (tenant_id, project_id, xid);

CREATE TABLE step_state (
  run_id      text COLLATE "C" NOT NULL,
  ord         integer NOT NULL,
  changed_seq bigint NOT NULL,
  body        json NOT NULL,
  PRIMARY KEY (run_id, ord)
) WITH (fillfactor = 80);

-- One row a run with something to project and publish.
CREATE TABLE run_dirty (
  run_id   text COLLATE "C" PRIMARY KEY,
  head_seq bigint NOT NULL,
  ops_rev  bigint NOT NULL,
  since    timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX run_dirty_since ON run_dirty (since);

CREATE TABLE signal (
  run_id             text COLLATE "C" NOT NULL,
  signal_id          text COLLATE "C" NOT NULL,
  pos                bigint GENERATED ALWAYS AS IDENTITY, -- order of arrival within a run
  no                 bigint NOT NULL,
  type               text NOT NULL,
  step_id            text NOT NULL,
  expected_attempt   integer NOT NULL,
  force              boolean NOT NULL,
  payload            json,
  actor              text NOT NULL,
  reason             text NOT NULL,
  rejected           boolean NOT NULL,
  rejection          text NOT NULL,
  reject_text        text NOT NULL,
  application        text NOT NULL,
  application_reason text NOT NULL,
  accepted_seq       bigint NOT NULL,
  applied_seq        bigint NOT NULL,
  quiescent_seq      bigint NOT NULL,
  received_at        timestamptz NOT NULL,
  delivered_at       timestamptz,
  applied_at         timestamptz,
  PRIMARY KEY (run_id, signal_id)
);
CREATE INDEX signal_received ON signal (run_id, pos);
CREATE INDEX signal_sent ON signal (actor, received_at);
CREATE UNIQUE INDEX signal_numbered ON signal (run_id, no) WHERE no > 0;

-- A row stays when nothing is left to deliver, so that its generation goes on growing.
CREATE TABLE delivery (
  run_id       text COLLATE "C" PRIMARY KEY,
  tenant_id    text COLLATE "C" NOT NULL,
  delivered_no bigint NOT NULL,
  up_to        bigint NOT NULL,
  owner        text NOT NULL DEFAULT '',
  generation   bigint NOT NULL DEFAULT 0,
  lease_until  timestamptz NOT NULL DEFAULT 'epoch',
  due_at       timestamptz NOT NULL,
  attempts     integer NOT NULL DEFAULT 0
);
CREATE INDEX delivery_due ON delivery (due_at) WHERE delivered_no < up_to;

CREATE TABLE run_queue (
  run_id      text COLLATE "C" PRIMARY KEY,
  tenant_id   text COLLATE "C" NOT NULL,
  status      text COLLATE "C" NOT NULL DEFAULT 'PENDING'
    CHECK (status IN ('PENDING', 'LOCKED', 'STARTED', 'FAILED', 'CANCELLED')),
  owner       text NOT NULL DEFAULT '',
  generation  bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL DEFAULT 'epoch',
  not_before  timestamptz NOT NULL,
  created_at  timestamptz NOT NULL,
  attempts    integer NOT NULL DEFAULT 0,
  last_error  text NOT NULL DEFAULT ''
);
CREATE INDEX run_queue_due ON run_queue (created_at, run_id) WHERE status IN ('PENDING', 'LOCKED');

-- Insert-only.
CREATE TABLE audit (
  id         uuid PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  tenant_id  text COLLATE "C" NOT NULL,
  actor      text NOT NULL,
  action     text NOT NULL,
  run_id     text COLLATE "C" NOT NULL,
  signal_id  text NOT NULL,
  outcome    text NOT NULL,
  code       text NOT NULL,
  reason     text NOT NULL,
  request_id text NOT NULL,
  detail     json
);
CREATE INDEX audit_tenant ON audit (tenant_id, at);

-- +goose StatementBegin
CREATE FUNCTION dvt_insert_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is insert-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
-- +goose StatementEnd
CREATE TRIGGER event_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON event
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
CREATE TRIGGER audit_insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION dvt_insert_only();
REVOKE UPDATE, DELETE, TRUNCATE ON event, audit FROM PUBLIC;
