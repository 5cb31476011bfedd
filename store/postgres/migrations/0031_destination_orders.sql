-- What the process that works for a destination reports about it, and what people ask of it (ADR 97).

-- +goose Up
SET LOCAL lock_timeout = '3s';

ALTER TABLE destination
  ADD COLUMN entry          text NOT NULL DEFAULT '', -- JSON: what may be shown of the entry in the file
  ADD COLUMN digest         text NOT NULL DEFAULT '', -- of the whole entry
  ADD COLUMN reported_at    timestamptz,
  ADD COLUMN removed_at     timestamptz,
  ADD COLUMN disabled_by    text NOT NULL DEFAULT '', -- '' when dvt did it
  ADD COLUMN disabled_at    timestamptz,
  ADD COLUMN waiting        bigint NOT NULL DEFAULT 0,
  ADD COLUMN oldest_waiting timestamptz,
  ADD COLUMN begins_at      timestamptz,
  ADD COLUMN redriven       bigint NOT NULL DEFAULT 0;

CREATE TABLE destination_order (
  n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         text COLLATE "C" NOT NULL UNIQUE,
  name       text COLLATE "C" NOT NULL,
  kind       text NOT NULL,
  tenant_id  text COLLATE "C" NOT NULL, -- of the person
  actor      text NOT NULL,
  request_id text NOT NULL,
  reason     text NOT NULL,
  doc        text NOT NULL,
  state      text NOT NULL,
  at         timestamptz NOT NULL,
  ended_at   timestamptz,
  messages   bigint NOT NULL DEFAULT 0,
  sent       bigint NOT NULL DEFAULT 0,
  failed     bigint NOT NULL DEFAULT 0,
  error      text NOT NULL DEFAULT ''
);
CREATE INDEX destination_order_of_name ON destination_order (name, n);
CREATE INDEX destination_order_open ON destination_order (name, n) WHERE ended_at IS NULL;
