-- The database checks the links of the audit and names what each row made.

-- +goose Up
-- Rows from before this migration keep format 1, whose hash does not cover these columns.
ALTER TABLE audit ADD COLUMN format INTEGER NOT NULL DEFAULT 1;
ALTER TABLE audit ADD COLUMN credential TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN via TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN object TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN digest TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_object ON audit (object, tenant_id) WHERE object <> '';

-- A link follows the end of its tenant's chain and names a row of its tenant. A number at or above 2^62 is a forgery
-- from before this migration: the chain goes on below it.
-- +goose StatementBegin
CREATE TRIGGER audit_link_next BEFORE INSERT ON audit_link
WHEN NEW.no >= 4611686018427387904
  OR NEW.no <> 1 + coalesce((SELECT max(no) FROM audit_link WHERE tenant_id = NEW.tenant_id AND no BETWEEN 1 AND 4611686018427387903), 0)
  OR NOT EXISTS (SELECT 1 FROM audit WHERE id = NEW.id AND tenant_id = NEW.tenant_id)
BEGIN
    SELECT RAISE(ABORT, 'audit_link: not the next link of its tenant');
END;
-- +goose StatementEnd

-- What exists now has no row that names its digest. A BASELINE row of each says that this migration found it.
INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, format, object, digest)
SELECT dvt_uuid(), CAST(unixepoch('subsec') * 1000000 AS INTEGER), tenant_id, 'dvt', 'BASELINE', run_id, '', 'ACCEPTED', '', 'schema 9 found it', '', 2, object, digest
FROM (
    SELECT tenant_id, '' AS run_id, 'token/' || id AS object, dvt_digest('token', id, kind, tenant_id, name, principal, provider,
        (SELECT coalesce(group_concat(value, char(31)), '') FROM json_each(memberships)), sha256, grants, created_by, CAST(expires_at AS TEXT)) AS digest
    FROM api_token
    UNION ALL
    SELECT tenant_id, '', 'revocation/' || id, dvt_digest('revocation', id) FROM api_token WHERE revoked_at IS NOT NULL
    UNION ALL
    SELECT tenant_id, '', 'policy/' || version, dvt_digest('policy', tenant_id, CAST(version AS TEXT), doc, actor, reason, request_id) FROM policy
    UNION ALL
    SELECT tenant_id, '', 'setting/' || kind || '/' || tenant_id || '/' || version,
        dvt_digest('setting', kind, tenant_id, CAST(version AS TEXT), doc, actor, reason, request_id)
    FROM setting
    UNION ALL
    SELECT r.tenant_id, d.run_id, 'decision/' || d.run_id || '/' || d.principal,
        dvt_digest('decision', d.run_id, d.principal, CASE d.approved WHEN 0 THEN 'false' ELSE 'true' END, d.reason, d.request_id)
    FROM approval_decision d JOIN run r ON r.run_id = d.run_id
);

UPDATE meta SET value = '2' WHERE name = 'compatible_from';
