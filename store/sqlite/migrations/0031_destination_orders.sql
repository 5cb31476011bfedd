-- What the process that works for a destination reports about it, and what people ask of it (ADR 97).

-- +goose Up

ALTER TABLE destination ADD COLUMN entry TEXT NOT NULL DEFAULT ''; -- JSON: what may be shown of the entry in the file
ALTER TABLE destination ADD COLUMN digest TEXT NOT NULL DEFAULT ''; -- of the whole entry
ALTER TABLE destination ADD COLUMN reported_at INTEGER;
ALTER TABLE destination ADD COLUMN removed_at INTEGER;
ALTER TABLE destination ADD COLUMN disabled_by TEXT NOT NULL DEFAULT ''; -- '' when dvt did it
ALTER TABLE destination ADD COLUMN disabled_at INTEGER;
ALTER TABLE destination ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE destination ADD COLUMN oldest_waiting INTEGER;
ALTER TABLE destination ADD COLUMN begins_at INTEGER;
ALTER TABLE destination ADD COLUMN redriven INTEGER NOT NULL DEFAULT 0;

CREATE TABLE destination_order (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    tenant_id  TEXT NOT NULL, -- of the person
    actor      TEXT NOT NULL,
    request_id TEXT NOT NULL,
    reason     TEXT NOT NULL,
    doc        TEXT NOT NULL,
    state      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    ended_at   INTEGER,
    messages   INTEGER NOT NULL DEFAULT 0,
    sent       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX destination_order_of_name ON destination_order (name, n);
CREATE INDEX destination_order_open ON destination_order (name, n) WHERE ended_at IS NULL;
