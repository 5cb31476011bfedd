package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Load implements store.States.
func (s *Store) Load(ctx context.Context, runID string) (l store.Loaded, err error) {
	err = s.read(ctx, "load", func(tx *sql.Tx) (err error) {
		l, err = s.load(ctx, tx, runID)
		return err
	})
	return l, err
}

// Since implements store.States.
func (s *Store) Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
	l, err := s.Load(ctx, runID)
	if err != nil {
		return store.Loaded{}, run.Delta{}, err
	}
	return l, l.State.Since(w), nil
}

// load reads checkpoint and tail in the snapshot of tx.
func (s *Store) load(ctx context.Context, tx *sql.Tx, runID string) (store.Loaded, error) {
	r, err := scanRun(tx.QueryRowContext(ctx, `SELECT `+runColumns+` FROM run WHERE run_id = ?`, runID))
	if err != nil {
		return store.Loaded{}, s.failed("load run "+runID, err)
	}
	var l store.Loaded
	if l.Head, err = scanHead(tx.QueryRowContext(ctx, `SELECT `+headColumns+` FROM run_head WHERE run_id = ?`, runID)); err != nil {
		return store.Loaded{}, s.failed("load head", err)
	}
	if l.Epoch, err = s.epoch(ctx, tx); err != nil {
		return store.Loaded{}, err
	}
	checkpoint, published, err := s.checkpoint(ctx, tx, r)
	if err != nil {
		return store.Loaded{}, err
	}
	l.PublishedSeq = published
	tail, err := queryEvents(ctx, tx, r.Identity, `SELECT `+eventColumns+` FROM event WHERE run_id = ? AND run_seq > ? ORDER BY run_seq`,
		runID, checkpoint.Seq)
	if err != nil {
		return store.Loaded{}, s.failed("load tail", err)
	}
	l.Now = s.now()
	return authority.Fold(l, checkpoint, tail), nil
}

// checkpoint is the stored state, or the base of the run when there is none that
// this program can fold on.
func (s *Store) checkpoint(ctx context.Context, tx *sql.Tx, r store.Run) (state run.State, published run.Seq, err error) {
	var rev int
	var header []byte
	err = tx.QueryRowContext(ctx, `SELECT rev, published_seq, header FROM run_state WHERE run_id = ?`, r.RunID).Scan(&rev, &published, &header)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return authority.Base(r), 0, nil
	case err != nil:
		return run.State{}, 0, s.failed("load checkpoint", err)
	case !authority.Current(rev):
		return authority.Base(r), published, nil
	}
	if err := json.Unmarshal(header, &state.Header); err != nil {
		return run.State{}, 0, fmt.Errorf("sqlite: checkpoint of run %s: %w", r.RunID, err)
	}
	rows, err := tx.QueryContext(ctx, `SELECT body FROM step_state WHERE run_id = ? ORDER BY ord`, r.RunID)
	state.Steps, err = collect(rows, err, scanStep)
	if err != nil {
		return run.State{}, 0, s.failed("load steps", err)
	}
	if len(state.Steps) != state.Counts.Total {
		return authority.Base(r), published, nil // not all of it is there any more
	}
	return state, published, nil
}

func scanStep(row scanner) (*run.Step, error) {
	var body []byte
	if err := row.Scan(&body); err != nil {
		return nil, err
	}
	step := new(run.Step)
	return step, json.Unmarshal(body, step)
}

// Save implements store.States.
func (s *Store) Save(ctx context.Context, state run.State, c run.Changes) (saved bool, err error) {
	err = s.write(ctx, "save", func(tx *sql.Tx) (err error) {
		saved, err = s.save(ctx, tx, state, c)
		return err
	})
	return saved && err == nil, err
}

