package sqlite

import (
	"context"
	"encoding/json"

	"github.com/dvt-engine/dvt/store"
)

const settingColumns = `kind, tenant_id, version, doc, actor, reason, request_id, at`

// newestSettingsSQL is the WITH clause that goes from the newest version of one setting to that of the next, so that
// the cost does not grow with the number of versions. fromNewestSettings is the FROM clause that uses it.
const (
	newestSettingsSQL = `WITH RECURSIVE newest (kind, tenant_id, version) AS (
	SELECT * FROM (SELECT kind, tenant_id, version FROM setting ORDER BY kind DESC, tenant_id DESC, version DESC LIMIT 1)
	UNION ALL
	SELECT s.kind, s.tenant_id, s.version FROM newest n JOIN setting s ON (s.kind, s.tenant_id, s.version) = (
		SELECT * FROM (SELECT kind, tenant_id, version FROM setting WHERE kind = n.kind AND tenant_id < n.tenant_id ORDER BY tenant_id DESC, version DESC LIMIT 1)
		UNION ALL SELECT * FROM (SELECT kind, tenant_id, version FROM setting WHERE kind < n.kind ORDER BY kind DESC, tenant_id DESC, version DESC LIMIT 1) LIMIT 1)
) `
	fromNewestSettings = `FROM newest n CROSS JOIN setting s ON s.kind = n.kind AND s.tenant_id = n.tenant_id AND s.version = n.version`
)

func scanSetting(row scanner) (v store.StoredSetting, err error) {
	var doc []byte
	var at int64
	err = row.Scan(&v.Kind, &v.TenantID, &v.Version, &doc, &v.Actor, &v.Reason, &v.RequestID, &at)
	v.Doc, v.At = json.RawMessage(doc), instant(at)
	return v, err
}

// PutSetting implements store.Settings.
func (s *Store) PutSetting(ctx context.Context, v store.StoredSetting, audit store.AuditRow) (store.StoredSetting,
	error) {
	at, err := s.putVersion(ctx, "put setting", store.AuditRowOfSetting(audit, v), `INSERT INTO setting (`+
		settingColumns+`) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
		WHERE (SELECT coalesce(max(version), 0) FROM setting WHERE kind = ?1 AND tenant_id = ?2) = ?3 - 1`,
		string(v.Kind), v.TenantID, v.Version, text(v.Doc), v.Actor, v.Reason, v.RequestID)
	v.At = at
	return v, err
}

// SettingHistory implements store.Settings.
func (s *Store) SettingHistory(ctx context.Context, kind store.SettingKind, tenantID string, before int64,
	limit int) ([]store.StoredSetting, error) {
	return readAll(ctx, s, "setting history", scanSetting, `SELECT `+
		settingColumns+` FROM setting WHERE kind = ?1 AND tenant_id = ?2 AND (?3 = 0 OR version < ?3)
		ORDER BY version DESC LIMIT ?4`, string(kind), tenantID, before, clamp(limit, store.MaxPage))
}
