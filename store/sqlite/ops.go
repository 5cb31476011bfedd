package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Audit implements store.Ops.
func (s *Store) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return s.write(ctx, func(c *conn) error { return audit(ctx, c, s.now(), rows) })
}

// audit inserts rows; one whose id is there already is the same row again.
func audit(ctx context.Context, c *conn, at time.Time, rows []store.AuditRow) error {
	for _, r := range rows {
		if r.ID == "" {
			return errors.New("sqlite: audit row without an id")
		}
		if _, err := c.exec(ctx, "audit", `INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.ID, micros(at), r.TenantID, r.Actor, r.Action, r.RunID, r.SignalID, r.Outcome, r.Code, r.Reason, r.RequestID, text(r.Detail)); err != nil {
			return err
		}
	}
	return nil
}

// Ping implements store.Ops.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Epoch(ctx)
	return err
}

// Epoch implements store.Ops. For one file it is the manual part alone.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	return readOne(ctx, s, "epoch", value[string], epochSQL)
}

const epochSQL = `SELECT value FROM meta WHERE name = 'epoch'`

// BumpEpoch implements store.Ops.
func (s *Store) BumpEpoch(ctx context.Context) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "bump epoch", `UPDATE meta SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'`)
		return err
	})
}
