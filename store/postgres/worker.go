package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const putWorkerReportsSQL = `INSERT INTO worker_report (account, worker, queue, doc, at)
  SELECT u.account, u.worker, u.queue, u.doc::json, clock_timestamp()
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) u (account, worker, queue, doc) ORDER BY 1, 2, 3
  ON CONFLICT (account, worker, queue) DO UPDATE SET doc = excluded.doc, at = excluded.at`

// Rows of equal time are sorted by their key, so that concurrent servers delete the same rows.
const (
	forgetOldReportsSQL = `DELETE FROM worker_report WHERE at < clock_timestamp() - $1::interval`
	forgetMostOfSQL     = `DELETE FROM worker_report WHERE (account, worker, queue) IN
  (SELECT account, worker, queue FROM worker_report WHERE account = $1 ORDER BY at DESC, worker, queue OFFSET $2)`
	forgetMostReportsSQL = `DELETE FROM worker_report WHERE (account, worker, queue) IN
  (SELECT account, worker, queue FROM worker_report ORDER BY at DESC, account, worker, queue OFFSET $1)`
	forgetDrainsSQL = `DELETE FROM worker_drain d WHERE NOT EXISTS
  (SELECT FROM worker_report r WHERE r.account = d.account AND r.worker = d.worker)`
)

// PutWorkerReports implements store.Workers. A table lock serializes its transactions, so that they cannot deadlock on
// each other's rows.
func (s *Store) PutWorkerReports(ctx context.Context, rows []store.WorkerReport, audit ...store.AuditRow) error {
	if len(rows) == 0 {
		return nil
	}
	var columns [4][]string
	for _, r := range rows {
		for i, v := range [...]string{r.Account, r.Worker, r.Queue, string(r.Doc)} {
			columns[i] = append(columns[i], v)
		}
	}
	return s.do(ctx, "put worker reports", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		queueBegin(&b)
		b.Queue(`LOCK TABLE worker_report IN SHARE ROW EXCLUSIVE MODE`)
		b.Queue(putWorkerReportsSQL, columns[0], columns[1], columns[2], columns[3])
		b.Queue(forgetOldReportsSQL, store.WorkerReportLife)
		b.Queue(forgetMostOfSQL, rows[0].Account, store.MaxAccountReports)
		b.Queue(forgetMostReportsSQL, store.MaxWorkerReports)
		b.Queue(forgetDrainsSQL)
		queueAudit(&b, audit)
		b.Queue(`commit`)
		return c.SendBatch(ctx, &b).Close()
	})
}

// WorkerReports implements store.Workers.
func (s *Store) WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error) {
	return collect(ctx, s, "worker reports", func(row pgx.CollectableRow) (r store.WorkerReport, err error) {
		return r, row.Scan(&r.Account, &r.Worker, &r.Queue, verbatim{&r.Doc}, utc{&r.At})
	}, `SELECT account, worker, queue, doc, at FROM worker_report
		WHERE (cardinality($1::text[]) = 0 OR queue = ANY ($1)) AND at >= clock_timestamp() - $2::interval
		ORDER BY queue, account, worker LIMIT $3`, append([]string{}, queues...), age, store.MaxWorkerReports)
}

const (
	drainColumns   = `account, worker, request_id, actor, reason, at`
	drainWorkerSQL = `INSERT INTO worker_drain (` + drainColumns + `)
  SELECT $1, $2, $3, $4, $5, clock_timestamp()
  WHERE EXISTS (SELECT FROM worker_report WHERE account = $1 AND worker = $2) ON CONFLICT DO NOTHING RETURNING ` +
		drainColumns
)

func scanDrain(row pgx.CollectableRow) (d store.WorkerDrain, err error) {
	return d, row.Scan(&d.Account, &d.Worker, &d.RequestID, &d.Actor, &d.Reason, utc{&d.At})
}

// DrainWorker implements store.Workers.
func (s *Store) DrainWorker(ctx context.Context, d store.WorkerDrain, audit ...store.AuditRow) (store.WorkerDrain,
	error) {
	var out store.WorkerDrain
	err := s.inTx(ctx, "drain worker", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) (err error) {
		out, err = one(ctx, c, scanDrain, drainWorkerSQL, d.Account, d.Worker, d.RequestID, d.Actor, d.Reason)
		if errors.Is(err, pgx.ErrNoRows) {
			out, err = one(ctx, c, scanDrain, `SELECT `+drainColumns+` FROM worker_drain WHERE account = $1 AND worker = $2`,
				d.Account, d.Worker)
		} else {
			queueAudit(last, audit)
		}
		return err
	})
	return out, err
}

// EndWorkerDrain implements store.Workers.
func (s *Store) EndWorkerDrain(ctx context.Context, account, worker string, audit ...store.AuditRow) error {
	return s.inTx(ctx, "end drain of worker", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		tag, err := c.Exec(ctx, `DELETE FROM worker_drain WHERE account = $1 AND worker = $2`, account, worker)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return store.ErrNotFound
		}
		queueAudit(last, audit)
		return nil
	})
}

// WorkerDrains implements store.Workers.
func (s *Store) WorkerDrains(ctx context.Context, account string) ([]store.WorkerDrain, error) {
	return collect(ctx, s, "drains of workers", scanDrain, `SELECT `+drainColumns+` FROM worker_drain
		WHERE $1 IN ('', account) ORDER BY account, worker LIMIT $2`, account, store.MaxWorkerReports)
}
