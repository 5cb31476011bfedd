-- Workers: what each reports about its sandbox, for each of its queues.

-- +goose Up
CREATE TABLE worker_report (
    account TEXT NOT NULL,
    worker  TEXT NOT NULL,
    queue   TEXT NOT NULL,
    doc     TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (account, worker, queue)
) STRICT;
CREATE INDEX worker_report_of_queue ON worker_report (queue, at);

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
