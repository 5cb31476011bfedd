package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dvt-engine/dvt/run"
)

// utc scans a timestamptz into a time in UTC; NULL leaves the zero time.
type utc struct{ t *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (u utc) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.InfinityModifier != pgtype.Finite {
		return fmt.Errorf("timestamp is not finite")
	}
	if v.Valid {
		*u.t = v.Time.UTC()
	}
	return nil
}

// utcOrNil scans a nullable timestamptz.
type utcOrNil struct{ t **time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (u utcOrNil) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.Valid {
		t := v.Time.UTC()
		*u.t = &t
	}
	return nil
}

// verbatim scans a json column byte for byte; NULL is nil.
type verbatim struct{ raw *json.RawMessage }

// ScanText implements pgtype.TextScanner.
func (v verbatim) ScanText(t pgtype.Text) error {
	if t.Valid {
		*v.raw = json.RawMessage(t.String)
	}
	return nil
}

// text is a document as a parameter of type json; nil becomes NULL.
func text(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

// columns are events by column, as unnest takes them.
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
