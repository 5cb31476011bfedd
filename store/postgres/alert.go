package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// Raise implements store.Alerts.
func (s *Store) Raise(ctx context.Context, alerts ...store.Alert) error {
	return s.do(ctx, "raise alert", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		queueAlerts(&b, alerts)
		return c.SendBatch(ctx, &b).Close()
	})
}

// Raise implements store.AlertTx.
func (r runTx) Raise(_ context.Context, alerts ...store.Alert) error {
	queueAlerts(&r.t.batch, alerts)
	return nil
}

func queueAlerts(b *pgx.Batch, alerts []store.Alert) {
	for _, a := range alerts {
		a = a.Fit()
		b.Queue(`INSERT INTO alert (id, tenant_id, project_id, run_id, step_id, signal_id, level, code, note, actor)
			VALUES ($1::uuid, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING`,
			a.ID, a.TenantID, a.ProjectID, a.RunID, a.StepID, a.SignalID, a.Level, a.Code, a.Note, a.Actor)
	}
}

// Alerts implements store.Alerts.
func (s *Store) Alerts(ctx context.Context, af store.AlertFilter) ([]store.Alert, error) {
	var f filter
	f.add("tenant_id = ?", af.TenantID)
	if af.RunID != "" {
		f.add("run_id = ?", af.RunID)
	}
	if af.Before != "" {
		f.add("pos < (SELECT pos FROM alert WHERE id::text = ?)", af.Before)
	}
	query := `SELECT id::text, at, tenant_id, project_id, run_id, step_id, signal_id, level, code, note, actor
		FROM alert WHERE ` + f.String() + f.bind(` ORDER BY pos DESC LIMIT ?`, pageSize(af.Limit))
	return collect(ctx, s, "alerts", func(row pgx.CollectableRow) (a store.Alert, err error) {
		return a, row.Scan(&a.ID, utc{&a.At}, &a.TenantID, &a.ProjectID, &a.RunID, &a.StepID, &a.SignalID, &a.Level, &a.Code,
			&a.Note, &a.Actor)
	}, query, f.args...)
}
