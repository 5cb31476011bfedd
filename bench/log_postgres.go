package main

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run/runtest"
)

// stepsOfRun is the number of steps of the runs in these figures.
const stepsOfRun = 100

func batchOf16(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const batch, rounds = 16, 60
	s, _, err := r.Store(ctx, rig.OneMS, 2)
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, 2, stepsOfRun)
	if err != nil {
		return nil, err
	}
	ws := rig.WritersOf(s, ids, stepsOfRun)
	at16 := func(ctx context.Context, _ int) (time.Duration, error) {
		took, err := rig.Timed(func() error {
			_, err := ws[0].Append(ctx, batch)
			return err
		})
		return took / batch, err
	}
	singly := func(ctx context.Context, _ int) (time.Duration, error) {
		took, err := rig.Timed(func() error {
			for range batch {
				if _, err := ws[1].Append(ctx, 1); err != nil {
					return err
				}
			}
			return nil
		})
		return took / batch, err
	}
	return &rig.Trial{Repeat: rig.Alternate(rounds, at16, singly), Done: s.Close}, nil
}

func appenders32(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const appenders, turns, forTime = 32, 3, 2 * time.Second
	s, dsn, err := r.Store(ctx, rig.OneMS, appenderConns)
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, appenders, stepsOfRun)
	if err != nil {
		return nil, err
	}
	ws := rig.WritersOf(coalesced(s), ids, stepsOfRun)
	cost := func(ctx context.Context, _ int) (time.Duration, error) {
		return rig.Concurrently(ctx, appenders, forTime, func(ctx context.Context, i int) error {
			_, err := ws[i].Append(ctx, 1)
			return err
		})
	}
	floor, err := rig.NewPgbench(ctx, r, dsn, appenders, forTime)
	if err != nil {
		return nil, err
	}
	return &rig.Trial{Repeat: rig.Alternate(turns, cost, floor), Done: s.Close}, nil
}

// raw inserts the rows that a rig.Writer causes with a prepared statement on one connection, into a table like event.
type raw struct {
	conn  *pgx.Conn
	runID string
	n     int
}

// likeEvent creates a table with the columns and indexes of event, without its triggers.
const likeEvent = `CREATE TABLE event_like (LIKE event INCLUDING ALL)`

func newRaw(ctx context.Context, dsn string) (*raw, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	w := &raw{conn: conn, runID: rig.RunName(0)}
	if _, err := conn.Exec(ctx, likeEvent); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	_, err = conn.Prepare(
		ctx, "row", `INSERT INTO event_like (run_id, run_seq, event_id, key, type, step_id, signal_id, logical_attempt, engine_attempt,
		emitted_at, persisted_at, emitted_by, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`)
	return w, err
}

func (w *raw) insert(ctx context.Context) error {
	d := rig.Draft(w.n, stepsOfRun)
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
	return rig.Timed(func() error { return w.insert(ctx) })
}

func loneAppend(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const appends = 1500
	s, dsn, err := r.Store(ctx, rig.NativeFlush, 2)
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, 1, stepsOfRun)
	if err != nil {
		return nil, err
	}
	row, err := newRaw(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &rig.Trial{
		Repeat: rig.Alternate(appends, rig.WritersOf(s, ids, stepsOfRun)[0].TimeAppend, row.timed),
		Done:   func() error { return errors.Join(row.conn.Close(context.WithoutCancel(ctx)), s.Close()) },
	}, nil
}

func appendAt200(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const runs, interval, turns, forTime = 20, 100 * time.Millisecond, 3, 2 * time.Second
	s, dsn, err := r.Store(ctx, rig.OneMS, appenderConns)
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, runs, stepsOfRun)
	if err != nil {
		return nil, err
	}
	row, err := newRaw(ctx, dsn)
	if err != nil {
		return nil, err
	}
	ws := rig.WritersOf(coalesced(s), ids, stepsOfRun)
	p99 := func(n int, interval time.Duration, call func(ctx context.Context, i int) error) rig.Measure {
		return func(ctx context.Context, _ int) (time.Duration, error) {
			var l rig.Latencies
			err := rig.Paced(ctx, n, interval, forTime, func(ctx context.Context, i int, due time.Time) error {
				err := call(ctx, i)
				l.Add(time.Since(due))
				return err
			})
			if err != nil {
				return 0, err
			}
			return l.Quantile(0.99)
		}
	}
	append1 := func(ctx context.Context, i int) error {
		_, err := ws[i].Append(ctx, 1)
		return err
	}
	insert := func(ctx context.Context, _ int) error { return row.insert(ctx) }
	return &rig.Trial{
		Repeat: rig.Alternate(turns, p99(runs, interval, append1), p99(1, interval/runs, insert)),
		Done:   func() error { return errors.Join(row.conn.Close(context.WithoutCancel(ctx)), s.Close()) },
	}, nil
}
