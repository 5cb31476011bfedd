package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// tailsSQL returns one row for each event of the tails, and one row without an event for a run that has no newer ones.
// $3 is the revision, and $4 the maximum length of a tail.
const tailsSQL = `SELECT (SELECT ` + epochSQL + `), (SELECT clock_timestamp()),
  h.run_id, h.last_seq, h.last_at, h.terminal, h.gate, h.running, h.ops_rev, h.signal_no,
  CASE WHEN st.rev = $3 THEN st.seq ELSE 0 END, coalesce(st.published_seq, 0),
  d.since, d.not_before, coalesce(d.attempts, 0), coalesce(d.upto, 0),
  r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  e.persisted_at, e.emitted_at, coalesce(e.run_seq, 0), coalesce(e.event_id, ''), coalesce(e.key, ''), coalesce(e.type,
  	''),
  coalesce(e.step_id, ''), coalesce(e.signal_id, ''), coalesce(e.logical_attempt, 0), coalesce(e.engine_attempt, 0),
  	coalesce(e.emitted_by, ''), e.payload
FROM unnest($1::text[], $2::bigint[]) known (run_id, seq)
JOIN run_head h ON h.run_id = known.run_id
JOIN run r ON r.run_id = known.run_id
LEFT JOIN run_state st ON st.run_id = known.run_id
LEFT JOIN run_dirty d ON d.run_id = known.run_id
LEFT JOIN event e ON e.run_id = known.run_id AND e.run_seq > known.seq AND e.run_seq <= known.seq + $4
ORDER BY h.run_id, e.run_seq`

