-- What has become of alerts, silences of alerts, and heartbeats of duties (ADR 79).

-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE alert IN SHARE ROW EXCLUSIVE MODE;

-- The mutable state of an alert. The row of its opening in alert stays as it was.
CREATE TABLE alert_state (
  pos             bigint PRIMARY KEY, -- of the alert
  tenant_id       text COLLATE "C" NOT NULL,
  project_id      text COLLATE "C" NOT NULL,
  environment_id  text COLLATE "C" NOT NULL,
  plan_id         text COLLATE "C" NOT NULL,
  run_id          text COLLATE "C" NOT NULL,
  code            text COLLATE "C" NOT NULL,
  subject         text COLLATE "C" NOT NULL,
  shared          boolean NOT NULL,
  fingerprint     text COLLATE "C" NOT NULL,
  level           text NOT NULL,
  note            text NOT NULL,
  count           bigint NOT NULL DEFAULT 1,
  last_seen       timestamptz NOT NULL,
  resolved_at     timestamptz,
  resolution      text NOT NULL DEFAULT '',
  acknowledged_at timestamptz,
  acknowledged_by text NOT NULL DEFAULT '',
  ack_note        text NOT NULL DEFAULT ''
);

-- Alerts of earlier versions. Escalations and the newest finding of each kind stay open while their run is open, and
-- the reconciler resolves them like its own. Findings about queues and starts are raised again while they last.
INSERT INTO alert_state (pos, tenant_id, project_id, environment_id, plan_id, run_id, code, subject, shared, fingerprint,
  level, note, last_seen, resolved_at, resolution)
SELECT a.pos, a.tenant_id, a.project_id, coalesce(r.environment_id, ''), coalesce(r.plan_id, ''), a.run_id, a.code,
  a.subject, false, concat_ws(E'\n', a.tenant_id, a.project_id, a.run_id, a.step_id, a.code, a.subject), a.level, a.note,
  a.at, CASE WHEN a.stays THEN NULL ELSE clock_timestamp() END,
  CASE WHEN a.stays THEN '' WHEN a.ended THEN 'The run has ended.' ELSE 'An earlier version raised it.' END
FROM (SELECT x.*, NOT ended AND code NOT IN ('NO_WORKER_FOR_QUEUE', 'ENGINE_UNAVAILABLE') AND row_number() OVER
    (PARTITION BY tenant_id, project_id, run_id, step_id, code, subject ORDER BY pos DESC) = 1 AS stays
  FROM (SELECT y.*, CASE WHEN code = '' THEN signal_id ELSE '' END AS subject,
      NOT EXISTS (SELECT FROM run_head h WHERE h.run_id = y.run_id AND NOT h.terminal) AS ended FROM alert y) x) a
LEFT JOIN run r ON r.run_id = a.run_id;

CREATE UNIQUE INDEX alert_state_open ON alert_state (fingerprint) WHERE resolved_at IS NULL;
CREATE INDEX alert_state_of_tenant ON alert_state (tenant_id, pos);
CREATE INDEX alert_state_open_of_tenant ON alert_state (tenant_id, pos) WHERE resolved_at IS NULL;
CREATE INDEX alert_state_open_of_code ON alert_state (code, last_seen) WHERE resolved_at IS NULL;
CREATE INDEX alert_state_of_run ON alert_state (run_id, pos);

CREATE TABLE alert_silence (
  id         uuid PRIMARY KEY,
  tenant_id  text COLLATE "C" NOT NULL,
  code       text COLLATE "C" NOT NULL,
  project_id text COLLATE "C" NOT NULL,
  run_id     text COLLATE "C" NOT NULL,
  plan_id    text COLLATE "C" NOT NULL,
  actor      text NOT NULL,
  reason     text NOT NULL,
  at         timestamptz NOT NULL,
  until      timestamptz NOT NULL
);
CREATE INDEX alert_silence_of_tenant ON alert_silence (tenant_id, until);

-- One row: a number that grows with each change of the two tables above.
CREATE TABLE alert_rev (n bigint NOT NULL);
INSERT INTO alert_rev VALUES (1);

-- Signs of life of duties.
CREATE TABLE duty_heartbeat (
  process text COLLATE "C" NOT NULL,
  duty    text COLLATE "C" NOT NULL,
  at      timestamptz NOT NULL,
  PRIMARY KEY (process, duty)
);
CREATE INDEX duty_heartbeat_newest ON duty_heartbeat (duty, at);

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
