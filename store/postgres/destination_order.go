package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

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
