package postgres

import (
	"context"
	"encoding/json"
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

const putSecretReadsSQL = `INSERT INTO secret_read (tenant_id, run_id, step_id, account, worker, provider, key, version, answered,
  given_as, code, logical_attempt, engine_attempt, no, cached)
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::int[], $13::int[], $14::int[], $15::boolean[])
  ON CONFLICT DO NOTHING`

// PutSecretReads implements store.Secrets.
func (s *Store) PutSecretReads(ctx context.Context, rows []store.SecretRead) error {
	if len(rows) == 0 {
		return nil
	}
	var texts [11][]string
	var numbers [3][]int
	var cached []bool
	for _, r := range rows {
		for i, v := range [...]string{r.TenantID, r.RunID, r.StepID, r.Account, r.Worker, r.Provider, r.Key, r.Version,
			r.Answered, r.As, string(r.Code)} {
			texts[i] = append(texts[i], v)
		}
		for i, n := range [...]int{r.LogicalAttempt, r.EngineAttempt, r.No} {
			numbers[i] = append(numbers[i], n)
		}
		cached = append(cached, r.Cached)
	}
	args := make([]any, 0, len(texts)+len(numbers)+1)
	for _, column := range texts {
		args = append(args, column)
	}
	for _, column := range numbers {
		args = append(args, column)
	}
	return s.execOnce(ctx, "put secret reads", putSecretReadsSQL, append(args, cached)...)
}

// SecretReads implements store.Secrets.
func (s *Store) SecretReads(ctx context.Context, f store.SecretReadFilter) ([]store.SecretRead, error) {
	w := new(filter)
	w.add("tenant_id = ?", f.TenantID)
	for _, t := range []struct{ column, value string }{{"run_id", f.RunID}, {"step_id", f.StepID},
		{"provider", f.Provider}, {"key", f.Key}} {
		if t.value != "" {
			w.add(t.column+" = ?", t.value)
		}
	}
	if !f.From.IsZero() {
		w.add("at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.add("at < ?", f.To)
	}
	if f.Before != "" {
		last, err := store.ParseSecretReadCursor(f.Before)
		if err != nil {
			return nil, err
		}
		w.add("(at, run_id, step_id, logical_attempt, engine_attempt, no) < (?, ?, ?, ?, ?, ?)", last.At, last.RunID,
			last.StepID, last.LogicalAttempt, last.EngineAttempt, last.No)
	}
	scan := func(row pgx.CollectableRow) (r store.SecretRead, err error) {
		return r, row.Scan(&r.Pos, utc{&r.At}, &r.TenantID, &r.RunID, &r.StepID, &r.LogicalAttempt, &r.EngineAttempt, &r.No,
			&r.Account, &r.Worker, &r.Provider, &r.Key, &r.Version, &r.Answered, &r.As, &r.Cached, &r.Code)
	}
	query := `SELECT pos, at, tenant_id, run_id, step_id, logical_attempt, engine_attempt, no, account, worker, provider, key,
		version, answered, given_as, cached, code FROM secret_read WHERE ` + w.String() +
		w.bind(` ORDER BY at DESC, run_id DESC, step_id DESC, logical_attempt DESC, engine_attempt DESC, no DESC
		LIMIT ?`, pageSize(f.Limit))
	return collect(ctx, s, "secret reads", scan, query, w.args...)
}

const secretOrderColumns = `id, kind, tenant_id, actor, request_id, reason, doc, at`

func scanSecretOrder(row pgx.CollectableRow) (o store.SecretOrder, err error) {
	var doc string
	err = row.Scan(&o.ID, &o.Kind, &o.TenantID, &o.Actor, &o.RequestID, &o.Reason, &doc, utc{&o.At})
	o.Doc = json.RawMessage(doc)
	return o, err
}

// PutSecretOrder implements store.Secrets. A lock of the tenant serializes its transactions, so that two calls at once
// neither exceed the limit nor write an order twice.
func (s *Store) PutSecretOrder(ctx context.Context, o store.SecretOrder,
	audit ...store.AuditRow) (out store.SecretOrder, err error) {
	err = s.inTx(ctx, "put order about secrets", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		if _, err := c.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('secret_order'), hashtext($1))`,
			o.TenantID); err != nil {
			return err
		}
		out, err = one(ctx, c, scanSecretOrder, `SELECT `+secretOrderColumns+` FROM secret_order WHERE id = $1`, o.ID)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		life, most := o.Kind.Bounds()
		open, err := one(ctx, c, pgx.RowTo[int], `SELECT count(*) FROM secret_order WHERE tenant_id = $1 AND kind = $2
			AND at > clock_timestamp() - $3::interval`, o.TenantID, o.Kind, life)
		if err != nil {
			return err
		}
		if open >= most {
			return store.ErrTooMany
		}
		if _, err := c.Exec(ctx, `WITH gone AS (DELETE FROM secret_order WHERE at < clock_timestamp() - $1::interval
			RETURNING id) DELETE FROM secret_answer WHERE order_id IN (SELECT id FROM gone)`,
			store.SecretOrderLife); err != nil {
			return err
		}
		queueAudit(last, audit)
		out, err = one(ctx, c, scanSecretOrder, `INSERT INTO secret_order (`+secretOrderColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp()) RETURNING `+secretOrderColumns, o.ID, o.Kind, o.TenantID,
			o.Actor, o.RequestID, o.Reason, string(o.Doc))
		return err
	})
	return out, err
}

// OpenSecretOrders implements store.Secrets.
func (s *Store) OpenSecretOrders(ctx context.Context) ([]store.SecretOrder, error) {
	return collect(ctx, s, "orders about secrets", scanSecretOrder, `SELECT `+secretOrderColumns+` FROM secret_order
		WHERE at > clock_timestamp() - $1::interval AND (kind <> $2 OR at > clock_timestamp() - $3::interval)
		ORDER BY at, id LIMIT $4`, store.SecretRevocationLife, store.SecretCheck, store.SecretCheckLife, store.MaxPage)
}

// PutSecretAnswer implements store.Secrets.
func (s *Store) PutSecretAnswer(ctx context.Context, a store.SecretAnswer) error {
	known, err := collect(ctx, s, "put answer about secrets", pgx.RowTo[int], `WITH o AS (SELECT id FROM secret_order
		WHERE id = $1), put AS (INSERT INTO secret_answer (order_id, account, worker, doc, at)
		SELECT id, $2, $3, $4, clock_timestamp() FROM o
		WHERE (SELECT count(*) FROM secret_answer WHERE order_id = $1) < $5 ON CONFLICT DO NOTHING)
		SELECT 1 FROM o`, a.OrderID, a.Account, a.Worker, string(a.Doc), store.MaxSecretAnswers)
	if err == nil && len(known) == 0 {
		return store.ErrNotFound
	}
	return err
}

// SecretAnswers implements store.Secrets.
func (s *Store) SecretAnswers(ctx context.Context, orderID string) ([]store.SecretAnswer, error) {
	return collect(ctx, s, "answers about secrets", func(row pgx.CollectableRow) (a store.SecretAnswer, err error) {
		var doc string
		err = row.Scan(&a.OrderID, &a.Account, &a.Worker, &doc, utc{&a.At})
		a.Doc = json.RawMessage(doc)
		return a, err
	}, `SELECT order_id, account, worker, doc, at FROM secret_answer WHERE order_id = $1 ORDER BY account, worker LIMIT $2`,
		orderID, store.MaxSecretAnswers)
}
