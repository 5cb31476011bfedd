-- Times are microseconds since 1970 UTC. Ids compare by bytes.

-- +goose Up
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('epoch', lower(hex(randomblob(8)))), ('change', '0');

CREATE TABLE run (
    run_id         TEXT PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    project_id     TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    plan_id        TEXT NOT NULL,
    plan_version   TEXT NOT NULL,
    request_key    TEXT UNIQUE,
    request_id     TEXT NOT NULL,
    plan_ref       TEXT NOT NULL,
    triggered_by   TEXT NOT NULL,
    trigger_source TEXT NOT NULL,
    parent_run_id  TEXT NOT NULL,
    params         BLOB,
    policy         TEXT NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE run_head (
    run_id    TEXT PRIMARY KEY,
    last_seq  INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    terminal  INTEGER NOT NULL,
    gate      INTEGER NOT NULL,
    running   INTEGER NOT NULL,
    ops_rev   INTEGER NOT NULL,
    signal_no INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    run_id       TEXT NOT NULL,
    run_seq      INTEGER NOT NULL,
    key          TEXT NOT NULL,
    event_id     TEXT NOT NULL,
    type         TEXT NOT NULL,
    step_id      TEXT NOT NULL,
    signal_id    TEXT NOT NULL,
    la           INTEGER NOT NULL,
    ea           INTEGER NOT NULL,
    emitted_at   INTEGER NOT NULL,
    persisted_at INTEGER NOT NULL,
    emitted_by   TEXT NOT NULL,
    payload      BLOB,
    PRIMARY KEY (run_id, run_seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX event_key ON event (run_id, key);
CREATE INDEX event_attempt ON event (run_id, step_id, la) WHERE step_id <> '';
CREATE UNIQUE INDEX event_attempt_end ON event (run_id, step_id, la)
    WHERE type IN ('StepCompleted', 'StepFailed', 'StepSkipped');
CREATE UNIQUE INDEX event_run_end ON event (run_id)
    WHERE type IN ('RunCompleted', 'RunFailed', 'RunCancelled');
-- +goose StatementBegin
CREATE TRIGGER event_no_update BEFORE UPDATE ON event BEGIN
    SELECT RAISE(ABORT, 'event is append-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER event_no_delete BEFORE DELETE ON event BEGIN
    SELECT RAISE(ABORT, 'event is append-only');
END;
-- +goose StatementEnd

CREATE TABLE run_state (
    run_id         TEXT PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    project_id     TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    plan_id        TEXT NOT NULL,
    status         TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    seq            INTEGER NOT NULL,
    rev            INTEGER NOT NULL,
    published_seq  INTEGER NOT NULL,
    change         INTEGER NOT NULL,
    header         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_state_tenant ON run_state (tenant_id, created_at, run_id);
CREATE INDEX run_state_project ON run_state (tenant_id, project_id, created_at, run_id);
CREATE INDEX run_state_change ON run_state (tenant_id, change);

CREATE TABLE step_state (
    run_id      TEXT NOT NULL,
    ord         INTEGER NOT NULL,
    changed_seq INTEGER NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (run_id, ord)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_dirty (
    run_id   TEXT PRIMARY KEY,
    head_seq INTEGER NOT NULL,
    ops_rev  INTEGER NOT NULL,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_dirty_since ON run_dirty (since);

CREATE TABLE signal (
    pos                INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id             TEXT NOT NULL,
    signal_id          TEXT NOT NULL,
    type               TEXT NOT NULL,
    step_id            TEXT NOT NULL,
    expected_attempt   INTEGER NOT NULL,
    force              INTEGER NOT NULL,
    payload            BLOB,
    actor              TEXT NOT NULL,
    reason             TEXT NOT NULL,
    no                 INTEGER NOT NULL,
    rejected           INTEGER NOT NULL,
    rejection          TEXT NOT NULL,
    reject_text        TEXT NOT NULL,
    application        TEXT NOT NULL,
    application_reason TEXT NOT NULL,
    accepted_seq       INTEGER NOT NULL,
    applied_seq        INTEGER NOT NULL,
    quiescent_seq      INTEGER NOT NULL,
    received_at        INTEGER NOT NULL,
    delivered_at       INTEGER,
    applied_at         INTEGER
) STRICT;
CREATE UNIQUE INDEX signal_id ON signal (run_id, signal_id);
CREATE UNIQUE INDEX signal_no ON signal (run_id, no) WHERE no > 0;
CREATE INDEX signal_pos ON signal (run_id, pos);
CREATE INDEX signal_sent ON signal (actor, received_at);

-- A row stays when nothing is left to deliver, so that its generation goes on growing.
CREATE TABLE delivery (
    run_id       TEXT PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    delivered_no INTEGER NOT NULL,
    up_to        INTEGER NOT NULL,
    owner        TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    lease_until  INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    attempts     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery (due_at) WHERE delivered_no < up_to;

CREATE TABLE run_queue (
    run_id      TEXT PRIMARY KEY,
    tenant_id   TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('PENDING', 'LOCKED', 'STARTED', 'FAILED', 'CANCELLED')),
    owner       TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    not_before  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    last_error  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_queue_due ON run_queue (created_at, run_id) WHERE status IN ('PENDING', 'LOCKED');

CREATE TABLE plan_body (
    sha256 TEXT PRIMARY KEY,
    body   BLOB NOT NULL
) STRICT;

CREATE TABLE audit (
    id         TEXT PRIMARY KEY,
    at         INTEGER NOT NULL,
    tenant_id  TEXT NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    signal_id  TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    code       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    request_id TEXT NOT NULL,
    detail     TEXT
) STRICT;
CREATE INDEX audit_tenant ON audit (tenant_id, at);
-- +goose StatementBegin
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN
    SELECT RAISE(ABORT, 'audit is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN
    SELECT RAISE(ABORT, 'audit is insert-only');
END;
-- +goose StatementEnd