func (s *Store) save(ctx context.Context, tx *sql.Tx, state run.State, c run.Changes) (bool, error) {
	var seq run.Seq
	var rev int
	err := tx.QueryRowContext(ctx, `SELECT seq, rev FROM run_state WHERE run_id = ?`, state.RunID).Scan(&seq, &rev)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		seq = -1
	case err != nil:
		return false, s.failed("read checkpoint", err)
	case rev == state.Rev && seq >= state.Seq:
		return false, nil
	case rev != state.Rev:
		seq = -1
	}
	header, err := authority.Encode(state.Header)
	if err != nil {
		return false, fmt.Errorf("sqlite: header of run %s: %w", state.RunID, err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = 'change'`); err != nil {
		return false, s.failed("number the change", err)
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO run_state (run_id, tenant_id, project_id, environment_id, plan_id, status, created_at,
			seq, rev, published_seq, change, header)
		SELECT run_id, tenant_id, project_id, environment_id, plan_id, ?2, created_at, ?3, ?4, 0,
			(SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'change'), ?5
		FROM run WHERE run_id = ?1
		ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, seq = excluded.seq, rev = excluded.rev,
			change = excluded.change, header = excluded.header`,
		state.RunID, state.Status, state.Seq, state.Rev, string(header))
	if err != nil {
		return false, s.failed("write header", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return false, fmt.Errorf("sqlite: save run %s: %w", state.RunID, store.ErrNotFound)
	}
	return true, s.saveSteps(ctx, tx, state, c, seq)
}

// saveSteps writes what changed over the checkpoint at seq, or every step when
// there is none (seq < 0).
func (s *Store) saveSteps(ctx context.Context, tx *sql.Tx, state run.State, c run.Changes, seq run.Seq) error {
	changed := authority.ChangedSteps(state, c, seq)
	if seq < 0 {
		changed = state.Steps
		if _, err := tx.ExecContext(ctx, `DELETE FROM step_state WHERE run_id = ?`, state.RunID); err != nil {
			return s.failed("replace steps", err)
		}
	}
	for _, step := range changed {
		body, err := authority.Encode(step)
		if err != nil {
			return fmt.Errorf("sqlite: step %s of run %s: %w", step.StepID, state.RunID, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO step_state (run_id, ord, changed_seq, body) VALUES (?, ?, ?, ?)
			ON CONFLICT (run_id, ord) DO UPDATE SET changed_seq = excluded.changed_seq, body = excluded.body`,
			state.RunID, step.Ord, step.ChangedSeq, string(body)); err != nil {
			return s.failed("write step", err)
		}
	}
	return nil
}

// Dirty implements store.States.
func (s *Store) Dirty(ctx context.Context, minAge time.Duration, limit int) (out []store.DirtyRun, err error) {
	err = s.read(ctx, "dirty runs", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT run_id, head_seq, ops_rev, since FROM run_dirty WHERE since <= ? AND not_before <= ?
			ORDER BY since, run_id LIMIT ?`,
			micros(s.now().Add(-minAge)), micros(s.now()), clamp(limit, store.MaxPage))
		out, err = collect(rows, err, func(row scanner) (store.DirtyRun, error) {
			var d store.DirtyRun
			var since int64
			err := row.Scan(&d.RunID, &d.HeadSeq, &d.OpsRev, &since)
			d.Since = instant(since)
			return d, err
		})
		return s.failed("dirty runs", err)
	})
	return out, err
}

// Published implements store.States.
func (s *Store) Published(ctx context.Context, runID string, to run.Seq, opsRev int64) error {
	return s.write(ctx, "published", func(tx *sql.Tx) error { return s.published(ctx, tx, runID, to, opsRev) })
}

// published moves the published seq, and clears the mark or frees it of refusals.
// A mark that stays is as old as the first event that was not published.
func (s *Store) published(ctx context.Context, tx *sql.Tx, runID string, to run.Seq, opsRev int64) error {
	for _, q := range []struct {
		query string
		args  []any
	}{
		{`UPDATE run_state SET published_seq = max(published_seq, ?) WHERE run_id = ?`, []any{to, runID}},
		{`DELETE FROM run_dirty WHERE run_id = ? AND head_seq <= ? AND ops_rev <= ?`, []any{runID, to, opsRev}},
		{`UPDATE run_dirty SET attempts = 0, upto = 0, not_before = 0, since = coalesce((SELECT persisted_at FROM event
			WHERE run_id = ?1 AND run_seq > ?2 ORDER BY run_seq LIMIT 1), ?3) WHERE run_id = ?1`, []any{runID, to, micros(s.now())}},
	} {
		if _, err := tx.ExecContext(ctx, q.query, q.args...); err != nil {
			return s.failed("published", err)
		}
	}
	return nil
}
