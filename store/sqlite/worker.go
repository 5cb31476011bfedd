package sqlite

import (
	"context"
	"encoding/json"
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
