package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

const insertAuditSQL = `INSERT INTO audit (id, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail,
  credential, address, via, object, digest)
SELECT coalesce(nullif(id, '')::uuid, gen_random_uuid()), tenant, actor, action, run, signal, outcome, code, reason, request, detail::json,
  credential, address, via, object, digest
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
    $12::text[], $13::text[], $14::text[], $15::text[], $16::text[])
  WITH ORDINALITY u (id, tenant, actor, action, run, signal, outcome, code, reason, request, detail, credential, address, via, object, digest, n) ORDER BY n
ON CONFLICT (id) DO NOTHING`

// queueAudit queues one statement that inserts rows in order.
func queueAudit(b *pgx.Batch, rows []store.AuditRow) {
	if len(rows) == 0 {
		return
	}
	var columns [15][]string
	var details []*string
	for _, a := range rows {
		a = a.Fit()
		for i, v := range [...]string{
			a.ID, a.TenantID, a.Actor, a.Action, a.RunID, a.SignalID, a.Outcome, string(a.Code), a.Reason, a.RequestID,
			a.Credential, a.Address, a.Via, a.Object, a.Digest,
		} {
			columns[i] = append(columns[i], v)
		}
		details = append(details, text(a.Detail))
	}
	queueSubjectKeys(b, store.Keys(rows))
	c := &columns
	b.Queue(insertAuditSQL, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], details, c[10], c[11], c[12],
		c[13], c[14])
}

// queueSubjectKeys queues the insert of keys that the store may not have yet. They are sorted by id, so that concurrent
// transactions cannot deadlock.
func queueSubjectKeys(b *pgx.Batch, keys []store.SubjectKey) {
	if len(keys) == 0 {
		return
	}
	var columns [5][]string
	slices.SortFunc(keys, func(a, b store.SubjectKey) int { return cmp.Compare(a.ID, b.ID) })
	for _, k := range keys {
		for i, v := range [...]string{k.ID, k.TenantID, k.Lookup, k.Name, k.Wrapped} {
			columns[i] = append(columns[i], v)
		}
	}
	b.Queue(`INSERT INTO subject_key (id, tenant_id, lookup, name, wrapped)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) ON CONFLICT (id) DO NOTHING`,
		columns[0], columns[1], columns[2], columns[3], columns[4])
}

// SubjectKeys implements store.SubjectKeys.
func (s *Store) SubjectKeys(ctx context.Context, kf store.SubjectKeyFilter) ([]store.SubjectKey, error) {
	var f filter
	f.add("id > ?", kf.After)
	if kf.TenantID != "" {
		f.add("tenant_id = ?", kf.TenantID)
	}
	if kf.IDs != nil {
		f.add("id = ANY (?)", kf.IDs)
	}
	if kf.Live {
		f.add("erased_at IS NULL AND wrapped <> ?", "")
	}
	if !kf.ErasedAfter.IsZero() {
		f.add("erased_at > ?", kf.ErasedAfter)
	}
	query := fmt.Sprintf(`SELECT id, tenant_id, lookup, name, wrapped, made_at, erased_at FROM subject_key WHERE %s
		ORDER BY id `, &f) + f.bind(`LIMIT ?`, pageSize(kf.Limit))
	return collect(ctx, s, "subject keys", func(row pgx.CollectableRow) (k store.SubjectKey, err error) {
		err = row.Scan(&k.ID, &k.TenantID, &k.Lookup, &k.Name, &k.Wrapped, utc{&k.MadeAt}, &k.ErasedAt)
		return k, err
	}, query, f.args...)
}

func auditRow(r *store.AuditRow) []any {
	return []any{
		&r.ID, utc{&r.At}, &r.TenantID, &r.Actor, &r.Action, &r.RunID, &r.SignalID, &r.Outcome, &r.Code, &r.Reason,
		&r.RequestID,
		verbatim{&r.Detail}, &r.Format, &r.Credential, &r.Address, &r.Via, &r.Object, &r.Digest,
	}
}

