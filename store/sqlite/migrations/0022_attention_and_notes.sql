-- Runs that await an operator, the tags and notes of runs, and saved views.

-- +goose Up

-- When the open retry window of a run ends; NULL while none is open. A save sets it only when it changes, so that other
-- saves do not write the indexes.
ALTER TABLE run_state ADD COLUMN awaiting_until INTEGER;
UPDATE run_state SET awaiting_until = CAST(unixepoch(header ->> '$.retryDeadline', 'subsec') * 1000000 AS INTEGER)
WHERE status = 'RUNNING' AND header ->> '$.retryDeadline' IS NOT NULL AND header ->> '$.compensating' IS NULL;
CREATE INDEX run_state_awaiting
    ON run_state (tenant_id, created_at, run_id, project_id, environment_id, plan_id, triggered_by, awaiting_until)
    WHERE awaiting_until IS NOT NULL;
CREATE INDEX run_state_awaiting_until ON run_state (tenant_id, awaiting_until, run_id) WHERE awaiting_until IS NOT NULL;

-- Tags of runs, beside the facts of each run that lists filter by. They are no facts of the execution: the log does not
-- have them, and the audit says who changed them.
CREATE TABLE run_tag (
    run_id         TEXT NOT NULL,
    tag            TEXT NOT NULL,
    tenant_id      TEXT NOT NULL,
    project_id     TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    plan_id        TEXT NOT NULL,
    triggered_by   TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (run_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_tag_listed
    ON run_tag (tenant_id, tag, created_at, run_id, project_id, environment_id, plan_id, triggered_by);

CREATE TABLE run_note (
    pos        INTEGER PRIMARY KEY AUTOINCREMENT CHECK (pos > 0),
    run_id     TEXT NOT NULL,
    author     TEXT NOT NULL,
    body       TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX run_note_request ON run_note (run_id, author, request_id);
CREATE INDEX run_note_of_run ON run_note (run_id, pos);

-- +goose StatementBegin
CREATE TRIGGER run_note_no_update BEFORE UPDATE ON run_note BEGIN
    SELECT RAISE(ABORT, 'run_note is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER run_note_no_delete BEFORE DELETE ON run_note BEGIN
    SELECT RAISE(ABORT, 'run_note is insert-only');
END;
-- +goose StatementEnd

-- Views of lists that people saved. A view without a project is its owner's alone.
CREATE TABLE saved_view (
    tenant_id  TEXT NOT NULL,
    owner      TEXT NOT NULL,
    id         TEXT NOT NULL,
    project_id TEXT NOT NULL,
    name       TEXT NOT NULL,
    query      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, owner, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX saved_view_shared ON saved_view (tenant_id, project_id, name, owner, id) WHERE project_id <> '';

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
