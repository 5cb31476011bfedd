package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const bulkColumns = `id, tenant_id, actor, request_id, fingerprint, principal, action, reason, total, accepted, rejected, refused, not_sent,
  paced, paced_until, rev, created_at, finished_at, stopped_at, generation`

func scanBulk(row pgx.CollectableRow) (b store.Bulk, err error) {
	return b, row.Scan(&b.ID, &b.TenantID, &b.Actor, &b.RequestID, &b.Fingerprint, verbatim{&b.Principal},
		verbatim{&b.Action}, &b.Reason,
		&b.Total, &b.Accepted, &b.Rejected, &b.Refused, &b.NotSent, &b.Paced, utcOrNil{&b.PacedUntil}, &b.Rev,
		utc{&b.CreatedAt}, utcOrNil{&b.FinishedAt},
		utcOrNil{&b.StoppedAt}, &b.Generation)
}

// oneBulk reads one bulk. It returns pgx.ErrNoRows if the query finds none.
func oneBulk(ctx context.Context, c *pgx.Conn, query string, args ...any) (store.Bulk, error) {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return store.Bulk{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanBulk)
}

// lockBulksSQL serializes the creation of bulks, so that the count of an actor's open bulks is right. Leases and
// settlements wait for it, which is acceptable because bulks are rarely created.
const lockBulksSQL = `LOCK TABLE bulk IN SHARE ROW EXCLUSIVE MODE`

const putBulkSQL = `INSERT INTO bulk (id, tenant_id, actor, request_id, fingerprint, principal, action, reason, total)
  SELECT $1, $2, $3, $4, $5, $6::text::json, $7::text::json, $8, $9
  WHERE (SELECT count(*) FROM bulk WHERE tenant_id = $2 AND actor = $3 AND finished_at IS NULL) < $10 RETURNING ` +
	bulkColumns

const putBulkRowsSQL = `INSERT INTO bulk_row (bulk_id, no, run_id, project_id, environment_id, signal_id)
  SELECT $1, n, u.run, u.project, u.environment, u.signal FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY u (run, project, environment, signal, n)`

const oldBulksSQL = `(SELECT id FROM bulk WHERE tenant_id = $1 AND actor = $2 AND finished_at IS NOT NULL
  AND pos <= (SELECT pos FROM bulk WHERE tenant_id = $1 AND actor = $2 ORDER BY pos DESC LIMIT 1 OFFSET $3))`

// PutBulk implements store.Bulks.
func (s *Store) PutBulk(ctx context.Context, b store.NewBulk) (out store.Bulk, made bool, err error) {
	err = s.inTx(ctx, "put bulk", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		if _, err := c.Exec(ctx, lockBulksSQL); err != nil {
			return err
		}
		made, err = putBulk(ctx, c, b, &out, last)
		return err
	})
	return out, made && err == nil, err
}

// putBulk queues the rows of a new bulk in last.
func putBulk(ctx context.Context, c *pgx.Conn, b store.NewBulk, out *store.Bulk, last *pgx.Batch) (made bool,
	err error) {
	*out, err = oneBulk(ctx, c, `SELECT `+bulkColumns+` FROM bulk WHERE tenant_id = $1 AND actor = $2 AND request_id = $3`,
		b.TenantID, b.Actor, b.RequestID)
	if !errors.Is(err, pgx.ErrNoRows) {
		return false, err
	}
	*out, err = oneBulk(ctx, c, putBulkSQL, b.ID, b.TenantID, b.Actor, b.RequestID, b.Fingerprint, text(b.Principal),
		text(b.Action), b.Reason, len(b.Runs), b.MostOpen)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, store.ErrTooMany
	}
	if err != nil {
		return false, err
	}
	n := len(b.Runs)
	runs, projects, environments, signals := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, r := range b.Runs {
		runs[i], projects[i], environments[i], signals[i] = r.RunID, r.ProjectID, r.EnvironmentID, b.Key(i)
	}
	last.Queue(putBulkRowsSQL, b.ID, runs, projects, environments, signals)
	last.Queue(`DELETE FROM bulk_row WHERE bulk_id IN `+oldBulksSQL, b.TenantID, b.Actor, b.Keep)
	last.Queue(`DELETE FROM bulk WHERE id IN `+oldBulksSQL, b.TenantID, b.Actor, b.Keep)
	queueAudit(last, []store.AuditRow{b.Audit})
	return true, nil
}

const stopBulkSQL = `UPDATE bulk SET stopped_at = clock_timestamp(), due_at = clock_timestamp(), rev = rev + 1
  WHERE id = $1 AND finished_at IS NULL AND stopped_at IS NULL RETURNING ` + bulkColumns

