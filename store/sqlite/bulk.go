package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const bulkColumns = `id, tenant_id, actor, request_id, fingerprint, principal, action, reason, total, accepted, rejected, refused, not_sent,
	paced, paced_until, rev, created_at, finished_at, stopped_at, generation`

func scanBulk(row scanner) (b store.Bulk, err error) {
	var created int64
	var until, finished, stopped sql.NullInt64
	var principal, action []byte
	err = row.Scan(&b.ID, &b.TenantID, &b.Actor, &b.RequestID, &b.Fingerprint, &principal, &action, &b.Reason, &b.Total,
		&b.Accepted, &b.Rejected, &b.Refused, &b.NotSent,
		&b.Paced, &until, &b.Rev, &created, &finished, &stopped, &b.Generation)
	b.Principal, b.Action, b.CreatedAt = principal, action, instant(created)
	b.PacedUntil, b.FinishedAt, b.StoppedAt = instantOrNil(until), instantOrNil(finished), instantOrNil(stopped)
	return b, err
}

//nolint:gochecknoglobals // a constant
var putBulkRows = manyRows(`INSERT INTO bulk_row (bulk_id, no, run_id, project_id, environment_id, signal_id) VALUES `,
	`(?, ?, ?, ?, ?, ?)`, ``)

// PutBulk implements store.Bulks.
func (s *Store) PutBulk(ctx context.Context, b store.NewBulk) (out store.Bulk, made bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		out, err = collectOne(ctx, c, "bulk of request", scanBulk, `SELECT `+bulkColumns+
			` FROM bulk WHERE tenant_id = ? AND actor = ? AND request_id = ?`,
			b.TenantID, b.Actor, b.RequestID)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		open, err := collectOne(ctx, c, "open bulks", value[int],
			`SELECT count(*) FROM bulk WHERE tenant_id = ? AND actor = ? AND finished_at IS NULL`, b.TenantID, b.Actor)
		if err != nil {
			return err
		}
		if open >= b.MostOpen {
			return fmt.Errorf("sqlite: put bulk: %w", store.ErrTooMany)
		}
		at := s.now()
		if _, err := c.exec(
			ctx, "put bulk", `INSERT INTO bulk (id, tenant_id, actor, request_id, fingerprint, principal, action, reason, total, created_at, due_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)`, b.ID, b.TenantID, b.Actor, b.RequestID, b.Fingerprint,
			text(b.Principal), text(b.Action), b.Reason,
			len(b.Runs), micros(at)); err != nil {
			return err
		}
		args := make([]any, 0, 6*len(b.Runs))
		for i, r := range b.Runs {
			args = append(args, b.ID, i+1, r.RunID, r.ProjectID, r.EnvironmentID, b.Key(i))
		}
		if err := putBulkRows.exec(ctx, c, "put bulk rows", 6, args); err != nil {
			return err
		}
		if err := forgetBulks(ctx, c, b); err != nil {
			return err
		}
		made = true
		if out, err = collectOne(ctx, c, "bulk", scanBulk, bulkSQL, b.ID); err != nil {
			return err
		}
		return audit(ctx, c, at, []store.AuditRow{b.Audit})
	})
	return out, made && err == nil, err
}

// forgetBulks deletes the oldest finished bulks of an actor, so that the newest b.Keep remain.
func forgetBulks(ctx context.Context, c *conn, b store.NewBulk) error {
	const old = `(SELECT id FROM bulk WHERE tenant_id = ?1 AND actor = ?2 AND finished_at IS NOT NULL
		AND pos <= (SELECT pos FROM bulk WHERE tenant_id = ?1 AND actor = ?2 ORDER BY pos DESC LIMIT 1 OFFSET ?3))`
	for _, statement := range []string{`DELETE FROM bulk_row WHERE bulk_id IN ` + old, `DELETE FROM bulk WHERE id IN ` +
		old} {
		if _, err := c.exec(ctx, "forget bulks", statement, b.TenantID, b.Actor, b.Keep); err != nil {
			return err
		}
	}
	return nil
}

