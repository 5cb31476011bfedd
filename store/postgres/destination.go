package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

func scanAlertChange(row pgx.CollectableRow) (c store.AlertChange, err error) {
	var count int64
	var level, note string
	c.Alert, err = scanAlert(prefixed{row, []any{&c.N, &c.Kind, utc{&c.At}, &level, &note, &count}})
	c.Alert.Level, c.Alert.Note, c.Alert.Count = store.AlertLevel(level), note, count
	return c, err
}

// prefixed scans columns that stand before those of another scan.
type prefixed struct {
	pgx.CollectableRow
	first []any
}

func (p prefixed) Scan(dest ...any) error { return p.CollectableRow.Scan(append(p.first, dest...)...) }

// AlertChanges implements store.Destinations.
func (s *Store) AlertChanges(ctx context.Context, after int64, limit int) ([]store.AlertChange, error) {
	return collect(ctx, s, "changes of alerts", scanAlertChange, `SELECT x.n, x.kind, x.at, x.level, x.note, x.count, `+
		alertColumns+` FROM alert_change x JOIN alert_state s USING (pos) JOIN alert a USING (pos)
		WHERE x.n > $1 ORDER BY x.n LIMIT $2`, after, clamp(limit, store.MaxPage))
}

// TrimAlertChanges implements store.Destinations.
func (s *Store) TrimAlertChanges(ctx context.Context, age time.Duration) error {
	return s.execOnce(ctx, "trim changes of alerts",
		`DELETE FROM alert_change WHERE at < clock_timestamp() - $1::interval`, age)
}

func (s *Store) execOnce(ctx context.Context, what, sql string, args ...any) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return err
	})
}

// DestinationStates implements store.Destinations.
func (s *Store) DestinationStates(ctx context.Context) ([]store.DestinationState, error) {
	return collect(ctx, s, "destinations", func(row pgx.CollectableRow) (d store.DestinationState, err error) {
		return d, row.Scan(&d.Name, &d.DisabledFor, &d.DisabledWhy, utcOrNil{&d.FailingSince}, utcOrNil{&d.LastSent},
			&d.LastError, &d.Sent, &d.Failed, &d.Dead, &d.Dropped)
	}, `SELECT name, disabled_for, disabled_why, failing_since, last_sent, last_error, sent, failed, dead, dropped
		FROM destination ORDER BY name LIMIT $1`, store.MaxPage)
}

// ReportDestination implements store.Destinations.
func (s *Store) ReportDestination(ctx context.Context, r store.DestinationReport) error {
	return s.execOnce(ctx, "report destination", `INSERT INTO destination AS d
		(name, sent, failed, failing_since, last_error, last_sent) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (name) DO UPDATE SET sent = d.sent + excluded.sent, failed = d.failed + excluded.failed,
		failing_since = excluded.failing_since, last_sent = coalesce(excluded.last_sent, d.last_sent),
		last_error = CASE WHEN excluded.last_error = '' THEN d.last_error ELSE excluded.last_error END`,
		r.Name, r.Sent, r.Failed, r.FailingSince, r.LastError, r.LastSent)
}

// DisableDestination implements store.Destinations.
func (s *Store) DisableDestination(ctx context.Context, name, digest, why string) error {
	return s.execOnce(ctx, "disable destination", `INSERT INTO destination (name, disabled_for, disabled_why)
		VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET disabled_for = excluded.disabled_for,
		disabled_why = excluded.disabled_why`, name, digest, why)
}

// BuryDelivery implements store.Destinations. The row of the destination is locked first, so that two processes neither
// keep too many dead letters nor count one twice.
func (s *Store) BuryDelivery(ctx context.Context, d store.DeadDelivery, keep int) error {
	return s.do(ctx, "bury delivery", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		queueBegin(&b)
		b.Queue(`INSERT INTO destination (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = excluded.name`,
			d.Destination)
		if err := c.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		_, err := one(ctx, c, pgx.RowTo[int64], `UPDATE destination_dead SET tries = $3, error = $4, message = $5,
			at = clock_timestamp() WHERE name = $1 AND message_id = $2 RETURNING n`, d.Destination, d.MessageID, d.Tries,
			d.Error, string(d.Message))
		isNew := errors.Is(err, pgx.ErrNoRows)
		if err != nil && !isNew {
			return err
		}
		b = pgx.Batch{}
		if isNew {
			b.Queue(`INSERT INTO destination_dead (name, message_id, tenant_id, run_id, tries, error, message, at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())`, d.Destination, d.MessageID, d.TenantID, d.RunID,
				d.Tries, d.Error, string(d.Message))
			b.Queue(`WITH gone AS (DELETE FROM destination_dead WHERE name = $1 AND n <= (SELECT n FROM destination_dead
				WHERE name = $1 ORDER BY n DESC LIMIT 1 OFFSET $2) RETURNING n)
				UPDATE destination SET dead = dead + 1, dropped = dropped + (SELECT count(*) FROM gone) WHERE name = $1`,
				d.Destination, keep)
		}
		b.Queue(`commit`)
		return c.SendBatch(ctx, &b).Close()
	})
}

// DeadDeliveries implements store.Destinations.
func (s *Store) DeadDeliveries(ctx context.Context, name string, before int64,
	limit int) ([]store.DeadDelivery, error) {
	scan := func(row pgx.CollectableRow) (d store.DeadDelivery, err error) {
		var message string
		err = row.Scan(&d.N, &d.Destination, &d.MessageID, &d.TenantID, &d.RunID, &d.Tries, &d.Error, &message, utc{&d.At})
		d.Message = json.RawMessage(message)
		return d, err
	}
	return collect(ctx, s, "dead letters of a destination", scan, `SELECT n, name, message_id, tenant_id, run_id, tries, error, message, at FROM destination_dead
		WHERE name = $1 AND ($2::bigint = 0 OR n < $2) ORDER BY n DESC LIMIT $3`, name, before,
		clamp(limit, store.MaxPage))
}
