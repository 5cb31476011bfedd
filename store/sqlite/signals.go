package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Receipt implements store.Signals.
func (s *Store) Receipt(ctx context.Context, runID, signalID string) (run.SignalReceipt, error) {
	return readOne(ctx, s, "receipt", scanReceipt, receiptSQL, runID, signalID)
}

const receiptSQL = `SELECT ` + signalColumns + ` FROM signal WHERE run_id = ? AND signal_id = ?`

// Receipts implements store.Signals.
func (s *Store) Receipts(ctx context.Context, runID, afterSignalID string, limit int) ([]run.SignalReceipt, error) {
	return readAll(ctx, s, "receipts", scanReceipt, `SELECT `+signalColumns+` FROM signal WHERE run_id = ?1
		AND pos > coalesce((SELECT pos FROM signal WHERE run_id = ?1 AND signal_id = ?2), 0) ORDER BY pos LIMIT ?3`,
		runID, afterSignalID, clamp(limit, store.MaxPage))
}

// ReceiptsOf implements store.Senders.
func (s *Store) ReceiptsOf(ctx context.Context, f store.SenderFilter) ([]run.SignalReceipt, error) {
	if f.Single {
		return readAll(ctx, s, "single receipts of", scanReceipt, `SELECT `+signalColumns+` FROM (SELECT * FROM signal
			WHERE actor = ?1 ORDER BY received_at DESC LIMIT ?4)
			WHERE signal_id NOT LIKE ?5 AND run_id IN (SELECT run_id FROM run WHERE tenant_id = ?2)
			ORDER BY received_at DESC, run_id, pos DESC LIMIT ?3`, f.Actor, f.TenantID, clamp(f.Limit, store.MaxPage),
			store.MaxSent, store.BulkSignalPrefix+"%")
	}
	return readAll(ctx, s, "receipts of", scanReceipt, `SELECT `+signalColumns+` FROM signal
		WHERE actor = ?1 AND run_id IN (SELECT run_id FROM run WHERE tenant_id = ?2)
		ORDER BY received_at DESC, run_id, pos DESC LIMIT ?3`, f.Actor, f.TenantID, clamp(f.Limit, store.MaxPage))
}

// After implements store.Signals.
func (s *Store) After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error) {
	return readAll(ctx, s, "signals after", scanReceipt, `SELECT `+signalColumns+
		` FROM signal WHERE run_id = ? AND no > ? AND no > 0 ORDER BY no LIMIT ?`,
		runID, no, store.MaxPage)
}

// Receipt implements store.SignalTx.
func (t *runTx) Receipt(ctx context.Context, signalID string) (run.SignalReceipt, error) {
	return collectOne(ctx, t.conn, "receipt", scanReceipt, receiptSQL, t.id.RunID, signalID)
}

// IsUndecided implements store.SignalTx.
func (t *runTx) IsUndecided(ctx context.Context) (bool, error) {
	return collectOne(ctx, t.conn, "undecided", func(row scanner) (some bool, err error) {
		return some, row.Scan(&some)
	}, `SELECT EXISTS (SELECT 1 FROM signal WHERE run_id = ? AND no > 0 AND application IN ('PENDING', 'DELIVERED'))`,
		t.id.RunID)
}

// PutReceipt implements store.SignalTx.
func (t *runTx) PutReceipt(ctx context.Context, r run.SignalReceipt, deliver bool) (run.SignalReceipt, error) {
	r.RunID, r.No = t.id.RunID, 0
	if !r.Rejected {
		r.No = t.head.SignalNo + 1
		r.Application = cmp.Or(r.Application, run.SignalPending)
	}
	if r.ReceivedAt.IsZero() {
		r.ReceivedAt = t.at
	}
	if err := t.insertReceipt(ctx, r); err != nil {
		return run.SignalReceipt{}, err
	}
	t.head.SignalNo = max(t.head.SignalNo, r.No)
	t.bumpOpsRev()
	if deliver && !r.Rejected {
		if _, err := t.conn.exec(
			ctx, "mark delivery", `INSERT INTO delivery (run_id, tenant_id, delivered_no, up_to, owner, generation, lease_until, due_at, attempts)
			VALUES (?1, ?2, ?3 - 1, ?3, '', 0, 0, ?4, 0)
			ON CONFLICT (run_id) DO UPDATE SET up_to = excluded.up_to,
				delivered_no = CASE WHEN delivered_no = up_to THEN excluded.delivered_no ELSE delivered_no END,
				due_at = CASE WHEN delivered_no = up_to THEN excluded.due_at ELSE due_at END`,
			r.RunID, t.id.TenantID, r.No, micros(t.at)); err != nil {
			return run.SignalReceipt{}, err
		}
	}
	return t.Receipt(ctx, r.Signal.ID)
}

