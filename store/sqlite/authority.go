package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/store"
)

const authorityVersionSQL = `SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'authority'`

// AuthorityVersion implements store.Authority.
func (s *Store) AuthorityVersion(ctx context.Context) (int64, error) {
	return readOne(ctx, s, "authority version", value[int64], authorityVersionSQL)
}

// authoritySQL reads the version, the newest policies, the tokens and the newest settings. They are rows of four kinds
// in one statement, so that all come from one snapshot.
const authoritySQL = newestSettingsSQL + `SELECT 0, (` +
	authorityVersionSQL + `), 0, '', '', '', '', 0, 0, 0, NULL, '', NULL, 0, 0, 0, 0
	UNION ALL SELECT 1, ` + policyColumns + `, 0, 0, NULL, '', NULL, 0, 0, 0, 0 FROM policy p
		WHERE version = (SELECT max(version) FROM policy q WHERE q.tenant_id = p.tenant_id)
	UNION ALL SELECT 2, ` + tokenColumns + ` FROM api_token WHERE revoked_at IS NULL AND expires_at > ?
	UNION ALL SELECT 3, s.kind, s.tenant_id, s.version, doc, actor, reason, request_id, at, 0, NULL, '', NULL, 0, 0, 0, 0 ` +
	fromNewestSettings

// Authority implements store.Authority.
func (s *Store) Authority(ctx context.Context, expiredAfter time.Time) (out store.StoredAuthority, err error) {
	err = s.read(ctx, func(c *conn) error {
		out = store.StoredAuthority{}
		return c.query(ctx, "authority", authoritySQL, []any{micros(expiredAfter)}, func(r row) error {
			switch kind, ok := r[0].(int64); {
			case ok && kind == 0:
				return r[1:].Scan(&out.Version)
			case ok && kind == 1:
				p, err := scanPolicy(r[1:])
				out.Policies = append(out.Policies, p)
				return err
			case ok && kind == 3:
				v, err := scanSetting(r[1:])
				out.Settings = append(out.Settings, v)
				return err
			}
			t, err := scanToken(r[1:])
			out.Tokens = append(out.Tokens, t)
			return err
		})
	})
	return out, err
}

const policyColumns = `tenant_id, version, doc, actor, reason, request_id, at`

func scanPolicy(row scanner) (p store.StoredPolicy, err error) {
	var doc []byte
	var at int64
	err = row.Scan(&p.TenantID, &p.Version, &doc, &p.Actor, &p.Reason, &p.RequestID, &at)
	p.Doc, p.At = json.RawMessage(doc), instant(at)
	return p, err
}

// recordAuthorityChange raises the version of the authority and writes the audit row of the change.
func recordAuthorityChange(ctx context.Context, c *conn, at time.Time, row store.AuditRow) error {
	if _, err := c.exec(
		ctx, "authority", `UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = 'authority'`); err != nil {
		return err
	}
	return audit(ctx, c, at, []store.AuditRow{row})
}

// PutPolicy implements store.Policies.
func (s *Store) PutPolicy(ctx context.Context, p store.StoredPolicy, audit store.AuditRow) (store.StoredPolicy, error) {
	at, err := s.putVersion(ctx, "put policy", store.AuditRowOfPolicy(audit, p), `INSERT INTO policy (`+
		policyColumns+`) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
		WHERE (SELECT coalesce(max(version), 0) FROM policy WHERE tenant_id = ?1) = ?2 - 1`, p.TenantID, p.Version,
		text(p.Doc), p.Actor, p.Reason, p.RequestID)
	p.At = at
	return p, err
}

// putVersion runs a statement that inserts a version, and returns the version's time, which it passes as the last
// argument. It returns store.ErrConflict if the version is not the successor of the newest one.
func (s *Store) putVersion(ctx context.Context, what string, audit store.AuditRow, sql string,
	args ...any) (at time.Time, err error) {
	err = s.write(ctx, func(c *conn) error {
		at = s.now()
		n, err := c.exec(ctx, what, sql, append(args, micros(at))...)
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrConflict
		}
		return recordAuthorityChange(ctx, c, at, audit)
	})
	return at, err
}

// PolicyHistory implements store.Policies.
func (s *Store) PolicyHistory(ctx context.Context, tenantID string, before int64, limit int) ([]store.StoredPolicy,
	error) {
	return readAll(ctx, s, "policy history", scanPolicy, `SELECT `+
		policyColumns+` FROM policy WHERE tenant_id = ?1 AND (?2 = 0 OR version < ?2)
		ORDER BY version DESC LIMIT ?3`, tenantID, before, clamp(limit, store.MaxPage))
}

