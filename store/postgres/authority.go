package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// authorityChangedSQL raises the version of the authority. The row lock serializes changes of policies, tokens and
// settings, so that versions grow in the order of commits.
const authorityChangedSQL = `UPDATE meta SET value = value + 1 WHERE name = 'authority'`

const authorityVersionSQL = `SELECT value FROM meta WHERE name = 'authority'`

// AuthorityVersion implements store.Authority.
func (s *Store) AuthorityVersion(ctx context.Context) (v int64, err error) {
	err = s.do(ctx, "authority version", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, authorityVersionSQL).Scan(&v)
	})
	return v, err
}

const newestPoliciesSQL = `SELECT DISTINCT ON (tenant_id) ` + policyColumns +
	` FROM policy ORDER BY tenant_id, version DESC`

const liveTokensSQL = `SELECT ` + tokenColumns + ` FROM api_token WHERE revoked_at IS NULL AND expires_at > $1`

// Authority implements store.Authority.
func (s *Store) Authority(ctx context.Context, expiredAfter time.Time) (out store.StoredAuthority, err error) {
	err = s.do(ctx, "authority", func(ctx context.Context, c *pgx.Conn) error {
		out = store.StoredAuthority{}
		var b pgx.Batch
		b.Queue(`begin isolation level repeatable read read only`)
		b.Queue(limitsSQL, milliseconds(callTimeout), milliseconds(idleTimeout))
		b.Queue(authorityVersionSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Version) })
		b.Queue(newestPoliciesSQL).Query(func(rows pgx.Rows) (err error) {
			out.Policies, err = pgx.CollectRows(rows, scanPolicy)
			return err
		})
		b.Queue(liveTokensSQL, expiredAfter).Query(func(rows pgx.Rows) (err error) {
			out.Tokens, err = pgx.CollectRows(rows, scanToken)
			return err
		})
		b.Queue(newestSettingsSQL).Query(func(rows pgx.Rows) (err error) {
			out.Settings, err = pgx.CollectRows(rows, scanSetting)
			return err
		})
		b.Queue(`commit`)
		return c.SendBatch(ctx, &b).Close()
	})
	return out, err
}

const policyColumns = `tenant_id, version, doc, actor, reason, request_id, at`

func scanPolicy(row pgx.CollectableRow) (p store.StoredPolicy, err error) {
	return p, row.Scan(&p.TenantID, &p.Version, verbatim{&p.Doc}, &p.Actor, &p.Reason, &p.RequestID, utc{&p.At})
}

const putPolicySQL = `INSERT INTO policy (tenant_id, version, doc, actor, reason, request_id)
  SELECT $1, $2, $3::text::json, $4, $5, $6
  WHERE (SELECT coalesce(max(version), 0) FROM policy WHERE tenant_id = $1) = $2::bigint - 1 RETURNING at`

// PutPolicy implements store.Policies.
func (s *Store) PutPolicy(ctx context.Context, p store.StoredPolicy, audit store.AuditRow) (store.StoredPolicy, error) {
	at, err := s.putVersion(ctx, "put policy", store.AuditRowOfPolicy(audit, p), putPolicySQL, p.TenantID, p.Version,
		text(p.Doc), p.Actor, p.Reason, p.RequestID)
	p.At = at
	return p, err
}

// putVersion runs a statement that inserts a version, and returns the version's time. It returns store.ErrConflict if
// the version is not the successor of the newest one.
func (s *Store) putVersion(ctx context.Context, what string, audit store.AuditRow, sql string,
	args ...any) (at time.Time, err error) {
	err = s.changeAuthority(ctx, what, audit, func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, sql, args...).Scan(utc{&at})
		if errors.Is(err, pgx.ErrNoRows) {
			err = store.ErrConflict
		}
		return err
	})
	return at, err
}

// errUnchanged ends a transaction that has nothing to change, so that the version of the authority stays.
var errUnchanged = errors.New("postgres: nothing to change")

// changeAuthority runs f in a transaction that holds the lock of the authority. If f returns nil, it commits together
// with the audit row.
func (s *Store) changeAuthority(ctx context.Context, what string, audit store.AuditRow,
	f func(context.Context, *pgx.Conn) error) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		queueBegin(&b)
		b.Queue(authorityChangedSQL)
		if err := c.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if err := f(ctx, c); err != nil {
			return err
		}
		b = pgx.Batch{}
		queueAudit(&b, []store.AuditRow{audit})
		b.Queue(`commit`)
		return c.SendBatch(ctx, &b).Close()
	})
}

// PolicyHistory implements store.Policies.
func (s *Store) PolicyHistory(ctx context.Context, tenantID string, before int64, limit int) ([]store.StoredPolicy,
	error) {
	return collect(ctx, s, "policy history", scanPolicy, `SELECT `+
		policyColumns+` FROM policy WHERE tenant_id = $1 AND ($2::bigint = 0 OR version < $2)
		ORDER BY version DESC LIMIT $3`, tenantID, before, pageSize(limit))
}

const tokenColumns = `id::text, kind, provider, memberships, tenant_id, name, principal, sha256, grants, created_by, created_at, expires_at, revoked_at, revoked_by, last_used_at, prefix`

