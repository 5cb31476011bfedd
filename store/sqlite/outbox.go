package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// PublishFailed implements store.Outbox.
func (s *Store) PublishFailed(ctx context.Context, runID string, to run.Seq, _ string, retryIn time.Duration) (r store.Refusal, err error) {
	err = s.write(ctx, "publish failed", func(tx *sql.Tx) error {
		return s.failed("publish failed", tx.QueryRowContext(ctx, `UPDATE run_dirty SET attempts = attempts + 1, upto = iif(upto = 0, ?, upto), not_before = ?
			WHERE run_id = ? RETURNING attempts, upto`, to, micros(s.now().Add(retryIn)), runID).Scan(&r.Attempts, &r.Upto))
	})
	return r, err
}

// Bury implements store.Outbox.
func (s *Store) Bury(ctx context.Context, runID string, upto run.Seq, cause string) (buried bool, err error) {
	err = s.write(ctx, "bury", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO outbox_dead (id, tenant_id, project_id, run_id, from_seq, to_seq, attempts, cause, buried_at)
			SELECT ?3, st.tenant_id, st.project_id, st.run_id, st.published_seq, ?2, d.attempts, ?4, ?5
			FROM run_dirty d JOIN run_state st USING (run_id)
			WHERE d.run_id = ?1 AND d.attempts > 0 AND d.upto = ?2 AND st.published_seq < ?2`,
			runID, upto, uuid.NewString(), cause, micros(s.now()))
		if err != nil {
			return s.failed("bury", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return s.failed("bury", err)
		}
		buried = true
		return s.published(ctx, tx, runID, upto, maxOpsRev)
	})
	return buried && err == nil, err
}

// maxOpsRev lets a mark go whatever moved beside the log.
const maxOpsRev = 1<<63 - 1

// DeadLetters implements store.Outbox.
func (s *Store) DeadLetters(ctx context.Context, f store.DeadLetterFilter) (out []store.DeadLetter, err error) {
	where, args := []string{"tenant_id = ?"}, []any{f.TenantID}
	add := func(condition string, arg ...any) { where, args = append(where, condition), append(args, arg...) }
	if f.RunID != "" {
		add("run_id = ?", f.RunID)
	}
	if f.ID != "" {
		add("id = ?", f.ID)
	}
	if f.Open {
		add("redriven_at IS NULL")
	}
	if f.Before != "" {
		add("pos < (SELECT pos FROM outbox_dead WHERE id = ?)", f.Before)
	}
	args = append(args, clamp(f.Limit, store.MaxPage))
	err = s.read(ctx, "dead letters", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, tenant_id, project_id, run_id, from_seq, to_seq, attempts, cause, buried_at, redriven_at
			FROM outbox_dead WHERE `+strings.Join(where, " AND ")+` ORDER BY pos DESC LIMIT ?`, args...)
		out, err = collect(rows, err, func(row scanner) (store.DeadLetter, error) {
			var d store.DeadLetter
			var buried int64
			var redriven sql.NullInt64
			err := row.Scan(&d.ID, &d.TenantID, &d.ProjectID, &d.RunID, &d.From, &d.To, &d.Attempts, &d.Cause, &buried, &redriven)
			d.BuriedAt, d.RedrivenAt = instant(buried), instantOrNil(redriven)
			return d, err
		})
		return s.failed("dead letters", err)
	})
	return out, err
}

// Redriven implements store.Outbox.
func (s *Store) Redriven(ctx context.Context, id string) (first bool, err error) {
	err = s.write(ctx, "redriven", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE outbox_dead SET redriven_at = ? WHERE id = ? AND redriven_at IS NULL`, micros(s.now()), id)
		if err != nil {
			return s.failed("redriven", err)
		}
		n, err := res.RowsAffected()
		if first = n > 0; first || err != nil {
			return s.failed("redriven", err)
		}
		var one int
		return s.failed("redriven", tx.QueryRowContext(ctx, `SELECT 1 FROM outbox_dead WHERE id = ?`, id).Scan(&one))
	})
	return first && err == nil, err
}
