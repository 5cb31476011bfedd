package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	_ "modernc.org/sqlite"

	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// openDurable opens a file with the durability settings of the store and one connection.
func openDurable(file string) (*sql.DB, error) {
	db, err := sql.Open(
		"sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func sqliteAppend(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	s, err := sqlite.Open(ctx, filepath.Join(r.Dir, "lone.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	db, err := openDurable(filepath.Join(r.Dir, "raw.db"))
	if err != nil {
		return nil, err
	}
	if _, err = db.ExecContext(
		ctx, `CREATE TABLE event (run_id TEXT, seq INTEGER, key TEXT UNIQUE, body TEXT, PRIMARY KEY (run_id, seq))`); err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, 1, stepsOfRun)
	if err != nil {
		return nil, err
	}
	row := 0
	insert := func(ctx context.Context, _ int) (time.Duration, error) {
		row++
		return rig.Timed(func() error {
			_, err := db.ExecContext(ctx, `INSERT INTO event VALUES (?, ?, ?, ?)`, ids[0], row, rig.RunName(row), `{}`)
			return err
		})
	}
	return &rig.Trial{
		Repeat: rig.Alternate(1000, rig.WritersOf(s, ids, stepsOfRun)[0].TimeAppend, insert),
		Done:   func() error { return errors.Join(db.Close(), s.Close()) },
	}, nil
}

func sqliteAppenders32(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
	const appenders, turns, forTime = 32, 3, 1500 * time.Millisecond
	s, err := sqlite.Open(ctx, filepath.Join(r.Dir, "grouped.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, appenders, stepsOfRun)
	if err != nil {
		return nil, err
	}
	single, err := newSingleWriter(ctx, filepath.Join(r.Dir, "singly.db"), appenders)
	if err != nil {
		return nil, err
	}
	ws := rig.WritersOf(s, ids, stepsOfRun)
	cost := func(ctx context.Context, _ int) (time.Duration, error) {
		return rig.Concurrently(ctx, appenders, forTime, func(ctx context.Context, i int) error {
			_, err := ws[i].Append(ctx, 1)
			return err
		})
	}
	floor := func(ctx context.Context, _ int) (time.Duration, error) {
		return rig.Concurrently(ctx, appenders, forTime, single.append)
	}
	return &rig.Trial{Repeat: rig.Alternate(turns, cost, floor),
		Done: func() error { return errors.Join(single.close(), s.Close()) }}, nil
}

// singleWriter writes each event in a transaction of its own, with prepared statements on one connection.
type singleWriter struct {
	db         *sql.DB
	statements []*sql.Stmt // of one transaction, in order

	mu   sync.Mutex // held during a transaction; guards seq
	runs []string
	seq  []int // number of events written to each run
}

// singleStatements is the minimum that an append of one event must write.
var singleStatements = []string{
	`BEGIN IMMEDIATE`,
	`INSERT INTO event (run_id, run_seq, key, event_id, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload)
		VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, ?)`,
	`UPDATE run_head SET last_seq = ?, last_at = ?, running = ? WHERE run_id = ?`,
	`INSERT INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES (?, ?, 0, ?) ON CONFLICT (run_id) DO UPDATE SET head_seq = excluded.head_seq`,
	`COMMIT`,
}

// newSingleWriter creates the schema and the runs with the store.
func newSingleWriter(ctx context.Context, file string, runs int) (*singleWriter, error) {
	s, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	ids, err := rig.MakeRuns(ctx, s, runs, stepsOfRun)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	db, err := openDurable(file)
	if err != nil {
		return nil, err
	}
	w := &singleWriter{db: db, runs: ids, seq: make([]int, runs)}
	for _, query := range singleStatements {
		statement, err := db.PrepareContext(ctx, query) //nolint:sqlclosecheck // close closes it
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.statements = append(w.statements, statement)
	}
	return w, nil
}

func (w *singleWriter) append(ctx context.Context, i int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, id := rig.Draft(w.seq[i], stepsOfRun), runtest.ID
	id.RunID = w.runs[i]
	key := d.Key(id)
	w.seq[i]++
	seq, now := 1+w.seq[i], time.Now().UnixMicro() // a run's first event is its start
	for n, args := range [][]any{
		{},
		{id.RunID, seq, string(key), key.EventID(), string(d.Type), d.StepID, d.LogicalAttempt, d.EngineAttempt,
			d.EmittedAt.UnixMicro(), now,
			string(d.EmittedBy), []byte(d.Payload)},
		{seq, now, seq % 2, id.RunID},
		{id.RunID, seq, now},
		{},
	} {
		if _, err := w.statements[n].ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (w *singleWriter) close() error {
	var errs []error
	for _, s := range w.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}
