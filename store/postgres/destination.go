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

const destinationColumns = `name, entry, digest, reported_at, removed_at, disabled_for, disabled_why, disabled_by,
  disabled_at, failing_since, last_sent, last_error, waiting, oldest_waiting, begins_at, sent, failed, dead, dropped,
  redriven, missed_runs`

func scanDestination(row pgx.CollectableRow) (d store.DestinationState, err error) {
	var entry string
	err = row.Scan(&d.Name, &entry, &d.Digest, utcOrNil{&d.ReportedAt}, utcOrNil{&d.RemovedAt}, &d.DisabledFor,
		&d.DisabledWhy, &d.DisabledBy, utcOrNil{&d.DisabledAt}, utcOrNil{&d.FailingSince}, utcOrNil{&d.LastSent},
		&d.LastError, &d.Waiting, utcOrNil{&d.OldestWaiting}, utcOrNil{&d.BeginsAt}, &d.Sent, &d.Failed, &d.Dead,
		&d.Dropped, &d.Redriven, &d.MissedRuns)
	if entry != "" {
		d.Entry = json.RawMessage(entry)
	}
	return d, err
}

// DestinationStates implements store.Destinations.
func (s *Store) DestinationStates(ctx context.Context) ([]store.DestinationState, error) {
	return collect(ctx, s, "destinations", scanDestination, `SELECT `+destinationColumns+`
		FROM destination ORDER BY name LIMIT $1`, store.MaxPage)
}

// GetDestination implements store.Destinations.
func (s *Store) GetDestination(ctx context.Context, name string) (store.DestinationState, error) {
	return onlyOne(collect(ctx, s, "destination", scanDestination, `SELECT `+destinationColumns+`
		FROM destination WHERE name = $1`, name))
}

// onlyOne returns the row of a list of at most one.
func onlyOne[T any](list []T, err error) (out T, _ error) {
	if err != nil {
		return out, err
	}
	if len(list) == 0 {
		return out, store.ErrNotFound
	}
	return list[0], nil
}

// ReportDestination implements store.Destinations.
func (s *Store) ReportDestination(ctx context.Context, r store.DestinationReport) error {
	return s.execOnce(ctx, "report destination", `INSERT INTO destination AS d
		(name, sent, failed, failing_since, last_error, last_sent, entry, digest, waiting, oldest_waiting, begins_at,
		reported_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock_timestamp())
		ON CONFLICT (name) DO UPDATE SET sent = d.sent + excluded.sent, failed = d.failed + excluded.failed,
		failing_since = excluded.failing_since, last_sent = coalesce(excluded.last_sent, d.last_sent),
		last_error = CASE WHEN excluded.last_error = '' THEN d.last_error ELSE excluded.last_error END,
		entry = excluded.entry, digest = excluded.digest, waiting = excluded.waiting,
		oldest_waiting = excluded.oldest_waiting, begins_at = coalesce(excluded.begins_at, d.begins_at),
		reported_at = excluded.reported_at, removed_at = NULL`,
		r.Name, r.Sent, r.Failed, r.FailingSince, r.LastError, r.LastSent, string(r.Entry), r.Digest, r.Waiting,
		r.OldestWaiting, r.BeginsAt)
}

// CountMissedRun implements store.Destinations.
func (s *Store) CountMissedRun(ctx context.Context, names ...string) error {
	return s.execOnce(ctx, "count missed run", `UPDATE destination SET missed_runs = missed_runs + 1
		WHERE name = ANY($1)`, names)
}

// MarkDestinationsRemoved implements store.Destinations.
func (s *Store) MarkDestinationsRemoved(ctx context.Context, named []string, age, forget time.Duration) error {
	if named == nil {
		named = []string{}
	}
	err := s.execOnce(ctx, "mark removed destinations", `UPDATE destination SET removed_at = clock_timestamp()
		WHERE removed_at IS NULL AND name <> ALL($1)
		AND coalesce(reported_at < clock_timestamp() - $2::interval, true)`, named, age)
	if err != nil {
		return err
	}
	return s.execOnce(ctx, "forget destinations", `WITH gone AS (DELETE FROM destination
		WHERE removed_at < clock_timestamp() - $1::interval RETURNING name),
		dead AS (DELETE FROM destination_dead WHERE name IN (SELECT name FROM gone))
		DELETE FROM destination_order WHERE name IN (SELECT name FROM gone)`, forget)
}

