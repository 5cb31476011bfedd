package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const settingColumns = `kind, tenant_id, version, doc, actor, reason, request_id, at`

// newestSettingsSQL goes from the newest version of one setting to that of the next, so that its cost does not grow
// with the number of versions.
const newestSettingsSQL = `WITH RECURSIVE newest AS (
  (SELECT ` + settingColumns + ` FROM setting ORDER BY kind DESC, tenant_id DESC, version DESC LIMIT 1)
  UNION ALL
  SELECT s.* FROM newest n CROSS JOIN LATERAL (SELECT ` + settingColumns + ` FROM setting
    WHERE (kind, tenant_id) < (n.kind, n.tenant_id) ORDER BY kind DESC, tenant_id DESC, version DESC LIMIT 1) s
)
SELECT ` + settingColumns + ` FROM newest`

func scanSetting(row pgx.CollectableRow) (v store.StoredSetting, err error) {
	return v, row.Scan(&v.Kind, &v.TenantID, &v.Version, verbatim{&v.Doc}, &v.Actor, &v.Reason, &v.RequestID, utc{&v.At})
}

const putSettingSQL = `INSERT INTO setting (kind, tenant_id, version, doc, actor, reason, request_id)
  SELECT $1, $2, $3, $4::text::json, $5, $6, $7
  WHERE (SELECT coalesce(max(version),
  	0) FROM setting WHERE kind = $1 AND tenant_id = $2) = $3::bigint - 1 RETURNING at`

// PutSetting implements store.Settings.
func (s *Store) PutSetting(ctx context.Context, v store.StoredSetting, audit store.AuditRow) (store.StoredSetting,
	error) {
	at, err := s.putVersion(ctx, "put setting", store.AuditRowOfSetting(audit, v), putSettingSQL, v.Kind, v.TenantID,
		v.Version,
		text(v.Doc), v.Actor, v.Reason, v.RequestID)
	v.At = at
	return v, err
}

// SettingHistory implements store.Settings.
func (s *Store) SettingHistory(ctx context.Context, kind store.SettingKind, tenantID string, before int64,
	limit int) ([]store.StoredSetting, error) {
	return collect(ctx, s, "setting history", scanSetting, `SELECT `+settingColumns+` FROM setting
		WHERE kind = $1 AND tenant_id = $2 AND ($3::bigint = 0 OR version < $3) ORDER BY version DESC LIMIT $4`, kind,
		tenantID, before, pageSize(limit))
}
