package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const holdColumns = `id, tenant_id, kind, subject, reason, placed_by, placed_at, lifted_by, lifted_at, lifted_for`

func scanHold(row scanner) (h store.Hold, err error) {
	var placed int64
	var lifted sql.NullInt64
	err = row.Scan(&h.ID, &h.TenantID, &h.Kind, &h.Subject, &h.Reason, &h.PlacedBy, &placed, &h.LiftedBy, &lifted,
		&h.LiftedFor)
	h.PlacedAt, h.LiftedAt = instant(placed), instantOrNil(lifted)
	return h, err
}

const getHoldSQL = `SELECT ` + holdColumns + ` FROM legal_hold WHERE id = ? AND tenant_id = ?`

// PlaceHold implements store.Holds.
func (s *Store) PlaceHold(ctx context.Context, h store.Hold, row store.AuditRow) (out store.Hold, placed bool,
	err error) {
	err = s.write(ctx, func(c *conn) (err error) {
		placed = false
		out, err = collectOne(ctx, c, "hold "+h.ID, scanHold, getHoldSQL, h.ID, h.TenantID)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		now := s.now()
		out, err = collectOne(ctx, c, "place hold", scanHold, `INSERT INTO legal_hold
			(id, tenant_id, kind, subject, reason, placed_by, placed_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
			WHERE (SELECT count(*) FROM legal_hold WHERE tenant_id = ?2 AND lifted_at IS NULL) < ?8 RETURNING `+holdColumns,
			h.ID, h.TenantID, string(h.Kind), h.Subject, h.Reason, h.PlacedBy, micros(now), store.MaxOpenHolds)
		if errors.Is(err, store.ErrNotFound) {
			return store.ErrTooMany
		}
		if err != nil {
			return err
		}
		placed = true
		return audit(ctx, c, now, []store.AuditRow{row})
	})
	return out, placed && err == nil, err
}

// LiftHold implements store.Holds.
func (s *Store) LiftHold(ctx context.Context, tenantID, id, by, reason string, row store.AuditRow) (out store.Hold,
	lifted bool, err error) {
	err = s.write(ctx, func(c *conn) (err error) {
		lifted = false
		now := s.now()
		out, err = collectOne(ctx, c, "lift hold", scanHold, `UPDATE legal_hold SET lifted_by = ?3, lifted_for = ?4,
			lifted_at = ?5 WHERE id = ?1 AND tenant_id = ?2 AND lifted_at IS NULL RETURNING `+holdColumns, id, tenantID, by,
			reason, micros(now))
		if errors.Is(err, store.ErrNotFound) {
			out, err = collectOne(ctx, c, "hold "+id, scanHold, getHoldSQL, id, tenantID)
			return err
		}
		if err != nil {
			return err
		}
		lifted = true
		return audit(ctx, c, now, []store.AuditRow{row})
	})
	return out, lifted && err == nil, err
}

// ListHolds implements store.Holds.
func (s *Store) ListHolds(ctx context.Context, f store.HoldFilter) ([]store.Hold, error) {
	return readAll(ctx, s, "holds", scanHold, `SELECT `+holdColumns+` FROM legal_hold WHERE tenant_id = ?1
		AND (?2 = 0 OR lifted_at IS NULL) AND (?3 = '' OR n < (SELECT b.n FROM legal_hold b WHERE b.id = ?3 AND b.tenant_id = ?1)) ORDER BY n DESC LIMIT ?4`, f.TenantID, f.Open, f.Before,
		clamp(f.Limit, store.MaxPage))
}

// CountLiftedHolds implements store.Holds.
func (s *Store) CountLiftedHolds(ctx context.Context, tenantID string) (int64, error) {
	return readOne(ctx, s, "lifted holds", value[int64], `SELECT count(*) FROM legal_hold
		WHERE tenant_id = ? AND lifted_at IS NOT NULL`, tenantID)
}

// RetentionTenants implements store.Retention. It probes the index once for each tenant.
func (s *Store) RetentionTenants(ctx context.Context, after string, limit int) ([]string, error) {
	return readAll(ctx, s, "tenants with runs", value[string], `WITH RECURSIVE known (tenant_id) AS (
		SELECT min(tenant_id) FROM run_plan WHERE tenant_id > ?1
		UNION ALL
		SELECT (SELECT min(p.tenant_id) FROM run_plan p WHERE p.tenant_id > k.tenant_id) FROM known k
		WHERE k.tenant_id IS NOT NULL
		) SELECT tenant_id FROM known WHERE tenant_id IS NOT NULL LIMIT ?2`, after, clamp(limit, store.MaxPage))
}

