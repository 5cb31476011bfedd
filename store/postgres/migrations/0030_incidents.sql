-- Trouble that people look after (ADR 93).

-- +goose Up
SET LOCAL lock_timeout = '3s';

CREATE TABLE incident (
  pos             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id              uuid NOT NULL UNIQUE,
  tenant_id       text COLLATE "C" NOT NULL,
  project_id      text COLLATE "C" NOT NULL,
  environment_id  text COLLATE "C" NOT NULL,
  run_id          text COLLATE "C" NOT NULL,
  code            text COLLATE "C" NOT NULL,
  grouped_by      text COLLATE "C" NOT NULL,
  severity        text NOT NULL,
  title           text NOT NULL,
  opened_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  acknowledged_at timestamptz,
  acknowledged_by text NOT NULL DEFAULT '',
  closed_at       timestamptz,
  closed_by       text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX incident_open ON incident (grouped_by) WHERE closed_at IS NULL;
CREATE INDEX incident_of_tenant ON incident (tenant_id, pos);

CREATE TABLE incident_note (
  incident bigint NOT NULL,
  n        bigint NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor    text NOT NULL,
  act      text NOT NULL,
  text     text NOT NULL,
  PRIMARY KEY (incident, n)
);

-- The alerts of an incident, by the position of the alert.
CREATE TABLE incident_alert (
  alert    bigint PRIMARY KEY,
  incident bigint NOT NULL
);
CREATE INDEX incident_alert_of ON incident_alert (incident, alert);

-- One row: alerts up to this position were looked at. Alerts of earlier versions open no incident.
CREATE TABLE incident_cursor (alert bigint NOT NULL, from_alert bigint NOT NULL);
INSERT INTO incident_cursor SELECT coalesce(max(pos), 0), coalesce(max(pos), 0) FROM alert;

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