// StopBulk implements store.Bulks.
func (s *Store) StopBulk(ctx context.Context, id string, row store.AuditRow) (b store.Bulk, stopped bool, err error) {
	err = s.inTx(ctx, "stop bulk", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		b, err = oneBulk(ctx, c, stopBulkSQL, id)
		if stopped = err == nil; stopped {
			queueAudit(last, []store.AuditRow{row})
		} else if errors.Is(err, pgx.ErrNoRows) {
			b, err = oneBulk(ctx, c, `SELECT `+bulkColumns+` FROM bulk WHERE id = $1`, id)
		}
		return err
	})
	return b, stopped && err == nil, err
}

// Bulk implements store.Bulks.
func (s *Store) Bulk(ctx context.Context, id string) (b store.Bulk, err error) {
	err = s.do(ctx, "bulk", func(ctx context.Context, c *pgx.Conn) error {
		b, err = oneBulk(ctx, c, `SELECT `+bulkColumns+` FROM bulk WHERE id = $1`, id)
		return err
	})
	return b, err
}

// Bulks implements store.Bulks.
func (s *Store) Bulks(ctx context.Context, bf store.BulkFilter) ([]store.Bulk, error) {
	var f filter
	f.add("tenant_id = ?", bf.TenantID)
	f.add("actor = ?", bf.Actor)
	if bf.Before != "" {
		f.add("pos < (SELECT pos FROM bulk WHERE id = ?)", bf.Before)
	}
	query := `SELECT ` + bulkColumns + ` FROM bulk WHERE ` + f.String() + f.bind(` ORDER BY pos DESC LIMIT ?`,
		pageSize(bf.Limit))
	return collect(ctx, s, "bulks", scanBulk, query, f.args...)
}

const (
	bulkRowColumns = `b.no, b.run_id, b.project_id, b.environment_id, b.signal_id, b.outcome, b.code, b.message, b.at,
  coalesce(n.run_id, ''), coalesce(st.status, ''), coalesce(r.plan_id, ''), st.header -> 'rootCause'`
	fromBulkRows = ` FROM bulk_row b LEFT JOIN run n ON n.request_key = b.signal_id LEFT JOIN run r ON r.run_id = b.run_id
  LEFT JOIN run_state st ON st.run_id = coalesce(n.run_id, b.run_id) `
	withReceipts = `LEFT JOIN signal s ON s.run_id = b.run_id AND s.signal_id = b.signal_id `
)

func scanBulkRow(row pgx.CollectableRow) (r store.BulkRow, err error) {
	return r, row.Scan(&r.No, &r.RunID, &r.ProjectID, &r.EnvironmentID, &r.SignalID, &r.Outcome, &r.Code, &r.Message,
		utcOrNil{&r.At}, &r.NewRunID, &r.RunStatus, &r.PlanID, &r.Cause)
}

// BulkRows implements store.Bulks. It reads the rows and then their receipts in a second statement.
func (s *Store) BulkRows(ctx context.Context, rf store.BulkRowFilter) ([]store.BulkRow, error) {
	var f filter
	f.add("b.bulk_id = ?", rf.BulkID)
	f.add("b.no > ?", rf.After)
	if rf.Nos != nil {
		f.add("b.no = ANY(?)", rf.Nos)
	}
	if rf.Outcome != "" {
		f.add("b.outcome = ?", rf.Outcome)
	}
	from := fromBulkRows
	if rf.Failed {
		from += withReceipts
		f.add("(b.outcome IN ('REJECTED', 'REFUSED') OR s.application = 'NOT_APPLIED')")
	}
	query := `SELECT ` + bulkRowColumns + from + `WHERE ` + f.String() + f.bind(` ORDER BY b.no LIMIT ?`,
		clamp(rf.Limit, store.MaxBulk))
	out, err := collect(ctx, s, "bulk rows", scanBulkRow, query, f.args...)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*store.BulkRow, len(out)) // signal ids are unique
	runs, signals := make([]string, len(out)), make([]string, len(out))
	for i := range out {
		byID[out[i].SignalID] = &out[i]
		runs[i], signals[i] = out[i].RunID, out[i].SignalID
	}
	receipts, err := s.receipts(ctx, `SELECT `+signalColumns+` FROM signal
		WHERE (run_id, signal_id) IN (SELECT * FROM unnest($1::text[], $2::text[]))`, runs, signals)
	for i := range receipts {
		byID[receipts[i].Signal.ID].Receipt = &receipts[i]
	}
	return out, err
}

// BulkMarks implements store.Bulks.
func (s *Store) BulkMarks(ctx context.Context, id string) ([]store.BulkMark, error) {
	return collect(ctx, s, "bulk marks", func(row pgx.CollectableRow) (m store.BulkMark, err error) {
		return m, row.Scan(&m.No, &m.Outcome, &m.Application, &m.Moving, &m.RunStatus)
	}, `SELECT b.no, b.outcome, coalesce(s.application, ''), coalesce(s.type = 'PAUSE' AND s.application = 'APPLIED' AND s.quiescent_seq = 0, FALSE),
		coalesce(st.status, '')`+fromBulkRows+withReceipts+`WHERE b.bulk_id = $1 ORDER BY b.no`, id)
}

