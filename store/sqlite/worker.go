package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// PutWorkerReports implements store.Workers.
func (s *Store) PutWorkerReports(ctx context.Context, rows []store.WorkerReport, audits ...store.AuditRow) error {
	if len(rows) == 0 {
		return nil
	}
	return s.write(ctx, func(c *conn) error {
		at := s.now()
		for _, r := range rows {
			if _, err := c.exec(
				ctx, "put worker report", `INSERT INTO worker_report (account, worker, queue, doc, at) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (account, worker, queue) DO UPDATE SET doc = excluded.doc, at = excluded.at`,
				r.Account, r.Worker, r.Queue, string(r.Doc), micros(at)); err != nil {
				return err
			}
		}
		if err := forgetReports(ctx, c, rows[0].Account, at); err != nil {
			return err
		}
		return audit(ctx, c, at, audits)
	})
}

// forgetReports deletes rows that are too old or exceed the limits of the account or the installation.
func forgetReports(ctx context.Context, c *conn, account string, at time.Time) error {
	if _, err := c.exec(ctx, "forget old worker reports", `DELETE FROM worker_report WHERE at < ?`,
		micros(at.Add(-store.WorkerReportLife))); err != nil {
		return err
	}
	if _, err := c.exec(
		ctx, "forget worker reports of an account", `DELETE FROM worker_report WHERE (account, worker, queue) IN
		(SELECT account, worker, queue FROM worker_report WHERE account = ?1 ORDER BY at DESC, worker, queue LIMIT -1 OFFSET ?2)`,
		account, store.MaxAccountReports); err != nil {
		return err
	}
	_, err := c.exec(ctx, "forget worker reports", `DELETE FROM worker_report WHERE (account, worker, queue) IN
		(SELECT account, worker, queue FROM worker_report ORDER BY at DESC, account, worker, queue LIMIT -1 OFFSET ?)`,
		store.MaxWorkerReports)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, "forget drains of workers", `DELETE FROM worker_drain WHERE NOT EXISTS
		(SELECT 1 FROM worker_report r WHERE r.account = worker_drain.account AND r.worker = worker_drain.worker)`)
	return err
}

// WorkerReports implements store.Workers.
func (s *Store) WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error) {
	names, err := json.Marshal(append([]string{}, queues...))
	if err != nil {
		return nil, err
	}
	return readAll(ctx, s, "worker reports", func(row scanner) (r store.WorkerReport, err error) {
		var doc []byte
		var at int64
		err = row.Scan(&r.Account, &r.Worker, &r.Queue, &doc, &at)
		r.Doc, r.At = json.RawMessage(doc), instant(at)
		return r, err
	}, `SELECT account, worker, queue, doc, at FROM worker_report
		WHERE (?1 = '[]' OR queue IN (SELECT value FROM json_each(?1))) AND at >= ?2
		ORDER BY queue, account, worker LIMIT ?3`, string(names), micros(s.now().Add(-age)), store.MaxWorkerReports)
}

const drainColumns = `account, worker, request_id, actor, reason, at`

func scanDrain(row scanner) (d store.WorkerDrain, err error) {
	var at int64
	err = row.Scan(&d.Account, &d.Worker, &d.RequestID, &d.Actor, &d.Reason, &at)
	d.At = instant(at)
	return d, err
}

// DrainWorker implements store.Workers.
func (s *Store) DrainWorker(ctx context.Context, d store.WorkerDrain, audits ...store.AuditRow) (store.WorkerDrain,
	error) {
	var out store.WorkerDrain
	err := s.write(ctx, func(c *conn) error {
		at := s.now()
		made, err := c.exec(ctx, "drain worker", `INSERT INTO worker_drain (`+drainColumns+`)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM worker_report WHERE account = ?1 AND worker = ?2)
			ON CONFLICT DO NOTHING`, d.Account, d.Worker, d.RequestID, d.Actor, d.Reason, micros(at))
		if err != nil {
			return err
		}
		if made == 1 {
			if err := audit(ctx, c, at, audits); err != nil {
				return err
			}
		}
		out, err = collectOne(ctx, c, "drain of worker "+d.Worker, scanDrain,
			`SELECT `+drainColumns+` FROM worker_drain WHERE account = ? AND worker = ?`, d.Account, d.Worker)
		return err
	})
	return out, err
}