// heldSQL reports whether an open hold covers the run r.
const heldSQL = `EXISTS (SELECT 1 FROM legal_hold l WHERE l.tenant_id = r.tenant_id AND l.lifted_at IS NULL
	AND (l.kind = 'RUN' AND l.subject = r.run_id OR l.kind = 'PLAN' AND l.subject = r.plan_id
	OR l.kind = 'SUBJECT' AND (l.subject = r.triggered_by
	OR EXISTS (SELECT 1 FROM signal x WHERE x.run_id = r.run_id AND x.actor = l.subject)
	OR EXISTS (SELECT 1 FROM approval_decision x WHERE x.run_id = r.run_id AND x.principal = l.subject)
	OR EXISTS (SELECT 1 FROM run_note x WHERE x.run_id = r.run_id AND x.author = l.subject)
	OR EXISTS (SELECT 1 FROM run_archive x, json_each(x.subjects) j WHERE x.run_id = r.run_id AND j.value = l.subject))))`

// obstacleSQL returns why the run r with the head h may not be archived or deleted, or ”. ?1 is the latest time that
// its last event may have.
const obstacleSQL = `CASE
	WHEN h.terminal = 0 THEN 'OPEN'
	WHEN h.last_at > ?1 THEN 'RECENT'
	WHEN ` + heldSQL + ` THEN 'HELD'
	WHEN EXISTS (SELECT 1 FROM run c JOIN run_head ch ON ch.run_id = c.run_id
		WHERE c.parent_run_id = r.run_id AND c.parent_run_id <> '' AND ch.terminal = 0) THEN 'RERUN'
	WHEN EXISTS (SELECT 1 FROM run_dirty d WHERE d.run_id = r.run_id)
		OR NOT EXISTS (SELECT 1 FROM run_state s WHERE s.run_id = r.run_id AND s.seq = h.last_seq)
		OR EXISTS (SELECT 1 FROM delivery d WHERE d.run_id = r.run_id AND d.delivered_no < d.up_to)
		OR EXISTS (SELECT 1 FROM run_queue q WHERE q.run_id = r.run_id AND (q.waiting = 1 OR q.slot = 1)) THEN 'UNDELIVERED'
	ELSE '' END`

func (s *Store) latestEnd() int64 { return micros(s.now().Add(-store.MinArchiveAge)) }

// EndedRuns implements store.Retention.
func (s *Store) EndedRuns(ctx context.Context, f store.EndedFilter) ([]store.EndedRun, error) {
	return readAll(ctx, s, "ended runs", func(row scanner) (r store.EndedRun, err error) {
		var ended int64
		err = row.Scan(&r.RunID, &ended, &r.Head, &r.Archived, &r.Obstacle)
		r.EndedAt = instant(ended)
		return r, err
	}, `SELECT r.run_id, st.ended_at, h.last_seq, a.run_id IS NOT NULL,
		`+obstacleSQL+`
		FROM run_state st JOIN run r ON r.run_id = st.run_id JOIN run_head h ON h.run_id = st.run_id
		LEFT JOIN run_archive a ON a.run_id = st.run_id
		WHERE st.tenant_id = ?2 AND st.status = ?3 AND st.ended_at IS NOT NULL AND st.ended_at < ?4
		AND (st.ended_at, st.run_id) > (?5, ?6) ORDER BY st.ended_at, st.run_id LIMIT ?7`, s.latestEnd(), f.TenantID,
		string(f.Status), micros(f.Before), micros(f.AfterAt), f.AfterRun, clamp(f.Limit, store.MaxPage))
}

// ArchiveObstacle implements store.Retention.
func (s *Store) ArchiveObstacle(ctx context.Context, runID string) (store.ArchiveObstacle, error) {
	out, err := readOne(ctx, s, "obstacle", value[store.ArchiveObstacle], getObstacleSQL, s.latestEnd(), runID)
	if errors.Is(err, store.ErrNotFound) {
		return store.ObstacleUnknown, nil
	}
	return out, err
}

const getObstacleSQL = `SELECT ` + obstacleSQL + ` FROM run r JOIN run_head h ON h.run_id = r.run_id WHERE r.run_id = ?2`

