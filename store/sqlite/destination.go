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

const destinationColumns = `name, entry, digest, reported_at, removed_at, disabled_for, disabled_why, disabled_by,
	disabled_at, failing_since, last_sent, last_error, waiting, oldest_waiting, begins_at, sent, failed, dead, dropped,
	redriven, missed_runs`

func scanDestination(row scanner) (d store.DestinationState, err error) {
	var entry string
	var reported, removed, disabled, failing, sent, oldest, begins sql.NullInt64
	err = row.Scan(&d.Name, &entry, &d.Digest, &reported, &removed, &d.DisabledFor, &d.DisabledWhy, &d.DisabledBy,
		&disabled, &failing, &sent, &d.LastError, &d.Waiting, &oldest, &begins, &d.Sent, &d.Failed, &d.Dead, &d.Dropped,
		&d.Redriven, &d.MissedRuns)
	if entry != "" {
		d.Entry = json.RawMessage(entry)
	}
	d.ReportedAt, d.RemovedAt, d.DisabledAt = instantOrNil(reported), instantOrNil(removed), instantOrNil(disabled)
	d.FailingSince, d.LastSent = instantOrNil(failing), instantOrNil(sent)
	d.OldestWaiting, d.BeginsAt = instantOrNil(oldest), instantOrNil(begins)
	return d, err
}

// DestinationStates implements store.Destinations.
func (s *Store) DestinationStates(ctx context.Context) ([]store.DestinationState, error) {
	return readAll(ctx, s, "destinations", scanDestination, `SELECT `+destinationColumns+`
		FROM destination ORDER BY name LIMIT ?`, store.MaxPage)
}

// GetDestination implements store.Destinations.
func (s *Store) GetDestination(ctx context.Context, name string) (store.DestinationState, error) {
	return readOne(ctx, s, "destination "+name, scanDestination, `SELECT `+destinationColumns+`
		FROM destination WHERE name = ?`, name)
}

// ReportDestination implements store.Destinations.
func (s *Store) ReportDestination(ctx context.Context, r store.DestinationReport) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "report destination", `INSERT INTO destination AS d
			(name, sent, failed, failing_since, last_error, last_sent, entry, digest, waiting, oldest_waiting, begins_at,
			reported_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET sent = d.sent + excluded.sent, failed = d.failed + excluded.failed,
			failing_since = excluded.failing_since, last_sent = coalesce(excluded.last_sent, d.last_sent),
			last_error = CASE WHEN excluded.last_error = '' THEN d.last_error ELSE excluded.last_error END,
			entry = excluded.entry, digest = excluded.digest, waiting = excluded.waiting,
			oldest_waiting = excluded.oldest_waiting, begins_at = coalesce(excluded.begins_at, d.begins_at),
			reported_at = excluded.reported_at, removed_at = NULL`,
			r.Name, r.Sent, r.Failed, microsOrNil(r.FailingSince), r.LastError, microsOrNil(r.LastSent), string(r.Entry),
			r.Digest, r.Waiting, microsOrNil(r.OldestWaiting), microsOrNil(r.BeginsAt), micros(s.now()))
		return err
	})
}

// CountMissedRun implements store.Destinations.
func (s *Store) CountMissedRun(ctx context.Context, names ...string) error {
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "count missed run", `UPDATE destination SET missed_runs = missed_runs + 1
			WHERE name IN (SELECT value FROM json_each(?))`, string(list))
		return err
	})
}

