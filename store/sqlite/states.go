package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// loadSQL reads the checkpoint and the tail of the log in one snapshot (contract T193): one row of the run, then its
// steps, then its events. Each kind has its own columns after the kind.
//
// ?3 is the seq that the caller knows. If it is above 0 and the checkpoint is at the head, the result is brief: it has
// only the steps that changed after ?3 (contract T212). ?4 is the last seq to read; a checkpoint beyond it is not used.
// A trigger ensures that a usable checkpoint has all of its steps.
const loadSQL = `WITH st AS (
	SELECT s.seq, s.header, s.published_seq, s.rev = ?2 AND s.seq <= ?4 AS usable, s.rev = ?2 AND ?3 > 0 AND s.seq = h.last_seq AS brief
	FROM run_state s JOIN run_head h ON h.run_id = s.run_id WHERE s.run_id = ?1)
SELECT 0, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.triggered_by, r.created_at,
	` + headColumns + `,
	(` + epochSQL + `), coalesce((SELECT published_seq FROM st), 0), (SELECT header FROM st WHERE usable), coalesce((SELECT brief FROM st), 0)
FROM run r JOIN run_head h ON h.run_id = r.run_id WHERE r.run_id = ?1
UNION ALL
SELECT 1, body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM step_state WHERE run_id = ?1 AND (SELECT usable AND NOT brief FROM st)
UNION ALL
SELECT 1, body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM step_state WHERE run_id = ?1 AND changed_seq > ?3 AND (SELECT brief FROM st)
UNION ALL
SELECT 2, ` + eventColumns + `, NULL, NULL, NULL, NULL, NULL, NULL
FROM event WHERE run_id = ?1 AND run_seq > coalesce((SELECT seq FROM st WHERE usable), 0) AND run_seq <= ?4`

// Kinds of rows of loadSQL.
const (
	kindRun = iota
	kindStep
	kindEvent
)

// Load implements store.States.
func (s *Store) Load(ctx context.Context, runID string) (store.Loaded, error) {
	l, _, err := s.Since(ctx, runID, 0)
	return l, err
}

// Since implements store.States.
func (s *Store) Since(ctx context.Context, runID string, w run.Seq) (l store.Loaded, d run.Delta, err error) {
	brief := false
	err = s.read(ctx, func(c *conn) (err error) {
		l, brief, err = load(ctx, c, runID, w, atHead)
		return err
	})
	if err != nil {
		return store.Loaded{}, run.Delta{}, err
	}
	l.Now = s.now()
	d = l.State.Since(w)
	if brief {
		l.State.Steps = nil
	}
	return l, d, nil
}

// At implements store.States.
func (s *Store) At(ctx context.Context, runID string, seq run.Seq) (l store.Loaded, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		l, _, err = load(ctx, c, runID, 0, seq)
		return err
	})
	if err != nil {
		return store.Loaded{}, err
	}
	l.Now = s.now()
	return l, nil
}

// atHead as the last seq loads the newest state.
const atHead = run.Seq(math.MaxInt64)

