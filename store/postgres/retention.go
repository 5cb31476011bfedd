package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const holdColumns = `id, tenant_id, kind, subject, reason, placed_by, placed_at, lifted_by, lifted_at, lifted_for`

func scanHold(row pgx.CollectableRow) (h store.Hold, err error) {
	return h, row.Scan(&h.ID, &h.TenantID, &h.Kind, &h.Subject, &h.Reason, &h.PlacedBy, utc{&h.PlacedAt},
		&h.LiftedBy, utcOrNil{&h.LiftedAt}, &h.LiftedFor)
}

// PlaceHold implements store.Holds.
func (s *Store) PlaceHold(ctx context.Context, h store.Hold, audit store.AuditRow) (out store.Hold, placed bool,
	err error) {
	err = s.inTx(ctx, "place hold", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		out, err = one(ctx, c, scanHold, `SELECT `+holdColumns+` FROM legal_hold WHERE id = $1 AND tenant_id = $2`, h.ID,
			h.TenantID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		out, err = one(ctx, c, scanHold, `INSERT INTO legal_hold (id, tenant_id, kind, subject, reason, placed_by, placed_at)
			SELECT $1, $2, $3, $4, $5, $6, clock_timestamp() WHERE (SELECT count(*) FROM legal_hold
				WHERE tenant_id = $2 AND lifted_at IS NULL) < $7 RETURNING `+holdColumns, h.ID, h.TenantID, h.Kind, h.Subject,
			h.Reason, h.PlacedBy, store.MaxOpenHolds)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrTooMany
		}
		placed = true
		queueAudit(last, []store.AuditRow{audit})
		return err
	})
	return out, placed && err == nil, err
}

// LiftHold implements store.Holds.
func (s *Store) LiftHold(ctx context.Context, tenantID, id, by, reason string, audit store.AuditRow) (out store.Hold,
	lifted bool, err error) {
	err = s.inTx(ctx, "lift hold", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		out, err = one(ctx, c, scanHold, `UPDATE legal_hold SET lifted_by = $3, lifted_for = $4,
			lifted_at = clock_timestamp() WHERE id = $1 AND tenant_id = $2 AND lifted_at IS NULL RETURNING `+holdColumns, id,
			tenantID, by, reason)
		if errors.Is(err, pgx.ErrNoRows) {
			out, err = one(ctx, c, scanHold, `SELECT `+holdColumns+` FROM legal_hold WHERE id = $1 AND tenant_id = $2`, id,
				tenantID)
			if errors.Is(err, pgx.ErrNoRows) {
				return store.ErrNotFound
			}
			return err
		}
		lifted = true
		queueAudit(last, []store.AuditRow{audit})
		return err
	})
	return out, lifted && err == nil, err
}

// ListHolds implements store.Holds.
func (s *Store) ListHolds(ctx context.Context, f store.HoldFilter) ([]store.Hold, error) {
	return collect(ctx, s, "holds", scanHold, `SELECT `+holdColumns+` FROM legal_hold WHERE tenant_id = $1
		AND ($2 = false OR lifted_at IS NULL) AND ($3 = '' OR n < (SELECT b.n FROM legal_hold b WHERE b.id = $3 AND b.tenant_id = $1)) ORDER BY n DESC LIMIT $4`, f.TenantID, f.Open,
		f.Before, pageSize(f.Limit))
}

// CountLiftedHolds implements store.Holds.
func (s *Store) CountLiftedHolds(ctx context.Context, tenantID string) (int64, error) {
	return onlyOne(collect(ctx, s, "lifted holds", pgx.RowTo[int64], `SELECT count(*) FROM legal_hold
		WHERE tenant_id = $1 AND lifted_at IS NOT NULL`, tenantID))
}

// RetentionTenants implements store.Retention. It probes the index once for each tenant.
func (s *Store) RetentionTenants(ctx context.Context, after string, limit int) ([]string, error) {
	return collect(ctx, s, "tenants with runs", pgx.RowTo[string], `WITH RECURSIVE known AS (
		(SELECT tenant_id FROM run_plan WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1)
		UNION ALL
		SELECT (SELECT p.tenant_id FROM run_plan p WHERE p.tenant_id > k.tenant_id ORDER BY p.tenant_id LIMIT 1)
		FROM known k WHERE k.tenant_id IS NOT NULL
		) SELECT tenant_id FROM known WHERE tenant_id IS NOT NULL LIMIT $2`, after, pageSize(limit))
}

