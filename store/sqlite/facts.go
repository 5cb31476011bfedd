package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/authority"
)

// attemptEvents are those of an attempt that a decision needs, whatever their keys.
const attemptEvents = ` AND e.type IN ('StepStarted', 'StepAwaitingManualCompletion', 'StepCompleted', 'StepFailed', 'StepSkipped')`

// factsOfOne looks up the key ?2 and the attempt (?3, ?4), factsOfMany lists of keys
// and of [stepId, logical attempt]. Every look-up is a probe of an index.
const (
	factsOfOne = `SELECT ` + eventColumns + ` FROM event WHERE run_id = ?1 AND key = ?2
UNION ALL
SELECT ` + eventColumns + ` FROM event e INDEXED BY event_attempt WHERE run_id = ?1 AND step_id = ?3 AND step_id <> '' AND la = ?4` + attemptEvents

	factsOfMany = `SELECT ` + columnsOfE + ` FROM json_each(?2) k CROSS JOIN event e ON e.run_id = ?1 AND e.key = k.value
UNION ALL
SELECT ` + columnsOfE + ` FROM json_each(?3) a CROSS JOIN event e INDEXED BY event_attempt
	ON e.run_id = ?1 AND e.step_id = a.value ->> 0 AND e.step_id <> '' AND e.la = a.value ->> 1` + attemptEvents

	// columnsOfE are eventColumns beside json_each, which has columns of the same names.
	columnsOfE = `e.run_seq, e.key, e.event_id, e.type, e.step_id, e.signal_id, e.la, e.ea, e.emitted_at, e.persisted_at, e.emitted_by, e.payload`

	endOfRun = `SELECT ` + eventColumns + ` FROM event WHERE run_id = ? AND type IN ('RunCompleted', 'RunFailed', 'RunCancelled')`
)

// facts reads what the log holds about a batch.
func (t *runTx) facts(ctx context.Context, b authority.Batch) (f authority.Facts, err error) {
	if f.Events, err = t.subjects(ctx, b.Keys(), b.Attempts()); err != nil || !t.head.Terminal {
		return f, err
	}
	ends, err := t.lookUp(ctx, endOfRun, t.id.RunID)
	if len(ends) > 0 {
		f.End = &ends[0]
	}
	return f, err
}

func (t *runTx) subjects(ctx context.Context, keys []run.Key, attempts []authority.Attempt) ([]run.Event, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if len(keys) == 1 {
		of := authority.Attempt{}
		if len(attempts) > 0 {
			of = attempts[0]
		}
		return t.lookUp(ctx, factsOfOne, t.id.RunID, keys[0], of.StepID, of.Logical)
	}
	pairs := make([][2]any, len(attempts))
	for i, a := range attempts {
		pairs[i] = [2]any{a.StepID, a.Logical}
	}
	listOfKeys, err := json.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("sqlite: look up events: %w", err)
	}
	listOfPairs, err := json.Marshal(pairs)
	if err != nil {
		return nil, fmt.Errorf("sqlite: look up events: %w", err)
	}
	return t.lookUp(ctx, factsOfMany, t.id.RunID, string(listOfKeys), string(listOfPairs))
}

func (t *runTx) lookUp(ctx context.Context, query string, args ...any) ([]run.Event, error) {
	evs, err := collect(ctx, t.conn, "look up events", scanEvent, query, args...)
	for i := range evs {
		evs[i].Identity = t.id
	}
	return evs, err
}