// endedSQL selects runs of one status that ended before ?2 and are not archived.
const endedSQL = `SELECT r.run_id, h.last_seq, ` + heldSQL + ` AS held FROM run_state st
	JOIN run r ON r.run_id = st.run_id JOIN run_head h ON h.run_id = st.run_id
	WHERE st.tenant_id = ?1 AND st.ended_at IS NOT NULL AND st.ended_at < ?2
	AND NOT EXISTS (SELECT 1 FROM run_archive a WHERE a.run_id = st.run_id) AND st.status = `

// EstimateEnded implements store.Retention.
func (s *Store) EstimateEnded(ctx context.Context, tenantID string, before time.Time,
	limit int) (store.RetentionEstimate, error) {
	part := func(status run.Status) string {
		return `SELECT * FROM (` + endedSQL + `'` + string(status) + `' LIMIT ?3 + 1)`
	}
	return readOne(ctx, s, "estimate", scanEstimate, `WITH judged AS MATERIALIZED (`+part(run.Completed)+` UNION ALL `+
		part(run.Failed)+` UNION ALL `+
		part(run.Cancelled)+`), sample AS (SELECT avg(length(e.payload) + 400) AS size
			FROM (SELECT run_id FROM judged LIMIT 20) j JOIN event e ON e.run_id = j.run_id AND e.run_seq <= 50)
		SELECT coalesce(sum(held = 0), 0), coalesce(sum(CASE WHEN held = 0 THEN last_seq ELSE 0 END), 0),
		CAST(coalesce(sum(CASE WHEN held = 0 THEN last_seq ELSE 0 END), 0) * coalesce((SELECT size FROM sample), 400)
			AS INTEGER), coalesce(sum(held), 0), count(*) > ?3 FROM judged`, tenantID, micros(before), limit)
}

func scanEstimate(row scanner) (e store.RetentionEstimate, err error) {
	return e, row.Scan(&e.Runs, &e.Events, &e.Bytes, &e.Held, &e.More)
}

// EstimateArchived implements store.Retention.
func (s *Store) EstimateArchived(ctx context.Context, tenantID string, before time.Time,
	limit int) (store.RetentionEstimate, error) {
	return readOne(ctx, s, "estimate of the archive", scanEstimate, `WITH judged AS MATERIALIZED (
		SELECT a.events, a.bytes, `+heldSQL+` AS held FROM run_archive a JOIN run r ON r.run_id = a.run_id
		WHERE a.tenant_id = ?1 AND a.ended_at < ?2 ORDER BY a.ended_at, a.run_id LIMIT ?3 + 1)
		SELECT coalesce(sum(held = 0), 0), coalesce(sum(CASE WHEN held = 0 THEN events END), 0),
		coalesce(sum(CASE WHEN held = 0 THEN bytes END), 0), coalesce(sum(held), 0), count(*) > ?3 FROM judged`, tenantID,
		micros(before), limit)
}

// MarkArchived implements store.Retention.
func (s *Store) MarkArchived(ctx context.Context, a store.ArchivedRun) error {
	return s.write(ctx, func(c *conn) error {
		known, err := collect(ctx, c, "archived run", value[int], `SELECT 1 FROM run_archive
			WHERE run_id = ? AND head_seq >= ?`, a.RunID, a.Head)
		if err != nil || len(known) > 0 {
			return err
		}
		if err := s.checkObstacle(ctx, c, a.RunID); err != nil {
			return err
		}
		n, err := c.exec(ctx, "mark archived", `INSERT INTO run_archive (run_id, tenant_id, head_seq, location, sha256, bytes,
			events, subjects, ended_at, marked_at) SELECT r.run_id, r.tenant_id, h.last_seq, ?3, ?4, ?5, ?6,
			(SELECT json_group_array(DISTINCT x.who) FROM (SELECT actor AS who FROM signal WHERE run_id = ?1
				UNION SELECT principal FROM approval_decision WHERE run_id = ?1
				UNION SELECT author FROM run_note WHERE run_id = ?1) x), h.last_at, ?7
			FROM run r JOIN run_head h ON h.run_id = r.run_id WHERE r.run_id = ?1 AND h.last_seq = ?2`,
			a.RunID, a.Head, a.Location, a.SHA256, a.Bytes, a.Events, micros(s.now()))
		if err == nil && n == 0 {
			err = &store.ObstacleError{RunID: a.RunID, Obstacle: store.ObstacleMoved}
		}
		return err
	})
}

