package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// Audit implements store.Audits.
func (s *Store) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return s.do(ctx, "audit", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		queueAudit(&b, rows)
		return c.SendBatch(ctx, &b).Close()
	})
}

func queueAudit(b *pgx.Batch, rows []store.AuditRow) {
	for _, a := range rows {
		b.Queue(`INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
			VALUES (coalesce(nullif($1, '')::uuid, gen_random_uuid()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::json)
			ON CONFLICT (id) DO NOTHING`,
			a.ID, a.TenantID, a.Actor, a.Action, a.RunID, a.SignalID, a.Outcome, a.Code, a.Reason, a.RequestID, text(a.Detail))
	}
}

const auditColumns = `a.id::text, a.at, a.tenant_id, a.actor, a.action, a.run_id, a.signal_id, a.outcome, a.code, a.reason, a.request_id, a.detail`

func auditRow(r *store.AuditRow) []any {
	return []any{
		&r.ID, utc{&r.At}, &r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID, &r.Outcome, &r.Code, &r.Reason, &r.RequestID,
		verbatim{&r.Detail},
	}
}

// LinkAudit implements store.Audits. Whoever links the same number first wins: the
// key of audit_link is the fence.
func (s *Store) LinkAudit(ctx context.Context, limit int) (linked int, err error) {
	err = s.do(ctx, "link audit", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			linked, err = linkAudit(ctx, tx, pageSize(limit))
			return err
		})
	})
	if errors.Is(err, store.ErrConflict) {
		return 0, nil
	}
	return linked, err
}

func linkAudit(ctx context.Context, tx pgx.Tx, limit int) (int, error) {
	found, err := tx.Query(ctx, `SELECT `+auditColumns+` FROM audit_pending p JOIN audit a ON a.id = p.id
		ORDER BY a.tenant_id, a.at, a.id LIMIT $1 FOR UPDATE OF p SKIP LOCKED`, limit)
	if err != nil {
		return 0, err
	}
	rows, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (r store.AuditRow, err error) { return r, row.Scan(auditRow(&r)...) })
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	var tenants []string
	for _, r := range rows {
		if n := len(tenants); n == 0 || tenants[n-1] != r.TenantID {
			tenants = append(tenants, r.TenantID)
		}
	}
	chain, err := auditEnds(ctx, tx, tenants)
	if err != nil {
		return 0, err
	}
	var b pgx.Batch
	for _, r := range rows {
		l := chain.Next(r)
		b.Queue(`INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ($1, $2, $3::uuid, $4)`, r.TenantID, l.No, l.ID, l.Hash[:])
		b.Queue(`DELETE FROM audit_pending WHERE id = $1::uuid`, l.ID)
	}
	return len(rows), tx.SendBatch(ctx, &b).Close()
}

// auditEnds reads the newest link of each tenant.
func auditEnds(ctx context.Context, tx pgx.Tx, tenants []string) (store.AuditChain, error) {
	chain := store.AuditChain{}
	found, err := tx.Query(ctx, `SELECT t.id, l.no, l.hash FROM unnest($1::text[]) AS t (id)
		CROSS JOIN LATERAL (SELECT no, hash FROM audit_link WHERE tenant_id = t.id ORDER BY no DESC LIMIT 1) l`, tenants)
	if err != nil {
		return nil, err
	}
	var tenant string
	var no int64
	var hash []byte
	_, err = pgx.ForEachRow(found, []any{&tenant, &no, &hash}, func() error {
		chain[tenant] = store.AuditLink{No: no, Hash: [32]byte(hash)}
		return nil
	})
	return chain, err
}

// AuditLinks implements store.Audits.
func (s *Store) AuditLinks(ctx context.Context, af store.AuditFilter) ([]store.AuditLink, error) {
	var f filter
	f.add("l.tenant_id = ?", af.TenantID)
	if af.After > 0 {
		f.add("l.no > ?", af.After)
	}
	if af.Before > 0 {
		f.add("l.no < ?", af.Before)
	}
	if !af.From.IsZero() {
		f.add("a.at >= ?", af.From)
	}
	if !af.To.IsZero() {
		f.add("a.at < ?", af.To)
	}
	for _, t := range []struct{ column, value string }{{"actor", af.Actor}, {"action", af.Action}, {"run_id", af.RunID}, {"outcome", af.Outcome}} {
		if t.value != "" {
			f.add("a."+t.column+" = ?", t.value)
		}
	}
	join, order := "JOIN", "ASC"
	if af.WithMissingRows {
		join = "LEFT JOIN"
	}
	if af.Newest {
		order = "DESC"
	}
	query := fmt.Sprintf(`SELECT l.no, l.id::text, l.hash, a.id IS NOT NULL, coalesce(a.id::text, ''), coalesce(a.at, 'epoch'), coalesce(a.tenant_id, ''),
		coalesce(a.actor, ''), coalesce(a.action, ''), coalesce(a.run_id, ''), coalesce(a.signal_id, ''), coalesce(a.outcome, ''), coalesce(a.code, ''),
		coalesce(a.reason, ''), coalesce(a.request_id, ''), a.detail
		FROM audit_link l %s audit a ON a.id = l.id WHERE %s ORDER BY l.no %s `, join, &f, order) + f.bind(`LIMIT ?`, pageSize(af.Limit))
	return collect(ctx, s, "audit links", scanLink, query, f.args...)
}

func scanLink(row pgx.CollectableRow) (l store.AuditLink, err error) {
	var hash []byte
	var there bool
	var r store.AuditRow
	if err := row.Scan(append([]any{&l.No, &l.ID, &hash, &there}, auditRow(&r)...)...); err != nil {
		return l, err
	}
	l.Hash = [32]byte(hash)
	if there {
		l.Row = &r
	}
	return l, nil
}

// AuditLoose implements store.Audits.
func (s *Store) AuditLoose(ctx context.Context, tenantID string) (waiting, stray int64, err error) {
	err = s.do(ctx, "audit loose", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*) FILTER (WHERE p.id IS NOT NULL), count(*) FILTER (WHERE p.id IS NULL)
			FROM audit a LEFT JOIN audit_link l ON l.id = a.id LEFT JOIN audit_pending p ON p.id = a.id
			WHERE a.tenant_id = $1 AND l.id IS NULL`, tenantID).Scan(&waiting, &stray)
	})
	return waiting, stray, err
}
