package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Audit implements store.Ops.
func (s *Store) Audit(ctx context.Context, rows ...store.AuditRow) error {
	return s.write(ctx, "audit", func(tx *sql.Tx) error { return s.audit(ctx, tx, s.now(), rows) })
}

// audit inserts rows; one whose id is there already is the same row again.
func (s *Store) audit(ctx context.Context, tx *sql.Tx, at time.Time, rows []store.AuditRow) error {
	for _, r := range rows {
		if r.ID == "" {
			return errors.New("sqlite: audit row without an id")
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			r.ID, micros(at), r.TenantID, r.Actor, r.Action, r.RunID, r.SignalID, r.Outcome, r.Code, r.Reason, r.RequestID, text(r.Detail))
		if err != nil {
			return s.failed("audit", err)
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
func (s *Store) Epoch(ctx context.Context) (epoch string, err error) {
	err = s.read(ctx, "epoch", func(tx *sql.Tx) (err error) {
		epoch, err = s.epoch(ctx, tx)
		return err
	})
	return epoch, err
}

func (s *Store) epoch(ctx context.Context, tx *sql.Tx) (string, error) {
	var epoch string
	err := tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'epoch'`).Scan(&epoch)
	return epoch, s.failed("epoch", err)
}

// BumpEpoch implements store.Ops.
func (s *Store) BumpEpoch(ctx context.Context) error {
	return s.write(ctx, "bump epoch", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE meta SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'`)
		return s.failed("bump epoch", err)
	})
}
