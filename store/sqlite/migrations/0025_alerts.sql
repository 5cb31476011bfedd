-- What has become of alerts, silences of alerts, and heartbeats of duties (ADR 79).

-- +goose Up

-- The mutable state of an alert. The row of its opening in alert stays as it was.
CREATE TABLE alert_state (
    pos             INTEGER PRIMARY KEY, -- of the alert
    tenant_id       TEXT NOT NULL,
    project_id      TEXT NOT NULL,
    environment_id  TEXT NOT NULL,
    plan_id         TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    code            TEXT NOT NULL,
    subject         TEXT NOT NULL,
    shared          INTEGER NOT NULL,
    fingerprint     TEXT NOT NULL,
    level           TEXT NOT NULL,
    note            TEXT NOT NULL,
    count           INTEGER NOT NULL DEFAULT 1,
    last_seen       INTEGER NOT NULL,
    resolved_at     INTEGER,
    resolution      TEXT NOT NULL DEFAULT '',
    acknowledged_at INTEGER,
    acknowledged_by TEXT NOT NULL DEFAULT '',
    ack_note        TEXT NOT NULL DEFAULT ''
) STRICT;

-- Alerts of earlier versions. Escalations and the newest finding of each kind stay open while their run is open, and
-- the reconciler resolves them like its own. Findings about queues and starts are raised again while they last.
INSERT INTO alert_state (pos, tenant_id, project_id, environment_id, plan_id, run_id, code, subject, shared, fingerprint,
    level, note, last_seen, resolved_at, resolution)
SELECT a.pos, a.tenant_id, a.project_id, coalesce(r.environment_id, ''), coalesce(r.plan_id, ''), a.run_id, a.code,
    a.subject, 0, concat_ws(char(10), a.tenant_id, a.project_id, a.run_id, a.step_id, a.code, a.subject), a.level, a.note,
    a.at, CASE WHEN a.stays THEN NULL ELSE CAST(unixepoch('subsec') * 1000000 AS INTEGER) END,
    CASE WHEN a.stays THEN '' WHEN a.ended THEN 'The run has ended.' ELSE 'An earlier version raised it.' END
FROM (SELECT x.*, NOT ended AND code NOT IN ('NO_WORKER_FOR_QUEUE', 'ENGINE_UNAVAILABLE') AND row_number() OVER
        (PARTITION BY tenant_id, project_id, run_id, step_id, code, subject ORDER BY pos DESC) = 1 AS stays
    FROM (SELECT y.*, CASE WHEN code = '' THEN signal_id ELSE '' END AS subject,
            NOT EXISTS (SELECT 1 FROM run_head h WHERE h.run_id = y.run_id AND NOT h.terminal) AS ended FROM alert y) x) a
LEFT JOIN run r ON r.run_id = a.run_id;

CREATE UNIQUE INDEX alert_state_open ON alert_state (fingerprint) WHERE resolved_at IS NULL;
CREATE INDEX alert_state_of_tenant ON alert_state (tenant_id, pos);
CREATE INDEX alert_state_open_of_tenant ON alert_state (tenant_id, pos) WHERE resolved_at IS NULL;
CREATE INDEX alert_state_open_of_code ON alert_state (code, last_seen) WHERE resolved_at IS NULL;
CREATE INDEX alert_state_of_run ON alert_state (run_id, pos);

CREATE TABLE alert_silence (
    id         TEXT PRIMARY KEY,
    tenant_id  TEXT NOT NULL,
    code       TEXT NOT NULL,
    project_id TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    plan_id    TEXT NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    until      INTEGER NOT NULL
) STRICT;
CREATE INDEX alert_silence_of_tenant ON alert_silence (tenant_id, until);

-- One row: a number that grows with each change of the two tables above.
CREATE TABLE alert_rev (n INTEGER NOT NULL) STRICT;
INSERT INTO alert_rev VALUES (1);

-- Signs of life of duties.
CREATE TABLE duty_heartbeat (
    process TEXT NOT NULL,
    duty    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (process, duty)
) STRICT;
CREATE INDEX duty_heartbeat_newest ON duty_heartbeat (duty, at);

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
