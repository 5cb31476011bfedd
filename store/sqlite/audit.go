package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Audit implements store.Audits.
func (s *Store) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return s.write(ctx, func(c *conn) error { return audit(ctx, c, s.now(), rows) })
}

// audit inserts rows. It skips a row whose id exists, because a repeated id means a repeated row.
func audit(ctx context.Context, c *conn, at time.Time, rows []store.AuditRow) error {
	if err := putSubjectKeys(ctx, c, at, store.Keys(rows)); err != nil {
		return err
	}
	for _, r := range rows {
		r = r.Fit()
		if r.ID == "" {
			return errors.New("sqlite: audit row without an id")
		}
		if _, err := c.exec(
			ctx, "audit", `INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail,
			format, credential, address, via, object, digest)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 2, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.ID, micros(at), r.TenantID, r.Actor, r.Action, r.RunID, r.SignalID, r.Outcome, r.Code, r.Reason, r.RequestID,
			text(r.Detail),
			r.Credential, r.Address, r.Via, r.Object, r.Digest); err != nil {
			return err
		}
	}
	return nil
}

// putSubjectKeys inserts keys that the store does not have.
func putSubjectKeys(ctx context.Context, c *conn, at time.Time, keys []store.SubjectKey) error {
	for _, k := range keys {
		if _, err := c.exec(ctx, "subject key", `INSERT INTO subject_key (id, tenant_id, lookup, name, wrapped, made_at)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, k.ID, k.TenantID, k.Lookup, k.Name, k.Wrapped,
			micros(at)); err != nil {
			return err
		}
	}
	return nil
}

// SubjectKeys implements store.SubjectKeys.
func (s *Store) SubjectKeys(ctx context.Context, f store.SubjectKeyFilter) ([]store.SubjectKey, error) {
	w := new(where)
	w.add("id > ?", f.After)
	if f.TenantID != "" {
		w.add("tenant_id = ?", f.TenantID)
	}
	if f.IDs != nil {
		w.add("id IN (SELECT value FROM json_each(?))", array(f.IDs))
	}
	if f.Live {
		w.add("erased_at IS NULL AND wrapped <> ''")
	}
	if !f.ErasedAfter.IsZero() {
		w.add("erased_at > ?", micros(f.ErasedAfter))
	}
	return readAll(ctx, s, "subject keys", func(row scanner) (k store.SubjectKey, err error) {
		var made int64
		var erased sql.NullInt64
		err = row.Scan(&k.ID, &k.TenantID, &k.Lookup, &k.Name, &k.Wrapped, &made, &erased)
		k.MadeAt, k.ErasedAt = instant(made), instantOrNil(erased)
		return k, err
	}, `SELECT id, tenant_id, lookup, name, wrapped, made_at, erased_at FROM subject_key WHERE `+w.String()+
		` ORDER BY id LIMIT ?`, append(w.args, clamp(f.Limit, store.MaxPage))...)
}

const auditColumns = `a.id, a.at, a.tenant_id, a.actor, a.action, a.run_id, a.signal_id, a.outcome, a.code, a.reason, a.request_id, a.detail,
	a.format, a.credential, a.address, a.via, a.object, a.digest`

func scanAudit(row scanner) (r store.AuditRow, err error) {
	var at int64
	var detail []byte
	err = row.Scan(&r.ID, &at, &r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID, &r.Outcome, &r.Code, &r.Reason,
		&r.RequestID, &detail,
		&r.Format, &r.Credential, &r.Address, &r.Via, &r.Object, &r.Digest)
	r.At = instant(at)
	if detail != nil {
		r.Detail = detail
	}
	return r, err
}

