-- Keys that seal the personal fields of audit rows (ADR 106), and erasures of tenants and of data subjects (ADR 107).

-- +goose Up

-- A key stays when it is destroyed, without its secret, so that readers can say that a subject was erased.
CREATE TABLE subject_key (
    id        TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    lookup    TEXT NOT NULL, -- keyed hash of tenant and actor
    name      TEXT NOT NULL, -- of the actor, sealed by the key
    wrapped   TEXT NOT NULL, -- the key, sealed by a key of the installation; '' once it is destroyed
    made_at   INTEGER NOT NULL,
    erased_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX subject_key_lookup ON subject_key (lookup);
CREATE INDEX subject_key_of_tenant ON subject_key (tenant_id, id);
CREATE INDEX subject_key_erased ON subject_key (erased_at) WHERE erased_at IS NOT NULL;

-- Requests to erase a tenant or a subject, and what became of them. A finished erasure is a tombstone: it names nobody.
CREATE TABLE erasure (
    pos          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    kind         TEXT NOT NULL, -- TENANT or SUBJECT
    tenant_id    TEXT NOT NULL,
    subject      TEXT NOT NULL DEFAULT '',
    reason       TEXT NOT NULL DEFAULT '',
    requested_by TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    confirmed_by TEXT NOT NULL DEFAULT '',
    confirmed_at INTEGER,
    cancelled_by TEXT NOT NULL DEFAULT '',
    cancelled_at INTEGER,
    started_at   INTEGER,
    phase        TEXT NOT NULL DEFAULT '',
    position     TEXT NOT NULL DEFAULT '',   -- within the phase
    counts       TEXT NOT NULL DEFAULT '{}', -- JSON: what was erased, by place
    deleting     INTEGER NOT NULL DEFAULT 0, -- only the schema of PostgreSQL needs it
    finished_at  INTEGER,
    certificate  TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX erasure_of_tenant ON erasure (tenant_id, pos);
CREATE INDEX erasure_open ON erasure (pos) WHERE finished_at IS NULL AND cancelled_at IS NULL;

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