// MarkDestinationsRemoved implements store.Destinations.
func (s *Store) MarkDestinationsRemoved(ctx context.Context, named []string, age, forget time.Duration) error {
	if named == nil {
		named = []string{}
	}
	list, err := json.Marshal(named)
	if err != nil {
		return err
	}
	return s.write(ctx, func(c *conn) error {
		now := s.now()
		if _, err := c.exec(ctx, "mark removed destinations", `UPDATE destination SET removed_at = ?1
			WHERE removed_at IS NULL AND name NOT IN (SELECT value FROM json_each(?2))
			AND coalesce(reported_at, 0) < ?3`, micros(now), string(list), micros(now.Add(-age))); err != nil {
			return err
		}
		gone := micros(now.Add(-forget))
		for _, table := range []string{"destination_dead", "destination_order"} {
			if _, err := c.exec(ctx, "forget destinations", `DELETE FROM `+table+` WHERE name IN
				(SELECT name FROM destination WHERE removed_at < ?)`, gone); err != nil {
				return err
			}
		}
		_, err := c.exec(ctx, "forget destinations", `DELETE FROM destination WHERE removed_at < ?`, gone)
		return err
	})
}

// SwitchDestination implements store.Destinations.
func (s *Store) SwitchDestination(ctx context.Context, x store.DestinationSwitch, rows ...store.AuditRow) error {
	return s.write(ctx, func(c *conn) error {
		now := s.now()
		var at *time.Time
		if x.For != "" {
			at = &now
		}
		if _, err := c.exec(ctx, "switch destination", `INSERT INTO destination AS d
			(name, disabled_for, disabled_why, disabled_by, disabled_at) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT (name) DO UPDATE SET disabled_for = excluded.disabled_for, disabled_why = excluded.disabled_why,
			disabled_by = excluded.disabled_by, disabled_at = excluded.disabled_at
			WHERE d.disabled_for <> ?6 OR excluded.disabled_by <> ''`, x.Name, x.For, x.Why, x.By, microsOrNil(at),
			store.DisabledByPerson); err != nil {
			return err
		}
		return audit(ctx, c, now, rows)
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
func (s *Store) DeadDeliveries(ctx context.Context, f store.DeadDeliveryFilter) ([]store.DeadDelivery, error) {
	where, args := "name = ?", []any{f.Destination}
	add := func(term string, arg any) { where, args = where+" AND "+term, append(args, arg) }
	if f.TenantID != "" {
		add("tenant_id IN (?, '')", f.TenantID)
	}
	if f.IDs != nil {
		list, err := json.Marshal(f.IDs)
		if err != nil {
			return nil, err
		}
		add("n IN (SELECT value FROM json_each(?))", string(list))
	}
	if f.Before > 0 {
		add("n < ?", f.Before)
	}
	if f.After > 0 {
		add("n > ?", f.After)
	}
	order := "DESC"
	if f.OldestFirst {
		order = "ASC"
	}
	args = append(args, clamp(f.Limit, store.MaxPage))
	return readAll(ctx, s, "dead letters of a destination", func(row scanner) (d store.DeadDelivery, err error) {
		var at int64
		var message string
		err = row.Scan(&d.N, &d.Destination, &d.MessageID, &d.TenantID, &d.RunID, &d.Tries, &d.Error, &message, &at)
		d.Message, d.At = json.RawMessage(message), instant(at)
		return d, err
	}, `SELECT n, name, message_id, tenant_id, run_id, tries, error, message, at FROM destination_dead
		WHERE `+where+` ORDER BY n `+order+` LIMIT ?`, args...)
}

// EndDeadDelivery implements store.Destinations.
func (s *Store) EndDeadDelivery(ctx context.Context, name, messageID string) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "end dead letter", `DELETE FROM destination_dead WHERE name = ? AND message_id = ?`, name,
			messageID)
		if err != nil || n == 0 {
			return err
		}
		_, err = c.exec(ctx, "count redriven", `UPDATE destination SET redriven = redriven + 1 WHERE name = ?`, name)
		return err
	})
}

const orderColumns = `id, name, kind, tenant_id, actor, request_id, reason, doc, state, at, ended_at, messages, sent,
	failed, error`

func scanOrder(row scanner) (o store.DestinationOrder, err error) {
	var doc string
	var at int64
	var ended sql.NullInt64
	err = row.Scan(&o.ID, &o.Destination, &o.Kind, &o.TenantID, &o.Actor, &o.RequestID, &o.Reason, &doc, &o.State, &at,
		&ended, &o.Messages, &o.Sent, &o.Failed, &o.Error)
	o.Doc, o.At, o.EndedAt = json.RawMessage(doc), instant(at), instantOrNil(ended)
	return o, err
}