// SwitchDestination implements store.Destinations.
func (s *Store) SwitchDestination(ctx context.Context, x store.DestinationSwitch, audit ...store.AuditRow) error {
	return s.inTx(ctx, "switch destination", func(_ context.Context, _ *pgx.Conn, last *pgx.Batch) error {
		last.Queue(`INSERT INTO destination AS d (name, disabled_for, disabled_why, disabled_by, disabled_at)
			VALUES ($1, $2, $3, $4, CASE WHEN $2 = '' THEN NULL ELSE clock_timestamp() END)
			ON CONFLICT (name) DO UPDATE SET disabled_for = excluded.disabled_for, disabled_why = excluded.disabled_why,
			disabled_by = excluded.disabled_by, disabled_at = excluded.disabled_at
			WHERE d.disabled_for <> $5 OR excluded.disabled_by <> ''`, x.Name, x.For, x.Why, x.By, store.DisabledByPerson)
		queueAudit(last, audit)
		return nil
	})
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
func (s *Store) DeadDeliveries(ctx context.Context, f store.DeadDeliveryFilter) ([]store.DeadDelivery, error) {
	scan := func(row pgx.CollectableRow) (d store.DeadDelivery, err error) {
		var message string
		err = row.Scan(&d.N, &d.Destination, &d.MessageID, &d.TenantID, &d.RunID, &d.Tries, &d.Error, &message, utc{&d.At})
		d.Message = json.RawMessage(message)
		return d, err
	}
	w := new(filter)
	w.add("name = ?", f.Destination)
	if f.TenantID != "" {
		w.add("tenant_id IN (?, '')", f.TenantID)
	}
	if f.IDs != nil {
		w.add("n = ANY(?)", f.IDs)
	}
	if f.Before > 0 {
		w.add("n < ?", f.Before)
	}
	if f.After > 0 {
		w.add("n > ?", f.After)
	}
	order := "DESC"
	if f.OldestFirst {
		order = "ASC"
	}
	query := `SELECT n, name, message_id, tenant_id, run_id, tries, error, message, at FROM destination_dead WHERE ` +
		w.String() + w.bind(` ORDER BY n `+order+` LIMIT ?`, clamp(f.Limit, store.MaxPage))
	return collect(ctx, s, "dead letters of a destination", scan, query, w.args...)
}

// EndDeadDelivery implements store.Destinations.
func (s *Store) EndDeadDelivery(ctx context.Context, name, messageID string) error {
	return s.execOnce(ctx, "end dead letter", `WITH gone AS (DELETE FROM destination_dead
		WHERE name = $1 AND message_id = $2 RETURNING n)
		UPDATE destination SET redriven = redriven + 1 WHERE name = $1 AND EXISTS (SELECT FROM gone)`, name, messageID)
}

const orderColumns = `id, name, kind, tenant_id, actor, request_id, reason, doc, state, at, ended_at, messages, sent,
  failed, error`

func scanOrder(row pgx.CollectableRow) (o store.DestinationOrder, err error) {
	var doc string
	err = row.Scan(&o.ID, &o.Destination, &o.Kind, &o.TenantID, &o.Actor, &o.RequestID, &o.Reason, &doc, &o.State,
		utc{&o.At}, utcOrNil{&o.EndedAt}, &o.Messages, &o.Sent, &o.Failed, &o.Error)
	o.Doc = json.RawMessage(doc)
	return o, err
}

// PutDestinationOrder implements store.DestinationOrders. The row of the destination is locked first, so that two calls
// at once neither exceed the limit nor write an order twice.
func (s *Store) PutDestinationOrder(ctx context.Context, o store.DestinationOrder,
	audit ...store.AuditRow) (out store.DestinationOrder, err error) {
	err = s.inTx(ctx, "put order to a destination", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		if _, err := c.Exec(ctx, `SELECT FROM destination WHERE name = $1 FOR UPDATE`, o.Destination); err != nil {
			return err
		}
		out, err = one(ctx, c, scanOrder, `SELECT `+orderColumns+` FROM destination_order WHERE id = $1`, o.ID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		open, err := one(ctx, c, pgx.RowTo[int], `SELECT count(*) FROM destination_order
			WHERE name = $1 AND ended_at IS NULL`, o.Destination)
		if err != nil {
			return err
		}
		if open >= store.MaxOpenOrders {
			return store.ErrTooMany
		}
		if _, err := c.Exec(ctx, `DELETE FROM destination_order WHERE name = $1 AND ended_at IS NOT NULL AND
			(ended_at < clock_timestamp() - $2::interval OR n <= (SELECT n FROM destination_order
			WHERE name = $1 AND ended_at IS NOT NULL ORDER BY n DESC LIMIT 1 OFFSET $3))`, o.Destination, store.OrderLife,
			store.MaxOrders-1); err != nil {
			return err
		}
		queueAudit(last, audit)
		out, err = one(ctx, c, scanOrder, `INSERT INTO destination_order
			(id, name, kind, tenant_id, actor, request_id, reason, doc, state, at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp()) RETURNING `+orderColumns, o.ID, o.Destination,
			o.Kind, o.TenantID, o.Actor, o.RequestID, o.Reason, string(o.Doc), store.OrderWaiting)
		return err
	})
	return out, err
}

// GetDestinationOrder implements store.DestinationOrders.
func (s *Store) GetDestinationOrder(ctx context.Context, id string) (store.DestinationOrder, error) {
	return onlyOne(collect(ctx, s, "order to a destination", scanOrder, `SELECT `+orderColumns+`
		FROM destination_order WHERE id = $1`, id))
}

// DestinationOrders implements store.DestinationOrders.
func (s *Store) DestinationOrders(ctx context.Context, names []string,
	each int) ([]store.DestinationOrder, error) {
	if len(names) == 0 {
		return nil, nil
	}
	return collect(ctx, s, "orders to destinations", scanOrder, `SELECT o.* FROM unnest($1::text[]) AS x (name)
		CROSS JOIN LATERAL (SELECT `+orderColumns+` FROM destination_order WHERE name = x.name COLLATE "C"
		ORDER BY n DESC LIMIT $2) o`, names, clamp(each, 100))
}

// OpenDestinationOrders implements store.DestinationOrders.
func (s *Store) OpenDestinationOrders(ctx context.Context, name string) ([]store.DestinationOrder, error) {
	return collect(ctx, s, "open orders to a destination", scanOrder, `SELECT `+orderColumns+` FROM destination_order
		WHERE name = $1 AND ended_at IS NULL ORDER BY n LIMIT $2`, name, store.MaxOpenOrders)
}

// ReportDestinationOrder implements store.DestinationOrders.
func (s *Store) ReportDestinationOrder(ctx context.Context, o store.DestinationOrder) error {
	return s.execOnce(ctx, "report order to a destination", `UPDATE destination_order SET state = $2, messages = $3,
		sent = $4, failed = $5, error = $6, ended_at = CASE WHEN $7 THEN clock_timestamp() END
		WHERE id = $1 AND ended_at IS NULL`, o.ID, o.State, o.Messages, o.Sent, o.Failed, o.Error, o.State.IsFinal())
}
