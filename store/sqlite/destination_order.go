package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/dvt-engine/dvt/store"
)

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
