-- Which runs are in the archive, legal holds, and what the last pass of the retention did (ADR 105).

-- +goose Up

CREATE TABLE run_archive (
    run_id       TEXT PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    head_seq     INTEGER NOT NULL, -- of the last event in the archive
    location     TEXT NOT NULL,
    sha256       TEXT NOT NULL,
    bytes        INTEGER NOT NULL,
    events       INTEGER NOT NULL,
    subjects     TEXT NOT NULL, -- JSON: principals that a hold may name, because the receipts may be deleted
    ended_at     INTEGER NOT NULL,
    marked_at    INTEGER NOT NULL,
    emptied_at   INTEGER, -- NULL while events are left
    receipts_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX run_archive_of_tenant ON run_archive (tenant_id, ended_at, run_id);
CREATE INDEX run_archive_events ON run_archive (tenant_id, ended_at, run_id) WHERE emptied_at IS NULL;
CREATE INDEX run_archive_receipts ON run_archive (tenant_id, ended_at, run_id) WHERE receipts_at IS NULL;

CREATE TABLE legal_hold (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    tenant_id  TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('RUN', 'PLAN', 'SUBJECT')),
    subject    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    placed_by  TEXT NOT NULL,
    placed_at  INTEGER NOT NULL,
    lifted_by  TEXT NOT NULL DEFAULT '',
    lifted_at  INTEGER,
    lifted_for TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX legal_hold_of_tenant ON legal_hold (tenant_id, n);
CREATE INDEX legal_hold_open ON legal_hold (tenant_id, kind, subject) WHERE lifted_at IS NULL;

CREATE TABLE retention_pass (
    tenant_id TEXT PRIMARY KEY,
    doc       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The triggers of the baseline, which now let go what belongs to an archived run. A row of an alert goes after its
-- state.
DROP TRIGGER event_no_delete;
-- +goose StatementBegin
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
WHEN NOT EXISTS (SELECT 1 FROM run_archive a WHERE a.run_id = OLD.run_id) BEGIN
    SELECT RAISE(ABORT, 'event is append-only');
END;
-- +goose StatementEnd
DROP TRIGGER approval_decision_no_delete;
-- +goose StatementBegin
CREATE TRIGGER approval_decision_no_delete BEFORE DELETE ON approval_decision
WHEN NOT EXISTS (SELECT 1 FROM run_archive a WHERE a.run_id = OLD.run_id) BEGIN
    SELECT RAISE(ABORT, 'approval_decision is insert-only');
END;
-- +goose StatementEnd
DROP TRIGGER run_note_no_delete;
-- +goose StatementBegin
CREATE TRIGGER run_note_no_delete BEFORE DELETE ON run_note
WHEN NOT EXISTS (SELECT 1 FROM run_archive a WHERE a.run_id = OLD.run_id) BEGIN
    SELECT RAISE(ABORT, 'run_note is insert-only');
END;
-- +goose StatementEnd
DROP TRIGGER alert_no_delete;
-- +goose StatementBegin
CREATE TRIGGER alert_no_delete BEFORE DELETE ON alert
WHEN EXISTS (SELECT 1 FROM alert_state s WHERE s.pos = OLD.pos) BEGIN
    SELECT RAISE(ABORT, 'alert is insert-only');
END;
-- +goose StatementEnd

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
