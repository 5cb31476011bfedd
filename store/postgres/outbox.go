package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RecordRefusal implements store.Outbox.
func (s *Store) RecordRefusal(ctx context.Context, runID string, to run.Seq, cause string,
	retryIn time.Duration) (r store.Refusal, err error) {
	err = s.do(ctx, "publish failed", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `UPDATE run_dirty SET attempts = attempts + 1, upto = CASE WHEN upto = 0 THEN $2 ELSE upto END,
			not_before = clock_timestamp() + $3::interval WHERE run_id = $1 RETURNING attempts, upto`,
			runID, to, retryIn).Scan(&r.Attempts, &r.Upto)
	})
	return r, err
}

const addDeadLetterSQL = `WITH due AS (
  SELECT d.run_id, d.attempts, st.published_seq, st.tenant_id, st.project_id
  FROM run_dirty d JOIN run_state st USING (run_id)
  WHERE d.run_id = $1 AND d.attempts > 0 AND d.upto = $2 AND st.published_seq < $2
  FOR UPDATE OF d
), letter AS (
  INSERT INTO dead_letter (tenant_id, project_id, run_id, from_seq, to_seq, attempts, cause)
  SELECT tenant_id, project_id, run_id, published_seq, $2, attempts, $3 FROM due
), moved AS (
  UPDATE run_state st SET published_seq = $2, xid = pg_current_xact_id() FROM due WHERE st.run_id = due.run_id
), done AS (
  DELETE FROM run_dirty d USING due WHERE d.run_id = due.run_id AND d.head_seq <= $2
), kept AS (
  UPDATE run_dirty d SET attempts = 0, upto = 0, not_before = 'epoch' FROM due WHERE d.run_id = due.run_id AND d.head_seq > $2
)
SELECT count(*) FROM due`

// AddDeadLetter implements store.Outbox.
func (s *Store) AddDeadLetter(ctx context.Context, runID string, upto run.Seq, cause string) (added bool, err error) {
	err = s.do(ctx, "add dead letter", func(ctx context.Context, c *pgx.Conn) error {
		var n int
		err := c.QueryRow(ctx, addDeadLetterSQL, runID, upto, cause).Scan(&n)
		added = n > 0
		return err
	})
	return added, err
}

// DeadLetters implements store.Outbox.
func (s *Store) DeadLetters(ctx context.Context, lf store.DeadLetterFilter) ([]store.DeadLetter, error) {
	var f filter
	f.add("tenant_id = ?", lf.TenantID)
	if lf.RunID != "" {
		f.add("run_id = ?", lf.RunID)
	}
	if lf.ID != "" {
		f.add("id::text = ?", lf.ID)
	}
	if lf.Open {
		f.add("redriven_at IS NULL")
	}
	if lf.Before != "" {
		f.add("pos < (SELECT pos FROM dead_letter WHERE id::text = ?)", lf.Before)
	}
	query := `SELECT id::text, tenant_id, project_id, run_id, from_seq, to_seq, attempts, cause, created_at, redriven_at
		FROM dead_letter WHERE ` + f.String() + f.bind(` ORDER BY pos DESC LIMIT ?`, pageSize(lf.Limit))
	return collect(ctx, s, "dead letters", func(row pgx.CollectableRow) (d store.DeadLetter, err error) {
		return d, row.Scan(&d.ID, &d.TenantID, &d.ProjectID, &d.RunID, &d.From, &d.To, &d.Attempts, &d.Cause,
			utc{&d.CreatedAt}, utcOrNil{&d.RedrivenAt})
	}, query, f.args...)
}

// MarkRedriven implements store.Outbox.
func (s *Store) MarkRedriven(ctx context.Context, id string) (first bool, err error) {
	err = s.do(ctx, "redriven", func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(
			ctx, `UPDATE dead_letter SET redriven_at = clock_timestamp() WHERE id::text = $1 AND redriven_at IS NULL`, id)
		if first = tag.RowsAffected() > 0; first || err != nil {
			return err
		}
		var one int
		return c.QueryRow(ctx, `SELECT 1 FROM dead_letter WHERE id::text = $1`, id).Scan(&one)
	})
	return first, err
}
