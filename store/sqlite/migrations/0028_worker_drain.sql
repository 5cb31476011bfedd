-- Drains of workers: each asks one worker to begin no further steps.

-- +goose Up

CREATE TABLE worker_drain (
    account    TEXT NOT NULL,
    worker     TEXT NOT NULL,
    request_id TEXT NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (account, worker)
) STRICT, WITHOUT ROWID;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
