package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Audit implements store.Audits.
func (s *Store) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return s.write(ctx, func(c *conn) error { return audit(ctx, c, s.now(), rows) })
}

// audit inserts rows; one whose id is there already is the same row again.
func audit(ctx context.Context, c *conn, at time.Time, rows []store.AuditRow) error {
	for _, r := range rows {
		if r.ID == "" {
			return errors.New("sqlite: audit row without an id")
		}
		if _, err := c.exec(ctx, "audit", `INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.ID, micros(at), r.TenantID, r.Actor, r.Action, r.RunID, r.SignalID, r.Outcome, r.Code, r.Reason, r.RequestID, text(r.Detail)); err != nil {
			return err
		}
	}
	return nil
}

const auditColumns = `a.id, a.at, a.tenant_id, a.actor, a.action, a.run_id, a.signal_id, a.outcome, a.code, a.reason, a.request_id, a.detail`

func scanAudit(row scanner) (r store.AuditRow, err error) {
	var at int64
	var detail []byte
	err = row.Scan(&r.ID, &at, &r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID, &r.Outcome, &r.Code, &r.Reason, &r.RequestID, &detail)
	r.At = instant(at)
	if detail != nil {
		r.Detail = detail
	}
	return r, err
}

// LinkAudit implements store.Audits.
func (s *Store) LinkAudit(ctx context.Context, limit int) (linked int, err error) {
	err = s.write(ctx, func(c *conn) error {
		rows, err := collect(ctx, c, "link audit", scanAudit, `SELECT `+auditColumns+` FROM audit_pending p JOIN audit a ON a.id = p.id
			ORDER BY a.tenant_id, a.at, a.id LIMIT ?`, clamp(limit, store.MaxPage))
		if err != nil {
			return err
		}
		chain := store.AuditChain{}
		for _, r := range rows {
			if _, known := chain[r.TenantID]; !known {
				end, err := one(ctx, c, "audit link", scanLinkEnd, `SELECT no, hash FROM audit_link WHERE tenant_id = ? ORDER BY no DESC LIMIT 1`, r.TenantID)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				chain[r.TenantID] = end
			}
			l := chain.Next(r)
			if _, err := c.exec(ctx, "link audit", `INSERT INTO audit_link (tenant_id, no, id, hash) VALUES (?, ?, ?, ?)`,
				r.TenantID, l.No, l.ID, l.Hash[:]); err != nil {
				return err
			}
			if _, err := c.exec(ctx, "link audit", `DELETE FROM audit_pending WHERE id = ?`, l.ID); err != nil {
				return err
			}
		}
		linked = len(rows)
		return nil
	})
	return linked, err
}

func scanLinkEnd(row scanner) (l store.AuditLink, err error) {
	var hash []byte
	if err := row.Scan(&l.No, &hash); err != nil {
		return l, err
	}
	l.Hash = [32]byte(hash)
	return l, nil
}

// AuditLinks implements store.Audits.
func (s *Store) AuditLinks(ctx context.Context, f store.AuditFilter) ([]store.AuditLink, error) {
	w := new(where)
	w.add("l.tenant_id = ?", f.TenantID)
	if f.After > 0 {
		w.add("l.no > ?", f.After)
	}
	if f.Before > 0 {
		w.add("l.no < ?", f.Before)
	}
	if !f.From.IsZero() {
		w.add("a.at >= ?", micros(f.From))
	}
	if !f.To.IsZero() {
		w.add("a.at < ?", micros(f.To))
	}
	for _, t := range []struct{ column, value string }{{"actor", f.Actor}, {"action", f.Action}, {"run_id", f.RunID}, {"outcome", f.Outcome}} {
		if t.value != "" {
			w.add("a."+t.column+" = ?", t.value)
		}
	}
	join, order := "JOIN", "ASC"
	if f.WithMissingRows {
		join = "LEFT JOIN"
	}
	if f.Newest {
		order = "DESC"
	}
	return readAll(ctx, s, "audit links", scanLink, `SELECT l.no, l.id, l.hash, a.id IS NOT NULL, coalesce(a.id, ''), coalesce(a.at, 0), coalesce(a.tenant_id, ''),
		coalesce(a.actor, ''), coalesce(a.action, ''), coalesce(a.run_id, ''), coalesce(a.signal_id, ''), coalesce(a.outcome, ''), coalesce(a.code, ''),
		coalesce(a.reason, ''), coalesce(a.request_id, ''), a.detail
		FROM audit_link l `+join+` audit a ON a.id = l.id WHERE `+w.String()+` ORDER BY l.no `+order+` LIMIT ?`, append(w.args, clamp(f.Limit, store.MaxPage))...)
}

func scanLink(row scanner) (l store.AuditLink, err error) {
	var hash, detail []byte
	var there bool
	var r store.AuditRow
	var at int64
	err = row.Scan(&l.No, &l.ID, &hash, &there, &r.ID, &at, &r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID, &r.Outcome, &r.Code, &r.Reason,
		&r.RequestID, &detail)
	if err != nil {
		return l, err
	}
	l.Hash = [32]byte(hash)
	if there {
		r.At = instant(at)
		if detail != nil {
			r.Detail = detail
		}
		l.Row = &r
	}
	return l, nil
}

// AuditLoose implements store.Audits.
func (s *Store) AuditLoose(ctx context.Context, tenantID string) (waiting, stray int64, err error) {
	type loose struct{ waiting, stray int64 }
	l, err := readOne(ctx, s, "audit loose", func(row scanner) (l loose, err error) { return l, row.Scan(&l.waiting, &l.stray) },
		`SELECT count(p.id), count(*) - count(p.id) FROM audit a LEFT JOIN audit_link l ON l.id = a.id LEFT JOIN audit_pending p ON p.id = a.id
		WHERE a.tenant_id = ? AND l.id IS NULL`, tenantID)
	return l.waiting, l.stray, err
}
