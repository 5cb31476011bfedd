package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const signalColumns = `run_id, signal_id, type, step_id, expected_attempt, force, payload, actor, reason, no, rejected,
  rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
  received_at, delivered_at, applied_at`

func scanReceipt(row pgx.Row) (r run.SignalReceipt, err error) {
	return r, row.Scan(&r.RunID, &r.Signal.ID, &r.Signal.Type, &r.Signal.StepID, &r.Signal.ExpectedAttempt,
		&r.Signal.Force,
		verbatim{&r.Payload}, &r.Actor, &r.Reason, &r.No, &r.Rejected, &r.Rejection, &r.RejectText, &r.Application,
		&r.ApplicationReason, &r.AcceptedSeq, &r.AppliedSeq, &r.QuiescentSeq,
		utc{&r.ReceivedAt}, utcOrNil{&r.DeliveredAt}, utcOrNil{&r.AppliedAt})
}

const receiptSQL = `SELECT ` + signalColumns + ` FROM signal WHERE run_id = $1 AND signal_id = $2`

// Receipt implements store.Signals.
func (s *Store) Receipt(ctx context.Context, runID, signalID string) (r run.SignalReceipt, err error) {
	err = s.do(ctx, "receipt", func(ctx context.Context, c *pgx.Conn) error {
		r, err = scanReceipt(c.QueryRow(ctx, receiptSQL, runID, signalID))
		return err
	})
	return r, err
}

// Receipts implements store.Signals.
func (s *Store) Receipts(ctx context.Context, runID, afterSignalID string, limit int) ([]run.SignalReceipt, error) {
	return s.receipts(ctx, `SELECT `+signalColumns+` FROM signal WHERE run_id = $1
		AND pos > coalesce((SELECT pos FROM signal WHERE run_id = $1 AND signal_id = $2), 0) ORDER BY pos LIMIT $3`,
		runID, afterSignalID, pageSize(limit))
}

// ReceiptsOf implements store.Senders.
func (s *Store) ReceiptsOf(ctx context.Context, f store.SenderFilter) ([]run.SignalReceipt, error) {
	if f.Single {
		return s.receipts(ctx, `SELECT `+signalColumns+` FROM (SELECT * FROM signal WHERE actor = $1
			ORDER BY received_at DESC LIMIT $4) s WHERE signal_id NOT LIKE $5 AND run_id IN (SELECT run_id FROM run WHERE tenant_id = $2)
			ORDER BY received_at DESC, run_id, pos DESC LIMIT $3`, f.Actor, f.TenantID, pageSize(f.Limit), store.MaxSent,
			store.BulkSignalPrefix+"%")
	}
	return s.receipts(ctx, `SELECT `+signalColumns+` FROM signal
		WHERE actor = $1 AND run_id IN (SELECT run_id FROM run WHERE tenant_id = $2)
		ORDER BY received_at DESC, run_id, pos DESC LIMIT $3`, f.Actor, f.TenantID, pageSize(f.Limit))
}

// After implements store.Signals.
func (s *Store) After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error) {
	return s.receipts(ctx, `SELECT `+signalColumns+` FROM signal WHERE run_id = $1 AND no > $2 AND no > 0
		ORDER BY no LIMIT $3`, runID, no, store.MaxPage)
}

func (s *Store) receipts(ctx context.Context, sql string, args ...any) ([]run.SignalReceipt, error) {
	scan := func(row pgx.CollectableRow) (run.SignalReceipt, error) { return scanReceipt(row) }
	return collect(ctx, s, "receipts", scan, sql,
		args...)
}

// Receipt implements store.SignalTx.
func (r runTx) Receipt(ctx context.Context, signalID string) (run.SignalReceipt, error) {
	if err := r.t.flush(ctx); err != nil {
		return run.SignalReceipt{}, translate(ctx, err)
	}
	out, err := scanReceipt(r.t.conn.QueryRow(ctx, receiptSQL, r.t.id.RunID, signalID))
	return out, translate(ctx, err)
}

// IsUndecided implements store.SignalTx.
func (r runTx) IsUndecided(ctx context.Context) (some bool, err error) {
	if err := r.t.flush(ctx); err != nil {
		return false, translate(ctx, err)
	}
	err = r.t.conn.QueryRow(
		ctx, `SELECT EXISTS (SELECT FROM signal WHERE run_id = $1 AND no > 0 AND application IN ('PENDING', 'DELIVERED'))`,
		r.t.id.RunID).Scan(&some)
	return some, translate(ctx, err)
}

const putReceiptSQL = `INSERT INTO signal (` + signalColumns + `)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
ON CONFLICT (run_id, signal_id) DO NOTHING RETURNING ` + signalColumns

// putDeliverySQL makes the delivery of the run due at once. If an earlier signal is not delivered yet, the due time
// stays: a worker is delivering it or waits for the retry.
const putDeliverySQL = `INSERT INTO delivery AS d (run_id, tenant_id, delivered_no, up_to, due_at) VALUES ($1, $2, $3 - 1, $3, $4)
ON CONFLICT (run_id) DO UPDATE SET up_to = excluded.up_to,
  delivered_no = CASE WHEN d.delivered_no = d.up_to THEN excluded.delivered_no ELSE d.delivered_no END,
  due_at = CASE WHEN d.delivered_no = d.up_to THEN excluded.due_at ELSE d.due_at END`

