package sqlite

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Raise implements store.Alerts.
func (s *Store) Raise(ctx context.Context, alerts ...store.Alert) error {
	return s.write(ctx, func(c *conn) error { return raise(ctx, c, s.now(), alerts) })
}

// Raise implements store.AlertTx.
func (t *runTx) Raise(ctx context.Context, alerts ...store.Alert) error {
	return raise(ctx, t.conn, t.at, alerts)
}

func raise(ctx context.Context, c *conn, at time.Time, alerts []store.Alert) error {
	for _, a := range alerts {
		a = a.Fit()
		if _, err := c.exec(
			ctx, "raise alert", `INSERT INTO alert (id, at, tenant_id, project_id, run_id, step_id, signal_id, level, code, note, actor)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			a.ID, micros(at), a.TenantID, a.ProjectID, a.RunID, a.StepID, a.SignalID, string(a.Level), string(a.Code), a.Note,
			a.Actor); err != nil {
			return err
		}
	}
	return nil
}

// Alerts implements store.Alerts.
func (s *Store) Alerts(ctx context.Context, f store.AlertFilter) ([]store.Alert, error) {
	w := new(where)
	w.add("tenant_id = ?", f.TenantID)
	if f.RunID != "" {
		w.add("run_id = ?", f.RunID)
	}
	if f.Before != "" {
		w.add("pos < (SELECT pos FROM alert WHERE id = ?)", f.Before)
	}
	return readAll(ctx, s, "alerts", scanAlert, `SELECT id, at, tenant_id, project_id, run_id, step_id, signal_id, level, code, note, actor
		FROM alert WHERE `+w.String()+` ORDER BY pos DESC LIMIT ?`, append(w.args, clamp(f.Limit, store.MaxPage))...)
}

func scanAlert(row scanner) (a store.Alert, err error) {
	var at int64
	err = row.Scan(&a.ID, &at, &a.TenantID, &a.ProjectID, &a.RunID, &a.StepID, &a.SignalID, &a.Level, &a.Code, &a.Note,
		&a.Actor)
	a.At = instant(at)
	return a, err
}