// load reads the state at upto. If brief is true, the state is that at the head and has only the steps that changed
// after w.
func load(ctx context.Context, c *conn, runID string, w, upto run.Seq) (l store.Loaded, brief bool, err error) {
	r := stateReader{runID: runID}
	if err := c.query(ctx, "load run", loadSQL, []any{runID, run.ReducerRev, w, upto}, r.row); err != nil {
		return store.Loaded{}, false, err
	}
	if r.out.Head.RunID == "" {
		return store.Loaded{}, false, notFound("run " + runID)
	}
	slices.SortFunc(r.checkpoint.Steps, func(a, b *run.Step) int { return cmp.Compare(a.Ord, b.Ord) })
	slices.SortFunc(r.tail, func(a, b run.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return authority.Fold(r.out, r.checkpoint, r.tail), r.brief, nil
}

// stateReader collects the rows of loadSQL.
type stateReader struct {
	runID      string
	out        store.Loaded
	checkpoint run.State
	brief      bool
	tail       []run.Event
}

func (r *stateReader) row(at row) error {
	var kind int
	if err := at.Scan(&kind); err != nil {
		return err
	}
	switch at = at[1:]; kind {
	case kindRun:
		return r.run(at)
	case kindStep:
		var body []byte
		if err := at.Scan(&body); err != nil {
			return err
		}
		step := new(run.Step)
		r.checkpoint.Steps = append(r.checkpoint.Steps, step)
		return json.Unmarshal(body, step)
	}
	e, err := scanEvent(at)
	e.Identity = r.checkpoint.Identity
	r.tail = append(r.tail, e)
	return err
}

func (r *stateReader) run(at row) error {
	const facts, heads = 7, 7 // columns
	base := store.Run{}
	base.RunID = r.runID
	var created int64
	err := at.Scan(&base.TenantID, &base.ProjectID, &base.EnvironmentID, &base.PlanID, &base.PlanVersion,
		&base.TriggeredBy, &created)
	if err != nil {
		return err
	}
	base.CreatedAt = instant(created)
	if r.out.Head, err = scanHead(at[facts:]); err != nil {
		return err
	}
	r.out.Head.RunID = r.runID
	var header []byte
	if err := at[facts+heads:].Scan(&r.out.Epoch, &r.out.PublishedSeq, &header, &r.brief); err != nil {
		return err
	}
	if header == nil {
		r.checkpoint.Header = authority.Base(base).Header
		return nil
	}
	return json.Unmarshal(header, &r.checkpoint.Header)
}

// Save implements store.States.
func (s *Store) Save(ctx context.Context, state run.State, c run.Changes) (saved bool, err error) {
	err = s.write(ctx, func(conn *conn) (err error) {
		saved, err = saveState(ctx, conn, state, c)
		return err
	})
	return saved && err == nil, err
}

// storedCheckpoint is the position of the checkpoint of a run. found is false if it has none.
type storedCheckpoint struct {
	found  bool
	seq    run.Seq
	rev    int
	status run.Status
	until  sql.NullInt64 // awaiting_until
}

const storedSQL = `SELECT st.run_id IS NOT NULL, st.seq, st.rev, st.status, st.awaiting_until FROM run r LEFT JOIN run_state st ON st.run_id = r.run_id WHERE r.run_id = ?`

func scanStored(row scanner) (s storedCheckpoint, err error) {
	err = row.Scan(&s.found, &s.seq, &s.rev, &s.status, &s.until)
	return s, err
}

const writeHeader = `INSERT INTO run_state (run_id, tenant_id, project_id, environment_id, plan_id, triggered_by, status, created_at,
	seq, rev, published_seq, change, header, awaiting_until, ended_at, took)
	SELECT run_id, tenant_id, project_id, environment_id, plan_id, triggered_by, ?2, created_at, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9
	FROM run WHERE run_id = ?1
	ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, seq = excluded.seq, rev = excluded.rev,
	change = excluded.change, header = excluded.header, awaiting_until = excluded.awaiting_until,
	ended_at = excluded.ended_at, took = excluded.took`

// writeHeaderArgs returns the arguments of writeHeader.
func writeHeaderArgs(state run.State, change int64, header []byte) []any {
	var took sql.NullInt64
	if d := state.Duration(); d != nil {
		took = sql.NullInt64{Int64: max(0, d.Microseconds()), Valid: true}
	}
	return []any{state.RunID, state.Status, state.Seq, state.Rev, change, string(header),
		microsOrNil(state.AwaitingUntil()), microsOrNil(state.CompletedAt), took}
}

// advanceHeader is writeHeader for a checkpoint of the same status and awaiting_until. It does not set them, because
// SQLite updates the indexes of every column that is set, even to the same value.
const advanceHeader = `UPDATE run_state SET seq = ?2, rev = ?3, change = ?4, header = ?5 WHERE run_id = ?1`

// saveState writes the header and the steps. If the stored checkpoint has the same revision, it writes only the changed
// steps. It returns false if that checkpoint is at least as new as state.
func saveState(ctx context.Context, c *conn, state run.State, changes run.Changes) (bool, error) {
	old, err := collectOne(ctx, c, "save run "+state.RunID, scanStored, storedSQL, state.RunID)
	if err != nil {
		return false, err
	}
	over := old.seq
	switch {
	case !old.found || old.rev != state.Rev:
		over = -1
	case old.seq >= state.Seq:
		return false, nil
	}
	if err := saveSteps(ctx, c, state, changes, over); err != nil {
		return false, err
	}
	header, err := authority.Encode(state.Header)
	if err != nil {
		return false, fmt.Errorf("sqlite: header of run %s: %w", state.RunID, err)
	}
	change, err := nextChange(ctx, c)
	if err != nil {
		return false, err
	}
	until := microsOrNil(state.AwaitingUntil())
	if old.status == state.Status && old.until == until {
		_, err = c.exec(ctx, "write header", advanceHeader, state.RunID, state.Seq, state.Rev, change, string(header))
		return err == nil, err
	}
	_, err = c.exec(ctx, "write header", writeHeader, writeHeaderArgs(state, change, header)...)
	return err == nil, err
}

const writeStep = `INSERT INTO step_state (run_id, ord, changed_seq, body) VALUES (?, ?, ?, ?)
	ON CONFLICT (run_id, ord) DO UPDATE SET changed_seq = excluded.changed_seq, body = excluded.body`

// saveSteps writes the steps that changed after the checkpoint at seq. If seq is negative, it replaces all steps.
func saveSteps(ctx context.Context, c *conn, state run.State, changes run.Changes, seq run.Seq) error {
	changed := state.Steps
	if seq >= 0 {
		changed = authority.ChangedSteps(state, changes, seq)
	} else if _, err := c.exec(ctx, "replace steps", `DELETE FROM step_state WHERE run_id = ?`, state.RunID); err != nil {
		return err
	}
	for _, step := range changed {
		body, err := authority.Encode(step)
		if err != nil {
			return fmt.Errorf("sqlite: step %s of run %s: %w", step.StepID, state.RunID, err)
		}
		if _, err := c.exec(ctx, "write step", writeStep,
			state.RunID, step.Ord, step.ChangedSeq, string(body)); err != nil {
			return err
		}
	}
	return nil
}

// markDirty keeps the oldest since, because the lag of the projection is measured from it (contract T189).
const (
	markDirty = `INSERT INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES (?, ?, ?, ?)` + keepSince
	keepSince = ` ON CONFLICT (run_id) DO UPDATE SET head_seq = excluded.head_seq, ops_rev = excluded.ops_rev`
)

const dirtySQL = `SELECT run_id, head_seq, ops_rev, since FROM run_dirty WHERE since <= ? AND not_before <= ? ORDER BY since, run_id LIMIT ?`

// Dirty implements store.States.
func (s *Store) Dirty(ctx context.Context, minAge time.Duration, limit int) ([]store.DirtyRun, error) {
	now := s.now()
	return readAll(ctx, s, "dirty runs", scanDirty, dirtySQL, micros(now.Add(-minAge)), micros(now),
		clamp(limit, store.MaxPage))
}

func scanDirty(row scanner) (store.DirtyRun, error) {
	var d store.DirtyRun
	var since int64
	err := row.Scan(&d.RunID, &d.HeadSeq, &d.OpsRev, &since)
	d.Since = instant(since)
	return d, err
}

// MarkPublished implements store.States.
func (s *Store) MarkPublished(ctx context.Context, runID string, to run.Seq, opsRev int64) error {
	return s.write(ctx, func(c *conn) error { return s.published(ctx, c, runID, to, opsRev) })
}

const publishedSQL = `UPDATE run_state SET published_seq = max(published_seq, ?), change = ? WHERE run_id = ?`

const cleanSQL = `DELETE FROM run_dirty WHERE run_id = ? AND head_seq <= ? AND ops_rev <= ?`

const stillDirtySQL = `UPDATE run_dirty SET attempts = 0, upto = 0, not_before = 0, since = coalesce((SELECT persisted_at FROM event
	WHERE run_id = ?1 AND run_seq > ?2 ORDER BY run_seq LIMIT 1), ?3) WHERE run_id = ?1`

// published raises published_seq. It removes the dirty mark if everything is published, and otherwise resets its
// failures and sets its age to that of the first unpublished event. It counts as a change of the feed, because the
// publication may be of a change that is not in the log.
func (s *Store) published(ctx context.Context, c *conn, runID string, to run.Seq, opsRev int64) error {
	change, err := nextChange(ctx, c)
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, "published", publishedSQL, to, change, runID); err != nil {
		return err
	}
	n, err := c.exec(ctx, "published", cleanSQL, runID, to, opsRev)
	if err != nil || n > 0 {
		return err
	}
	_, err = c.exec(ctx, "published", stillDirtySQL, runID, to, micros(s.now()))
	return err
}

const nextChangeSQL = `UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = 'change'
	RETURNING CAST(value AS INTEGER)`

// nextChange returns the number of the next change of a list row. The write lock makes the order of numbers the order
// of commits.
func nextChange(ctx context.Context, c *conn) (int64, error) {
	return collectOne(ctx, c, "number a change", value[int64], nextChangeSQL)
}