// EndedRuns implements store.Retention.
func (s *Store) EndedRuns(ctx context.Context, f store.EndedFilter) ([]store.EndedRun, error) {
	return collect(ctx, s, "ended runs", func(row pgx.CollectableRow) (r store.EndedRun, err error) {
		return r, row.Scan(&r.RunID, utc{&r.EndedAt}, &r.Head, &r.Archived, &r.Obstacle)
	}, `SELECT s.run_id, s.ended_at, h.last_seq, a.run_id IS NOT NULL,
		dvt_archive_obstacle(s.run_id)
		FROM run_status s JOIN run_head h ON h.run_id = s.run_id LEFT JOIN run_archive a ON a.run_id = s.run_id
		WHERE s.tenant_id = $1 AND s.status = $2 AND s.ended_at IS NOT NULL AND s.ended_at < $3
		AND (s.ended_at, s.run_id) > ($4, $5) ORDER BY s.ended_at, s.run_id LIMIT $6`, f.TenantID, f.Status, f.Before,
		f.AfterAt, f.AfterRun, pageSize(f.Limit))
}

// ArchiveObstacle implements store.Retention.
func (s *Store) ArchiveObstacle(ctx context.Context, runID string) (store.ArchiveObstacle, error) {
	return onlyOne(collect(ctx, s, "obstacle", pgx.RowTo[store.ArchiveObstacle], `SELECT dvt_archive_obstacle($1)`, runID))
}

const estimateSQL = `WITH ended AS (
  SELECT x.run_id FROM unnest($4::text[]) st (status), LATERAL (SELECT s.run_id FROM run_status s
    WHERE s.tenant_id = $1 AND s.status = st.status AND s.ended_at IS NOT NULL AND s.ended_at < $2
      AND NOT EXISTS (SELECT FROM run_archive a WHERE a.run_id = s.run_id)
    ORDER BY s.ended_at, s.run_id LIMIT $3 + 1) x
), judged AS (
  SELECT e.run_id, h.last_seq, dvt_held(e.run_id) AS held FROM ended e JOIN run_head h ON h.run_id = e.run_id
), sample AS (
  SELECT avg(octet_length(e.payload::text) + 400) AS size FROM (SELECT run_id FROM judged LIMIT 20) j
  JOIN LATERAL (SELECT payload FROM event e WHERE e.run_id = j.run_id LIMIT 50) e ON true
)
SELECT count(*) FILTER (WHERE NOT held), coalesce(sum(last_seq) FILTER (WHERE NOT held), 0)::bigint,
  (coalesce(sum(last_seq) FILTER (WHERE NOT held), 0) * coalesce((SELECT size FROM sample), 400))::bigint,
  count(*) FILTER (WHERE held), count(*) > $3 FROM judged`

// EstimateEnded implements store.Retention.
func (s *Store) EstimateEnded(ctx context.Context, tenantID string, before time.Time,
	limit int) (store.RetentionEstimate, error) {
	return onlyOne(collect(ctx, s, "estimate", scanEstimate, estimateSQL, tenantID, before, limit,
		[]string{"COMPLETED", "FAILED", "CANCELLED"}))
}

func scanEstimate(row pgx.CollectableRow) (e store.RetentionEstimate, err error) {
	return e, row.Scan(&e.Runs, &e.Events, &e.Bytes, &e.Held, &e.More)
}

// EstimateArchived implements store.Retention.
func (s *Store) EstimateArchived(ctx context.Context, tenantID string, before time.Time,
	limit int) (store.RetentionEstimate, error) {
	return onlyOne(collect(ctx, s, "estimate of the archive", scanEstimate, `WITH judged AS (
		SELECT a.events, a.bytes, dvt_held(a.run_id) AS held FROM run_archive a WHERE a.tenant_id = $1 AND a.ended_at < $2
		ORDER BY a.ended_at, a.run_id LIMIT $3 + 1)
		SELECT count(*) FILTER (WHERE NOT held), coalesce(sum(events) FILTER (WHERE NOT held), 0)::bigint,
		coalesce(sum(bytes) FILTER (WHERE NOT held), 0)::bigint, count(*) FILTER (WHERE held), count(*) > $3 FROM judged`,
		tenantID, before, limit))
}

// inBackground lets the commit of the statement wait for no flush of the log of the database, so that commits of people
// do not queue behind it. A crash of the database may lose the statement, always with all later ones, and the next pass
// of the retention repeats it.
const inBackground = `SELECT set_config('synchronous_commit', 'off', true), `

// MarkArchived implements store.Retention. Servers may not delete, so functions of the database do it with the rights
// of its owner, after they have checked that they may (contract T208).
func (s *Store) MarkArchived(ctx context.Context, a store.ArchivedRun) error {
	return s.unlessObstacle(ctx, "mark archived", a.RunID, inBackground+`dvt_mark_archived($1, $2, $3, $4, $5, $6)`,
		a.RunID, a.Head, a.Location, a.SHA256, a.Bytes, a.Events)
}

// second scans the second column of a row of inBackground.
func second[T any](row pgx.CollectableRow) (out T, err error) { return out, row.Scan(nil, &out) }

