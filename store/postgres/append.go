package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Append implements store.Log. It uses one statement unless needsLock reports that Go must decide.
func (s *Store) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := s.writeEntry(ctx, a.RunID, store.Entry{Append: &a})
	return out.Appended, err
}

// StartAttempt implements store.Log. It uses one statement unless the start takes a token.
func (s *Store) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := s.writeEntry(ctx, b.RunID, store.Entry{Start: &b})
	return out.Started, err
}

func (s *Store) writeEntry(ctx context.Context, runID string, e store.Entry) (store.EntryResult, error) {
	out, err := s.Batch(ctx, runID, []store.Entry{e})
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		return store.EntryResult{}, err
	}
	return out[0], nil
}

// Batch implements store.Batcher. It uses one statement unless needsLock reports that Go must decide about an entry.
// When the database refuses the data of one of several entries, Batch writes each entry alone, so that only the bad one
// fails.
func (s *Store) Batch(ctx context.Context, runID string, entries []store.Entry) ([]store.EntryResult, error) {
	if len(entries) > store.MaxEntries {
		return nil, fmt.Errorf("postgres: batch of %d entries, at most %d", len(entries), store.MaxEntries)
	}
	id, err := s.identity(ctx, runID)
	if err != nil {
		return nil, err
	}
	if len(entries) == 1 {
		if p, ok, err := plainOf(id, entries[0]); ok && err == nil {
			r, done, err := s.appendOne(ctx, &p)
			if done || err != nil {
				return []store.EntryResult{r}, err
			}
		}
	}
	var results []store.EntryResult
	if slices.ContainsFunc(entries, needsLock) {
		results, err = s.writeSequentially(ctx, runID, entries)
	} else {
		results, err = s.writeTogether(ctx, id, entries)
	}
	switch {
	case err == nil:
		return results, nil
	case !errors.Is(err, run.ErrSchema):
		return nil, err
	case len(entries) == 1:
		results[0].Err = err
		return results, nil
	}
	for i, e := range entries {
		r, err := s.writeEntry(ctx, runID, e)
		results[i], results[i].Err = r, err
	}
	return results, nil
}

// writeTogether writes entries in one statement.
func (s *Store) writeTogether(ctx context.Context, id run.Identity,
	entries []store.Entry) ([]store.EntryResult, error) {
	c := newCall(id, entries)
	if len(c.prepared) == 0 {
		return c.results, nil
	}
	return c.results, s.do(ctx, "append", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, appendSQL, c.args()...)
		if err != nil {
			return err
		}
		return c.read(rows)
	})
}

// writeSequentially writes entries one after the other in one transaction, because dvt_append alone cannot decide about
// some of them.
func (s *Store) writeSequentially(ctx context.Context, runID string,
	entries []store.Entry) ([]store.EntryResult, error) {
	results := make([]store.EntryResult, len(entries))
	return results, s.withHeadLock(ctx, "append", runID, func(ctx context.Context, t *tx) error {
		for i, e := range entries {
			var r store.EntryResult
			if e.Start != nil {
				r.Started, r.Err = t.startAttempt(ctx, *e.Start, 0)
			} else {
				r.Appended, r.Err = t.append(ctx, *e.Append)
			}
			if r.Err != nil && (t.conn.IsClosed() || t.conn.PgConn().TxStatus() != 'T') {
				return r.Err // the transaction has failed, so the other entries cannot be written
			}
			results[i] = r
		}
		return nil
	})
}

// startAttempt is StartAttempt inside a transaction that holds the head lock. It ignores the gates in passing. If the
// bucket has no token, it rolls the StepStarted back.
func (t *tx) startAttempt(ctx context.Context, b store.StartAttempt, passing run.Gate) (store.AttemptStarted, error) {
	c := newCall(t.id, []store.Entry{{Start: &b}})
	if err := c.results[0].Err; err != nil {
		return store.AttemptStarted{}, err
	}
	*c.parkedBy[0] &^= int32(passing)
	if b.Heavy != nil {
		t.batch.Queue(`SAVEPOINT heavy`)
	}
	t.batch.Queue(appendSQL, c.args()...).Query(c.read)
	if err := t.flush(ctx); err != nil {
		return store.AttemptStarted{}, err
	}
	out := c.results[0].Started
	if b.Heavy != nil && out.Verdict == store.StartGranted && out.StartedSeq > t.head.LastSeq {
		wait, err := t.take(ctx, *b.Heavy)
		if err != nil {
			return store.AttemptStarted{}, err
		}
		if wait != 0 {
			t.batch.Queue(`ROLLBACK TO SAVEPOINT heavy`)
			return authority.ThrottledResult(t.current(), wait), nil
		}
	}
	t.setHead(out.Head)
	out.Head = t.current()
	return out, nil
}

