package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// tailsSQL returns one row for each event of the tails, and one row without an event for a run that has no newer ones.
// ?1 is a list of [runId, seq], ?2 the revision, and ?3 the maximum length of a tail.
const tailsSQL = `SELECT (SELECT value FROM meta WHERE name = 'epoch'),
	h.run_id, h.last_seq, h.last_at, h.terminal, h.gate, h.running, h.ops_rev, h.signal_no,
	iif(st.rev = ?2, st.seq, 0), coalesce(st.published_seq, 0), d.since, d.attempts, d.upto, d.not_before,
	r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
	e.run_seq, e.key, e.event_id, e.type, e.step_id, e.signal_id, e.logical_attempt, e.engine_attempt, e.emitted_at,
		e.persisted_at, e.emitted_by, e.payload
FROM json_each(?1) AS known
CROSS JOIN run_head h ON h.run_id = known.value ->> 0
CROSS JOIN run r ON r.run_id = h.run_id
LEFT JOIN run_state st ON st.run_id = h.run_id
LEFT JOIN run_dirty d ON d.run_id = h.run_id
LEFT JOIN event e ON e.run_id = h.run_id AND e.run_seq > known.value ->> 1 AND e.run_seq <= (known.value ->> 1) + ?3
ORDER BY known.key, e.run_seq`

// Tails implements store.Projection.
func (s *Store) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	if len(known) > store.MaxTails {
		return store.Tails{}, fmt.Errorf("sqlite: tails of %d runs, at most %d", len(known), store.MaxTails)
	}
	list := make([][2]any, len(known))
	for i, k := range known {
		list[i] = [2]any{k.RunID, k.Seq}
	}
	doc, err := json.Marshal(list)
	if err != nil {
		return store.Tails{}, fmt.Errorf("sqlite: tails: %w", err)
	}
	out := store.Tails{Now: s.now(), ByRun: make(map[string]store.Tail, len(known))}
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, "tails", tailsSQL, []any{string(doc), run.ReducerRev, store.MaxTail},
			func(r row) error { return scanTail(r, &out) })
	})
	if err != nil {
		return store.Tails{}, err
	}
	return out, nil
}

// scanTail adds one row of tailsSQL to out.
func scanTail(row scanner, out *store.Tails) error {
	var (
		t                       store.Tail
		id                      run.Identity
		at                      int64
		since, upto, notBefore  sql.NullInt64
		attempts                sql.Null[int]
		seq, emitted, persisted sql.NullInt64
		key, event, kind        sql.NullString
		step, signal, by        sql.NullString
		logical, engine         sql.Null[int]
		payload                 []byte
	)
	if err := row.Scan(&out.Epoch,
		&t.Head.RunID, &t.Head.LastSeq, &at, &t.Head.Terminal, &t.Head.Gate, &t.Head.Running, &t.Head.OpsRev,
		&t.Head.SignalNo,
		&t.CheckpointAt, &t.PublishedSeq, &since, &attempts, &upto, &notBefore,
		&id.TenantID, &id.ProjectID, &id.EnvironmentID, &id.PlanID, &id.PlanVersion,
		&seq, &key, &event, &kind, &step, &signal, &logical, &engine, &emitted, &persisted, &by, &payload); err != nil {
		return err
	}
	runID := t.Head.RunID
	if earlier, found := out.ByRun[runID]; found {
		t = earlier
	} else {
		t.Head.LastAt = instant(at)
		if since.Valid {
			t.Mark = &store.Mark{Since: instant(since.Int64), NotBefore: instant(notBefore.Int64),
				Refusal: store.Refusal{Attempts: attempts.V, Upto: run.Seq(upto.Int64)}}
		}
	}
	if seq.Valid {
		id.RunID = runID
		t.Events = append(t.Events, run.Event{Identity: id, Seq: run.Seq(seq.Int64), Key: run.Key(key.String),
			EventID: event.String,
			Type:    run.EventType(kind.String), StepID: step.String, SignalID: signal.String, LogicalAttempt: logical.V,
			EngineAttempt: engine.V,
			EmittedAt:     instant(emitted.Int64), PersistedAt: instant(persisted.Int64), EmittedBy: run.Producer(by.String),
			Payload: payload})
	}
	out.ByRun[runID] = t
	return nil
}

// Advance implements store.Projection.
func (s *Store) Advance(ctx context.Context, published []store.PublishedTo, save []store.CheckpointSave) ([]bool,
	error) {
	saved := make([]bool, len(save))
	err := s.write(ctx, func(c *conn) error {
		for _, p := range published {
			if err := s.published(ctx, c, p.RunID, p.To, p.OpsRev); err != nil {
				return err
			}
		}
		for i, v := range save {
			var err error
			if saved[i], err = saveState(ctx, c, v.State, run.Changes{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return saved, nil
}