// Tails implements store.Projection.
func (s *Store) Tails(ctx context.Context, known []store.TailRequest) (out store.Tails, err error) {
	if len(known) > store.MaxTails {
		return store.Tails{}, fmt.Errorf("postgres: tails of %d runs, at most %d", len(known), store.MaxTails)
	}
	ids, seqs := make([]string, len(known)), make([]int64, len(known))
	for i, k := range known {
		ids[i], seqs[i] = k.RunID, int64(k.Seq)
	}
	err = s.do(ctx, "tails", func(ctx context.Context, c *pgx.Conn) error {
		out = store.Tails{ByRun: make(map[string]store.Tail, len(known))}
		rows, err := c.Query(ctx, tailsSQL, ids, seqs, run.ReducerRev, store.MaxTail)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scanTail(rows, &out); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return out, err
}

// scanTail adds one row of tailsSQL to out.
func scanTail(rows pgx.Rows, out *store.Tails) error {
	var (
		t     store.Tail
		since *time.Time
		mark  store.Mark
		e     run.Event
	)
	// The driver scans into named types by reflection, so the targets have basic types: see eventTargets.
	if err := rows.Scan(&out.Epoch, utc{&out.Now},
		&t.Head.RunID, (*int64)(&t.Head.LastSeq), utc{&t.Head.LastAt}, &t.Head.Terminal, (*uint8)(&t.Head.Gate),
		&t.Head.Running, &t.Head.OpsRev, &t.Head.SignalNo,
		(*int64)(&t.CheckpointAt), (*int64)(&t.PublishedSeq),
		utcOrNil{&since}, utc{&mark.NotBefore}, &mark.Attempts, (*int64)(&mark.Upto),
		&e.TenantID, &e.ProjectID, &e.EnvironmentID, &e.PlanID, &e.PlanVersion,
		utc{&e.PersistedAt}, utc{&e.EmittedAt}, (*int64)(&e.Seq), &e.EventID, (*string)(&e.Key), (*string)(&e.Type),
		&e.StepID, &e.SignalID, &e.LogicalAttempt, &e.EngineAttempt, (*string)(&e.EmittedBy),
		verbatim{&e.Payload}); err != nil {
		return err
	}
	if earlier, found := out.ByRun[t.Head.RunID]; found {
		t = earlier
	} else if since != nil {
		mark.Since = *since
		t.Mark = &mark
	}
	if e.Seq > 0 {
		e.RunID = t.Head.RunID
		t.Events = append(t.Events, e)
	}
	out.ByRun[t.Head.RunID] = t
	return nil
}

const publishedSQL = `SELECT dvt_published($1, $2, $3)`

// advanceSQL is saveSQL for many runs. It saves only runs whose checkpoint has the revision $5 and is at or after the
// seqs in $6, because the steps contain only the changes since then.
const advanceSQL = `WITH due AS (
  SELECT st.run_id, u.* FROM run_state st
  JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $6::bigint[], $7::int[], $12::timestamptz[])
    u (id, status, seq, header, over, total, until) ON u.id = st.run_id
  WHERE st.rev = $5 AND st.seq >= u.over AND st.seq < u.seq ORDER BY st.run_id FOR UPDATE OF st
), h AS (
  UPDATE run_state st SET status = due.status, seq = due.seq, header = due.header::json, awaiting_until = due.until,
    xid = pg_current_xact_id()
  FROM due WHERE st.run_id = due.run_id RETURNING st.run_id, due.total
), surplus AS (
  DELETE FROM step_state s USING h WHERE s.run_id = h.run_id AND s.ord >= h.total
), steps AS (
  INSERT INTO step_state AS s (run_id, ord, changed_seq, body)
  SELECT h.run_id, u.ord, u.seq, u.body::json
  FROM h JOIN unnest($8::text[], $9::int[], $10::bigint[], $11::text[]) u (run_id, ord, seq, body) USING (run_id)
  ON CONFLICT (run_id, ord) DO UPDATE SET changed_seq = excluded.changed_seq, body = excluded.body
)
SELECT run_id FROM h`

// Advance implements store.Projection.
func (s *Store) Advance(ctx context.Context, published []store.PublishedTo, save []store.CheckpointSave) ([]bool,
	error) {
	args, err := advanceArgs(save)
	if err != nil {
		return nil, fmt.Errorf("postgres: advance: %w", err)
	}
	saved := make([]bool, len(save))
	err = s.do(ctx, "advance", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		if len(published) > 0 {
			b.Queue(publishedSQL, publishedArgs(published)...)
		}
		var moved []string
		if args != nil {
			b.Queue(advanceSQL, args...).Query(func(rows pgx.Rows) (err error) {
				moved, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			})
		}
		if b.Len() > 0 {
			if err := c.SendBatch(ctx, &b).Close(); err != nil {
				return err
			}
		}
		for i := range save {
			saved[i] = slices.Contains(moved, save[i].State.RunID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, c := range save { // the others have no checkpoint to continue from, or a newer one
		if saved[i] {
			continue
		}
		if saved[i], err = s.Save(ctx, c.State, run.Changes{}); err != nil {
			return nil, err
		}
	}
	return saved, nil
}

func publishedArgs(published []store.PublishedTo) []any {
	ids, upto, ops := make([]string, len(published)), make([]int64, len(published)), make([]int64, len(published))
	for i, p := range published {
		ids[i], upto[i], ops[i] = p.RunID, int64(p.To), p.OpsRev
	}
	return []any{ids, upto, ops}
}

// advanceArgs returns the arguments of advanceSQL, or nil if no state continues a checkpoint.
func advanceArgs(save []store.CheckpointSave) ([]any, error) {
	var ids, statuses, headers, owners, bodies []string
	var seqs, overs, changed []int64
	var totals, ords []int32
	var until []*time.Time
	for _, c := range save {
		if c.Replaces == 0 {
			continue
		}
		st := c.State
		header, err := authority.Encode(st.Header)
		if err != nil {
			return nil, err
		}
		ids, statuses, headers = append(ids, st.RunID), append(statuses, string(st.Status)), append(headers, string(header))
		until = append(until, st.AwaitingUntil())
		seqs, overs, totals = append(seqs, int64(st.Seq)), append(overs, int64(c.Replaces)), append(totals,
			int32(len(st.Steps)))
		for _, step := range authority.ChangedSteps(st, run.Changes{}, c.Replaces) {
			body, err := authority.Encode(step)
			if err != nil {
				return nil, err
			}
			owners, ords = append(owners, st.RunID), append(ords, int32(step.Ord))
			changed, bodies = append(changed, int64(step.ChangedSeq)), append(bodies, string(body))
		}
	}
	if ids == nil {
		return nil, nil
	}
	return []any{ids, statuses, seqs, headers, run.ReducerRev, overs, totals, owners, ords, changed, bodies, until}, nil
}
