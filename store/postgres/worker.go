package postgres

import (
	"context"
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
