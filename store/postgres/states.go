package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// loadSQL reads the checkpoint and the tail of the log in one snapshot (contract T193). Its rows have the kinds below;
// the events are last. Each kind has its own columns, and the others are NULL. A checkpoint with missing steps is not
// used.
//
// $3 is the seq that the caller knows. If it is above 0 and the checkpoint is at the head, the result is brief: it has
// only the steps that changed after $3 (contract T212). $4 is the last seq to read; a checkpoint beyond it is not used.
const loadSQL = `WITH st AS (
  SELECT seq, published_seq, header, usable, usable AND $3 > 0 AND seq = (SELECT last_seq FROM run_head WHERE run_id = $1) AS brief
  FROM (SELECT seq, published_seq, header, rev = $2 AND seq <= $4 AND (header -> 'counts' ->> 'total')::int =
    (SELECT count(*) FROM step_state WHERE run_id = $1) AS usable FROM run_state WHERE run_id = $1) s)
SELECT 0 AS kind, 0 AS n, json_build_object(
    'tenantId', r.tenant_id, 'projectId', r.project_id, 'environmentId', r.environment_id,
    'planId', r.plan_id, 'planVersion', r.plan_version, 'createdAt', r.created_at, 'triggeredBy', r.triggered_by,
    'lastSeq', h.last_seq, 'lastAt', h.last_at, 'terminal', h.terminal, 'gate', h.gate, 'running', h.running,
    'opsRev', h.ops_rev, 'signalNo', h.signal_no,
    'published', coalesce((SELECT published_seq FROM st), 0), 'brief', coalesce((SELECT brief FROM st), false),
    'epoch', ` + epochSQL + `, 'now', clock_timestamp()) AS doc,
  NULL::text AS event_id, NULL::text AS key, NULL::text AS type, NULL::text AS step_id, NULL::text AS signal_id,
  NULL::int AS logical_attempt, NULL::int AS engine_attempt, NULL::timestamptz AS emitted_at, NULL::timestamptz AS persisted_at, NULL::text AS emitted_by
FROM run_head h JOIN run r USING (run_id) WHERE h.run_id = $1
UNION ALL
SELECT 1, seq, header, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM st WHERE usable
UNION ALL
SELECT 2, ord, body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM step_state WHERE run_id = $1 AND (SELECT usable FROM st) AND (changed_seq > $3 OR NOT (SELECT brief FROM st))
UNION ALL
SELECT 3, run_seq, payload, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by
FROM event WHERE run_id = $1 AND run_seq > coalesce((SELECT seq FROM st WHERE usable), 0) AND run_seq <= $4
ORDER BY kind, n`

// Kinds of rows of loadSQL. All other kinds are events.
const (
	kindHead = iota
	kindHeader
	kindStep
)

type headDoc struct {
	run.Identity
	CreatedAt   time.Time `json:"createdAt"`
	TriggeredBy string    `json:"triggeredBy"`
	LastSeq     run.Seq   `json:"lastSeq"`
	LastAt      time.Time `json:"lastAt"`
	Terminal    bool      `json:"terminal"`
	Gate        run.Gate  `json:"gate"`
	Running     int       `json:"running"`
	OpsRev      int64     `json:"opsRev"`
	SignalNo    int64     `json:"signalNo"`
	Published   run.Seq   `json:"published"`
	Brief       bool      `json:"brief"`
	Epoch       string    `json:"epoch"`
	Now         time.Time `json:"now"`
}

// Load implements store.States.
func (s *Store) Load(ctx context.Context, runID string) (store.Loaded, error) {
	l, _, err := s.Since(ctx, runID, 0)
	return l, err
}

// Since implements store.States.
func (s *Store) Since(ctx context.Context, runID string, w run.Seq) (l store.Loaded, d run.Delta, err error) {
	brief := false
	err = s.do(ctx, "load", func(ctx context.Context, c *pgx.Conn) error {
		l, brief, err = load(ctx, c, runID, w, atHead)
		return err
	})
	if err != nil {
		return store.Loaded{}, run.Delta{}, err
	}
	d = l.State.Since(w)
	if brief {
		l.State.Steps = nil
	}
	return l, d, nil
}

