-- The audit of a tenant is a chain.

-- +goose Up
-- Links, insert-only. A row of audit that was taken away leaves its link.
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

-- Rows that wait for their link.
CREATE TABLE audit_pending (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
-- +goose StatementBegin
CREATE TRIGGER audit_wait AFTER INSERT ON audit BEGIN
    INSERT INTO audit_pending (id) VALUES (NEW.id) ON CONFLICT DO NOTHING;
END;
-- +goose StatementEnd
INSERT INTO audit_pending (id) SELECT id FROM audit;

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
