-- Trouble that people look after (ADR 93).

-- +goose Up
CREATE TABLE incident (
    pos             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    tenant_id       TEXT NOT NULL,
    project_id      TEXT NOT NULL,
    environment_id  TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    code            TEXT NOT NULL,
    grouped_by      TEXT NOT NULL,
    severity        TEXT NOT NULL,
    title           TEXT NOT NULL,
    opened_at       INTEGER NOT NULL,
    acknowledged_at INTEGER,
    acknowledged_by TEXT NOT NULL DEFAULT '',
    closed_at       INTEGER,
    closed_by       TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX incident_open ON incident (grouped_by) WHERE closed_at IS NULL;
CREATE INDEX incident_of_tenant ON incident (tenant_id, pos);

CREATE TABLE incident_note (
    incident INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    act      TEXT NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (incident, n)
) STRICT;

-- The alerts of an incident, by the position of the alert.
CREATE TABLE incident_alert (
    alert    INTEGER PRIMARY KEY,
    incident INTEGER NOT NULL
) STRICT;
CREATE INDEX incident_alert_of ON incident_alert (incident, alert);

-- One row: alerts up to this position were looked at. Alerts of earlier versions open no incident.
CREATE TABLE incident_cursor (alert INTEGER NOT NULL, from_alert INTEGER NOT NULL) STRICT;
INSERT INTO incident_cursor SELECT coalesce(max(pos), 0), coalesce(max(pos), 0) FROM alert;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