// checkObstacle returns the *store.ObstacleError of a run, or nil.
func (s *Store) checkObstacle(ctx context.Context, c *conn, runID string) error {
	obstacle, err := collectOne(ctx, c, "obstacle", value[store.ArchiveObstacle], getObstacleSQL, s.latestEnd(), runID)
	if errors.Is(err, store.ErrNotFound) {
		obstacle, err = store.ObstacleUnknown, nil
	}
	if err == nil && obstacle != "" {
		err = &store.ObstacleError{RunID: runID, Obstacle: obstacle}
	}
	return err
}

const archivedColumns = `run_id, tenant_id, head_seq, location, sha256, bytes, events, ended_at, marked_at, emptied_at,
	receipts_at`

func scanArchived(row scanner) (a store.ArchivedRun, err error) {
	var ended, marked int64
	var emptied, receipts sql.NullInt64
	err = row.Scan(&a.RunID, &a.TenantID, &a.Head, &a.Location, &a.SHA256, &a.Bytes, &a.Events, &ended, &marked, &emptied,
		&receipts)
	a.EndedAt, a.MarkedAt, a.EmptiedAt = instant(ended), instant(marked), instantOrNil(emptied)
	a.ReceiptsAt = instantOrNil(receipts)
	return a, err
}

// FindArchived implements store.Retention.
func (s *Store) FindArchived(ctx context.Context, runIDs ...string) ([]store.ArchivedRun, error) {
	if len(runIDs) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(runIDs)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "archived runs", scanArchived, `SELECT `+archivedColumns+` FROM run_archive
		WHERE run_id IN (SELECT value FROM json_each(?)) LIMIT ?`, string(list), store.MaxPage)
}

// ListArchived implements store.Retention.
func (s *Store) ListArchived(ctx context.Context, f store.ArchivedFilter) ([]store.ArchivedRun, error) {
	part := map[store.ArchivedPart]string{store.PartEvents: `emptied_at IS NULL`,
		store.PartReceipts: `receipts_at IS NULL`,
		store.PartRun:      `emptied_at IS NOT NULL`}[f.Part]
	return readAll(ctx, s, "archived runs", scanArchived, `SELECT `+archivedColumns+` FROM run_archive
		WHERE tenant_id = ? AND `+part+` AND ended_at < ? AND (ended_at, run_id) > (?, ?)
		ORDER BY ended_at, run_id LIMIT ?`, f.TenantID, micros(f.Before), micros(f.AfterAt), f.AfterRun,
		clamp(f.Limit, store.MaxPage))
}

// DeleteArchivedEvents implements store.Retention.
func (s *Store) DeleteArchivedEvents(ctx context.Context, runID string, limit int) (n int, err error) {
	limit = clamp(limit, store.MaxPage)
	err = s.deletePart(ctx, runID, func(c *conn, head run.Seq) error {
		deleted, err := c.exec(ctx, "delete archived events", `DELETE FROM event WHERE run_id = ?1 AND run_seq <= ?2
			AND run_seq < (SELECT min(run_seq) FROM event WHERE run_id = ?1) + ?3`, runID, head, limit)
		if n = int(deleted); err != nil || n == limit {
			return err
		}
		_, err = c.exec(ctx, "mark emptied", `UPDATE run_archive SET emptied_at = ? WHERE run_id = ?
			AND emptied_at IS NULL`, micros(s.now()), runID)
		return err
	})
	return n, err
}

// DeleteArchivedReceipts implements store.Retention.
func (s *Store) DeleteArchivedReceipts(ctx context.Context, runID string) (n int, err error) {
	err = s.deletePart(ctx, runID, func(c *conn, _ run.Seq) error {
		deleted, err := c.exec(ctx, "delete archived receipts", `DELETE FROM signal WHERE run_id = ?`, runID)
		if n = int(deleted); err != nil {
			return err
		}
		_, err = c.exec(ctx, "mark receipts", `UPDATE run_archive SET receipts_at = ? WHERE run_id = ?`, micros(s.now()),
			runID)
		return err
	})
	return n, err
}

// deletePart runs f unless the run is not archived or held. head is the last archived seq.
func (s *Store) deletePart(ctx context.Context, runID string, f func(c *conn, head run.Seq) error) error {
	type row struct {
		head  run.Seq
		bound bool
	}
	return s.write(ctx, func(c *conn) error {
		a, err := collectOne(ctx, c, "archived run", func(at scanner) (r row, err error) {
			return r, at.Scan(&r.head, &r.bound)
		}, `SELECT a.head_seq, `+heldSQL+` OR h.terminal = 0 FROM run_archive a JOIN run r ON r.run_id = a.run_id
			JOIN run_head h ON h.run_id = a.run_id WHERE a.run_id = ?`, runID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return &store.ObstacleError{RunID: runID, Obstacle: store.ObstacleNotArchived}
		case err == nil && a.bound:
			return &store.ObstacleError{RunID: runID, Obstacle: store.ObstacleHeld}
		case err != nil:
			return err
		}
		return f(c, a.head)
	})
}