// LinkAudit implements store.Audits. The database function dvt_audit_link numbers and hashes the rows, because servers
// have no right to write audit_link.
func (s *Store) LinkAudit(ctx context.Context, limit int) (linked int, err error) {
	limit = pageSize(limit)
	tenants, err := collect(
		ctx, s, "link audit", pgx.RowTo[string], `SELECT a.tenant_id FROM audit_pending p JOIN audit a ON a.id = p.id
		GROUP BY a.tenant_id ORDER BY min(a.at) LIMIT $1`, limit)
	if err != nil || len(tenants) == 0 {
		return 0, err
	}
	share := max(limit/len(tenants), 1)
	var failed []error
	for _, tenant := range tenants {
		err := s.do(ctx, "link audit", func(ctx context.Context, c *pgx.Conn) error {
			var n int
			err := c.QueryRow(ctx, `SELECT dvt_audit_link($1, $2)`, tenant, share).Scan(&n)
			linked += n
			return err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("tenant %s: %w", tenant, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return linked, errors.Join(failed...)
}

// AuditBacklog implements store.Audits.
func (s *Store) AuditBacklog(ctx context.Context, limit int) ([]store.AuditBacklog, error) {
	return collect(ctx, s, "audit backlog", func(row pgx.CollectableRow) (b store.AuditBacklog, err error) {
		var micros int64
		err = row.Scan(&b.TenantID, utc{&b.Oldest}, &micros)
		b.Waiting = time.Duration(micros) * time.Microsecond
		return b, err
	}, `SELECT a.tenant_id, min(a.at), (extract(epoch FROM clock_timestamp() - min(a.at)) * 1000000)::bigint
		FROM audit_pending p JOIN audit a ON a.id = p.id GROUP BY a.tenant_id ORDER BY min(a.at) LIMIT $1`, pageSize(limit))
}

// AuditHeads implements store.Audits.
func (s *Store) AuditHeads(ctx context.Context, afterTenant string, limit int) ([]store.AuditHead, error) {
	return collect(ctx, s, "audit heads", func(row pgx.CollectableRow) (h store.AuditHead, err error) {
		return h, row.Scan(&h.TenantID, &h.No, &h.Hash)
	}, `SELECT tenant_id, no, encode(hash, 'hex') FROM audit_head WHERE tenant_id > $1 AND no > 0 ORDER BY tenant_id LIMIT $2`, afterTenant, pageSize(limit))
}

// AuditEnds implements store.Audits.
func (s *Store) AuditEnds(ctx context.Context, tenantIDs []string) (map[string]int64, error) {
	ends, err := collect(ctx, s, "audit ends", func(row pgx.CollectableRow) (h store.AuditHead, err error) {
		return h, row.Scan(&h.TenantID, &h.No)
	}, `SELECT tenant_id, no FROM audit_head WHERE tenant_id = ANY ($1) AND no > 0`, tenantIDs)
	out := make(map[string]int64, len(ends))
	for _, e := range ends {
		out[e.TenantID] = e.No
	}
	return out, err
}

// AuditLinks implements store.Audits.
func (s *Store) AuditLinks(ctx context.Context, af store.AuditFilter) ([]store.AuditLink, error) {
	var f filter
	f.add("l.tenant_id = ?", af.TenantID)
	f.add("l.no > ?", max(af.After, 0))
	if af.Before > 0 {
		f.add("l.no < ?", af.Before)
	}
	if !af.From.IsZero() {
		f.add("a.at >= ?", af.From)
	}
	if !af.To.IsZero() {
		f.add("a.at < ?", af.To)
	}
	for _, t := range []struct{ column, value string }{{"actor", af.Actor}, {"action", af.Action}, {"run_id", af.RunID},
		{"outcome", af.Outcome}, {"request_id", af.RequestID}, {"object", af.Object}} {
		if t.value != "" {
			f.add("a."+t.column+" = ?", t.value)
		}
	}
	if af.ActorPart != "" {
		f.add("(strpos(lower(a.actor), ?) > 0 OR a.actor = ANY (?))", af.ActorPart, af.StoredActors)
	}
	if af.ActionPart != "" {
		f.add("strpos(lower(a.action), ?) > 0", af.ActionPart)
	}
	if af.RunPrefix != "" {
		f.add("starts_with(a.run_id, ?)", af.RunPrefix)
	}
	if af.WithoutSeals {
		f.add("a.action IS DISTINCT FROM ?", store.ActionSealLog)
	}
	join, order := "JOIN", "ASC"
	if af.WithMissingRows {
		join = "LEFT JOIN"
	}
	if af.Newest {
		order = "DESC"
	}
	query := fmt.Sprintf(`SELECT l.no, l.id::text, l.hash, a.id IS NOT NULL, coalesce(a.id::text, ''), CASE WHEN isfinite(a.at) THEN a.at ELSE 'epoch' END, coalesce(a.tenant_id, ''),
		coalesce(a.actor, ''), coalesce(a.action, ''), coalesce(a.run_id, ''), coalesce(a.signal_id, ''), coalesce(a.outcome, ''), coalesce(a.code, ''),
		coalesce(a.reason, ''), coalesce(a.request_id, ''), a.detail,
		coalesce(a.format, 0), coalesce(a.credential, ''), coalesce(a.address, ''), coalesce(a.via, ''), coalesce(a.object, ''), coalesce(a.digest, '')
		FROM audit_link l %s audit a ON a.id = l.id WHERE %s ORDER BY l.no %s `, join, &f, order) +
		f.bind(`LIMIT ?`, pageSize(af.Limit))
	return collect(ctx, s, "audit links", scanLink, query, f.args...)
}

func scanLink(row pgx.CollectableRow) (l store.AuditLink, err error) {
	var hash []byte
	var found bool
	var r store.AuditRow
	if err := row.Scan(append([]any{&l.No, &l.ID, &hash, &found}, auditRow(&r)...)...); err != nil {
		return l, err
	}
	l.Hash = [32]byte(hash)
	if found {
		l.Row = &r
	}
	return l, nil
}

// CountUnlinked implements store.Audits.
func (s *Store) CountUnlinked(ctx context.Context, tenantID string) (waiting, stray int64, err error) {
	err = s.do(ctx, "audit loose", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*) FILTER (WHERE p.id IS NOT NULL), count(*) FILTER (WHERE p.id IS NULL)
			FROM audit a `+linkJoin+` LEFT JOIN audit_pending p ON p.id = a.id
			WHERE a.tenant_id = $1 AND l.id IS NULL`, tenantID).Scan(&waiting, &stray)
	})
	return waiting, stray, err
}

// AuditCut implements store.AuditCuts.
func (s *Store) AuditCut(ctx context.Context, tenantID string) (store.AuditCutState, error) {
	found, err := collect(ctx, s, "audit cut", func(row pgx.CollectableRow) (c store.AuditCutState, err error) {
		return c, row.Scan(&c.No, &c.RowID, utcOrNil{&c.EndedAt})
	}, `SELECT no, row_id::text, ended_at FROM audit_cut WHERE tenant_id = $1`, tenantID)
	if err != nil || len(found) == 0 {
		return store.AuditCutState{}, err
	}
	return found[0], nil
}

// PlanAuditCut implements store.AuditCuts.
func (s *Store) PlanAuditCut(ctx context.Context, tenantID string, after int64, before time.Time,
	limit int) (store.AuditCutPlan, error) {
	return onlyOne(collect(ctx, s, "plan audit cut", func(row pgx.CollectableRow) (p store.AuditCutPlan, err error) {
		var hash []byte
		err = row.Scan(&p.End, &hash, &p.Obstacle)
		copy(p.Hash[:], hash)
		return p, err
	}, `SELECT x.no, (SELECT l.hash FROM audit_link l WHERE l.tenant_id = $1 AND l.no = x.no),
		dvt_audit_cut_obstacle($1) FROM (SELECT dvt_audit_cut_end($1, $2, $3, $4) AS no) x`, tenantID, after, before, limit))
}

// CutAudit implements store.AuditCuts. The database function checks everything again, because servers have no right to
// delete.
func (s *Store) CutAudit(ctx context.Context, tenantID, rowID string, after int64, limit int) (int64, error) {
	no, err := onlyOne(collect(ctx, s, "cut audit", pgx.RowTo[int64], `SELECT dvt_cut_audit($1, $2, $3, $4)`, tenantID,
		rowID, after, pageSize(limit)))
	switch {
	case err != nil:
		return 0, err
	case no >= 0:
		return no, nil
	case no < -1:
		return 0, fmt.Errorf("postgres: cut audit of tenant %s by row %s: %w", tenantID, rowID, store.ErrConflict)
	}
	p, err := s.PlanAuditCut(ctx, tenantID, 0, time.Time{}, 1)
	if err != nil {
		return 0, err
	}
	return 0, &store.ObstacleError{Obstacle: cmp.Or(p.Obstacle, store.ObstacleHeld)}
}