// At implements store.States.
func (s *Store) At(ctx context.Context, runID string, seq run.Seq) (l store.Loaded, err error) {
	err = s.do(ctx, "load", func(ctx context.Context, c *pgx.Conn) error {
		l, _, err = load(ctx, c, runID, 0, seq)
		return err
	})
	return l, err
}

// atHead as the last seq loads the newest state.
const atHead = run.Seq(math.MaxInt64)

// load reads the state at upto. If brief is true, the state is that at the head and has only the steps that changed
// after w.
func load(ctx context.Context, c *pgx.Conn, runID string, w, upto run.Seq) (l store.Loaded, brief bool, err error) {
	rows, err := c.Query(ctx, loadSQL, runID, run.ReducerRev, w, upto)
	if err != nil {
		return store.Loaded{}, false, err
	}
	defer rows.Close()
	var r stateReader
	for rows.Next() {
		if err := r.row(rows, runID); err != nil {
			return store.Loaded{}, false, err
		}
	}
	if err := rows.Err(); err != nil {
		return store.Loaded{}, false, err
	}
	if r.out.Head.RunID == "" {
		return store.Loaded{}, false, store.ErrNotFound
	}
	return authority.Fold(r.out, r.checkpoint, r.tail), r.brief, nil
}

// stateReader collects the rows of loadSQL.
type stateReader struct {
	out        store.Loaded
	checkpoint run.State
	brief      bool
	tail       []run.Event
}

func (r *stateReader) row(rows pgx.Rows, runID string) error {
	var (
		kind                             int
		n                                int64
		doc                              json.RawMessage
		id, key, event, step, signal, by *string
		logical, engine                  *int // attempts
		emitted, persisted               time.Time
	)
	if err := rows.Scan(&kind, &n, verbatim{&doc}, &id, &key, &event, &step, &signal, &logical, &engine,
		utc{&emitted}, utc{&persisted}, &by); err != nil {
		return err
	}
	switch kind {
	case kindHead:
		return r.head(doc, runID)
	case kindHeader:
		r.checkpoint.Header = run.Header{}
		return unmarshal(doc, &r.checkpoint.Header)
	case kindStep:
		s := &run.Step{}
		r.checkpoint.Steps = append(r.checkpoint.Steps, s)
		return unmarshal(doc, s)
	}
	r.tail = append(r.tail, run.Event{Identity: r.checkpoint.Identity, EventID: *id, Type: run.EventType(*event),
		Seq: run.Seq(n),
		Key: run.Key(*key), StepID: *step, SignalID: *signal, LogicalAttempt: *logical, EngineAttempt: *engine,
		EmittedAt: emitted, PersistedAt: persisted, EmittedBy: run.Producer(*by), Payload: doc})
	return nil
}

func (r *stateReader) head(doc json.RawMessage, runID string) error {
	var d headDoc
	if err := unmarshal(doc, &d); err != nil {
		return err
	}
	d.RunID = runID
	r.checkpoint = authority.Base(store.Run{Identity: d.Identity, CreatedAt: d.CreatedAt.UTC(),
		TriggeredBy: d.TriggeredBy})
	r.out.Head = store.Head{RunID: runID, LastSeq: d.LastSeq, LastAt: d.LastAt.UTC(), Terminal: d.Terminal, Gate: d.Gate,
		Running: d.Running, OpsRev: d.OpsRev, SignalNo: d.SignalNo}
	r.brief = d.Brief
	r.out.PublishedSeq, r.out.Epoch, r.out.Now = d.Published, d.Epoch, d.Now.UTC()
	return nil
}

func unmarshal(doc json.RawMessage, into any) error {
	if err := json.Unmarshal(doc, into); err != nil {
		return fmt.Errorf("parse stored document: %w", err)
	}
	return nil
}