// DeleteArchivedRun implements store.Retention. The row of run_archive goes last, because triggers ask for it.
func (s *Store) DeleteArchivedRun(ctx context.Context, runID string) error {
	return s.write(ctx, func(c *conn) error {
		emptied, err := collectOne(ctx, c, "archived run", value[bool], `SELECT emptied_at IS NOT NULL FROM run_archive
			WHERE run_id = ?`, runID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return &store.ObstacleError{RunID: runID, Obstacle: store.ObstacleNotArchived}
		case err == nil && !emptied:
			return &store.ObstacleError{RunID: runID, Obstacle: store.ObstacleNotEmptied}
		case err != nil:
			return err
		}
		if err := s.checkObstacle(ctx, c, runID); err != nil {
			return err
		}
		for _, table := range []string{"event", "signal", "delivery", "run_queue", "approval_decision", "approval", "run_tag",
			"run_note", "run_repair", "step_state", "run_state", "run_head", "run", "run_archive"} {
			if _, err := c.exec(ctx, "delete archived run", `DELETE FROM `+table+` WHERE run_id = ?`, runID); err != nil {
				return err
			}
		}
		return nil
	})
}

// TrimRows implements store.Retention. The row of an alert goes after its state, which a trigger asks for.
func (s *Store) TrimRows(ctx context.Context, kind store.TrimKind, tenantID string, before time.Time,
	limit int) (n int, err error) {
	limit = clamp(limit, store.MaxPage)
	err = s.write(ctx, func(c *conn) error {
		n = 0
		if before.After(s.now().Add(-store.MinArchiveAge)) {
			return nil
		}
		for _, t := range trims[kind] {
			if n == limit {
				return nil
			}
			old, err := collect(ctx, c, "old rows", value[int64], `SELECT `+t.key+` FROM `+t.table+`
				WHERE tenant_id = ? AND `+t.at+` < ? ORDER BY `+t.key+` LIMIT ?`, tenantID, micros(before), limit-n)
			if err != nil {
				return err
			}
			list, err := json.Marshal(old)
			if err != nil {
				return err
			}
			for _, d := range append([]string{t.table + ` WHERE ` + t.key}, t.with...) {
				if _, err := c.exec(ctx, "trim rows", `DELETE FROM `+d+` IN (SELECT value FROM json_each(?))`,
					string(list)); err != nil {
					return err
				}
			}
			n += len(old)
		}
		return nil
	})
	return n, err
}

// trim says which rows of a table are old, by which key, and which rows of other tables go after them.
type trim struct {
	table, key, at string
	with           []string
}

var trims = map[store.TrimKind][]trim{ //nolint:gochecknoglobals // a table
	store.TrimDeadLetters: {{table: "dead_letter", key: "pos", at: "created_at"},
		{table: "destination_dead", key: "n", at: "at"}},
	store.TrimAlerts: {
		{table: "alert_state", key: "pos", at: "resolved_at",
			with: []string{"alert_change WHERE pos", "alert WHERE pos", "incident_alert WHERE alert"}},
		{table: "incident", key: "pos", at: "closed_at",
			with: []string{"incident_note WHERE incident", "incident_alert WHERE incident"}},
	},
}

// SaveRetentionPass implements store.Retention.
func (s *Store) SaveRetentionPass(ctx context.Context, tenantID string, doc json.RawMessage) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "save retention pass", `INSERT INTO retention_pass (tenant_id, doc) VALUES (?, ?)
			ON CONFLICT (tenant_id) DO UPDATE SET doc = excluded.doc`, tenantID, text(doc))
		return err
	})
}

// RetentionPass implements store.Retention.
func (s *Store) RetentionPass(ctx context.Context, tenantID string) (json.RawMessage, error) {
	return readOne(ctx, s, "retention pass", func(row scanner) (doc json.RawMessage, err error) {
		return doc, row.Scan(&doc)
	}, `SELECT doc FROM retention_pass WHERE tenant_id = ?`, tenantID)
}
