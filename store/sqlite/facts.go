package sqlite

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/authority"
)

// factsOf looks up keys and attempts of runs, each by a probe of an index.
var factsOf = manyRows(`WITH want (run_id, key, step_id, logical_attempt) AS NOT MATERIALIZED (VALUES `, `(?, ?, ?, ?)`, `)
SELECT e.run_id, `+columnsOfE+` FROM want CROSS JOIN event e ON e.run_id = want.run_id AND e.key = want.key
UNION ALL
SELECT e.run_id, `+columnsOfE+` FROM want CROSS JOIN event e INDEXED BY event_attempt
	ON e.run_id = want.run_id AND e.step_id = want.step_id AND e.step_id <> '' AND e.logical_attempt = want.logical_attempt AND `+ofAttempts).alone(`
SELECT e.run_id, ` + columnsOfE + ` FROM event e WHERE e.run_id = ?1 AND e.key = ?2
UNION ALL
SELECT e.run_id, ` + columnsOfE + ` FROM event e INDEXED BY event_attempt
	WHERE e.run_id = ?1 AND e.step_id = ?3 AND e.step_id <> '' AND e.logical_attempt = ?4 AND ` + ofAttempts)

// ofAttempts are the events of an attempt that a decision needs, whatever their
// keys. A list of more than two types would be a table of its own each time (IN),
// and a term that an index could serve is kept from it by its plus sign.
const ofAttempts = `(+e.type = 'StepStarted' OR +e.type = 'StepAwaitingManualCompletion'
		OR +e.type = 'StepCompleted' OR +e.type = 'StepFailed' OR +e.type = 'StepSkipped')`

const (
	// columnsOfE are eventColumns beside a list, which has columns of the same names.
	columnsOfE = `e.run_seq, e.key, e.event_id, e.type, e.step_id, e.signal_id, e.logical_attempt, e.engine_attempt, e.emitted_at, e.persisted_at, e.emitted_by, e.payload`

	endOfRun = `SELECT ` + eventColumns + ` FROM event WHERE run_id = ? AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled')`
)

// wanted adds the rows of factsOf that find what the log holds about a batch.
func wanted(args []any, runID string, b authority.Batch) []any {
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

// facts reads what the log holds about a batch.
func (t *runTx) facts(ctx context.Context, b authority.Batch) (f authority.Facts, err error) {
	if err := factsOf.query(ctx, t.conn, "look up events", 4, wanted(nil, t.id.RunID, b), func(r row) error {
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

// end is the event that ended the run, nil when nothing did.
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