func scanToken(row pgx.CollectableRow) (t store.StoredToken, err error) {
	err = row.Scan(&t.ID, &t.Kind, &t.Provider, &t.Groups, &t.TenantID, &t.Name, &t.Principal, &t.SHA256,
		verbatim{&t.Grants}, &t.CreatedBy, utc{&t.CreatedAt}, utc{&t.ExpiresAt},
		utcOrNil{&t.RevokedAt}, &t.RevokedBy, utcOrNil{&t.LastUsedAt}, &t.Prefix)
	if len(t.Groups) == 0 {
		t.Groups = nil
	}
	return t, err
}

func oneToken(ctx context.Context, c *pgx.Conn, query string, args ...any) (store.StoredToken, error) {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return store.StoredToken{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanToken)
}

const tokenSQL = `SELECT ` + tokenColumns + ` FROM api_token WHERE id::text = $1 AND tenant_id = $2`

// PutToken implements store.Tokens.
func (s *Store) PutToken(ctx context.Context, t store.StoredToken, audit store.AuditRow) (out store.StoredToken,
	made bool, err error) {
	made, err = s.changeToken(ctx, "put token", store.AuditRowOfToken(audit, t), &out, func(ctx context.Context,
		c *pgx.Conn) error {
		tag, err := c.Exec(
			ctx, `INSERT INTO api_token (id, tenant_id, name, principal, sha256, grants, created_by, expires_at, kind, provider, memberships, prefix)
			VALUES ($1::text::uuid, $2, $3, $4, $5, $6::text::json, $7, $8, $9, $10, coalesce($11::text[], '{}'), $12) ON CONFLICT (id) DO NOTHING`,
			t.ID, t.TenantID, t.Name, t.Principal, t.SHA256, text(t.Grants), t.CreatedBy, t.ExpiresAt,
			cmp.Or(t.Kind, store.TokenAPI), t.Provider, t.Groups, t.Prefix)
		if err == nil && tag.RowsAffected() == 0 {
			err = errUnchanged
		}
		return err
	}, t.ID, t.TenantID)
	return out, made, err
}

// RevokeToken implements store.Tokens.
func (s *Store) RevokeToken(ctx context.Context, tenantID, id, by string, audit store.AuditRow) (out store.StoredToken,
	revoked bool, err error) {
	revoked, err = s.changeToken(ctx, "revoke token", store.AuditRowOfRevocation(audit, id), &out,
		func(ctx context.Context, c *pgx.Conn) error {
			tag, err := c.Exec(ctx, `UPDATE api_token SET revoked_at = clock_timestamp(), revoked_by = $3
			WHERE id::text = $1 AND tenant_id = $2 AND revoked_at IS NULL`, id, tenantID, by)
			if err == nil && tag.RowsAffected() == 0 {
				err = errUnchanged
			}
			return err
		}, id, tenantID)
	return out, revoked, err
}

// changeToken runs f under the lock of the authority and then reads the token. It returns false if f returned
// errUnchanged.
func (s *Store) changeToken(ctx context.Context, what string, audit store.AuditRow, out *store.StoredToken,
	f func(context.Context, *pgx.Conn) error, id, tenantID string,
) (bool, error) {
	err := s.changeAuthority(ctx, what, audit, func(ctx context.Context, c *pgx.Conn) error {
		if err := f(ctx, c); err != nil {
			return err
		}
		var err error
		*out, err = oneToken(ctx, c, tokenSQL, id, tenantID)
		return err
	})
	if !errors.Is(err, errUnchanged) {
		return err == nil, err
	}
	return false, s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) (err error) {
		*out, err = oneToken(ctx, c, tokenSQL, id, tenantID)
		return err
	})
}

// MarkTokensUsed implements store.Tokens.
func (s *Store) MarkTokensUsed(ctx context.Context, at time.Time, ids ...string) error {
	return s.do(ctx, "tokens used", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `UPDATE api_token SET last_used_at = $1 WHERE id::text = ANY($2) AND (last_used_at IS NULL OR last_used_at < $1)`, at, ids)
		return err
	})
}

// Tokens implements store.Tokens.
func (s *Store) Tokens(ctx context.Context, tf store.TokenFilter) ([]store.StoredToken, error) {
	var f filter
	f.add("tenant_id = ?", tf.TenantID)
	if tf.Principal != "" {
		f.add("principal = ?", tf.Principal)
	}
	if tf.ID != "" {
		f.add("id::text = ?", tf.ID)
	}
	if tf.Kind != "" {
		f.add("kind = ?", tf.Kind)
	}
	if tf.Live {
		f.add("revoked_at IS NULL AND expires_at > clock_timestamp()")
	}
	if tf.Before != "" {
		f.add("pos < (SELECT pos FROM api_token WHERE id::text = ?)", tf.Before)
	}
	query := `SELECT ` + tokenColumns + ` FROM api_token WHERE ` + f.String() + f.bind(` ORDER BY pos DESC LIMIT ?`,
		pageSize(tf.Limit))
	return collect(ctx, s, "tokens", scanToken, query, f.args...)
}

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
