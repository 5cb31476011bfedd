package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run/runtest"
)

// stepsOfRun is how many steps the runs of these figures have.
const stepsOfRun = 100

func batchOf16(ctx context.Context, r *rig) (*trial, error) {
	const batch, rounds = 16, 60
	s, _, err := r.store(ctx, oneMS, 2)
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, 2, stepsOfRun)
	if err != nil {
		return nil, err
	}
	ws := writersOf(s, ids, stepsOfRun)
	at16 := func(ctx context.Context, _ int) (time.Duration, error) {
		took, err := timed(func() error {
			_, err := ws[0].append(ctx, batch)
			return err
		})
		return took / batch, err
	}
	singly := func(ctx context.Context, _ int) (time.Duration, error) {
		took, err := timed(func() error {
			for range batch {
				if _, err := ws[1].append(ctx, 1); err != nil {
					return err
				}
			}
			return nil
		})
		return took / batch, err
	}
	return &trial{repeat: byTurns(rounds, at16, singly), done: s.Close}, nil
}

func appenders32(ctx context.Context, r *rig) (*trial, error) {
	const appenders, turns, forTime = 32, 3, 2 * time.Second
	s, dsn, err := r.store(ctx, oneMS, appenderConns)
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, appenders, stepsOfRun)
	if err != nil {
		return nil, err
	}
	ws := writersOf(coalesced(s), ids, stepsOfRun)
	cost := func(ctx context.Context, _ int) (time.Duration, error) {
		return crowd(ctx, appenders, forTime, func(ctx context.Context, i int) error {
			_, err := ws[i].append(ctx, 1)
			return err
		})
	}
	floor, err := newPgbench(ctx, r, dsn, appenders, forTime)
	if err != nil {
		return nil, err
	}
	return &trial{repeat: byTurns(turns, cost, floor), done: s.Close}, nil
}

// raw inserts the rows that a writer would cause, by a prepared statement on one connection into a table like event.
type raw struct {
	conn  *pgx.Conn
	runID string
	n     int
}

// likeEvent is a table with the columns and indexes of event and none of its triggers.
const likeEvent = `CREATE TABLE event_like (LIKE event INCLUDING ALL)`

func newRaw(ctx context.Context, dsn string) (*raw, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	w := &raw{conn: conn, runID: runName(0)}
	if _, err := conn.Exec(ctx, likeEvent); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	_, err = conn.Prepare(
		ctx, "row", `INSERT INTO event_like (run_id, run_seq, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt,
		emitted_at, persisted_at, emitted_by, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`)
	return w, err
}

func (w *raw) insert(ctx context.Context) error {
	d := draft(w.n, stepsOfRun)
	id := runtest.ID
	id.RunID = w.runID
	key := d.Key(id)
	w.n++
	_, err := w.conn.Exec(ctx, "row", w.runID, w.n, key.EventID(), string(key), string(d.Type), d.StepID, "",
		d.LogicalAttempt, d.EngineAttempt,
		d.EmittedAt, time.Now(), string(d.EmittedBy), string(d.Payload))
	return err
}

func (w *raw) timed(ctx context.Context, _ int) (time.Duration, error) {
	return timed(func() error { return w.insert(ctx) })
}

func loneAppend(ctx context.Context, r *rig) (*trial, error) {
	const appends = 1500
	s, dsn, err := r.store(ctx, asItIs, 2)
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, 1, stepsOfRun)
	if err != nil {
		return nil, err
	}
	row, err := newRaw(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &trial{
		repeat: byTurns(appends, writersOf(s, ids, stepsOfRun)[0].timed, row.timed),
		done:   func() error { return errors.Join(row.conn.Close(context.WithoutCancel(ctx)), s.Close()) },
	}, nil
}

func appendAt200(ctx context.Context, r *rig) (*trial, error) {
	const runs, interval, turns, forTime = 20, 100 * time.Millisecond, 3, 2 * time.Second
	s, dsn, err := r.store(ctx, oneMS, appenderConns)
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, runs, stepsOfRun)
	if err != nil {
		return nil, err
	}
	row, err := newRaw(ctx, dsn)
	if err != nil {
		return nil, err
	}
	ws := writersOf(coalesced(s), ids, stepsOfRun)
	p99 := func(n int, interval time.Duration, call func(ctx context.Context, i int) error) measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			var l latencies
			err := paced(ctx, n, interval, forTime, func(ctx context.Context, i int, due time.Time) error {
				err := call(ctx, i)
				l.add(time.Since(due))
				return err
			})
			if err != nil {
				return 0, err
			}
			return l.quantile(0.99)
		}
	}
	append1 := func(ctx context.Context, i int) error {
		_, err := ws[i].append(ctx, 1)
		return err
	}
	insert := func(ctx context.Context, _ int) error { return row.insert(ctx) }
	return &trial{
		repeat: byTurns(turns, p99(runs, interval, append1), p99(1, interval/runs, insert)),
		done:   func() error { return errors.Join(row.conn.Close(context.WithoutCancel(ctx)), s.Close()) },
	}, nil
}
