package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
)

const eventColumns = `e.run_seq, e.event_id, e.key, e.type, e.step_id, e.signal_id, e.logical_attempt, e.engine_attempt,
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
  logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload)
SELECT run, seq, id, key, type, step, signal, logical_attempt, engine_attempt, emitted, persisted, by, payload::json
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::int[],
  $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[])
  u (run, seq, id, key, type, step, signal, logical_attempt, engine_attempt, emitted, persisted, by, payload)`

// queueEvents queues one statement that inserts all of evs.
func queueEvents(b *pgx.Batch, evs []run.Event) {
	if len(evs) == 0 {
		return
	}
	c := newColumns(len(evs))
	runs := make([]string, len(evs))
	for i := range evs {
		runs[i] = evs[i].RunID
		c.add(&evs[i])
	}
	b.Queue(insertEventsSQL, runs, c.seq, c.id, c.key, c.kind, c.step, c.signal, c.logical, c.engine, c.emitted, c.persisted, c.by,
		c.payload)
}
