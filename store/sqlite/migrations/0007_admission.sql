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
    turn        REAL NOT NULL DEFAULT 0, -- the pass of the one below that had its turn last
    ready       INTEGER NOT NULL DEFAULT 1, -- 0: nothing is admitted before ready_at, or before a run ends
    ready_at    INTEGER NOT NULL DEFAULT 0,
    pace_ms     REAL NOT NULL DEFAULT 0, -- between two admissions of late; 0: not known
    admitted_at INTEGER NOT NULL DEFAULT 0, -- the last that had waited, or since when the first waits
    PRIMARY KEY (tenant_id, project_id)
) STRICT, WITHOUT ROWID;
INSERT INTO lane (tenant_id, project_id) VALUES ('', '');
-- IS and not =: else SQLite compiles every statement anew that has project_id = ?, to see whether this index would do.
CREATE INDEX lane_tenants ON lane (pass, tenant_id) WHERE project_id IS '' AND tenant_id <> '' AND waiting > 0 AND ready = 1;
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

-- A waiting row is not due for a program of the schema before: its not_before is far away.
ALTER TABLE run_queue ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
ALTER TABLE run_queue ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_queue ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_queue ADD COLUMN token_taken INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_queue ADD COLUMN priority INTEGER NOT NULL DEFAULT 5;
ALTER TABLE run_queue ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0; -- 0: never
ALTER TABLE run_queue ADD COLUMN estimate_ms INTEGER NOT NULL DEFAULT 0;
DROP INDEX run_queue_due;
CREATE INDEX run_queue_due ON run_queue (waiting, created_at, run_id) WHERE status IN ('PENDING', 'LOCKED');
CREATE INDEX run_queue_lane ON run_queue (tenant_id, project_id, priority DESC, created_at, run_id) WHERE waiting = 1;
CREATE INDEX run_queue_expiry ON run_queue (expires_at, run_id) WHERE waiting = 1 AND expires_at > 0;

-- What runs now holds its place.
UPDATE run_queue SET project_id = (SELECT project_id FROM run r WHERE r.run_id = run_queue.run_id), place = 1
WHERE status IN ('PENDING', 'LOCKED', 'STARTED') AND (SELECT terminal FROM run_head h WHERE h.run_id = run_queue.run_id) = 0;
UPDATE lane SET active = (SELECT count(*) FROM run_queue WHERE place = 1);
INSERT INTO lane (tenant_id, project_id, active) SELECT tenant_id, '', count(*) FROM run_queue WHERE place = 1 GROUP BY tenant_id;
INSERT INTO lane (tenant_id, project_id, active) SELECT tenant_id, project_id, count(*) FROM run_queue WHERE place = 1 GROUP BY tenant_id, project_id;

-- Lanes count their rows, whoever writes them; who inserts one makes its lanes before. A lane that begins to wait, or in which a
-- place is free, is asked again. SQLite writes the indexes of a column that is set, even to what it is: so places that are taken
-- and freed without a wait have triggers of their own, which is every start and every end.
-- +goose StatementBegin
CREATE TRIGGER queue_counts_new AFTER INSERT ON run_queue WHEN NEW.waiting = 1 BEGIN
    UPDATE lane SET active = active + NEW.place, waiting = waiting + NEW.waiting WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + NEW.place, waiting = waiting + NEW.waiting, ready = ready OR NEW.place < 0 OR (NEW.waiting > 0
        AND (SELECT waiting FROM lane p WHERE p.tenant_id = NEW.tenant_id AND p.project_id = NEW.project_id) = 0) WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + NEW.place, waiting = waiting + NEW.waiting, ready = ready OR NEW.place < 0 OR (NEW.waiting > 0 AND waiting = 0),
        admitted_at = CASE WHEN NEW.waiting > 0 AND waiting = 0 THEN NEW.created_at ELSE admitted_at END WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER queue_counts_place AFTER INSERT ON run_queue WHEN NEW.place = 1 AND NEW.waiting = 0 BEGIN
    UPDATE lane SET active = active + 1 WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + 1 WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + 1 WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER queue_counts AFTER UPDATE OF place, waiting ON run_queue WHEN NEW.waiting <> OLD.waiting BEGIN
    UPDATE lane SET active = active + (NEW.place - OLD.place), waiting = waiting + (NEW.waiting - OLD.waiting) WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + (NEW.place - OLD.place), waiting = waiting + (NEW.waiting - OLD.waiting), ready = ready OR (NEW.place - OLD.place) < 0 OR ((NEW.waiting - OLD.waiting) > 0
        AND (SELECT waiting FROM lane p WHERE p.tenant_id = NEW.tenant_id AND p.project_id = NEW.project_id) = 0) WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + (NEW.place - OLD.place), waiting = waiting + (NEW.waiting - OLD.waiting), ready = ready OR (NEW.place - OLD.place) < 0 OR ((NEW.waiting - OLD.waiting) > 0 AND waiting = 0),
        admitted_at = CASE WHEN (NEW.waiting - OLD.waiting) > 0 AND waiting = 0 THEN NEW.created_at ELSE admitted_at END WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER queue_counts_freed AFTER UPDATE OF place ON run_queue WHEN NEW.place <> OLD.place AND NEW.waiting = OLD.waiting BEGIN
    UPDATE lane SET active = active + NEW.place - OLD.place WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + NEW.place - OLD.place WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + NEW.place - OLD.place WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
    UPDATE lane SET ready = 1 WHERE tenant_id = NEW.tenant_id AND project_id IN ('', NEW.project_id) AND waiting > 0 AND ready = 0;
END;
-- +goose StatementEnd

-- Whatever ends a run frees its place, or ends its wait, in the same transaction.
-- +goose StatementBegin
CREATE TRIGGER head_frees_place AFTER UPDATE OF terminal ON run_head WHEN NEW.terminal = 1 AND OLD.terminal = 0 BEGIN
    UPDATE run_queue SET place = 0, waiting = 0, not_before = CASE WHEN waiting = 1 THEN created_at ELSE not_before END
    WHERE run_id = NEW.run_id AND (place = 1 OR waiting = 1);
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

-- The limit per run and minute looks at the newest receipts, but for those of callers who may not signal it (T96).
CREATE INDEX signal_recent ON signal (run_id, received_at) WHERE rejection <> 'FORBIDDEN';

-- A text is looked up among the ids of the tenant's own runs: what others have costs nobody else anything (T101).
CREATE INDEX run_named ON run (tenant_id, run_id);

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