// LeaseDeliveries implements store.Signals.
func (s *Store) LeaseDeliveries(ctx context.Context, owner string, ttl time.Duration, limit int) (out []store.Delivery,
	err error) {
	err = s.write(ctx, func(c *conn) (err error) {
		now := s.now()
		out, err = collect(ctx, c, "lease deliveries", func(row scanner) (store.Delivery, error) {
			var d store.Delivery
			return d, row.Scan(&d.RunID, &d.TenantID, &d.Generation, &d.DeliveredNo, &d.Attempts)
		}, `UPDATE delivery SET owner = ?1, generation = generation + 1, attempts = attempts + 1, lease_until = ?2
			WHERE run_id IN (SELECT run_id FROM delivery WHERE delivered_no < up_to AND due_at <= ?3 AND lease_until < ?3
				ORDER BY due_at, run_id LIMIT ?4)
			RETURNING run_id, tenant_id, generation, delivered_no, attempts`,
			owner, micros(now.Add(ttl)), micros(now), clamp(limit, store.MaxPage))
		return err
	})
	return out, err
}

// MarkDelivered implements store.Signals.
func (s *Store) MarkDelivered(ctx context.Context, d store.Delivery, no int64) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "delivered", `UPDATE delivery SET delivered_no = max(delivered_no, min(?, up_to)), attempts = 0
			WHERE run_id = ? AND generation = ? AND lease_until > 0`, no, d.RunID, d.Generation)
		if err != nil || n == 0 {
			return fenceError(ctx, c, "delivery", `SELECT 1 FROM delivery WHERE run_id = ?`, d.RunID, err)
		}
		n, err = c.exec(ctx, "delivered", `UPDATE signal SET application = CASE application WHEN 'PENDING' THEN 'DELIVERED' ELSE application END, delivered_at = ?
			WHERE run_id = ? AND no > 0 AND no <= ? AND (application = 'PENDING' OR type = 'PAUSE' AND application = 'APPLIED' AND delivered_at IS NULL)`, micros(s.now()), d.RunID, no)
		if err != nil || n == 0 {
			return err
		}
		return s.touch(ctx, c, d.RunID)
	})
}

// ReleaseDelivery implements store.Signals.
func (s *Store) ReleaseDelivery(ctx context.Context, d store.Delivery, delay time.Duration) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "settle delivery", `UPDATE delivery SET owner = '', lease_until = 0, due_at = ?
			WHERE run_id = ? AND generation = ? AND lease_until > 0`, micros(s.now().Add(delay)), d.RunID, d.Generation)
		if err != nil || n == 0 {
			return fenceError(ctx, c, "delivery", `SELECT 1 FROM delivery WHERE run_id = ?`, d.RunID, err)
		}
		return nil
	})
}

func (t *runTx) insertReceipt(ctx context.Context, r run.SignalReceipt) error {
	_, err := t.conn.exec(ctx, "insert receipt", `INSERT INTO signal (`+signalColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.id.RunID, r.Signal.ID, r.Signal.Type, r.Signal.StepID, r.Signal.ExpectedAttempt, r.Signal.Force,
		blob(r.Payload), r.Actor, r.Reason, r.No, r.Rejected, r.Rejection, r.RejectText, r.Application, r.ApplicationReason,
		r.AcceptedSeq, r.AppliedSeq, r.QuiescentSeq, micros(r.ReceivedAt), microsOrNil(r.DeliveredAt),
		microsOrNil(r.AppliedAt))
	return err
}

