package sqlite

import (
	"context"
	"math/bits"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/authority"
)

// factsOf looks up events by key and by attempt. Each lookup is one probe of an index.
var factsOf = manyRows(`WITH want (run_id, key, step_id, logical_attempt) AS NOT MATERIALIZED (VALUES `,
	`(?, ?, ?, ?)`, `)
SELECT e.run_id, `+columnsOfE+` FROM want CROSS JOIN event e ON e.run_id = want.run_id AND e.key = want.key
UNION ALL
SELECT e.run_id, `+columnsOfE+` FROM want CROSS JOIN event e INDEXED BY event_attempt
	ON e.run_id = want.run_id AND e.step_id = want.step_id AND e.step_id <> '' AND e.logical_attempt = want.logical_attempt AND `+ofAttempts).withSingle(`
SELECT e.run_id, ` + columnsOfE + ` FROM event e WHERE e.run_id = ?1 AND e.key = ?2
UNION ALL
SELECT e.run_id, ` + columnsOfE + ` FROM event e INDEXED BY event_attempt
	WHERE e.run_id = ?1 AND e.step_id = ?3 AND e.step_id <> '' AND e.logical_attempt = ?4 AND ` + ofAttempts)

// ofAttempts selects the events of an attempt that a decision needs, whatever their keys. It is a list of ORs because
// SQLite builds a table for IN with more than two values each time. The plus signs keep SQLite from using an index for
// these terms.
const ofAttempts = `(+e.type = 'StepStarted' OR +e.type = 'StepAwaitingManualCompletion'
		OR +e.type = 'StepCompleted' OR +e.type = 'StepFailed' OR +e.type = 'StepSkipped')`

const (
	// columnsOfE is eventColumns with the alias e, because the list has columns of the same names.
	columnsOfE = `e.run_seq, e.key, e.event_id, e.type, e.step_id, e.signal_id, e.logical_attempt, e.engine_attempt, e.emitted_at, e.persisted_at, e.emitted_by, e.payload`

	endOfRun = `SELECT ` + eventColumns + ` FROM event WHERE run_id = ? AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled')`
)

// appendWanted appends the rows of factsOf that look up the facts of a batch.
func appendWanted(args []any, runID string, b authority.Batch) []any {
	keys, attempts := b.Keys(), b.Attempts()
	for i := range max(len(keys), len(attempts)) {
		var key, step, logical any
		if i < len(keys) {
			key = string(keys[i])
		}
		if i < len(attempts) {
			step, logical = attempts[i].StepID, int64(attempts[i].Logical)
		}
		args = append(args, runID, key, step, logical)
	}
	return args
}

// facts reads the events of the log that the decision about a batch needs.
func (t *runTx) facts(ctx context.Context, b authority.Batch) (f authority.Facts, err error) {
	if err := factsOf.query(ctx, t.conn, "look up events", 4, appendWanted(nil, t.id.RunID, b), func(r row) error {
		e, err := scanEvent(r[1:])
		e.Identity = t.id
		f.Events = append(f.Events, e)
		return err
	}); err != nil {
		return f, err
	}
	f.End, err = t.end(ctx)
	return f, err
}

// end returns the event that ended the run, or nil.
func (t *runTx) end(ctx context.Context) (*run.Event, error) {
	if !t.head.Terminal {
		return nil, nil
	}
	ends, err := collect(ctx, t.conn, "look up the end", scanEvent, endOfRun, t.id.RunID)
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	ends[0].Identity = t.id
	return &ends[0], nil
}

// many is one statement in the sizes 1, 2, 4, … rows, so that few prepared statements serve every number of rows.
type many [6]string

// maxRows is the number of rows of the largest size.
const maxRows = 1 << (len(many{}) - 1)

// manyRows returns a statement that consists of head, the rows separated by commas, and tail.
func manyRows(head, row, tail string) (m many) {
	for i := range m {
		m[i] = head + strings.Repeat(row+`, `, 1<<i-1) + row + tail
	}
	return m
}

// withSingle replaces the statement for one row by a plain one, which is faster for a single call.
func (m many) withSingle(statement string) many {
	m[0] = statement
	return m
}

// exec runs m for all rows of args, which have width values each. If it fails, the rows written so far remain until the
// caller rolls back.
func (m *many) exec(ctx context.Context, c *conn, what string, width int, args []any) error {
	for len(args) > 0 {
		size := min(bits.Len(uint(len(args)/width)), len(m)) - 1
		n := width << size
		if _, err := c.exec(ctx, what, m[size], args[:n]...); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// query runs m for all rows of args, which have width values each. It fills the last statement with rows of NULL, which
// match nothing.
func (m *many) query(ctx context.Context, c *conn, what string, width int, args []any, each func(row) error) error {
	for len(args) > 0 {
		rows := min(len(args)/width, maxRows)
		size := bits.Len(uint(rows - 1))
		part := args[:rows*width]
		if fill := width<<size - len(part); fill > 0 {
			part = append(part[:len(part):len(part)], make([]any, fill)...)
		}
		if err := c.query(ctx, what, m[size], part, each); err != nil {
			return err
		}
		args = args[rows*width:]
	}
	return nil
}