// StopBulk implements store.Bulks.
func (s *Store) StopBulk(ctx context.Context, id string, row store.AuditRow) (b store.Bulk, stopped bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		at := s.now()
		n, err := c.exec(ctx, "stop bulk", `UPDATE bulk SET stopped_at = ?1, due_at = ?1, rev = rev + 1 WHERE id = ?2 AND finished_at IS NULL AND stopped_at IS NULL`, micros(at), id)
		if err != nil {
			return err
		}
		stopped = n == 1
		if b, err = collectOne(ctx, c, "bulk", scanBulk, bulkSQL, id); err != nil || !stopped {
			return err
		}
		return audit(ctx, c, at, []store.AuditRow{row})
	})
	return b, stopped && err == nil, err
}

const bulkSQL = `SELECT ` + bulkColumns + ` FROM bulk WHERE id = ?`

// Bulk implements store.Bulks.
func (s *Store) Bulk(ctx context.Context, id string) (store.Bulk, error) {
	return readOne(ctx, s, "bulk", scanBulk, bulkSQL, id)
}

// Bulks implements store.Bulks.
func (s *Store) Bulks(ctx context.Context, f store.BulkFilter) ([]store.Bulk, error) {
	w := new(where)
	w.add("tenant_id = ?", f.TenantID)
	w.add("actor = ?", f.Actor)
	if f.Before != "" {
		w.add("pos < (SELECT pos FROM bulk WHERE id = ?)", f.Before)
	}
	return readAll(ctx, s, "bulks", scanBulk, `SELECT `+bulkColumns+` FROM bulk WHERE `+w.String()+
		` ORDER BY pos DESC LIMIT ?`,
		append(w.args, clamp(f.Limit, store.MaxPage))...)
}

const (
	bulkRowColumns = `b.no, b.run_id, b.project_id, b.environment_id, b.signal_id, b.outcome, b.code, b.message, b.at,
	coalesce(n.run_id, ''), coalesce(st.status, ''), coalesce(r.plan_id, ''), coalesce(st.header -> '$.rootCause', '')`
	bulkRowWidth = 13
	fromBulkRows = ` FROM bulk_row b LEFT JOIN run n ON n.request_key = b.signal_id LEFT JOIN run r ON r.run_id = b.run_id
	LEFT JOIN run_state st ON st.run_id = coalesce(n.run_id, b.run_id) `
	withReceipts = `LEFT JOIN (SELECT ` + signalColumns +
		` FROM signal) s ON s.run_id = b.run_id AND s.signal_id = b.signal_id `
)

func scanBulkRow(row scanner) (r store.BulkRow, err error) {
	var at sql.NullInt64
	var cause string
	err = row.Scan(&r.No, &r.RunID, &r.ProjectID, &r.EnvironmentID, &r.SignalID, &r.Outcome, &r.Code, &r.Message, &at,
		&r.NewRunID, &r.RunStatus, &r.PlanID, &cause)
	r.At = instantOrNil(at)
	if err == nil && cause != "" {
		err = json.Unmarshal([]byte(cause), &r.Cause)
	}
	return r, err
}

// BulkRows implements store.Bulks.
func (s *Store) BulkRows(ctx context.Context, f store.BulkRowFilter) (out []store.BulkRow, err error) {
	w := new(where)
	w.add("b.bulk_id = ?", f.BulkID)
	w.add("b.no > ?", f.After)
	if f.Nos != nil {
		doc, err := json.Marshal(f.Nos)
		if err != nil {
			return nil, err
		}
		w.add("b.no IN (SELECT value FROM json_each(?))", string(doc))
	}
	if f.Outcome != "" {
		w.add("b.outcome = ?", f.Outcome)
	}
	if f.Failed {
		w.add("(b.outcome IN ('REJECTED', 'REFUSED') OR s.application = 'NOT_APPLIED')")
	}
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, "bulk rows", `SELECT `+bulkRowColumns+`, s.*`+fromBulkRows+withReceipts+`WHERE `+w.String()+
			` ORDER BY b.no LIMIT ?`,
			append(w.args, clamp(f.Limit, store.MaxBulk)), func(cells row) error {
				r, err := scanBulkRow(cells[:bulkRowWidth])
				if err != nil {
					return err
				}
				rc, err := scanReceipt(cells[bulkRowWidth:])
				if rc.Signal.ID != "" {
					r.Receipt = &rc
				}
				out = append(out, r)
				return err
			})
	})
	return out, err
}

