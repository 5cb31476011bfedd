-- Drains of workers: each asks one worker to begin no further steps.

-- +goose Up
SET LOCAL lock_timeout = '3s';

CREATE TABLE worker_drain (
  account    text COLLATE "C" NOT NULL,
  worker     text COLLATE "C" NOT NULL,
  request_id text COLLATE "C" NOT NULL,
  actor      text COLLATE "C" NOT NULL,
  reason     text NOT NULL,
  at         timestamptz NOT NULL,
  PRIMARY KEY (account, worker)
);

UPDATE meta SET value = 20 WHERE name = 'compatible_from';
