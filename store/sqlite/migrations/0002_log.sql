-- Messages that the bus refuses one by one, and those that were given up (T123, T189).

-- +goose Up
ALTER TABLE run_dirty ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_dirty ADD COLUMN upto INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run_dirty ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;

CREATE TABLE outbox_dead (
    pos         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    tenant_id   TEXT NOT NULL,
    project_id  TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    from_seq    INTEGER NOT NULL,
    to_seq      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    cause       TEXT NOT NULL,
    buried_at   INTEGER NOT NULL,
    redriven_at INTEGER
) STRICT;
CREATE INDEX outbox_dead_tenant ON outbox_dead (tenant_id, pos);

-- Up to where the log of a run was known before a restore that it was repaired after (T30, T194).
CREATE TABLE run_repair (
    run_id    TEXT PRIMARY KEY,
    known_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Consumers of all tenants read by change alone.
DROP INDEX run_state_change;
CREATE INDEX run_state_change ON run_state (change);

INSERT INTO meta (name, value) VALUES ('compatible_from', '1');

-- What changed after a seq is read alone (T212). A checkpoint that lost a step is none.
CREATE INDEX step_state_changed ON step_state (run_id, changed_seq);
-- +goose StatementBegin
CREATE TRIGGER step_state_lost AFTER DELETE ON step_state BEGIN
    UPDATE run_state SET rev = 0 WHERE run_id = old.run_id AND rev <> 0;
END;
-- +goose StatementEnd
