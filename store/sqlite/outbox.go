package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const publishFailedSQL = `UPDATE run_dirty SET attempts = attempts + 1, upto = iif(attempts = 0, ?, upto), not_before = ?
	WHERE run_id = ? RETURNING attempts, upto`

// RecordRefusal implements store.Outbox.
func (s *Store) RecordRefusal(ctx context.Context, runID string, to run.Seq, _ string,
	retryIn time.Duration) (r store.Refusal, err error) {
	err = s.write(ctx, func(c *conn) (err error) {
		r, err = collectOne(ctx, c, "publish failed", scanRefusal, publishFailedSQL, to, micros(s.now().Add(retryIn)), runID)
		return err
	})
	return r, err
}

func scanRefusal(row scanner) (r store.Refusal, err error) {
	err = row.Scan(&r.Attempts, &r.Upto)
	return r, err
}

const addDeadLetterSQL = `INSERT INTO dead_letter (id, tenant_id, project_id, run_id, from_seq, to_seq, attempts, cause, created_at)
	SELECT ?3, st.tenant_id, st.project_id, st.run_id, st.published_seq, ?2, d.attempts, ?4, ?5
	FROM run_dirty d JOIN run_state st USING (run_id)
	WHERE d.run_id = ?1 AND d.attempts > 0 AND d.upto = ?2 AND st.published_seq < ?2`

// AddDeadLetter implements store.Outbox.
func (s *Store) AddDeadLetter(ctx context.Context, runID string, upto run.Seq, cause string) (added bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "add dead letter", addDeadLetterSQL,
			runID, upto, uuid.NewString(), cause, micros(s.now()))
		if err != nil || n == 0 {
			return err
		}
		added = true
		return s.published(ctx, c, runID, upto, maxOpsRev)
	})
	return added && err == nil, err
}

// maxOpsRev, passed to published, removes a dirty mark with any ops_rev.
const maxOpsRev = 1<<63 - 1

// DeadLetters implements store.Outbox.
func (s *Store) DeadLetters(ctx context.Context, f store.DeadLetterFilter) ([]store.DeadLetter, error) {
	w := new(where)
	w.add("tenant_id = ?", f.TenantID)
	if f.RunID != "" {
		w.add("run_id = ?", f.RunID)
	}
	if f.ID != "" {
		w.add("id = ?", f.ID)
	}
	if f.Open {
		w.add("redriven_at IS NULL")
	}
	if f.Before != "" {
		w.add("pos < (SELECT pos FROM dead_letter WHERE id = ?)", f.Before)
	}
	return readAll(ctx, s, "dead letters", scanDeadLetter, `SELECT id, tenant_id, project_id, run_id, from_seq, to_seq, attempts, cause, created_at, redriven_at
		FROM dead_letter WHERE `+w.String()+` ORDER BY pos DESC LIMIT ?`, append(w.args, clamp(f.Limit, store.MaxPage))...)
}

func scanDeadLetter(row scanner) (store.DeadLetter, error) {
	var d store.DeadLetter
	var created int64
	var redriven sql.NullInt64
	err := row.Scan(&d.ID, &d.TenantID, &d.ProjectID, &d.RunID, &d.From, &d.To, &d.Attempts, &d.Cause, &created, &redriven)
	d.CreatedAt, d.RedrivenAt = instant(created), instantOrNil(redriven)
	return d, err
}

// MarkRedriven implements store.Outbox.
func (s *Store) MarkRedriven(ctx context.Context, id string) (first bool, err error) {
	err = s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "redriven", `UPDATE dead_letter SET redriven_at = ? WHERE id = ? AND redriven_at IS NULL`,
			micros(s.now()), id)
		if first = n > 0; first || err != nil {
			return err
		}
		_, err = collectOne(ctx, c, "redriven", value[int], `SELECT 1 FROM dead_letter WHERE id = ?`, id)
		return err
	})
	return first && err == nil, err
}
