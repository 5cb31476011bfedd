-- Admission: lanes, token buckets, waiting runs, approvals, and settings that people change while dvt runs.

-- +goose Up
-- What is used and what waits: of the installation ('', ''), of each tenant (t, '') and of each of its
-- projects (t, p).
CREATE TABLE lane (
    tenant_id   TEXT NOT NULL,
    project_id  TEXT NOT NULL,
    active      INTEGER NOT NULL DEFAULT 0, -- runs that hold a place
    waiting     INTEGER NOT NULL DEFAULT 0,
    pass        REAL NOT NULL DEFAULT 0, -- whose turn it is: the least
    ready       INTEGER NOT NULL DEFAULT 1, -- 0: nothing is admitted before ready_at, or before a run ends
    ready_at    INTEGER NOT NULL DEFAULT 0,
    pace_ms     REAL NOT NULL DEFAULT 0, -- between two admissions of late; 0: not known
    admitted_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, project_id)
) STRICT, WITHOUT ROWID;
INSERT INTO lane (tenant_id, project_id) VALUES ('', '');
CREATE INDEX lane_tenants ON lane (pass, tenant_id) WHERE project_id = '' AND tenant_id <> '' AND waiting > 0 AND ready = 1;
CREATE INDEX lane_projects ON lane (tenant_id, pass, project_id) WHERE project_id <> '' AND waiting > 0 AND ready = 1;
CREATE INDEX lane_held ON lane (ready_at) WHERE waiting > 0 AND ready = 0;

-- Token buckets by the time at which they are full again.
CREATE TABLE bucket (
    tenant_id  TEXT NOT NULL,
    project_id TEXT NOT NULL,
    action     TEXT NOT NULL,
    full_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, project_id, action)
) STRICT, WITHOUT ROWID;

ALTER TABLE run_queue ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
ALTER TABLE run_queue ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_queue ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_queue ADD COLUMN token_taken INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_queue ADD COLUMN priority INTEGER NOT NULL DEFAULT 5;
ALTER TABLE run_queue ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0; -- 0: never
ALTER TABLE run_queue ADD COLUMN estimate_ms INTEGER NOT NULL DEFAULT 0;
DROP INDEX run_queue_due;
CREATE INDEX run_queue_due ON run_queue (created_at, run_id) WHERE status IN ('PENDING', 'LOCKED') AND waiting = 0;
CREATE INDEX run_queue_lane ON run_queue (tenant_id, project_id, priority DESC, created_at, run_id) WHERE waiting = 1;
CREATE INDEX run_queue_expiry ON run_queue (expires_at, run_id) WHERE waiting = 1 AND expires_at > 0;

-- What runs now holds its place.
UPDATE run_queue SET project_id = (SELECT project_id FROM run r WHERE r.run_id = run_queue.run_id), place = 1
WHERE status IN ('PENDING', 'LOCKED', 'STARTED') AND (SELECT terminal FROM run_head h WHERE h.run_id = run_queue.run_id) = 0;
UPDATE lane SET active = (SELECT count(*) FROM run_queue WHERE place = 1);
INSERT INTO lane (tenant_id, project_id, active) SELECT tenant_id, '', count(*) FROM run_queue WHERE place = 1 GROUP BY tenant_id;
INSERT INTO lane (tenant_id, project_id, active) SELECT tenant_id, project_id, count(*) FROM run_queue WHERE place = 1 GROUP BY tenant_id, project_id;

-- Whatever ends a run frees its place in the same transaction.
-- +goose StatementBegin
CREATE TRIGGER head_frees_place AFTER UPDATE OF terminal ON run_head WHEN NEW.terminal = 1 AND OLD.terminal = 0 BEGIN
    UPDATE lane SET active = active - 1, ready = 1 WHERE EXISTS (SELECT 1 FROM run_queue q WHERE q.run_id = NEW.run_id AND q.place = 1
        AND ((lane.tenant_id = '' AND lane.project_id = '') OR (lane.tenant_id = q.tenant_id AND lane.project_id IN ('', q.project_id))));
    UPDATE run_queue SET place = 0 WHERE run_id = NEW.run_id AND place = 1;
END;
-- +goose StatementEnd

CREATE TABLE approval (
    run_id         TEXT PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    project_id     TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    required       INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    rerun          TEXT, -- what a rerun takes over: it goes into the RunApproved
    open           INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_open ON approval (tenant_id, created_at, run_id) WHERE open = 1;
CREATE INDEX approval_expiry ON approval (expires_at, run_id) WHERE open = 1;
-- Whatever ends a run ends its wait in the same transaction.
-- +goose StatementBegin
CREATE TRIGGER head_closes_approval AFTER UPDATE OF terminal ON run_head WHEN NEW.terminal = 1 AND OLD.terminal = 0 BEGIN
    UPDATE approval SET open = 0 WHERE run_id = NEW.run_id AND open = 1;
END;
-- +goose StatementEnd
CREATE TABLE approval_decision (
    pos        INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     TEXT NOT NULL,
    principal  TEXT NOT NULL,
    approved   INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at         INTEGER NOT NULL,
    UNIQUE (run_id, principal)
) STRICT;
-- +goose StatementBegin
CREATE TRIGGER approval_decision_no_update BEFORE UPDATE ON approval_decision BEGIN
    SELECT RAISE(ABORT, 'approval_decision is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER approval_decision_no_delete BEFORE DELETE ON approval_decision BEGIN
    SELECT RAISE(ABORT, 'approval_decision is insert-only');
END;
-- +goose StatementEnd

CREATE TABLE setting (
    kind       TEXT NOT NULL,
    tenant_id  TEXT NOT NULL,
    version    INTEGER NOT NULL,
    doc        TEXT NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (kind, tenant_id, version)
) STRICT, WITHOUT ROWID;
-- +goose StatementBegin
CREATE TRIGGER setting_no_update BEFORE UPDATE ON setting BEGIN
    SELECT RAISE(ABORT, 'setting is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER setting_no_delete BEFORE DELETE ON setting BEGIN
    SELECT RAISE(ABORT, 'setting is insert-only');
END;
-- +goose StatementEnd

ALTER TABLE api_token ADD COLUMN kind TEXT NOT NULL DEFAULT 'API';
ALTER TABLE api_token ADD COLUMN provider TEXT NOT NULL DEFAULT '';
ALTER TABLE api_token ADD COLUMN memberships TEXT NOT NULL DEFAULT '[]';

-- The limit per run and minute looks at the newest receipts (T96).
CREATE INDEX signal_recent ON signal (run_id, received_at);

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
