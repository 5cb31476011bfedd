-- What sweeping, manual steps and signals need.

-- +goose Up
-- The runs that have not ended, as far as checkpoints know. One on run_head would cost every append.
CREATE INDEX run_state_open ON run_state (run_id) WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED');

-- Alerts that people or dvt itself raised about a run (T197).
CREATE TABLE alert (
    pos        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    at         INTEGER NOT NULL,
    tenant_id  TEXT NOT NULL,
    project_id TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    step_id    TEXT NOT NULL,
    signal_id  TEXT NOT NULL,
    level      TEXT NOT NULL,
    code       TEXT NOT NULL,
    note       TEXT NOT NULL,
    actor      TEXT NOT NULL
) STRICT;
CREATE INDEX alert_tenant ON alert (tenant_id, pos);
CREATE INDEX alert_run ON alert (run_id, pos);
-- +goose StatementBegin
CREATE TRIGGER alert_no_update BEFORE UPDATE ON alert BEGIN
    SELECT RAISE(ABORT, 'alert is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER alert_no_delete BEFORE DELETE ON alert BEGIN
    SELECT RAISE(ABORT, 'alert is insert-only');
END;
-- +goose StatementEnd

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