// unlessObstacle runs a function that returns an obstacle.
func (s *Store) unlessObstacle(ctx context.Context, what, runID, sql string, args ...any) error {
	obstacle, err := onlyOne(collect(ctx, s, what, second[string], sql, args...))
	if err == nil && obstacle != "" {
		err = &store.ObstacleError{RunID: runID, Obstacle: store.ArchiveObstacle(obstacle)}
	}
	return err
}

const archivedColumns = `run_id, tenant_id, head_seq, location, sha256, bytes, events, ended_at, marked_at, emptied_at,
  receipts_at`

func scanArchived(row pgx.CollectableRow) (a store.ArchivedRun, err error) {
	return a, row.Scan(&a.RunID, &a.TenantID, &a.Head, &a.Location, &a.SHA256, &a.Bytes, &a.Events, utc{&a.EndedAt},
		utc{&a.MarkedAt}, utcOrNil{&a.EmptiedAt}, utcOrNil{&a.ReceiptsAt})
}

// FindArchived implements store.Retention.
func (s *Store) FindArchived(ctx context.Context, runIDs ...string) ([]store.ArchivedRun, error) {
	if len(runIDs) == 0 {
		return nil, nil
	}
	return collect(ctx, s, "archived runs", scanArchived, `SELECT `+archivedColumns+` FROM run_archive
		WHERE run_id = ANY($1) LIMIT $2`, runIDs, store.MaxPage)
}

// ListArchived implements store.Retention.
func (s *Store) ListArchived(ctx context.Context, f store.ArchivedFilter) ([]store.ArchivedRun, error) {
	part := map[store.ArchivedPart]string{store.PartEvents: `emptied_at IS NULL`,
		store.PartReceipts: `receipts_at IS NULL`,
		store.PartRun:      `emptied_at IS NOT NULL`}[f.Part]
	return collect(ctx, s, "archived runs", scanArchived, `SELECT `+archivedColumns+` FROM run_archive
		WHERE tenant_id = $1 AND `+part+` AND ended_at < $2 AND (ended_at, run_id) > ($3, $4)
		ORDER BY ended_at, run_id LIMIT $5`, f.TenantID, f.Before, f.AfterAt, f.AfterRun, pageSize(f.Limit))
}

// DeleteArchivedEvents implements store.Retention.
func (s *Store) DeleteArchivedEvents(ctx context.Context, runID string, limit int) (int, error) {
	return s.deletePart(ctx, runID, inBackground+`dvt_delete_archived_events($1, $2)`, runID, pageSize(limit))
}

// DeleteArchivedReceipts implements store.Retention.
func (s *Store) DeleteArchivedReceipts(ctx context.Context, runID string) (int, error) {
	return s.deletePart(ctx, runID, inBackground+`dvt_delete_archived_receipts($1)`, runID)
}

// deletePart runs a function that returns how many rows it deleted, or -1.
func (s *Store) deletePart(ctx context.Context, runID, sql string, args ...any) (int, error) {
	n, err := onlyOne(collect(ctx, s, "delete archived", second[int], sql, args...))
	if err != nil || n >= 0 {
		return n, err
	}
	obstacle := store.ObstacleHeld
	switch found, err := s.FindArchived(ctx, runID); {
	case err != nil:
		return 0, err
	case len(found) == 0:
		obstacle = store.ObstacleNotArchived
	}
	return 0, &store.ObstacleError{RunID: runID, Obstacle: obstacle}
}

// DeleteArchivedRun implements store.Retention.
func (s *Store) DeleteArchivedRun(ctx context.Context, runID string) error {
	return s.unlessObstacle(ctx, "delete archived run", runID, inBackground+`dvt_delete_archived_run($1)`, runID)
}

// TrimRows implements store.Retention.
func (s *Store) TrimRows(ctx context.Context, kind store.TrimKind, tenantID string, before time.Time,
	limit int) (int, error) {
	return onlyOne(collect(ctx, s, "trim rows", second[int], inBackground+`dvt_trim_rows($1, $2, $3, $4)`, kind, tenantID,
		before, pageSize(limit)))
}

// SaveRetentionPass implements store.Retention.
func (s *Store) SaveRetentionPass(ctx context.Context, tenantID string, doc json.RawMessage) error {
	return s.execOnce(ctx, "save retention pass", `INSERT INTO retention_pass (tenant_id, doc)
		VALUES ($1, $2::text::json) ON CONFLICT (tenant_id) DO UPDATE SET doc = excluded.doc`, tenantID, text(doc))
}

// RetentionPass implements store.Retention.
func (s *Store) RetentionPass(ctx context.Context, tenantID string) (json.RawMessage, error) {
	return onlyOne(collect(ctx, s, "retention pass", func(row pgx.CollectableRow) (doc json.RawMessage, err error) {
		return doc, row.Scan(verbatim{&doc})
	}, `SELECT doc FROM retention_pass WHERE tenant_id = $1`, tenantID))
}
