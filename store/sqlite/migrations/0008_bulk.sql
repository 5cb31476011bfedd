-- Bulks: the same signal to many runs. Lists of what somebody started.

-- +goose Up
CREATE TABLE bulk (
    pos         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    tenant_id   TEXT NOT NULL,
    actor       TEXT NOT NULL,
    request_id  TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    principal   TEXT NOT NULL,
    action      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    total       INTEGER NOT NULL,
    accepted    INTEGER NOT NULL DEFAULT 0,
    rejected    INTEGER NOT NULL DEFAULT 0,
    refused     INTEGER NOT NULL DEFAULT 0,
    not_sent    INTEGER NOT NULL DEFAULT 0,
    paced       TEXT NOT NULL DEFAULT '',
    paced_until INTEGER,
    rev         INTEGER NOT NULL DEFAULT 1,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    stopped_at  INTEGER,
    owner       TEXT NOT NULL DEFAULT '',
    generation  INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER NOT NULL,
    UNIQUE (tenant_id, actor, request_id)
) STRICT;
CREATE INDEX bulk_listed ON bulk (tenant_id, actor, pos);
CREATE INDEX bulk_due ON bulk (due_at, pos) WHERE finished_at IS NULL;

CREATE TABLE bulk_row (
    bulk_id        TEXT NOT NULL,
    no             INTEGER NOT NULL,
    run_id         TEXT NOT NULL,
    project_id     TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    signal_id      TEXT NOT NULL,
    outcome        TEXT NOT NULL DEFAULT 'WAITING',
    code           TEXT NOT NULL DEFAULT '',
    message        TEXT NOT NULL DEFAULT '',
    due_at         INTEGER NOT NULL DEFAULT 0,
    at             INTEGER,
    PRIMARY KEY (bulk_id, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX bulk_row_waiting ON bulk_row (bulk_id, no) WHERE outcome = 'WAITING';

ALTER TABLE run_state ADD COLUMN triggered_by TEXT NOT NULL DEFAULT '';
UPDATE run_state SET triggered_by = (SELECT triggered_by FROM run r WHERE r.run_id = run_state.run_id);
CREATE INDEX run_state_triggered_by ON run_state (tenant_id, triggered_by, created_at, run_id, project_id, environment_id, plan_id);
CREATE INDEX run_state_triggered_by_status ON run_state (tenant_id, triggered_by, status, created_at, run_id, project_id, environment_id, plan_id);
-- The places where runs are, and the runs before one, of its plan and place.
CREATE INDEX run_state_place_status ON run_state (tenant_id, project_id, environment_id, plan_id, status, created_at, run_id);
-- The version before does not say who.
-- +goose StatementBegin
CREATE TRIGGER run_state_started AFTER INSERT ON run_state WHEN new.triggered_by = '' BEGIN
    UPDATE run_state SET triggered_by = (SELECT triggered_by FROM run r WHERE r.run_id = new.run_id) WHERE run_id = new.run_id;
END;
-- +goose StatementEnd

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