// BulkMarks implements store.Bulks.
func (s *Store) BulkMarks(ctx context.Context, id string) ([]store.BulkMark, error) {
	return readAll(ctx, s, "bulk marks", func(row scanner) (m store.BulkMark, err error) {
		return m, row.Scan(&m.No, &m.Outcome, &m.Application, &m.Moving, &m.RunStatus)
	}, `SELECT b.no, b.outcome, coalesce(s.application, ''), coalesce(s.type = 'PAUSE' AND s.application = 'APPLIED' AND s.quiescent_seq = 0, FALSE),
		coalesce(st.status, '')`+fromBulkRows+withReceipts+`WHERE b.bulk_id = ? ORDER BY b.no`, id)
}

// BulkStatuses implements store.Bulks.
func (s *Store) BulkStatuses(ctx context.Context, tenantID, actor string, ids []string) ([]store.BulkStatusCount,
	error) {
	doc, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "bulk statuses", func(row scanner) (c store.BulkStatusCount, err error) {
		return c, row.Scan(&c.BulkID, &c.Status, &c.Count)
	}, `SELECT b.bulk_id, coalesce(st.status, ''), count(*)`+fromBulkRows+`JOIN bulk k ON k.id = b.bulk_id
		WHERE b.bulk_id IN (SELECT value FROM json_each(?)) AND k.tenant_id = ? AND k.actor = ? AND b.outcome = 'ACCEPTED'
		GROUP BY 1, 2`, string(doc), tenantID, actor)
}

// Identities implements store.Bulks.
func (s *Store) Identities(ctx context.Context, tenantID string, runIDs []string) ([]run.Identity, error) {
	doc, err := json.Marshal(runIDs)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "identities", func(row scanner) (id run.Identity, err error) {
		return id, row.Scan(&id.RunID, &id.TenantID, &id.ProjectID, &id.EnvironmentID, &id.PlanID, &id.PlanVersion)
	}, `SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version
		FROM run WHERE run_id IN (SELECT value FROM json_each(?)) AND tenant_id = ?`, string(doc), tenantID)
}

// LeaseBulks implements store.BulkWork.
func (s *Store) LeaseBulks(ctx context.Context, owner string, ttl time.Duration, limit int) (out []store.Bulk,
	err error) {
	err = s.write(ctx, func(c *conn) (err error) {
		now := s.now()
		out, err = collect(
			ctx, c, "lease bulks", scanBulk, `UPDATE bulk SET owner = ?1, generation = generation + 1, lease_until = ?2
			WHERE id IN (SELECT id FROM bulk WHERE finished_at IS NULL AND due_at <= ?3 AND lease_until < ?3 ORDER BY due_at, pos LIMIT ?4)
			RETURNING `+bulkColumns, owner, micros(now.Add(ttl)), micros(now), clamp(limit, store.MaxPage))
		return err
	})
	return out, err
}

// WaitingBulkRows implements store.BulkWork.
func (s *Store) WaitingBulkRows(ctx context.Context, id string, limit int) (out []store.BulkRow, next store.BulkPause,
	err error) {
	now := s.now()
	out, err = readAll(ctx, s, "waiting bulk rows", scanBulkRow, `SELECT `+bulkRowColumns+fromBulkRows+`
		WHERE b.bulk_id = ? AND b.outcome = 'WAITING' AND (b.due_at <= ? OR (SELECT stopped_at IS NOT NULL FROM bulk WHERE id = b.bulk_id))
		ORDER BY b.no LIMIT ?`, id, micros(now), clamp(limit, store.MaxPage))
	if err != nil {
		return nil, next, err
	}
	next, err = readOne(ctx, s, "next bulk row", func(row scanner) (p store.BulkPause, err error) {
		var due int64
		err = row.Scan(&p.Code, &due)
		p.For = instant(due).Sub(now)
		return p, err
	}, `SELECT code, due_at FROM bulk_row WHERE bulk_id = ? AND outcome = 'WAITING' AND due_at > ? ORDER BY due_at LIMIT 1`, id, micros(now))
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return out, next, err
}

