-- Records of reads of secrets, and orders to workers about secrets (ADR 102). No table has a value.

-- +goose Up

-- Insert-only.
CREATE TABLE secret_read (
    pos             INTEGER PRIMARY KEY AUTOINCREMENT,
    at              INTEGER NOT NULL,
    tenant_id       TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    step_id         TEXT NOT NULL,
    logical_attempt INTEGER NOT NULL,
    engine_attempt  INTEGER NOT NULL,
    no              INTEGER NOT NULL,
    account         TEXT NOT NULL,
    worker          TEXT NOT NULL,
    provider        TEXT NOT NULL,
    key             TEXT NOT NULL,
    version         TEXT NOT NULL,
    answered        TEXT NOT NULL,
    given_as        TEXT NOT NULL,
    cached          INTEGER NOT NULL,
    code            TEXT NOT NULL,
    UNIQUE (run_id, step_id, logical_attempt, engine_attempt, no)
) STRICT;
CREATE INDEX secret_read_tenant ON secret_read (tenant_id, at);
CREATE INDEX secret_read_key ON secret_read (tenant_id, key, at);
-- +goose StatementBegin
CREATE TRIGGER secret_read_no_update BEFORE UPDATE ON secret_read BEGIN
    SELECT RAISE(ABORT, 'secret_read is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER secret_read_no_delete BEFORE DELETE ON secret_read BEGIN
    SELECT RAISE(ABORT, 'secret_read is insert-only');
END;
-- +goose StatementEnd

CREATE TABLE secret_order (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    tenant_id  TEXT NOT NULL, -- whose secrets
    actor      TEXT NOT NULL,
    request_id TEXT NOT NULL,
    reason     TEXT NOT NULL,
    doc        TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX secret_order_at ON secret_order (at);

CREATE TABLE secret_answer (
    order_id TEXT NOT NULL,
    account  TEXT NOT NULL,
    worker   TEXT NOT NULL,
    doc      TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (order_id, account, worker)
) STRICT, WITHOUT ROWID;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
