-- The retention cuts the audit: it deletes the rows of a chain up to a number (ADR 113).

-- +goose Up

-- Up to which number the chain of a tenant is cut, by the newest cut. The row row_id of the audit records it.
CREATE TABLE audit_cut (
    tenant_id TEXT PRIMARY KEY,
    no        INTEGER NOT NULL,
    row_id    TEXT NOT NULL,
    ended_at  INTEGER -- NULL while rows are left
) STRICT, WITHOUT ROWID;

-- The triggers of the baseline, which now let go what is cut.
DROP TRIGGER audit_no_delete;
-- +goose StatementBegin
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
WHEN NOT EXISTS (SELECT 1 FROM audit_link l JOIN audit_cut c ON c.tenant_id = l.tenant_id AND l.no <= c.no
  WHERE l.id = OLD.id) BEGIN
    SELECT RAISE(ABORT, 'audit is insert-only');
END;
-- +goose StatementEnd
DROP TRIGGER audit_link_no_delete;
-- +goose StatementBegin
CREATE TRIGGER audit_link_no_delete BEFORE DELETE ON audit_link
WHEN NOT EXISTS (SELECT 1 FROM audit_cut c WHERE c.tenant_id = OLD.tenant_id AND OLD.no < c.no) BEGIN
    SELECT RAISE(ABORT, 'audit_link is insert-only');
END;
-- +goose StatementEnd

UPDATE meta SET value = '20' WHERE name = 'compatible_from';
