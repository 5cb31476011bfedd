package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Append implements store.Log in three round trips: lock, look up, write and commit.
func (s *Store) Append(ctx context.Context, a store.Append) (out store.Appended, err error) {
	err = s.locked(ctx, "append", a.RunID, func(ctx context.Context, t *tx) error {
		out, err = t.append(ctx, a)
		return err
	})
	if err != nil {
		return store.Appended{}, err
	}
	return out, nil
}

func (t *tx) append(ctx context.Context, a store.Append) (store.Appended, error) {
	b, err := authority.Prepare(t.id, a)
	if err != nil {
		return store.Appended{}, err
	}
	facts, err := t.facts(ctx, b)
	if err != nil {
		return store.Appended{}, err
	}
	p, err := authority.Decide(t.head, b, facts, t.now)
	if err != nil {
		return store.Appended{}, err
	}
	if err := t.carryOut(ctx, p); err != nil {
		return store.Appended{}, err
	}
	return p.Appended(t.current()), nil
}

// Begin implements store.Log.
func (s *Store) Begin(ctx context.Context, b store.Begin) (out store.Begun, err error) {
	err = s.locked(ctx, "begin", b.RunID, func(ctx context.Context, t *tx) error {
		beginning, err := authority.PrepareBegin(t.id, b)
		if err != nil {
			return err
		}
		facts, err := t.facts(ctx, beginning.Batch())
		if err != nil {
			return err
		}
		p, begun := authority.DecideBegin(t.head, beginning, facts, t.now)
		if err := t.carryOut(ctx, p); err != nil {
			return err
		}
		out = begun
		out.Head = t.current()
		return nil
	})
	if err != nil {
		return store.Begun{}, err
	}
	return out, nil
}

// The look-ups of a batch. Each is bound to one unique or partial index: the
// LIMIT keeps the planner from turning the probes into a join that scans the
// log, which it does on a table without statistics.
const (
	factsByKeySQL = `SELECT ` + eventColumns + `
FROM unnest($2::text[]) k (key), LATERAL (SELECT * FROM event e WHERE e.run_id = $1 AND e.key = k.key LIMIT 1) e`

	factsBegunSQL = `SELECT ` + eventColumns + `
FROM unnest($2::text[], $3::int[]) a (step_id, la),
  (VALUES ('StepStarted'), ('StepAwaitingManualCompletion')) w (type),
  LATERAL (SELECT * FROM event e WHERE e.run_id = $1 AND e.step_id = a.step_id AND e.la = a.la
    AND e.type = w.type AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion') ORDER BY run_seq LIMIT 1) e`

	factsTerminalSQL = `SELECT ` + eventColumns + `
FROM unnest($2::text[], $3::int[]) a (step_id, la),
  LATERAL (SELECT * FROM event e WHERE e.run_id = $1 AND e.step_id = a.step_id AND e.la = a.la
    AND e.type IN ('StepCompleted', 'StepFailed', 'StepSkipped') LIMIT 1) e`

	factsEndSQL = `SELECT ` + eventColumns + ` FROM event e
WHERE run_id = $1 AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled')`
)

// facts reads what the log holds about a batch, in one round trip.
func (t *tx) facts(ctx context.Context, b authority.Batch) (authority.Facts, error) {
	var f authority.Facts
	collect := func(rows pgx.Rows) error {
		evs, err := scanEvents(rows, t.id)
		f.Events = append(f.Events, evs...)
		return err
	}
	if len(b.Keys()) > 0 {
		t.batch.Queue(factsByKeySQL, t.id.RunID, b.Keys()).Query(collect)
	}
	if attempts := b.Attempts(); len(attempts) > 0 {
		steps, numbers := make([]string, len(attempts)), make([]int32, len(attempts))
		for i, a := range attempts {
			steps[i], numbers[i] = a.StepID, int32(a.Logical)
		}
		t.batch.Queue(factsBegunSQL, t.id.RunID, steps, numbers).Query(collect)
		t.batch.Queue(factsTerminalSQL, t.id.RunID, steps, numbers).Query(collect)
	}
	if t.head.Terminal {
		t.batch.Queue(factsEndSQL, t.id.RunID).Query(func(rows pgx.Rows) error {
			evs, err := scanEvents(rows, t.id)
			if len(evs) > 0 {
				f.End = &evs[0]
			}
			return err
		})
	}
	return f, t.flush(ctx)
}

const eventColumns = `e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.la, e.ea,
  e.emitted_at, e.persisted_at, e.emitted_by, e.payload`

func scanEvents(rows pgx.Rows, id run.Identity) ([]run.Event, error) {
	defer rows.Close()
	var evs []run.Event
	for rows.Next() {
		e := run.Event{Identity: id}
		if err := rows.Scan(eventTargets(&e)...); err != nil {
			return nil, err
		}
		evs = append(evs, e)
	}
	return evs, rows.Err()
}

func eventTargets(e *run.Event) []any {
	return []any{&e.Seq, &e.EventID, &e.Key, &e.Type, &e.StepID, &e.SignalID, &e.LogicalAttempt,
		&e.EngineAttempt, utc{&e.EmittedAt}, utc{&e.PersistedAt}, &e.EmittedBy, verbatim{&e.Payload}}
}

const insertEventsSQL = `INSERT INTO event (run_id, run_seq, event_id, key, type, step_id, signal_id,
  la, ea, emitted_at, persisted_at, emitted_by, payload)
SELECT $1, seq, id, key, type, step, signal, la, ea, emitted, persisted, by, payload::json
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::int[],
  $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[])
  u (seq, id, key, type, step, signal, la, ea, emitted, persisted, by, payload)`

// queueEvents queues one statement that inserts all of evs.
func queueEvents(b *pgx.Batch, runID string, evs []run.Event) {
	if len(evs) == 0 {
		return
	}
	c := newColumns(len(evs))
	for i := range evs {
		c.add(&evs[i])
	}
	b.Queue(insertEventsSQL, runID, c.seq, c.id, c.key, c.kind, c.step, c.signal, c.la, c.ea, c.emitted, c.persisted, c.by, c.payload)
}