// moveReceipts writes the changes of receipts that a plan contains.
func (t *runTx) moveReceipts(ctx context.Context, p authority.Plan) error {
	var moved int64
	for _, m := range p.Moves {
		n, err := t.move(ctx, m)
		if err != nil {
			return err
		}
		moved += n
	}
	if p.EndsRun {
		n, err := t.conn.exec(ctx, "end receipts", `UPDATE signal SET application = 'NOT_APPLIED', application_reason = ?
			WHERE run_id = ? AND rejected = 0 AND application IN ('PENDING', 'DELIVERED')`, run.CodeRunTerminal, t.id.RunID)
		if err != nil {
			return err
		}
		moved += n
		if _, err := t.conn.exec(ctx, "end delivery", `UPDATE delivery SET delivered_no = up_to WHERE run_id = ?`,
			t.id.RunID); err != nil {
			return err
		}
	}
	if p.QuiescentSeq > 0 {
		n, err := t.conn.exec(ctx, "quiescent receipt", `UPDATE signal SET quiescent_seq = max(applied_seq, ?2)
			WHERE run_id = ?1 AND type = 'PAUSE' AND application = 'APPLIED' AND quiescent_seq = 0
			AND applied_seq = (SELECT max(applied_seq) FROM signal WHERE run_id = ?1 AND type = 'PAUSE' AND application = 'APPLIED')`,
			t.id.RunID, p.QuiescentSeq)
		if err != nil {
			return err
		}
		moved += n
	}
	if moved > 0 {
		t.bumpOpsRev()
	}
	return nil
}

func (t *runTx) move(ctx context.Context, m authority.Move) (int64, error) {
	if m.Application == run.SignalDelivered {
		return t.conn.exec(ctx, "move receipt", `UPDATE signal SET application = 'DELIVERED', delivered_at = ?
			WHERE run_id = ? AND signal_id = ? AND rejected = 0 AND application = 'PENDING'`, micros(t.at), t.id.RunID,
			m.SignalID)
	}
	var applied sql.NullInt64
	if m.Application == run.SignalApplied {
		applied = microsOrNil(&t.at)
	}
	return t.conn.exec(
		ctx, "move receipt", `UPDATE signal SET application = ?, application_reason = ?, applied_seq = ?, applied_at = ?
		WHERE run_id = ? AND signal_id = ? AND rejected = 0 AND application IN ('PENDING', 'DELIVERED')`,
		m.Application, m.Reason, m.AppliedSeq, applied, t.id.RunID, m.SignalID)
}

// sortQueue sorts leased rows by age, because RETURNING has no order.
func sortQueue(rows []store.QueueRow) {
	slices.SortFunc(rows, func(a, b store.QueueRow) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.RunID, b.RunID))
	})
}

// overlaysSQL reads the overlays of run ?1 that concern step ?2. overlaidSQL counts all overlays of the run and reads
// the newest one that concerns the step.
const (
	overlayType = `type IN ('UPDATE_PARAMS', 'INJECT_OVERRIDE', 'UPDATE_TARGET')`
	overlaysSQL = `SELECT ` + signalColumns + ` FROM signal WHERE run_id = ?1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType + ` AND step_id IN ('', ?2)
		AND accepted_seq > ?3 AND accepted_seq <= ?4 ORDER BY accepted_seq LIMIT ?5`
	overlaidSQL = `SELECT count(*), coalesce(max(accepted_seq) FILTER (WHERE step_id IN ('', ?2)), 0)
		FROM signal WHERE run_id = ?1 AND no > 0 AND application = 'APPLIED' AND ` + overlayType
)

// Overlays implements store.Overlays.
func (s *Store) Overlays(ctx context.Context, runID, stepID string, after, upTo run.Seq) ([]run.SignalReceipt, error) {
	return readAll(ctx, s, "overlays", scanReceipt, overlaysSQL, runID, stepID, after, upTo, store.MaxPage)
}

// CountOverlays implements store.OverlayTx.
func (t *runTx) CountOverlays(ctx context.Context, stepID string) (count int, newest run.Seq, err error) {
	newest, err = collectOne(ctx, t.conn, "overlaid", func(row scanner) (seq run.Seq, err error) {
		return seq,
			row.Scan(&count, &seq)
	}, overlaidSQL, t.id.RunID, stepID)
	return count, newest, err
}

// StartAttempt implements store.OverlayTx.
func (t *runTx) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	start, err := authority.PrepareStart(t.id, b)
	if err != nil {
		return store.AttemptStarted{}, err
	}
	facts, err := t.facts(ctx, start.Batch())
	if err != nil {
		return store.AttemptStarted{}, err
	}
	plan, started := authority.DecideStart(t.head, start.WithOverlays(), facts, t.at)
	if wait, err := t.takeHeavyToken(ctx, b.Heavy, plan); err != nil || wait != 0 {
		return authority.ThrottledResult(t.head, wait), err
	}
	if err := t.writePlan(ctx, plan); err != nil {
		return store.AttemptStarted{}, err
	}
	started.Head = t.head
	return started, nil
}