// EndWorkerDrain implements store.Workers.
func (s *Store) EndWorkerDrain(ctx context.Context, account, worker string, audits ...store.AuditRow) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "end drain of worker", `DELETE FROM worker_drain WHERE account = ? AND worker = ?`, account,
			worker)
		if err == nil && n == 0 {
			err = notFound("drain of worker " + worker)
		}
		if err != nil {
			return err
		}
		return audit(ctx, c, s.now(), audits)
	})
}

// WorkerDrains implements store.Workers.
func (s *Store) WorkerDrains(ctx context.Context, account string) ([]store.WorkerDrain, error) {
	return readAll(ctx, s, "drains of workers", scanDrain, `SELECT `+drainColumns+` FROM worker_drain
		WHERE ?1 IN ('', account) ORDER BY account, worker LIMIT ?2`, account, store.MaxWorkerReports)
}

// PutSecretReads implements store.Secrets.
func (s *Store) PutSecretReads(ctx context.Context, rows []store.SecretRead) error {
	if len(rows) == 0 {
		return nil
	}
	return s.write(ctx, func(c *conn) error {
		at := micros(s.now())
		for _, r := range rows {
			if _, err := c.exec(ctx, "put secret read", `INSERT INTO secret_read (at, tenant_id, run_id, step_id,
				logical_attempt, engine_attempt, no, account, worker, provider, key, version, answered, given_as, cached, code)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, at, r.TenantID, r.RunID,
				r.StepID, r.LogicalAttempt, r.EngineAttempt, r.No, r.Account, r.Worker, r.Provider, r.Key, r.Version, r.Answered,
				r.As, r.Cached, string(r.Code)); err != nil {
				return err
			}
		}
		return nil
	})
}

// SecretReads implements store.Secrets.
func (s *Store) SecretReads(ctx context.Context, f store.SecretReadFilter) ([]store.SecretRead, error) {
	where, args := "tenant_id = ?", []any{f.TenantID}
	add := func(term string, values ...any) { where, args = where+" AND "+term, append(args, values...) }
	for _, t := range []struct{ column, value string }{{"run_id", f.RunID}, {"step_id", f.StepID},
		{"provider", f.Provider}, {"key", f.Key}} {
		if t.value != "" {
			add(t.column+" = ?", t.value)
		}
	}
	if !f.From.IsZero() {
		add("at >= ?", micros(f.From))
	}
	if !f.To.IsZero() {
		add("at < ?", micros(f.To))
	}
	if f.Before != "" {
		last, err := store.ParseSecretReadCursor(f.Before)
		if err != nil {
			return nil, err
		}
		add("(at, run_id, step_id, logical_attempt, engine_attempt, no) < (?, ?, ?, ?, ?, ?)", micros(last.At), last.RunID,
			last.StepID, last.LogicalAttempt, last.EngineAttempt, last.No)
	}
	return readAll(ctx, s, "secret reads", func(row scanner) (r store.SecretRead, err error) {
		var at int64
		err = row.Scan(&r.Pos, &at, &r.TenantID, &r.RunID, &r.StepID, &r.LogicalAttempt, &r.EngineAttempt, &r.No,
			&r.Account, &r.Worker, &r.Provider, &r.Key, &r.Version, &r.Answered, &r.As, &r.Cached, &r.Code)
		r.At = instant(at)
		return r, err
	}, `SELECT pos, at, tenant_id, run_id, step_id, logical_attempt, engine_attempt, no, account, worker, provider, key,
		version, answered, given_as, cached, code FROM secret_read WHERE `+where+`
		ORDER BY at DESC, run_id DESC, step_id DESC, logical_attempt DESC, engine_attempt DESC, no DESC LIMIT ?`,
		append(args, clamp(f.Limit, store.MaxPage))...)
}

const secretOrderColumns = `id, kind, tenant_id, actor, request_id, reason, doc, at`

func scanSecretOrder(row scanner) (o store.SecretOrder, err error) {
	var doc string
	var at int64
	err = row.Scan(&o.ID, &o.Kind, &o.TenantID, &o.Actor, &o.RequestID, &o.Reason, &doc, &at)
	o.Doc, o.At = json.RawMessage(doc), instant(at)
	return o, err
}

// PutSecretOrder implements store.Secrets.
func (s *Store) PutSecretOrder(ctx context.Context, o store.SecretOrder,
	rows ...store.AuditRow) (out store.SecretOrder, err error) {
	err = s.write(ctx, func(c *conn) error {
		out, err = collectOne(ctx, c, "order "+o.ID, scanSecretOrder, `SELECT `+secretOrderColumns+` FROM secret_order
			WHERE id = ?`, o.ID)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		now := s.now()
		life, most := o.Kind.Bounds()
		open, err := collectOne(ctx, c, "count orders about secrets", value[int], `SELECT count(*) FROM secret_order
			WHERE tenant_id = ? AND kind = ? AND at > ?`, o.TenantID, string(o.Kind), micros(now.Add(-life)))
		if err != nil {
			return err
		}
		if open >= most {
			return store.ErrTooMany
		}
		old := micros(now.Add(-store.SecretOrderLife))
		if _, err := c.exec(ctx, "forget answers about secrets", `DELETE FROM secret_answer WHERE order_id IN
			(SELECT id FROM secret_order WHERE at < ?)`, old); err != nil {
			return err
		}
		if _, err := c.exec(ctx, "forget orders about secrets", `DELETE FROM secret_order WHERE at < ?`, old); err != nil {
			return err
		}
		out, err = collectOne(ctx, c, "put order about secrets", scanSecretOrder, `INSERT INTO secret_order
			(`+secretOrderColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING `+secretOrderColumns, o.ID, string(o.Kind),
			o.TenantID, o.Actor, o.RequestID, o.Reason, string(o.Doc), micros(now))
		if err != nil {
			return err
		}
		return audit(ctx, c, now, rows)
	})
	return out, err
}

// OpenSecretOrders implements store.Secrets.
func (s *Store) OpenSecretOrders(ctx context.Context) ([]store.SecretOrder, error) {
	now := s.now()
	return readAll(ctx, s, "orders about secrets", scanSecretOrder, `SELECT `+secretOrderColumns+` FROM secret_order
		WHERE at > ? AND (kind <> ? OR at > ?) ORDER BY at, id LIMIT ?`, micros(now.Add(-store.SecretRevocationLife)),
		string(store.SecretCheck), micros(now.Add(-store.SecretCheckLife)), store.MaxPage)
}

// PutSecretAnswer implements store.Secrets.
func (s *Store) PutSecretAnswer(ctx context.Context, a store.SecretAnswer) error {
	return s.write(ctx, func(c *conn) error {
		if _, err := collectOne(ctx, c, "order "+a.OrderID, value[string], `SELECT id FROM secret_order WHERE id = ?`,
			a.OrderID); err != nil {
			return err
		}
		_, err := c.exec(ctx, "put answer about secrets", `INSERT INTO secret_answer (order_id, account, worker, doc, at)
			SELECT ?1, ?2, ?3, ?4, ?5 WHERE (SELECT count(*) FROM secret_answer WHERE order_id = ?1) < ?6
			ON CONFLICT DO NOTHING`, a.OrderID, a.Account, a.Worker, string(a.Doc), micros(s.now()), store.MaxSecretAnswers)
		return err
	})
}

// SecretAnswers implements store.Secrets.
func (s *Store) SecretAnswers(ctx context.Context, orderID string) ([]store.SecretAnswer, error) {
	return readAll(ctx, s, "answers about secrets", func(row scanner) (a store.SecretAnswer, err error) {
		var doc string
		var at int64
		err = row.Scan(&a.OrderID, &a.Account, &a.Worker, &doc, &at)
		a.Doc, a.At = json.RawMessage(doc), instant(at)
		return a, err
	}, `SELECT order_id, account, worker, doc, at FROM secret_answer WHERE order_id = ? ORDER BY account, worker LIMIT ?`,
		orderID, store.MaxSecretAnswers)
}
