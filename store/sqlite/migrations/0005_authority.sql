-- Who may do what: policies and API tokens (O3, O6, T202).

-- +goose Up
-- Grows with every change of a policy or token.
INSERT INTO meta (name, value) VALUES ('authority', '0');

CREATE TABLE policy (
    tenant_id  TEXT NOT NULL,
    version    INTEGER NOT NULL,
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
    pos          INTEGER PRIMARY KEY AUTOINCREMENT,
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
    last_used_at INTEGER
) STRICT;
CREATE INDEX api_token_tenant ON api_token (tenant_id, pos);
CREATE INDEX api_token_live ON api_token (expires_at) WHERE revoked_at IS NULL;

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