// BulkStatuses implements store.Bulks.
func (s *Store) BulkStatuses(ctx context.Context, tenantID, actor string, ids []string) ([]store.BulkStatusCount,
	error) {
	return collect(ctx, s, "bulk statuses", func(row pgx.CollectableRow) (c store.BulkStatusCount, err error) {
		return c, row.Scan(&c.BulkID, &c.Status, &c.Count)
	}, `SELECT b.bulk_id, coalesce(st.status, ''), count(*)`+fromBulkRows+`JOIN bulk k ON k.id = b.bulk_id
		WHERE b.bulk_id = ANY($1) AND k.tenant_id = $2 AND k.actor = $3 AND b.outcome = 'ACCEPTED'
		GROUP BY 1, 2`, ids, tenantID, actor)
}

// Identities implements store.Bulks.
func (s *Store) Identities(ctx context.Context, tenantID string, runIDs []string) ([]run.Identity, error) {
	return collect(ctx, s, "identities", func(row pgx.CollectableRow) (id run.Identity, err error) {
		return id, row.Scan(append([]any{&id.RunID}, identityTargets(&id)...)...)
	}, `SELECT run_id, tenant_id, project_id, environment_id, plan_id, plan_version FROM run WHERE run_id = ANY($1) AND tenant_id = $2`, runIDs, tenantID)
}

const leaseBulksSQL = `UPDATE bulk SET owner = $1, generation = generation + 1, lease_until = clock_timestamp() + $2::interval
  WHERE id IN (SELECT id FROM bulk WHERE finished_at IS NULL AND due_at <= clock_timestamp() AND lease_until < clock_timestamp()
    ORDER BY due_at, pos LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING ` + bulkColumns

// LeaseBulks implements store.BulkWork.
func (s *Store) LeaseBulks(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.Bulk, error) {
	return collect(ctx, s, "lease bulks", scanBulk, leaseBulksSQL, owner, ttl, pageSize(limit))
}

// WaitingBulkRows implements store.BulkWork.
func (s *Store) WaitingBulkRows(ctx context.Context, id string, limit int) (out []store.BulkRow, next store.BulkPause,
	err error) {
	err = s.do(ctx, "waiting bulk rows", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		b.Queue(`SELECT `+bulkRowColumns+fromBulkRows+`WHERE b.bulk_id = $1 AND b.outcome = 'WAITING'
			AND (b.due_at <= clock_timestamp() OR (SELECT stopped_at IS NOT NULL FROM bulk WHERE id = $1))
			ORDER BY b.no LIMIT $2`, id, pageSize(limit)).Query(func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, scanBulkRow)
			return err
		})
		next = store.BulkPause{}
		b.Queue(`SELECT code, due_at - clock_timestamp() FROM bulk_row WHERE bulk_id = $1 AND outcome = 'WAITING' AND due_at > clock_timestamp()
			ORDER BY due_at LIMIT 1`, id).Query(func(rows pgx.Rows) error {
			defer rows.Close()
			for rows.Next() {
				if err := rows.Scan(&next.Code, &next.For); err != nil {
					return err
				}
			}
			return rows.Err()
		})
		return c.SendBatch(ctx, &b).Close()
	})
	return out, next, err
}

// settleBulkSQL locks the bulk if its generation still matches, before it changes a row.
const settleBulkSQL = `WITH fence AS MATERIALIZED (
  SELECT id FROM bulk WHERE id = $1 AND generation = $2 AND lease_until > 'epoch' AND finished_at IS NULL FOR UPDATE
), ended AS (
  UPDATE bulk_row r SET outcome = u.outcome, code = u.code, message = u.message,
    due_at = clock_timestamp() + u.delay_ms * interval '1 ms', at = CASE WHEN u.outcome <> 'WAITING' THEN clock_timestamp() END
  FROM fence, unnest($3::int[], $4::text[], $5::text[], $6::text[], $7::bigint[]) u (no, outcome, code, message, delay_ms)
  WHERE r.bulk_id = fence.id AND r.no = u.no AND r.outcome = 'WAITING' RETURNING r.outcome
), n AS (
  SELECT count(*) FILTER (WHERE outcome = 'ACCEPTED') AS accepted, count(*) FILTER (WHERE outcome = 'REJECTED') AS rejected,
    count(*) FILTER (WHERE outcome = 'REFUSED') AS refused, count(*) FILTER (WHERE outcome = 'NOT_SENT') AS not_sent,
    count(*) FILTER (WHERE outcome <> 'WAITING') AS ended FROM ended
)
UPDATE bulk b SET accepted = b.accepted + n.accepted, rejected = b.rejected + n.rejected, refused = b.refused + n.refused, not_sent = b.not_sent + n.not_sent, rev = b.rev + 1,
  paced = $8, paced_until = CASE WHEN $8 <> '' THEN clock_timestamp() + $9::interval END, lease_until = clock_timestamp() + $10::interval,
  finished_at = CASE WHEN b.accepted + b.rejected + b.refused + b.not_sent + n.ended = b.total THEN clock_timestamp() END
FROM n WHERE b.id = (SELECT id FROM fence) RETURNING b.id, tenant_id, actor, request_id, fingerprint, principal, action, reason, total, b.accepted, b.rejected, b.refused, b.not_sent,
  paced, paced_until, rev, created_at, finished_at, stopped_at, generation`