// saveSQL writes the header and the steps, but only if the checkpoint still has the revision $5 and the seq $6 (NULL
// for no checkpoint). So the steps of two checkpoints never mix.
const saveSQL = `WITH h AS (
  INSERT INTO run_state AS st (run_id, tenant_id, project_id, status, seq, rev, header, awaiting_until)
  SELECT run_id, tenant_id, project_id, $2, $3, $4, $7::text::json, $12::timestamptz FROM run WHERE run_id = $1
  ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, seq = excluded.seq, rev = excluded.rev,
    header = excluded.header, awaiting_until = excluded.awaiting_until, xid = pg_current_xact_id()
  WHERE st.rev = $5::int AND st.seq = $6::bigint
  RETURNING run_id
), surplus AS (
  DELETE FROM step_state st USING h WHERE st.run_id = h.run_id AND st.ord >= $8
), steps AS (
  INSERT INTO step_state AS st (run_id, ord, changed_seq, body)
  SELECT h.run_id, u.ord, u.seq, u.body::json FROM h, unnest($9::int[], $10::bigint[], $11::text[]) u (ord, seq, body)
  ON CONFLICT (run_id, ord) DO UPDATE SET changed_seq = excluded.changed_seq, body = excluded.body
)
SELECT count(*) FROM h`

// saveArgs returns the arguments of saveSQL that replace the checkpoint at rev and seq by st.
func saveArgs(st run.State, c run.Changes, rev *int, seq *run.Seq) ([]any, error) {
	base := run.Seq(-1)
	if rev != nil && *rev == st.Rev {
		base = *seq
	}
	header, err := authority.Encode(st.Header)
	if err != nil {
		return nil, err
	}
	changed := authority.ChangedSteps(st, c, base)
	ords, seqs, bodies := make([]int32, len(changed)), make([]int64, len(changed)), make([]string, len(changed))
	for i, step := range changed {
		body, err := authority.Encode(step)
		if err != nil {
			return nil, err
		}
		ords[i], seqs[i], bodies[i] = int32(step.Ord), int64(step.ChangedSeq), string(body)
	}
	return []any{st.RunID, st.Status, st.Seq, st.Rev, rev, seq, string(header), len(st.Steps), ords, seqs, bodies,
		st.AwaitingUntil()}, nil
}

// Save implements store.States. It writes the steps in c and every step that changed since the checkpoint that it
// replaces, so that c may belong to another base.
func (s *Store) Save(ctx context.Context, st run.State, c run.Changes) (wrote bool, err error) {
	err = s.do(ctx, "save", func(ctx context.Context, conn *pgx.Conn) error {
		for range maxTries {
			if wrote, err = save(ctx, conn, st, c); !errors.Is(err, errMoved) {
				return err
			}
		}
		return store.ErrUnavailable
	})
	return wrote, err
}

var errMoved = errors.New("the checkpoint changed concurrently")

func save(ctx context.Context, conn *pgx.Conn, st run.State, c run.Changes) (bool, error) {
	var rev *int
	var seq *run.Seq
	if err := conn.QueryRow(ctx, `SELECT st.rev, st.seq FROM run LEFT JOIN run_state st USING (run_id) WHERE run_id = $1`,
		st.RunID).Scan(&rev, &seq); err != nil {
		return false, err
	}
	if rev != nil && *rev == st.Rev && *seq >= st.Seq {
		return false, nil
	}
	args, err := saveArgs(st, c, rev, seq)
	if err != nil {
		return false, err
	}
	var wrote int
	err = conn.QueryRow(ctx, saveSQL, args...).Scan(&wrote)
	if err == nil && wrote == 0 {
		err = errMoved
	}
	return wrote > 0, err
}

// Dirty implements store.States.
func (s *Store) Dirty(ctx context.Context, minAge time.Duration, limit int) ([]store.DirtyRun, error) {
	return collect(ctx, s, "dirty", func(row pgx.CollectableRow) (d store.DirtyRun, err error) {
		return d, row.Scan(&d.RunID, &d.HeadSeq, &d.OpsRev, utc{&d.Since})
	}, `SELECT run_id, head_seq, ops_rev, since FROM run_dirty
		WHERE since <= clock_timestamp() - $1::interval AND not_before <= clock_timestamp() ORDER BY since, run_id LIMIT $2`,
		minAge, pageSize(limit))
}

// MarkPublished implements store.States.
func (s *Store) MarkPublished(ctx context.Context, runID string, to run.Seq, opsRev int64) error {
	return s.do(ctx, "published", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, publishedSQL, publishedArgs([]store.PublishedTo{{RunID: runID, To: to, OpsRev: opsRev}})...)
		return err
	})
}