// LinkAudit implements store.Audits. It links rows in the order of their times, which the store's clock set in their
// transactions.
func (s *Store) LinkAudit(ctx context.Context, limit int) (linked int, err error) {
	limit = clamp(limit, store.MaxPage)
	tenants, err := readAll(
		ctx, s, "link audit", value[string], `SELECT a.tenant_id FROM audit_pending p JOIN audit a ON a.id = p.id
		GROUP BY a.tenant_id ORDER BY min(a.at) LIMIT ?`, limit)
	if err != nil || len(tenants) == 0 {
		return 0, err
	}
	share := max(limit/len(tenants), 1)
	var failed []error
	for _, tenant := range tenants {
		var n int
		err := s.write(ctx, func(c *conn) (err error) {
			n, err = linkAudit(ctx, c, tenant, share)
			return err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("tenant %s: %w", tenant, err))
			continue
		}
		linked += n
	}
	return linked, errors.Join(failed...)
}

func linkAudit(ctx context.Context, c *conn, tenant string, limit int) (int, error) {
	rows, err := collect(ctx, c, "link audit", scanAudit, `SELECT `+
		auditColumns+` FROM audit_pending p JOIN audit a ON a.id = p.id
		WHERE a.tenant_id = ? ORDER BY a.at, a.id LIMIT ?`, tenant, limit)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	end, err := collectOne(ctx, c, "audit link", scanLinkEnd, `SELECT no, hash FROM audit_link WHERE tenant_id = ? AND no BETWEEN 1 AND ?
		ORDER BY no DESC LIMIT 1`, tenant, store.MaxAuditNo-1)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	chain := store.AuditChain{tenant: end}
	for _, r := range rows {
		l := chain.Next(r)
		if _, err := c.exec(ctx, "link audit", `INSERT INTO audit_link (tenant_id, no, id, hash) VALUES (?, ?, ?, ?)`,
			r.TenantID, l.No, l.ID, l.Hash[:]); err != nil {
			return 0, err
		}
		if _, err := c.exec(ctx, "link audit", `DELETE FROM audit_pending WHERE id = ?`, l.ID); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// AuditBacklog implements store.Audits.
func (s *Store) AuditBacklog(ctx context.Context, limit int) ([]store.AuditBacklog, error) {
	now := s.now()
	return readAll(ctx, s, "audit backlog", func(row scanner) (b store.AuditBacklog, err error) {
		var at int64
		err = row.Scan(&b.TenantID, &at)
		b.Oldest = instant(at)
		b.Waiting = now.Sub(b.Oldest)
		return b, err
	}, `SELECT a.tenant_id, min(a.at) FROM audit_pending p JOIN audit a ON a.id = p.id GROUP BY a.tenant_id ORDER BY min(a.at) LIMIT ?`,
		clamp(limit, store.MaxPage))
}

// AuditHeads implements store.Audits.
func (s *Store) AuditHeads(ctx context.Context, afterTenant string, limit int) ([]store.AuditHead, error) {
	return readAll(ctx, s, "audit heads", func(row scanner) (h store.AuditHead, err error) {
		return h, row.Scan(&h.TenantID, &h.No, &h.Hash)
	}, `SELECT tenant_id, max(no), lower(hex(hash)) FROM audit_link WHERE tenant_id > ? AND no BETWEEN 1 AND ?
		GROUP BY tenant_id ORDER BY tenant_id LIMIT ?`, afterTenant, store.MaxAuditNo-1, clamp(limit, store.MaxPage))
}

// AuditEnds implements store.Audits.
func (s *Store) AuditEnds(ctx context.Context, tenantIDs []string) (map[string]int64, error) {
	ids, err := json.Marshal(tenantIDs)
	if err != nil {
		return nil, err
	}
	ends, err := readAll(ctx, s, "audit ends", func(row scanner) (h store.AuditHead, err error) {
		return h, row.Scan(&h.TenantID, &h.No)
	}, `SELECT tenant_id, no FROM (SELECT value AS tenant_id, (SELECT max(no) FROM audit_link l WHERE l.tenant_id = value
		AND l.no BETWEEN 1 AND ?) AS no FROM json_each(?)) WHERE no IS NOT NULL`, store.MaxAuditNo-1, string(ids))
	out := make(map[string]int64, len(ends))
	for _, e := range ends {
		out[e.TenantID] = e.No
	}
	return out, err
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
	w.add("l.no > ?", max(f.After, 0))
	if f.Before > 0 {
		w.add("l.no < ?", f.Before)
	}
	if !f.From.IsZero() {
		w.add("a.at >= ?", micros(f.From))
	}
	if !f.To.IsZero() {
		w.add("a.at < ?", micros(f.To))
	}
	for _, t := range []struct{ column, value string }{{"actor", f.Actor}, {"action", f.Action}, {"run_id", f.RunID},
		{"outcome", f.Outcome}, {"request_id", f.RequestID}, {"object", f.Object}} {
		if t.value != "" {
			w.add("a."+t.column+" = ?", t.value)
		}
	}
	if f.ActorPart != "" {
		w.add("(instr(lower(a.actor), ?) > 0 OR a.actor IN (SELECT value FROM json_each(?)))", f.ActorPart,
			array(f.StoredActors))
	}
	if f.ActionPart != "" {
		w.add("instr(lower(a.action), ?) > 0", f.ActionPart)
	}
	if f.RunPrefix != "" {
		w.add("instr(a.run_id, ?) = 1", f.RunPrefix)
	}
	if f.WithoutSeals {
		w.add("a.action IS NOT ?", store.ActionSealLog)
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
		coalesce(a.reason, ''), coalesce(a.request_id, ''), a.detail,
		coalesce(a.format, 0), coalesce(a.credential, ''), coalesce(a.address, ''), coalesce(a.via, ''), coalesce(a.object, ''), coalesce(a.digest, '')
		FROM audit_link l `+join+` audit a ON a.id = l.id WHERE `+w.String()+` ORDER BY l.no `+order+` LIMIT ?`,
		append(w.args, clamp(f.Limit, store.MaxPage))...)
}

func scanLink(row scanner) (l store.AuditLink, err error) {
	var hash, detail []byte
	var found bool
	var r store.AuditRow
	var at int64
	err = row.Scan(&l.No, &l.ID, &hash, &found, &r.ID, &at, &r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID,
		&r.Outcome, &r.Code, &r.Reason,
		&r.RequestID, &detail, &r.Format, &r.Credential, &r.Address, &r.Via, &r.Object, &r.Digest)
	if err != nil {
		return l, err
	}
	l.Hash = [32]byte(hash)
	if found {
		r.At = instant(at)
		if detail != nil {
			r.Detail = detail
		}
		l.Row = &r
	}
	return l, nil
}

// CountUnlinked implements store.Audits.
func (s *Store) CountUnlinked(ctx context.Context, tenantID string) (waiting, stray int64, err error) {
	type loose struct{ waiting, stray int64 }
	l, err := readOne(ctx, s, "audit loose", func(row scanner) (l loose, err error) {
		return l,
			row.Scan(&l.waiting, &l.stray)
	},
		`SELECT count(p.id), count(*) - count(p.id) FROM audit a `+linkJoin+`
		LEFT JOIN audit_pending p ON p.id = a.id WHERE a.tenant_id = ? AND l.id IS NULL`, tenantID)
	return l.waiting, l.stray, err
}

// AuditCut implements store.AuditCuts.
func (s *Store) AuditCut(ctx context.Context, tenantID string) (store.AuditCutState, error) {
	found, err := readAll(ctx, s, "audit cut", scanAuditCut, getCutSQL, tenantID)
	if err != nil || len(found) == 0 {
		return store.AuditCutState{}, err
	}
	return found[0], nil
}

const getCutSQL = `SELECT no, row_id, ended_at FROM audit_cut WHERE tenant_id = ?`

func scanAuditCut(row scanner) (c store.AuditCutState, err error) {
	var at sql.NullInt64
	err = row.Scan(&c.No, &c.RowID, &at)
	c.EndedAt = instantOrNil(at)
	return c, err
}

// cutObstacleSQL returns why no row of the audit of tenant ?1 may be deleted, or ”.
const cutObstacleSQL = `CASE
	WHEN EXISTS (SELECT 1 FROM legal_hold h WHERE h.tenant_id = ?1 AND h.lifted_at IS NULL AND h.kind = 'SUBJECT')
	THEN 'HELD'
	WHEN EXISTS (SELECT 1 FROM erasure e WHERE e.tenant_id = ?1 AND e.finished_at IS NULL AND e.cancelled_at IS NULL)
	THEN 'ERASURE' ELSE '' END`

// lastsSQL says that the row a of the audit outlives a cut, as store.OutlivesCut.
const lastsSQL = `(a.object LIKE 'token/%' OR a.object LIKE 'revocation/%' OR a.object LIKE 'policy/%'
	OR a.object LIKE 'setting/%')`

// ofRunSQL says that the row a of the audit speaks of a run in the store.
const ofRunSQL = `(a.run_id <> '' AND EXISTS (SELECT 1 FROM run r WHERE r.run_id = a.run_id))`

// PlanAuditCut implements store.AuditCuts.
func (s *Store) PlanAuditCut(ctx context.Context, tenantID string, after int64, before time.Time,
	limit int) (store.AuditCutPlan, error) {
	return readOne(ctx, s, "plan audit cut", func(row scanner) (p store.AuditCutPlan, err error) {
		var hash []byte
		err = row.Scan(&p.End, &hash, &p.Obstacle)
		copy(p.Hash[:], hash)
		return p, err
	}, `WITH links AS MATERIALIZED (SELECT l.no, coalesce(a.at < ?3 AND NOT `+ofRunSQL+`, 0) AS old
			FROM (SELECT no, id FROM audit_link WHERE tenant_id = ?1 AND no > ?2 AND no < 4611686018427387904
				ORDER BY no LIMIT ?4) l LEFT JOIN audit a ON a.id = l.id AND a.tenant_id = ?1),
		cut AS (SELECT coalesce(max(no), ?2) AS no FROM links WHERE no < coalesce((SELECT min(no) FROM links
			WHERE old = 0), 4611686018427387904))
		SELECT cut.no, (SELECT hash FROM audit_link l WHERE l.tenant_id = ?1 AND l.no = cut.no), `+cutObstacleSQL+` FROM cut`,
		tenantID, after, micros(before), limit)
}

// CutAudit implements store.AuditCuts.
func (s *Store) CutAudit(ctx context.Context, tenantID, rowID string, after int64, limit int) (last int64, err error) {
	limit = clamp(limit, store.MaxPage)
	err = s.write(ctx, func(c *conn) error {
		no, err := checkCut(ctx, c, tenantID, rowID)
		if err != nil {
			return err
		}
		last, err = collectOne(ctx, c, "cut audit", value[int64], `SELECT coalesce(max(no), ?3) FROM (SELECT no
			FROM audit_link WHERE tenant_id = ?1 AND no > ?2 AND no <= ?3 ORDER BY no LIMIT ?4)`, tenantID, after, no, limit)
		if err != nil {
			return err
		}
		young, err := collectOne(ctx, c, "cut audit", value[bool], `SELECT EXISTS (SELECT 1 FROM audit_link l
			JOIN audit a ON a.id = l.id WHERE l.tenant_id = ?1 AND l.no > ?2 AND l.no <= ?3 AND NOT `+lastsSQL+`
			AND (a.at > ?4 OR `+ofRunSQL+`))`, tenantID, after, last, micros(s.now().Add(-store.MinAuditAge)))
		if err == nil && young {
			err = fmt.Errorf("sqlite: cut audit of tenant %s: a row is too young: %w", tenantID, store.ErrConflict)
		}
		if err != nil {
			return err
		}
		return s.cutLinks(ctx, c, store.AuditCutState{No: no, RowID: rowID}, tenantID, after, last)
	})
	return last, err
}

// checkCut returns the number up to which the audit row rowID cuts the chain of a tenant.
func checkCut(ctx context.Context, c *conn, tenantID, rowID string) (int64, error) {
	refused := fmt.Errorf("sqlite: cut audit of tenant %s by row %s: %w", tenantID, rowID, store.ErrConflict)
	r, err := collectOne(ctx, c, "record of a cut", scanAudit, `SELECT `+auditColumns+` FROM audit a
		JOIN audit_link l ON l.id = a.id AND l.tenant_id = a.tenant_id WHERE a.id = ? AND a.tenant_id = ? AND a.action = ?
		AND a.outcome = 'ACCEPTED' AND l.no > CAST(substr(a.object, 5) AS INTEGER)`, rowID, tenantID, store.ActionCutAudit)
	if errors.Is(err, store.ErrNotFound) {
		return 0, refused
	}
	if err != nil {
		return 0, err
	}
	no, parseErr := strconv.ParseInt(strings.TrimPrefix(r.Object, store.AuditCutObject(0)[:4]), 10, 64)
	link, err := collectOne(ctx, c, "link of a cut", scanLinkEnd, `SELECT no, hash FROM audit_link WHERE tenant_id = ?
		AND no = ?`, tenantID, no)
	if parseErr != nil || errors.Is(err, store.ErrNotFound) || err == nil && hex.EncodeToString(link.Hash[:]) != r.Digest {
		return 0, refused
	}
	if err != nil {
		return 0, err
	}
	earlier, err := collect(ctx, c, "audit cut", scanAuditCut, getCutSQL, tenantID)
	if err == nil && len(earlier) > 0 && earlier[0].No > no {
		err = refused
	}
	if err != nil {
		return 0, err
	}
	obstacle, err := collectOne(ctx, c, "obstacle of a cut", value[store.ArchiveObstacle], `SELECT `+cutObstacleSQL,
		tenantID)
	if err == nil && obstacle != "" {
		err = &store.ObstacleError{Obstacle: obstacle}
	}
	return no, err
}

// cutLinks deletes rows and links after a number up to last. The links before rows that stay, and the link of the cut,
// stay too, so that the hash of the row behind them can be computed.
func (s *Store) cutLinks(ctx context.Context, c *conn, cut store.AuditCutState, tenantID string, after,
	last int64) error {
	for _, q := range []struct {
		what, sql string
		args      []any
	}{
		{"mark cut", `INSERT INTO audit_cut (tenant_id, no, row_id) VALUES (?1, ?2, ?3) ON CONFLICT (tenant_id) DO UPDATE
			SET no = excluded.no, row_id = excluded.row_id, ended_at = NULL WHERE audit_cut.no < excluded.no`,
			[]any{tenantID, cut.No, cut.RowID}},
		{"cut audit", `DELETE FROM audit WHERE id IN (SELECT a.id FROM audit_link l JOIN audit a ON a.id = l.id
			WHERE l.tenant_id = ?1 AND l.no > ?2 AND l.no <= ?3 AND NOT ` + lastsSQL + `)`, []any{tenantID, after, last}},
		{"cut links", `DELETE FROM audit_link AS l WHERE l.tenant_id = ?1 AND l.no > ?2 AND l.no <= ?3 AND l.no <> ?4
			AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.id = l.id)
			AND NOT EXISTS (SELECT 1 FROM audit_link n JOIN audit a ON a.id = n.id WHERE n.tenant_id = ?1
				AND n.no = l.no + 1 AND ` + lastsSQL + `)`, []any{tenantID, after, last, cut.No}},
		{"end cut", `UPDATE audit_cut SET ended_at = ?1 WHERE tenant_id = ?2 AND no = ?3 AND ended_at IS NULL
			AND ?3 <= ?4`, []any{micros(s.now()), tenantID, cut.No, last}},
	} {
		if _, err := c.exec(ctx, q.what, q.sql, q.args...); err != nil {
			return err
		}
	}
	return nil
}