// SettleBulkRows implements store.BulkWork.
func (s *Store) SettleBulkRows(ctx context.Context, b store.Bulk, st store.BulkSettlement,
	ttl time.Duration) (out store.Bulk, err error) {
	n := len(st.Ends)
	nos, delays := make([]int32, n), make([]int64, n)
	outcomes, codes, messages := make([]string, n), make([]string, n), make([]string, n)
	for i, e := range st.Ends {
		nos[i], delays[i] = int32(e.No), e.Delay.Milliseconds()
		outcomes[i], codes[i], messages[i] = string(e.Outcome), string(e.Code), e.Message
	}
	err = s.do(ctx, "settle bulk", func(ctx context.Context, c *pgx.Conn) error {
		out, err = oneBulk(ctx, c, settleBulkSQL, b.ID, b.Generation, nos, outcomes, codes, messages, delays, st.Pause.Code,
			st.Pause.For, ttl)
		return bulkFenceError(ctx, c, b, err)
	})
	return out, err
}

// bulkFenceError explains why a write with a generation found no row. It returns pgx.ErrNoRows if the bulk does not
// exist, and store.ErrConflict if another worker leased it or it has finished.
func bulkFenceError(ctx context.Context, c *pgx.Conn, b store.Bulk, err error) error {
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var one int
	if err := c.QueryRow(ctx, `SELECT 1 FROM bulk WHERE id = $1`, b.ID).Scan(&one); err != nil {
		return err
	}
	return fmt.Errorf("bulk %s: %w", b.ID, store.ErrConflict)
}

// HoldBulk implements store.BulkTx. It locks the row of the bulk: leases skip the row, and other changes of the bulk
// wait for this transaction.
func (r runTx) HoldBulk(ctx context.Context, b store.Bulk) error {
	if err := r.t.flush(ctx); err != nil {
		return translate(ctx, err)
	}
	var one int
	err := r.t.conn.QueryRow(ctx, holdBulkSQL, b.ID, b.Generation).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("bulk %s: %w", b.ID, store.ErrConflict)
	}
	return translate(ctx, err)
}

const holdBulkSQL = `SELECT 1 FROM bulk WHERE id = $1 AND generation = $2 AND lease_until > 'epoch' AND finished_at IS NULL
  AND stopped_at IS NULL FOR SHARE`

// queueHolds queues the locks of the bulks that ask for the runs, each once. After the batch has run, a creation whose
// bulk is no longer held has the error store.ErrConflict.
func queueHolds(b *pgx.Batch, runs []*creation) {
	held := map[string][]*creation{}
	for _, c := range runs {
		if c.Bulk == nil {
			continue
		}
		key := fmt.Sprint(c.Bulk.ID, " ", c.Bulk.Generation)
		if held[key] = append(held[key], c); len(held[key]) > 1 {
			continue
		}
		b.Queue(holdBulkSQL, c.Bulk.ID, c.Bulk.Generation).Query(func(rows pgx.Rows) error {
			defer rows.Close()
			if !rows.Next() {
				for _, c := range held[key] {
					c.err = fmt.Errorf("bulk %s: %w", c.Bulk.ID, store.ErrConflict)
				}
			}
			return rows.Err()
		})
	}
}

// ReleaseBulk implements store.BulkWork.
func (s *Store) ReleaseBulk(ctx context.Context, b store.Bulk, delay time.Duration) error {
	return s.do(ctx, "release bulk", func(ctx context.Context, c *pgx.Conn) error {
		_, err := oneBulk(
			ctx, c, `UPDATE bulk SET owner = '', lease_until = 'epoch', due_at = clock_timestamp() + CASE WHEN stopped_at IS NULL THEN $3::interval ELSE '0' END
			WHERE id = $1 AND generation = $2 AND lease_until > 'epoch' AND finished_at IS NULL RETURNING `+bulkColumns, b.ID,
			b.Generation, delay)
		return bulkFenceError(ctx, c, b, err)
	})
}
