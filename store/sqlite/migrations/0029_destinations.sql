-- Changes of alerts in the order of commits, and what became of messages to other systems (ADR 91).

-- +goose Up

CREATE TABLE alert_change (
    n     INTEGER PRIMARY KEY AUTOINCREMENT, -- a number is never given again, also when old rows are removed
    pos   INTEGER NOT NULL,                  -- of the alert
    kind  TEXT NOT NULL,
    at    INTEGER NOT NULL,
    level TEXT NOT NULL,
    note  TEXT NOT NULL,
    count INTEGER NOT NULL
) STRICT;
CREATE INDEX alert_change_at ON alert_change (at);

-- Triggers, so that programs of the version before, which run beside this one for a while, lose no change.
-- +goose StatementBegin
CREATE TRIGGER alert_state_opened AFTER INSERT ON alert_state BEGIN
    INSERT INTO alert_change (pos, kind, at, level, note, count)
    VALUES (NEW.pos, 'OPENED', NEW.last_seen, NEW.level, NEW.note, NEW.count);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER alert_state_changed AFTER UPDATE ON alert_state
WHEN OLD.resolved_at IS NOT NEW.resolved_at OR OLD.acknowledged_at IS NOT NEW.acknowledged_at
    OR OLD.level IS NOT NEW.level BEGIN
    INSERT INTO alert_change (pos, kind, at, level, note, count)
    VALUES (NEW.pos, CASE WHEN OLD.resolved_at IS NOT NEW.resolved_at THEN 'RESOLVED'
            WHEN OLD.acknowledged_at IS NOT NEW.acknowledged_at THEN 'ACKNOWLEDGED' ELSE 'LEVEL' END,
        max(NEW.last_seen, coalesce(NEW.acknowledged_at, 0), coalesce(NEW.resolved_at, 0)),
        NEW.level, NEW.note, NEW.count);
END;
-- +goose StatementEnd

CREATE TABLE destination (
    name          TEXT PRIMARY KEY,
    disabled_for  TEXT NOT NULL DEFAULT '',
    disabled_why  TEXT NOT NULL DEFAULT '',
    failing_since INTEGER,
    last_sent     INTEGER,
    last_error    TEXT NOT NULL DEFAULT '',
    sent          INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    dead          INTEGER NOT NULL DEFAULT 0,
    dropped       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE destination_dead (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    message_id TEXT NOT NULL,
    tenant_id  TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    tries      INTEGER NOT NULL,
    error      TEXT NOT NULL,
    message    TEXT NOT NULL,
    at         INTEGER NOT NULL,
    UNIQUE (name, message_id)
) STRICT;
CREATE INDEX destination_dead_of_name ON destination_dead (name, n);

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
