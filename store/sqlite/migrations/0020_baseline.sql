-- The schema of the StateStore on SQLite. store/postgres uses the same names and numbers.
-- Times are microseconds since 1970 UTC. Ids compare by bytes.

-- +goose Up

-- Facts about the store itself.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- The value of authority grows with every change of a policy, token or setting.
INSERT INTO meta (name, value) VALUES ('epoch', lower(hex(randomblob(8)))), ('change', '0'), ('authority', '0'),
    ('compatible_from', '20');

-- Runs: immutable facts.

CREATE TABLE plan_body (
    sha256 TEXT PRIMARY KEY,
    body   BLOB NOT NULL
) STRICT;

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

-- A search by a part of the run id reads the ids of one tenant only (contract T101).
CREATE INDEX run_named ON run (tenant_id, run_id);

-- Heads.

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

-- The log.

CREATE TABLE event (
    run_id       TEXT NOT NULL,
    run_seq      INTEGER NOT NULL,
    key          TEXT NOT NULL,
    event_id     TEXT NOT NULL,
    type         TEXT NOT NULL,
    step_id      TEXT NOT NULL,
    signal_id    TEXT NOT NULL,
    logical_attempt           INTEGER NOT NULL,
    engine_attempt           INTEGER NOT NULL,
    emitted_at   INTEGER NOT NULL,
    persisted_at INTEGER NOT NULL,
    emitted_by   TEXT NOT NULL,
    payload      BLOB,
    PRIMARY KEY (run_id, run_seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX event_key ON event (run_id, key);
CREATE UNIQUE INDEX event_attempt_end ON event (run_id, step_id, logical_attempt)
    WHERE type IN ('StepCompleted', 'StepFailed', 'StepSkipped');
CREATE UNIQUE INDEX event_run_end ON event (run_id)
    WHERE type IN ('RunCompleted', 'RunFailed', 'RunCancelled');
CREATE INDEX event_attempt ON event (run_id, step_id, logical_attempt) WHERE step_id <> '';

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

-- The highest seq of a run that was known before a restore, if the repair could not restore the events up to it
-- (contract T194).
CREATE TABLE run_repair (
    run_id    TEXT PRIMARY KEY,
    known_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Checkpoints of runs. They are caches: the log is the truth.

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
    header         TEXT NOT NULL,
    triggered_by   TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX run_state_change ON run_state (change);

-- Open runs by their checkpoints. An index on run_head would make every append more expensive.
CREATE INDEX run_state_open ON run_state (run_id) WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED');

CREATE TABLE step_state (
    run_id      TEXT NOT NULL,
    ord         INTEGER NOT NULL,
    changed_seq INTEGER NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (run_id, ord)
) STRICT, WITHOUT ROWID;

-- Finds the steps that changed after a seq (contract T212). The trigger invalidates a checkpoint that loses a step.
CREATE INDEX step_state_changed ON step_state (run_id, changed_seq);

-- +goose StatementBegin
CREATE TRIGGER step_state_lost AFTER DELETE ON step_state BEGIN
    UPDATE run_state SET rev = 0 WHERE run_id = old.run_id AND rev <> 0;
END;
-- +goose StatementEnd

-- Dirty marks of runs that have something to project and publish, and dead letters for messages that the bus refused
-- permanently.

CREATE TABLE run_dirty (
    run_id     TEXT PRIMARY KEY,
    head_seq   INTEGER NOT NULL,
    ops_rev    INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    upto       INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX run_dirty_since ON run_dirty (since);

CREATE TABLE dead_letter (
    pos         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    tenant_id   TEXT NOT NULL,
    project_id  TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    from_seq    INTEGER NOT NULL,
    to_seq      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    cause       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    redriven_at INTEGER
) STRICT;
CREATE INDEX dead_letter_tenant ON dead_letter (tenant_id, pos);

-- Lists of runs.
CREATE INDEX run_state_tenant ON run_state (tenant_id, created_at, run_id);
CREATE INDEX run_state_project ON run_state (tenant_id, project_id, created_at, run_id, environment_id);
CREATE INDEX run_state_environment ON run_state (tenant_id, environment_id, created_at, run_id);
CREATE INDEX run_state_plan ON run_state (tenant_id, plan_id, created_at, run_id, project_id, environment_id);

-- A save that does not change the status does not write these indexes.
CREATE INDEX run_state_tenant_status ON run_state (tenant_id, status, created_at, run_id);
CREATE INDEX run_state_project_status ON run_state (tenant_id, project_id, status, created_at, run_id, environment_id);
CREATE INDEX run_state_environment_status ON run_state (tenant_id, environment_id, status, created_at, run_id);
CREATE INDEX run_state_plan_status
    ON run_state (tenant_id, plan_id, status, created_at, run_id, project_id, environment_id);
CREATE INDEX run_state_triggered_by
    ON run_state (tenant_id, triggered_by, created_at, run_id, project_id, environment_id, plan_id);
CREATE INDEX run_state_triggered_by_status
    ON run_state (tenant_id, triggered_by, status, created_at, run_id, project_id, environment_id, plan_id);

-- Finds the scopes that have runs, and the earlier runs of a plan in one scope.
CREATE INDEX run_state_scope_status
    ON run_state (tenant_id, project_id, environment_id, plan_id, status, created_at, run_id);

-- The plans that a tenant's projects have run, for searches by a part of the plan id.
CREATE TABLE run_plan (
    tenant_id  TEXT NOT NULL,
    plan_id    TEXT NOT NULL,
    project_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, plan_id, project_id)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER run_planned AFTER INSERT ON run BEGIN
    INSERT INTO run_plan (tenant_id, plan_id, project_id) VALUES (new.tenant_id, new.plan_id, new.project_id)
    ON CONFLICT DO NOTHING;
END;
-- +goose StatementEnd

-- Signals and their delivery.

CREATE TABLE signal (
    pos                INTEGER PRIMARY KEY AUTOINCREMENT CHECK (pos > 0),
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

-- The rate limit of a run counts the newest receipts, without those of callers who may not signal (contract T96).
CREATE INDEX signal_recent ON signal (run_id, received_at) WHERE rejection <> 'FORBIDDEN';

-- A row remains when nothing is left to deliver, because its generation must never repeat.
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

-- The run queue and admission.

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
    last_error  TEXT NOT NULL,
    project_id  TEXT NOT NULL DEFAULT '',
    waiting     INTEGER NOT NULL DEFAULT 0,
    slot        INTEGER NOT NULL DEFAULT 0,
    token_taken INTEGER NOT NULL DEFAULT 0,
    priority    INTEGER NOT NULL DEFAULT 5,
    expires_at  INTEGER NOT NULL DEFAULT 0,
    estimate_ms INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX run_queue_due ON run_queue (waiting, created_at, run_id) WHERE status IN ('PENDING', 'LOCKED');
CREATE INDEX run_queue_lane ON run_queue (tenant_id, project_id, priority DESC, created_at, run_id) WHERE waiting = 1;
CREATE INDEX run_queue_expiry ON run_queue (expires_at, run_id) WHERE waiting = 1 AND expires_at > 0;

-- The number of used slots and of waiting runs: of the installation ('', ''), of each tenant (t, '') and of each
-- project (t, p).
CREATE TABLE lane (
    tenant_id   TEXT NOT NULL,
    project_id  TEXT NOT NULL,
    active      INTEGER NOT NULL DEFAULT 0, -- runs that hold a slot
    waiting     INTEGER NOT NULL DEFAULT 0,
    pass        REAL NOT NULL DEFAULT 0, -- the lane with the lowest pass is next
    turn        REAL NOT NULL DEFAULT 0, -- pass of the child lane that was served last
    ready       INTEGER NOT NULL DEFAULT 1, -- 0: no run is admitted before ready_at or the end of a run
    ready_at    INTEGER NOT NULL DEFAULT 0,
    pace_ms     REAL NOT NULL DEFAULT 0, -- average time between recent admissions; 0: unknown
    admitted_at INTEGER NOT NULL DEFAULT 0, -- last admission of a waiting run, or when the first began to wait
    PRIMARY KEY (tenant_id, project_id)
) STRICT, WITHOUT ROWID;
INSERT INTO lane (tenant_id, project_id) VALUES ('', '');

-- The condition uses IS because with = SQLite would recompile every statement that contains project_id = ?, to check
-- whether this index fits.
CREATE INDEX lane_tenants ON lane (pass, tenant_id)
    WHERE project_id IS '' AND tenant_id <> '' AND waiting > 0 AND ready = 1;
CREATE INDEX lane_projects ON lane (tenant_id, pass, project_id) WHERE project_id <> '' AND waiting > 0 AND ready = 1;
CREATE INDEX lane_held ON lane (ready_at) WHERE waiting > 0 AND ready = 0;

-- Token buckets, each stored as the time when it is full again.
CREATE TABLE bucket (
    tenant_id  TEXT NOT NULL,
    project_id TEXT NOT NULL,
    action     TEXT NOT NULL,
    full_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, project_id, action)
) STRICT, WITHOUT ROWID;

-- Triggers count the rows of each lane. The program creates the lanes before it inserts a row. A lane that begins to
-- wait or gets a free slot becomes ready. SQLite updates the indexes of each column that is set, even to the same
-- value. So the most frequent changes, a slot that is taken or freed without a wait, have their own triggers.
-- +goose StatementBegin
CREATE TRIGGER queue_counts_new AFTER INSERT ON run_queue WHEN NEW.waiting = 1 BEGIN
    UPDATE lane SET active = active + NEW.slot, waiting = waiting + 1 WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + NEW.slot, waiting = waiting + 1,
        ready = ready OR
            (SELECT waiting FROM lane p WHERE p.tenant_id = NEW.tenant_id AND p.project_id = NEW.project_id) = 0
    WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + NEW.slot, waiting = waiting + 1, ready = ready OR waiting = 0,
        admitted_at = CASE WHEN waiting = 0 THEN NEW.created_at ELSE admitted_at END
    WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER queue_counts_slot AFTER INSERT ON run_queue WHEN NEW.slot = 1 AND NEW.waiting = 0 BEGIN
    UPDATE lane SET active = active + 1 WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + 1 WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + 1 WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER queue_counts AFTER UPDATE OF slot, waiting ON run_queue WHEN NEW.waiting <> OLD.waiting BEGIN
    UPDATE lane SET active = active + (NEW.slot - OLD.slot), waiting = waiting + (NEW.waiting - OLD.waiting)
    WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + (NEW.slot - OLD.slot), waiting = waiting + (NEW.waiting - OLD.waiting),
        ready = ready OR NEW.slot < OLD.slot OR (NEW.waiting > OLD.waiting AND
            (SELECT waiting FROM lane p WHERE p.tenant_id = NEW.tenant_id AND p.project_id = NEW.project_id) = 0)
    WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + (NEW.slot - OLD.slot), waiting = waiting + (NEW.waiting - OLD.waiting),
        ready = ready OR NEW.slot < OLD.slot OR (NEW.waiting > OLD.waiting AND waiting = 0),
        admitted_at = CASE WHEN NEW.waiting > OLD.waiting AND waiting = 0 THEN NEW.created_at ELSE admitted_at END
    WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER queue_counts_freed AFTER UPDATE OF slot ON run_queue
WHEN NEW.slot <> OLD.slot AND NEW.waiting = OLD.waiting BEGIN
    UPDATE lane SET active = active + NEW.slot - OLD.slot WHERE tenant_id = '' AND project_id = '';
    UPDATE lane SET active = active + NEW.slot - OLD.slot WHERE tenant_id = NEW.tenant_id AND project_id = '';
    UPDATE lane SET active = active + NEW.slot - OLD.slot
    WHERE tenant_id = NEW.tenant_id AND project_id = NEW.project_id;
    UPDATE lane SET ready = 1
    WHERE tenant_id = NEW.tenant_id AND project_id IN ('', NEW.project_id) AND waiting > 0 AND ready = 0;
END;
-- +goose StatementEnd

-- The write that ends a run also frees its slot or ends its wait.
-- +goose StatementBegin
CREATE TRIGGER head_frees_slot AFTER UPDATE OF terminal ON run_head WHEN NEW.terminal = 1 AND OLD.terminal = 0 BEGIN
    UPDATE run_queue SET slot = 0, waiting = 0, not_before = CASE WHEN waiting = 1 THEN created_at ELSE not_before END
    WHERE run_id = NEW.run_id AND (slot = 1 OR waiting = 1);
END;
-- +goose StatementEnd

-- Approvals.

CREATE TABLE approval (
    run_id         TEXT PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    project_id     TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    required       INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    rerun          TEXT, -- the part of the earlier run that a rerun reuses; copied into RunApproved
    open           INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;
CREATE INDEX approval_open ON approval (tenant_id, created_at, run_id) WHERE open = 1;
CREATE INDEX approval_expiry ON approval (expires_at, run_id) WHERE open = 1;

-- The write that ends a run also closes its approval.
-- +goose StatementBegin
CREATE TRIGGER head_closes_approval AFTER UPDATE OF terminal ON run_head
WHEN NEW.terminal = 1 AND OLD.terminal = 0 BEGIN
    UPDATE approval SET open = 0 WHERE run_id = NEW.run_id AND open = 1;
END;
-- +goose StatementEnd

CREATE TABLE approval_decision (
    pos        INTEGER PRIMARY KEY AUTOINCREMENT CHECK (pos > 0),
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

-- Settings, policies and tokens.

CREATE TABLE setting (
    kind       TEXT NOT NULL,
    tenant_id  TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
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

CREATE TABLE policy (
    tenant_id  TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    doc        TEXT NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, version)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER policy_no_update BEFORE UPDATE ON policy BEGIN
    SELECT RAISE(ABORT, 'policy is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER policy_no_delete BEFORE DELETE ON policy BEGIN
    SELECT RAISE(ABORT, 'policy is insert-only');
END;
-- +goose StatementEnd

CREATE TABLE api_token (
    pos          INTEGER PRIMARY KEY AUTOINCREMENT CHECK (pos > 0),
    id           TEXT NOT NULL UNIQUE,
    tenant_id    TEXT NOT NULL,
    name         TEXT NOT NULL,
    principal    TEXT NOT NULL,
    sha256       TEXT NOT NULL UNIQUE,
    grants       TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    revoked_at   INTEGER,
    revoked_by   TEXT NOT NULL DEFAULT '',
    last_used_at INTEGER,
    kind         TEXT NOT NULL DEFAULT 'API',
    provider     TEXT NOT NULL DEFAULT '',
    memberships  TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX api_token_tenant ON api_token (tenant_id, pos);
CREATE INDEX api_token_live ON api_token (expires_at) WHERE revoked_at IS NULL;

-- The audit.

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
    detail     TEXT,
    format     INTEGER NOT NULL DEFAULT 1,
    credential TEXT NOT NULL DEFAULT '',
    address    TEXT NOT NULL DEFAULT '',
    via        TEXT NOT NULL DEFAULT '',
    object     TEXT NOT NULL DEFAULT '',
    digest     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX audit_tenant ON audit (tenant_id, at);
CREATE INDEX audit_object ON audit (object, tenant_id) WHERE object <> '';
CREATE INDEX audit_of_run ON audit (run_id, signal_id) WHERE run_id <> ''; -- the row that made a run or a signal

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

-- Links of the audit chains, insert-only. A deleted audit row leaves its link behind, which reveals the deletion.
CREATE TABLE audit_link (
    tenant_id TEXT NOT NULL,
    no        INTEGER NOT NULL,
    id        TEXT NOT NULL UNIQUE,
    hash      BLOB NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant_id, no)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER audit_link_no_update BEFORE UPDATE ON audit_link BEGIN
    SELECT RAISE(ABORT, 'audit_link is insert-only');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_link_no_delete BEFORE DELETE ON audit_link BEGIN
    SELECT RAISE(ABORT, 'audit_link is insert-only');
END;
-- +goose StatementEnd

-- Audit rows that have no link yet.
CREATE TABLE audit_pending (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER audit_wait AFTER INSERT ON audit BEGIN
    INSERT INTO audit_pending (id) VALUES (NEW.id) ON CONFLICT DO NOTHING;
END;
-- +goose StatementEnd

-- A link must follow the end of its tenant's chain and name an audit row of its tenant. A link with a number of 2^62 or
-- more is a forgery; the chain continues below it.
-- +goose StatementBegin
CREATE TRIGGER audit_link_next BEFORE INSERT ON audit_link
WHEN NEW.no >= 4611686018427387904
  OR NEW.no <> 1 + coalesce((
    SELECT max(no) FROM audit_link WHERE tenant_id = NEW.tenant_id AND no BETWEEN 1 AND 4611686018427387903), 0)
  OR NOT EXISTS (SELECT 1 FROM audit WHERE id = NEW.id AND tenant_id = NEW.tenant_id)
BEGIN
    SELECT RAISE(ABORT, 'audit_link: not the next link of its tenant');
END;
-- +goose StatementEnd

-- Alerts.

-- Alerts about a run, raised by people or by dvt (contract T197).
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

-- Bulks.

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

-- Workers.

CREATE TABLE worker_report (
    account TEXT NOT NULL,
    worker  TEXT NOT NULL,
    queue   TEXT NOT NULL,
    doc     TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (account, worker, queue)
) STRICT;
CREATE INDEX worker_report_of_queue ON worker_report (queue, at);
