package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// durable opens a file as durably as the store does, with one connection.
func durable(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func sqliteAppend(ctx context.Context, r *rig) (*trial, error) {
	s, err := sqlite.Open(ctx, filepath.Join(r.dir, "lone.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	db, err := durable(filepath.Join(r.dir, "raw.db"))
	if err != nil {
		return nil, err
	}
	if _, err = db.ExecContext(ctx, `CREATE TABLE event (run_id TEXT, seq INTEGER, key TEXT UNIQUE, body TEXT, PRIMARY KEY (run_id, seq))`); err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, 1, stepsOfRun)
	if err != nil {
		return nil, err
	}
	row := 0
	insert := func(ctx context.Context, _ int) (time.Duration, error) {
		row++
		return timed(func() error {
			_, err := db.ExecContext(ctx, `INSERT INTO event VALUES (?, ?, ?, ?)`, ids[0], row, runName(row), `{}`)
			return err
		})
	}
	return &trial{
		repeat: byTurns(1000, writersOf(s, ids, stepsOfRun)[0].timed, insert),
		done:   func() error { return errors.Join(db.Close(), s.Close()) },
	}, nil
}

func sqliteAppenders32(ctx context.Context, r *rig) (*trial, error) {
	const appenders, forTime = 32, 4 * time.Second
	s, err := sqlite.Open(ctx, filepath.Join(r.dir, "grouped.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, appenders, stepsOfRun)
	if err != nil {
		return nil, err
	}
	singly, err := newSingly(ctx, filepath.Join(r.dir, "singly.db"), appenders)
	if err != nil {
		return nil, err
	}
	ws := writersOf(s, ids, stepsOfRun)
	cost := func(ctx context.Context) (time.Duration, error) {
		return crowd(ctx, appenders, forTime, func(ctx context.Context, i int) error {
			_, err := ws[i].append(ctx, 1)
			return err
		})
	}
	floor := func(ctx context.Context) (time.Duration, error) {
		return crowd(ctx, appenders, forTime, singly.append)
	}
	return &trial{repeat: inTurn(cost, floor), done: func() error { return errors.Join(singly.db.Close(), s.Close()) }}, nil
}

// singly writes each event in a transaction of its own.
type singly struct {
	db                 *sql.DB
	insert, head, mark *sql.Stmt

	mu   sync.Mutex // a connection's queue is not in order, and the seq of a run is assigned under it
	runs []string
	seq  []int
}

func newSingly(ctx context.Context, file string, runs int) (*singly, error) {
	s, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	ids, err := makeRuns(ctx, s, runs, stepsOfRun)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	db, err := durable(file)
	if err != nil {
		return nil, err
	}
	w := &singly{db: db, runs: ids, seq: make([]int, runs)}
	for _, q := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&w.insert, `INSERT INTO event (run_id, run_seq, key, event_id, type, step_id, signal_id, la, ea, emitted_at, persisted_at, emitted_by, payload)
			VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, ?)`},
		{&w.head, `UPDATE run_head SET last_seq = ?, last_at = ?, running = ? WHERE run_id = ?`},
		{&w.mark, `INSERT INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES (?, ?, 0, ?)
			ON CONFLICT (run_id) DO UPDATE SET head_seq = excluded.head_seq`},
	} {
		if *q.to, err = db.PrepareContext(ctx, q.query); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return w, nil
}

func (w *singly) append(ctx context.Context, i int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, id := draft(w.seq[i], stepsOfRun), runtest.ID
	id.RunID = w.runs[i]
	key := d.Key(id)
	w.seq[i]++
	seq, now := 1+w.seq[i], time.Now().UnixMicro() // a run's first event is its start
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.StmtContext(ctx, w.insert).ExecContext(ctx, id.RunID, seq, string(key), key.EventID(), string(d.Type), d.StepID,
		d.LogicalAttempt, d.EngineAttempt, d.EmittedAt.UnixMicro(), now, string(d.EmittedBy), []byte(d.Payload)); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, w.head).ExecContext(ctx, seq, now, seq%2, id.RunID); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, w.mark).ExecContext(ctx, id.RunID, seq, now); err != nil {
		return err
	}
	return tx.Commit()
}
