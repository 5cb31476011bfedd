package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dvt-engine/dvt/run"
)

// utc scans a timestamptz into a time in UTC; NULL leaves the zero time.
type utc struct{ t *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (u utc) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.InfinityModifier != pgtype.Finite {
		return fmt.Errorf("the timestamp is not finite")
	}
	if v.Valid {
		*u.t = v.Time.UTC()
	}
	return nil
}

// utcOrNil scans a nullable timestamptz into a pointer to a time in UTC.
type utcOrNil struct{ t **time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (u utcOrNil) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.Valid {
		t := v.Time.UTC()
		*u.t = &t
	}
	return nil
}

// verbatim scans a json column without changing a byte. NULL becomes nil.
type verbatim struct{ raw *json.RawMessage }

// ScanText implements pgtype.TextScanner.
func (v verbatim) ScanText(t pgtype.Text) error {
	if t.Valid {
		*v.raw = json.RawMessage(t.String)
	}
	return nil
}

// text returns a document as a parameter of type json. nil becomes NULL.
func text(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

// columns holds events by column, as unnest needs them.
type columns struct {
	seq                         []int64
	id, key, kind, step, signal []string
	logical, engine             []int32 // attempts
	emitted, persisted          []time.Time
	by                          []string
	payload                     []*string
}

func newColumns(n int) *columns {
	return &columns{
		seq: make([]int64, 0, n), id: make([]string, 0, n), key: make([]string, 0, n), kind: make([]string, 0, n),
		step: make([]string, 0, n), signal: make([]string, 0, n), logical: make([]int32, 0, n), engine: make([]int32, 0, n),
		emitted: make([]time.Time, 0, n), persisted: make([]time.Time, 0, n), by: make([]string, 0, n),
		payload: make([]*string, 0, n),
	}
}

func (c *columns) add(e *run.Event) {
	c.seq = append(c.seq, int64(e.Seq))
	c.id = append(c.id, e.EventID)
	c.key = append(c.key, string(e.Key))
	c.kind = append(c.kind, string(e.Type))
	c.step = append(c.step, e.StepID)
	c.signal = append(c.signal, e.SignalID)
	c.logical = append(c.logical, int32(e.LogicalAttempt))
	c.engine = append(c.engine, int32(e.EngineAttempt))
	c.emitted = append(c.emitted, e.EmittedAt)
	c.persisted = append(c.persisted, e.PersistedAt)
	c.by = append(c.by, string(e.EmittedBy))
	c.payload = append(c.payload, text(e.Payload))
}

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

// eventTargets returns what an event is scanned into. The driver scans into named types by reflection, which took a
// quarter of the time of reading an event, so the targets have basic types.
func eventTargets(e *run.Event) []any {
	return []any{(*int64)(&e.Seq), &e.EventID, (*string)(&e.Key), (*string)(&e.Type), &e.StepID, &e.SignalID,
		&e.LogicalAttempt, &e.EngineAttempt, utc{&e.EmittedAt}, utc{&e.PersistedAt}, (*string)(&e.EmittedBy),
		verbatim{&e.Payload}}
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
	b.Queue(insertEventsSQL, runs, c.seq, c.id, c.key, c.kind, c.step, c.signal, c.logical, c.engine, c.emitted,
		c.persisted, c.by,
		c.payload)
}
