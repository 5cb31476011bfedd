-- Workers: what each reports about its sandbox, for each of its queues.

-- +goose Up
SET LOCAL lock_timeout = '3s';

CREATE TABLE worker_report (
  account text COLLATE "C" NOT NULL,
  worker  text COLLATE "C" NOT NULL,
  queue   text COLLATE "C" NOT NULL,
  doc     json NOT NULL,
  at      timestamptz NOT NULL,
  PRIMARY KEY (account, worker, queue)
) WITH (fillfactor = 50);
CREATE INDEX worker_report_of_queue ON worker_report (queue, at);

UPDATE meta SET value = 2 WHERE name = 'compatible_from';