// PutDestinationOrder implements store.DestinationOrders.
func (s *Store) PutDestinationOrder(ctx context.Context, o store.DestinationOrder,
	rows ...store.AuditRow) (out store.DestinationOrder, err error) {
	err = s.write(ctx, func(c *conn) error {
		out, err = collectOne(ctx, c, "order "+o.ID, scanOrder, `SELECT `+orderColumns+` FROM destination_order
			WHERE id = ?`, o.ID)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		open, err := collectOne(ctx, c, "count open orders", value[int], `SELECT count(*) FROM destination_order
			WHERE name = ? AND ended_at IS NULL`, o.Destination)
		if err != nil {
			return err
		}
		if open >= store.MaxOpenOrders {
			return store.ErrTooMany
		}
		now := s.now()
		if _, err := c.exec(ctx, "forget orders", `DELETE FROM destination_order WHERE name = ?1 AND ended_at IS NOT NULL AND
			(ended_at < ?2 OR n <= (SELECT n FROM destination_order WHERE name = ?1 AND ended_at IS NOT NULL
			ORDER BY n DESC LIMIT 1 OFFSET ?3))`, o.Destination, micros(now.Add(-store.OrderLife)),
			store.MaxOrders-1); err != nil {
			return err
		}
		out, err = collectOne(ctx, c, "put order", scanOrder, `INSERT INTO destination_order
			(id, name, kind, tenant_id, actor, request_id, reason, doc, state, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING `+orderColumns, o.ID, o.Destination, string(o.Kind), o.TenantID,
			o.Actor, o.RequestID, o.Reason, string(o.Doc), string(store.OrderWaiting), micros(now))
		if err != nil {
			return err
		}
		return audit(ctx, c, now, rows)
	})
	return out, err
}

// GetDestinationOrder implements store.DestinationOrders.
func (s *Store) GetDestinationOrder(ctx context.Context, id string) (store.DestinationOrder, error) {
	return readOne(ctx, s, "order "+id, scanOrder, `SELECT `+orderColumns+` FROM destination_order WHERE id = ?`, id)
}

// DestinationOrders implements store.DestinationOrders.
func (s *Store) DestinationOrders(ctx context.Context, names []string,
	each int) ([]store.DestinationOrder, error) {
	list, err := json.Marshal(names)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return readAll(ctx, s, "orders to destinations", scanOrder, `SELECT `+orderColumns+` FROM (
		SELECT *, row_number() OVER (PARTITION BY name ORDER BY n DESC) AS rank FROM destination_order
		WHERE name IN (SELECT value FROM json_each(?))) WHERE rank <= ? ORDER BY n DESC`, string(list), clamp(each, 100))
}

// OpenDestinationOrders implements store.DestinationOrders.
func (s *Store) OpenDestinationOrders(ctx context.Context, name string) ([]store.DestinationOrder, error) {
	return readAll(ctx, s, "open orders to a destination", scanOrder, `SELECT `+orderColumns+` FROM destination_order
		WHERE name = ? AND ended_at IS NULL ORDER BY n LIMIT ?`, name, store.MaxOpenOrders)
}

// ReportDestinationOrder implements store.DestinationOrders.
func (s *Store) ReportDestinationOrder(ctx context.Context, o store.DestinationOrder) error {
	return s.write(ctx, func(c *conn) error {
		ended := sql.NullInt64{Int64: micros(s.now()), Valid: o.State.IsFinal()}
		_, err := c.exec(ctx, "report order", `UPDATE destination_order SET state = ?, messages = ?, sent = ?, failed = ?,
			error = ?, ended_at = ? WHERE id = ? AND ended_at IS NULL`, string(o.State), o.Messages, o.Sent, o.Failed, o.Error,
			ended, o.ID)
		return err
	})
}