const leasedBulk = ` WHERE id = ? AND generation = ? AND lease_until > 0 AND finished_at IS NULL`

// SettleBulkRows implements store.BulkWork.
func (s *Store) SettleBulkRows(ctx context.Context, b store.Bulk, st store.BulkSettlement,
	ttl time.Duration) (out store.Bulk, err error) {
	err = s.write(ctx, func(c *conn) error {
		now := s.now()
		n, err := c.exec(ctx, "settle bulk", `UPDATE bulk SET rev = rev + 1, lease_until = ?`+leasedBulk,
			micros(now.Add(ttl)), b.ID, b.Generation)
		if err != nil || n == 0 {
			return fenceError(ctx, c, "bulk", `SELECT 1 FROM bulk WHERE id = ?`, b.ID, err)
		}
		count := map[store.BulkOutcome]int64{}
		for _, e := range st.Ends {
			at, due := micros(now), int64(0)
			if e.Outcome == store.BulkWaiting {
				due = micros(now.Add(e.Delay))
			}
			n, err := c.exec(
				ctx, "settle bulk row", `UPDATE bulk_row SET outcome = ?1, code = ?2, message = ?3, due_at = ?4, at = iif(?1 = 'WAITING', NULL, ?5)
				WHERE bulk_id = ?6 AND no = ?7 AND outcome = 'WAITING'`, string(e.Outcome), string(e.Code), e.Message, due, at,
				b.ID, e.No)
			if err != nil {
				return err
			}
			count[e.Outcome] += n
		}
		var until sql.NullInt64
		if st.Pause.Code != "" {
			until = sql.NullInt64{Int64: micros(now.Add(st.Pause.For)), Valid: true}
		}
		out, err = collectOne(ctx, c, "settle bulk", scanBulk, `UPDATE bulk SET accepted = accepted + ?1, rejected = rejected + ?2, refused = refused + ?3, paced = ?4, paced_until = ?5,
			not_sent = not_sent + ?8, finished_at = iif(accepted + rejected + refused + not_sent + ?1 + ?2 + ?3 + ?8 = total, ?6, NULL) WHERE id = ?7 RETURNING `+bulkColumns,
			count[store.BulkAccepted], count[store.BulkRejected], count[store.BulkRefused], string(st.Pause.Code), until,
			micros(now), b.ID, count[store.BulkNotSent])
		return err
	})
	return out, err
}

// HoldBulk implements store.BulkTx. It needs no lock, because this transaction is the only writer.
func (t *runTx) HoldBulk(ctx context.Context, b store.Bulk) error {
	_, err := collectOne(ctx, t.conn, "hold bulk", value[int], `SELECT 1 FROM bulk`+leasedBulk+` AND stopped_at IS NULL`,
		b.ID, b.Generation)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("bulk %s: %w", b.ID, store.ErrConflict)
	}
	return err
}

// ReleaseBulk implements store.BulkWork.
func (s *Store) ReleaseBulk(ctx context.Context, b store.Bulk, delay time.Duration) error {
	return s.write(ctx, func(c *conn) error {
		now := s.now()
		n, err := c.exec(ctx, "release bulk", `UPDATE bulk SET owner = '', lease_until = 0, due_at = iif(stopped_at IS NULL, ?, ?)`+leasedBulk,
			micros(now.Add(delay)), micros(now), b.ID, b.Generation)
		if err != nil || n == 0 {
			return fenceError(ctx, c, "bulk", `SELECT 1 FROM bulk WHERE id = ?`, b.ID, err)
		}
		return nil
	})
}