// append is Append inside a transaction that holds the head lock. It rolls the events back if a closed gate or an ended
// attempt forbids them.
func (t *tx) append(ctx context.Context, a store.Append) (store.Appended, error) {
	if a.RunID != "" && a.RunID != t.id.RunID {
		return store.Appended{}, fmt.Errorf("append to run %s under the lock of run %s", a.RunID, t.id.RunID)
	}
	write := t.write
	if endsHook(a) {
		write = t.appendFirstEnds
	}
	if a.UnlessGate == 0 {
		return write(ctx, a)
	}
	ended, err := t.startsOfEnded(ctx, a)
	if err != nil {
		return store.Appended{}, err
	}
	closed := t.head.Gate&a.UnlessGate != 0
	if !closed && len(ended) == 0 {
		return write(ctx, a)
	}
	stored, head := t.stored, t.head
	t.batch.Queue(`SAVEPOINT gate`)
	out, err := write(ctx, a)
	if err != nil || out.Head.LastSeq == head.LastSeq {
		return out, err
	}
	startsEnded := slices.ContainsFunc(ended, func(i int) bool { return inserted(out.Outcomes[i]) })
	if !closed && !startsEnded {
		return out, nil
	}
	t.batch.Queue(`ROLLBACK TO SAVEPOINT gate`)
	t.stored, t.head = stored, head
	if closed {
		return store.Appended{}, &store.GateClosedError{Gate: head.Gate}
	}
	return store.Appended{}, store.ErrAttemptEnded
}

func inserted(o store.EventOutcome) bool { return o.Refused == "" && !o.Deduplicated }

// startsOfEnded returns the indexes of each StepStarted in a whose attempt has an end in the log. Most of them are
// duplicates and are not inserted, but only the verdicts of dvt_append tell.
func (t *tx) startsOfEnded(ctx context.Context, a store.Append) (indexes []int, err error) {
	var started []int
	var steps []string
	var attempts []int
	for i, d := range a.Events {
		if d.Type == run.StepStartedEvent {
			started, steps, attempts = append(started, i), append(steps, d.StepID), append(attempts, d.LogicalAttempt)
		}
	}
	if len(started) == 0 {
		return nil, nil
	}
	t.batch.Queue(`
		SELECT started.i FROM unnest($2::int[], $3::text[], $4::int[]) AS started (i, step_id, logical_attempt)
		WHERE EXISTS (
			SELECT FROM event e WHERE e.run_id = $1 AND e.step_id = started.step_id
				AND e.logical_attempt = started.logical_attempt
				AND e.type IN ('StepCompleted', 'StepFailed', 'StepSkipped'))`,
		t.id.RunID, started, steps, attempts).Query(func(rows pgx.Rows) error {
		indexes, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	})
	return indexes, t.flush(ctx)
}

// write appends as dvt_append decides, without the checks of append.
func (t *tx) write(ctx context.Context, a store.Append) (store.Appended, error) {
	c := newCall(t.id, []store.Entry{{Append: &a}})
	if err := c.results[0].Err; err != nil {
		return store.Appended{}, err
	}
	t.batch.Queue(appendSQL, c.args()...).Query(c.read)
	if err := t.flush(ctx); err != nil {
		return store.Appended{}, err
	}
	out := c.results[0]
	if out.Err != nil {
		return store.Appended{}, out.Err
	}
	t.setHead(out.Appended.Head)
	out.Appended.Head = t.current()
	return out.Appended, nil
}