// PutReceipt implements store.SignalTx. A zero ReceivedAt becomes the store's time.
func (r runTx) PutReceipt(ctx context.Context, in run.SignalReceipt, deliver bool) (run.SignalReceipt, error) {
	t := r.t
	in.RunID, in.No = t.id.RunID, 0
	if !in.Rejected {
		in.No = t.head.SignalNo + 1
		in.Application = cmp.Or(in.Application, run.SignalPending)
	}
	if in.ReceivedAt.IsZero() {
		in.ReceivedAt = t.at()
	}
	if err := t.flush(ctx); err != nil {
		return run.SignalReceipt{}, translate(ctx, err)
	}
	out, err := scanReceipt(t.conn.QueryRow(ctx, putReceiptSQL, in.RunID, in.Signal.ID, in.Signal.Type, in.Signal.StepID,
		in.Signal.ExpectedAttempt, in.Signal.Force, text(in.Payload), in.Actor, in.Reason, in.No, in.Rejected, in.Rejection,
		in.RejectText, in.Application, in.ApplicationReason, in.AcceptedSeq, in.AppliedSeq, in.QuiescentSeq,
		in.ReceivedAt, in.DeliveredAt, in.AppliedAt))
	if errors.Is(err, pgx.ErrNoRows) {
		return run.SignalReceipt{}, store.ErrConflict
	}
	if err != nil {
		return run.SignalReceipt{}, translate(ctx, err)
	}
	t.head.SignalNo = max(t.head.SignalNo, out.No)
	t.ops = true
	if deliver && !out.Rejected {
		t.batch.Queue(putDeliverySQL, t.id.RunID, t.id.TenantID, out.No, t.at())
	}
	return out, nil
}

const leaseDeliveriesSQL = `WITH due AS (
  SELECT run_id FROM delivery WHERE delivered_no < up_to AND due_at <= clock_timestamp() AND lease_until < clock_timestamp()
  ORDER BY due_at, run_id LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE delivery d SET owner = $1, generation = generation + 1, attempts = attempts + 1,
  lease_until = clock_timestamp() + $2::interval
FROM due WHERE d.run_id = due.run_id
RETURNING d.run_id, d.tenant_id, d.generation, d.delivered_no, d.attempts`

// LeaseDeliveries implements store.Signals.
func (s *Store) LeaseDeliveries(ctx context.Context, owner string, ttl time.Duration, limit int) ([]store.Delivery,
	error) {
	return collect(ctx, s, "lease deliveries", func(row pgx.CollectableRow) (d store.Delivery, err error) {
		return d, row.Scan(&d.RunID, &d.TenantID, &d.Generation, &d.DeliveredNo, &d.Attempts)
	}, leaseDeliveriesSQL, owner, ttl, pageSize(limit))
}

// MarkDelivered implements store.Signals.
func (s *Store) MarkDelivered(ctx context.Context, d store.Delivery, no int64) error {
	return s.withHeadLock(ctx, "delivered", d.RunID, func(ctx context.Context, t *tx) error {
		var held, moved int64
		t.batch.Queue(`UPDATE delivery SET delivered_no = greatest(delivered_no, least($3, up_to)), attempts = 0
			WHERE run_id = $1 AND generation = $2 AND lease_until > 'epoch'`, d.RunID, d.Generation, no).
			Exec(rowsAffected(func(n int64) { held = n }))
		t.batch.Queue(`UPDATE signal SET application = CASE application WHEN 'PENDING' THEN 'DELIVERED' ELSE application END, delivered_at = $3
			WHERE run_id = $1 AND no > 0 AND no <= $2 AND (application = 'PENDING' OR type = 'PAUSE' AND application = 'APPLIED' AND delivered_at IS NULL)`, d.RunID, no, t.at()).
			Exec(rowsAffected(func(n int64) { moved = n }))
		if err := t.flush(ctx); err != nil {
			return err
		}
		if held == 0 {
			return store.ErrConflict
		}
		t.ops = moved > 0
		return nil
	})
}

// ReleaseDelivery implements store.Signals.
func (s *Store) ReleaseDelivery(ctx context.Context, d store.Delivery, delay time.Duration) error {
	return s.do(ctx, "settle delivery", func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(
			ctx, `UPDATE delivery SET owner = '', lease_until = 'epoch', due_at = clock_timestamp() + $3::interval
			WHERE run_id = $1 AND generation = $2 AND lease_until > 'epoch'`, d.RunID, d.Generation, delay)
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrConflict
		}
		return err
	})
}

// overlaysSQL reads the overlays of run $1 that concern step $2. overlaidSQL counts all overlays of the run and reads
// the newest one that concerns the step.
const (
	overlayType = `type IN ('UPDATE_PARAMS', 'INJECT_OVERRIDE', 'UPDATE_TARGET')`
	overlaysSQL = `SELECT ` + signalColumns +
		` FROM signal WHERE run_id = $1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType + ` AND step_id IN ('', $2)
		AND accepted_seq > $3 AND accepted_seq <= $4 ORDER BY accepted_seq LIMIT $5`
	overlaidSQL = `SELECT count(*), coalesce(max(accepted_seq) FILTER (WHERE step_id IN ('', $2)), 0)
		FROM signal WHERE run_id = $1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType
)

// Overlays implements store.Overlays.
func (s *Store) Overlays(ctx context.Context, runID, stepID string, after, upTo run.Seq) ([]run.SignalReceipt, error) {
	return s.receipts(ctx, overlaysSQL, runID, stepID, after, upTo, store.MaxPage)
}

// CountOverlays implements store.OverlayTx.
func (r runTx) CountOverlays(ctx context.Context, stepID string) (count int, newest run.Seq, err error) {
	if err := r.t.flush(ctx); err != nil {
		return 0, 0, translate(ctx, err)
	}
	err = r.t.conn.QueryRow(ctx, overlaidSQL, r.t.id.RunID, stepID).Scan(&count, &newest)
	return count, newest, translate(ctx, err)
}

// StartAttempt implements store.OverlayTx.
func (r runTx) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := r.t.startAttempt(ctx, b, run.GateOverlaid)
	return out, translate(ctx, err)
}