const tokenColumns = `id, tenant_id, name, principal, sha256, grants, created_by, created_at, expires_at, revoked_at, revoked_by, last_used_at, kind, provider, memberships, prefix`

func scanToken(row scanner) (t store.StoredToken, err error) {
	var grants, groups []byte
	var created, expires int64
	var revoked, used sql.NullInt64
	err = row.Scan(&t.ID, &t.TenantID, &t.Name, &t.Principal, &t.SHA256, &grants, &t.CreatedBy, &created, &expires,
		&revoked, &t.RevokedBy, &used, &t.Kind, &t.Provider, &groups, &t.Prefix)
	if err == nil && len(groups) > len(`[]`) {
		err = json.Unmarshal(groups, &t.Groups)
	}
	t.Grants, t.CreatedAt, t.ExpiresAt, t.RevokedAt, t.LastUsedAt = grants, instant(created), instant(expires),
		instantOrNil(revoked), instantOrNil(used)
	return t, err
}

const tokenSQL = `SELECT ` + tokenColumns + ` FROM api_token WHERE id = ? AND tenant_id = ?`

// PutToken implements store.Tokens.
func (s *Store) PutToken(ctx context.Context, t store.StoredToken, audit store.AuditRow) (out store.StoredToken,
	made bool, err error) {
	groups, err := json.Marshal(slices.Concat([]string{}, t.Groups))
	if err != nil {
		return out, false, err
	}
	err = s.write(ctx, func(c *conn) error {
		at := s.now()
		n, err := c.exec(ctx, "put token", `INSERT INTO api_token (id, tenant_id, name, principal, sha256, grants, created_by, created_at, expires_at, kind, provider, memberships, prefix)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			t.ID, t.TenantID, t.Name, t.Principal, t.SHA256, text(t.Grants), t.CreatedBy, micros(at), micros(t.ExpiresAt),
			string(cmp.Or(t.Kind, store.TokenAPI)), t.Provider, string(groups), t.Prefix)
		if err != nil {
			return err
		}
		if made = n > 0; made {
			if err := recordAuthorityChange(ctx, c, at, store.AuditRowOfToken(audit, t)); err != nil {
				return err
			}
		}
		out, err = collectOne(ctx, c, "put token", scanToken, tokenSQL, t.ID, t.TenantID)
		return err
	})
	return out, made && err == nil, err
}

// RevokeToken implements store.Tokens.
func (s *Store) RevokeToken(ctx context.Context, tenantID, id, by string, audit store.AuditRow) (out store.StoredToken,
	revoked bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		at := s.now()
		n, err := c.exec(ctx, "revoke token", `UPDATE api_token SET revoked_at = ?, revoked_by = ? WHERE id = ? AND tenant_id = ? AND revoked_at IS NULL`,
			micros(at), by, id, tenantID)
		if err != nil {
			return err
		}
		if revoked = n > 0; revoked {
			if err := recordAuthorityChange(ctx, c, at, store.AuditRowOfRevocation(audit, id)); err != nil {
				return err
			}
		}
		out, err = collectOne(ctx, c, "revoke token", scanToken, tokenSQL, id, tenantID)
		return err
	})
	return out, revoked && err == nil, err
}

// MarkTokensUsed implements store.Tokens.
func (s *Store) MarkTokensUsed(ctx context.Context, at time.Time, ids ...string) error {
	return s.write(ctx, func(c *conn) error {
		for _, id := range ids {
			if _, err := c.exec(
				ctx, "tokens used", `UPDATE api_token SET last_used_at = ?1 WHERE id = ?2 AND coalesce(last_used_at, 0) < ?1`,
				micros(at), id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Tokens implements store.Tokens.
func (s *Store) Tokens(ctx context.Context, f store.TokenFilter) ([]store.StoredToken, error) {
	w := new(where)
	w.add("tenant_id = ?", f.TenantID)
	if f.Principal != "" {
		w.add("principal = ?", f.Principal)
	}
	if f.ID != "" {
		w.add("id = ?", f.ID)
	}
	if f.Kind != "" {
		w.add("kind = ?", string(f.Kind))
	}
	if f.Live {
		w.add("revoked_at IS NULL AND expires_at > ?", micros(s.now()))
	}
	if f.Before != "" {
		w.add("pos < (SELECT pos FROM api_token WHERE id = ?)", f.Before)
	}
	return readAll(ctx, s, "tokens", scanToken, `SELECT `+tokenColumns+` FROM api_token WHERE `+w.String()+
		` ORDER BY pos DESC LIMIT ?`,
		append(w.args, clamp(f.Limit, store.MaxPage))...)
}

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
