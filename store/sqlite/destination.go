package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
)

func scanAlertChange(row scanner) (c store.AlertChange, err error) {
	var at, count int64
	var level, note string
	c.Alert, err = scanAlert(prefixed{row, []any{&c.N, &c.Kind, &at, &level, &note, &count}})
	c.At, c.Alert.Level, c.Alert.Note, c.Alert.Count = instant(at), store.AlertLevel(level), note, count
	return c, err
}

// prefixed scans columns that stand before those of another scan.
type prefixed struct {
	row   scanner
	first []any
}

func (p prefixed) Scan(dest ...any) error { return p.row.Scan(append(p.first, dest...)...) }

// AlertChanges implements store.Destinations.
func (s *Store) AlertChanges(ctx context.Context, after int64, limit int) ([]store.AlertChange, error) {
	return readAll(ctx, s, "changes of alerts", scanAlertChange, `SELECT x.n, x.kind, x.at, x.level, x.note, x.count, `+
		alertColumns+` FROM alert_change x JOIN alert_state s ON s.pos = x.pos JOIN alert a ON a.pos = s.pos
		WHERE x.n > ?2 ORDER BY x.n LIMIT ?3`, micros(s.now()), after, clamp(limit, store.MaxPage))
}

// TrimAlertChanges implements store.Destinations.
func (s *Store) TrimAlertChanges(ctx context.Context, age time.Duration) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "trim changes of alerts", `DELETE FROM alert_change WHERE at < ?`, micros(s.now().Add(-age)))
		return err
	})
}

// DestinationStates implements store.Destinations.
func (s *Store) DestinationStates(ctx context.Context) ([]store.DestinationState, error) {
	return readAll(ctx, s, "destinations", func(row scanner) (d store.DestinationState, err error) {
		var failing, sent sql.NullInt64
		err = row.Scan(&d.Name, &d.DisabledFor, &d.DisabledWhy, &failing, &sent, &d.LastError, &d.Sent, &d.Failed, &d.Dead,
			&d.Dropped)
		d.FailingSince, d.LastSent = instantOrNil(failing), instantOrNil(sent)
		return d, err
	}, `SELECT name, disabled_for, disabled_why, failing_since, last_sent, last_error, sent, failed, dead, dropped
		FROM destination ORDER BY name LIMIT ?`, store.MaxPage)
}

// ReportDestination implements store.Destinations.
func (s *Store) ReportDestination(ctx context.Context, r store.DestinationReport) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "report destination", `INSERT INTO destination AS d
			(name, sent, failed, failing_since, last_error, last_sent) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET sent = d.sent + excluded.sent, failed = d.failed + excluded.failed,
			failing_since = excluded.failing_since, last_sent = coalesce(excluded.last_sent, d.last_sent),
			last_error = CASE WHEN excluded.last_error = '' THEN d.last_error ELSE excluded.last_error END`,
			r.Name, r.Sent, r.Failed, microsOrNil(r.FailingSince), r.LastError, microsOrNil(r.LastSent))
		return err
	})
}

// DisableDestination implements store.Destinations.
func (s *Store) DisableDestination(ctx context.Context, name, digest, why string) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "disable destination", `INSERT INTO destination (name, disabled_for, disabled_why)
			VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET disabled_for = excluded.disabled_for,
			disabled_why = excluded.disabled_why`, name, digest, why)
		return err
	})
}

// BuryDelivery implements store.Destinations.
func (s *Store) BuryDelivery(ctx context.Context, d store.DeadDelivery, keep int) error {
	return s.write(ctx, func(c *conn) error {
		_, err := collectOne(ctx, c, "known dead letter", value[int64], `UPDATE destination_dead SET tries = ?, error = ?,
			message = ?, at = ? WHERE name = ? AND message_id = ? RETURNING n`, d.Tries, d.Error, string(d.Message),
			micros(s.now()), d.Destination, d.MessageID)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if _, err := c.exec(ctx, "bury delivery", `INSERT INTO destination_dead
			(name, message_id, tenant_id, run_id, tries, error, message, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, d.Destination,
			d.MessageID, d.TenantID, d.RunID, d.Tries, d.Error, string(d.Message), micros(s.now())); err != nil {
			return err
		}
		dropped, err := c.exec(ctx, "drop dead letters", `DELETE FROM destination_dead WHERE name = ?1 AND n <= (SELECT n FROM
			destination_dead WHERE name = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)`, d.Destination, keep)
		if err != nil {
			return err
		}
		_, err = c.exec(ctx, "count dead letter", `INSERT INTO destination AS d (name, dead, dropped) VALUES (?, 1, ?)
			ON CONFLICT (name) DO UPDATE SET dead = d.dead + 1, dropped = d.dropped + excluded.dropped`, d.Destination, dropped)
		return err
	})
}

// DeadDeliveries implements store.Destinations.
func (s *Store) DeadDeliveries(ctx context.Context, name string, before int64,
	limit int) ([]store.DeadDelivery, error) {
	return readAll(ctx, s, "dead letters of a destination", func(row scanner) (d store.DeadDelivery, err error) {
		var at int64
		var message string
		err = row.Scan(&d.N, &d.Destination, &d.MessageID, &d.TenantID, &d.RunID, &d.Tries, &d.Error, &message, &at)
		d.Message, d.At = json.RawMessage(message), instant(at)
		return d, err
	}, `SELECT n, name, message_id, tenant_id, run_id, tries, error, message, at FROM destination_dead
		WHERE name = ?1 AND (?2 = 0 OR n < ?2) ORDER BY n DESC LIMIT ?3`, name, before, clamp(limit, store.MaxPage))
}
