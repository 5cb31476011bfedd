package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
	"github.com/dvt-engine/dvt/store/storetest"
)

const oldSQL = "testdata/v1.sql"

// old is the program of schema 1: it sends the statements that the program sent,
// on connections with its settings.
type old struct {
	db  *sql.DB
	sql map[string]string
}

func openOld(t *testing.T, path string) *old {
	t.Helper()
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open(
		"sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return &old{db: db, sql: storetest.Statements(t, oldSQL)}
}

func (o *old) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// each executes statements by name, in order.
func (o *old) each(ctx context.Context, tx *sql.Tx, calls ...[]any) error {
	for _, c := range calls {
		if _, err := tx.ExecContext(ctx, o.sql[c[0].(string)], c[1:]...); err != nil {
			return fmt.Errorf("%s: %w", c[0], err)
		}
	}
	return nil
}

func (o *old) create(ctx context.Context, id run.Identity) error {
	return o.write(ctx, func(tx *sql.Tx) error {
		at := time.Now().UnixMicro()
		return o.each(ctx, tx,
			[]any{"create", id.RunID, id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, nil, id.RunID,
				`{}`, "ola", "api", "", nil, `{}`, at},
			[]any{"create2", id.RunID},
			[]any{"create3", id.RunID, id.TenantID, "PENDING", at, at},
			[]any{"audit", "start of " + id.RunID, at, id.TenantID, "ola", "START", id.RunID, "", "ACCEPTED", "", "", "", nil},
		)
	})
}

func (o *old) head(ctx context.Context, tx *sql.Tx, runID string) (h store.Head, err error) {
	var at int64
	err = tx.QueryRowContext(ctx, o.sql["lock2"], runID).Scan(&h.RunID, &h.LastSeq, &at, &h.Terminal, &h.Gate, &h.Running,
		&h.OpsRev, &h.SignalNo)
	h.LastAt = instant(at)
	return h, err
}

func (o *old) events(ctx context.Context, tx *sql.Tx, id run.Identity, name string, args ...any) (evs []run.Event,
	err error) {
	rows, err := tx.QueryContext(ctx, o.sql[name], args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		e := run.Event{Identity: id}
		var emitted, persisted int64
		var payload []byte
		if err := rows.Scan(&e.Seq, &e.Key, &e.EventID, &e.Type, &e.StepID, &e.SignalID, &e.LogicalAttempt, &e.EngineAttempt,
			&emitted, &persisted, &e.EmittedBy, &payload); err != nil {
			return nil, err
		}
		e.EmittedAt, e.PersistedAt, e.Payload = instant(emitted), instant(persisted), payload
		evs = append(evs, e)
	}
	return evs, rows.Err()
}

func (o *old) append(ctx context.Context, id run.Identity, events []run.Draft) error {
	return o.write(ctx, func(tx *sql.Tx) error {
		h, err := o.head(ctx, tx, id.RunID)
		if err != nil {
			return err
		}
		b, err := authority.Prepare(id, store.Append{RunID: id.RunID, Events: events})
		if err != nil {
			return err
		}
		var f authority.Facts
		add := func(evs []run.Event, err error) error {
			f.Events = append(f.Events, evs...)
			return err
		}
		for _, key := range b.Keys() {
			err = errors.Join(err, add(o.events(ctx, tx, id, "facts", id.RunID, key)))
		}
		for _, a := range b.Attempts() {
			err = errors.Join(err, add(o.events(ctx, tx, id, "facts2", id.RunID, a.StepID, a.Logical)))
		}
		if h.Terminal {
			var ends []run.Event
			if ends, err = o.events(ctx, tx, id, "facts3", id.RunID); len(ends) > 0 {
				f.End = &ends[0]
			}
		}
		if err != nil {
			return err
		}
		now := time.Now().Truncate(time.Microsecond).UTC()
		if h.LastAt.After(now) {
			now = h.LastAt
		}
		p, err := authority.Decide(h, b, f, now)
		if err != nil || len(p.Insert) == 0 {
			return err
		}
		var calls [][]any
		for _, e := range p.Insert {
			calls = append(calls, []any{"insert", id.RunID, e.Seq, e.Key, e.EventID, e.Type, e.StepID, e.SignalID,
				e.LogicalAttempt, e.EngineAttempt,
				micros(e.EmittedAt), micros(e.PersistedAt), e.EmittedBy, blob(e.Payload)})
		}
		n := p.Head
		calls = append(calls, []any{"finish", n.LastSeq, micros(n.LastAt), n.Terminal, n.Gate, n.Running, n.OpsRev,
			n.SignalNo, id.RunID},
			[]any{"markDirty", id.RunID, n.LastSeq, n.OpsRev, micros(now)})
		return o.each(ctx, tx, calls...)
	})
}

// project is one sweep of the projector: load, save, publish.
func (o *old) project(ctx context.Context, id run.Identity) (st run.State, err error) {
	err = o.write(ctx, func(tx *sql.Tx) error {
		h, err := o.head(ctx, tx, id.RunID)
		if err != nil {
			return err
		}
		var r store.Run
		r.Identity = id
		var created int64
		if err := tx.QueryRowContext(ctx, `SELECT created_at, triggered_by FROM run WHERE run_id = ?`,
			id.RunID).Scan(&created, &r.TriggeredBy); err != nil {
			return err
		}
		r.CreatedAt = instant(created)
		checkpoint, base, err := o.checkpoint(ctx, tx, r)
		if err != nil {
			return err
		}
		tail, err := o.events(ctx, tx, id, "load3", id.RunID, checkpoint.Seq)
		if err != nil {
			return err
		}
		l := authority.Fold(store.Loaded{Head: h}, checkpoint, tail)
		st = l.State
		if base < st.Seq {
			header, err := authority.Encode(st.Header)
			if err != nil {
				return err
			}
			calls := [][]any{{"save2"}, {"save3", st.RunID, st.Status, st.Seq, st.Rev, string(header)}}
			changed := authority.ChangedSteps(st, l.Changes, base)
			if base < 0 {
				changed, calls = st.Steps, append(calls, []any{"saveSteps", st.RunID})
			}
			for _, step := range changed {
				body, err := authority.Encode(step)
				if err != nil {
					return err
				}
				calls = append(calls, []any{"saveSteps2", st.RunID, step.Ord, step.ChangedSeq, string(body)})
			}
			if err := o.each(ctx, tx, calls...); err != nil {
				return err
			}
		}
		return o.each(ctx, tx, []any{"Published", h.LastSeq, id.RunID}, []any{"Published2", id.RunID, h.LastSeq, h.OpsRev})
	})
	return st, err
}

func (o *old) checkpoint(ctx context.Context, tx *sql.Tx, r store.Run) (st run.State, base run.Seq, err error) {
	var rev int
	var published run.Seq
	var header []byte
	err = tx.QueryRowContext(ctx, o.sql["checkpoint"], r.RunID).Scan(&rev, &published, &header)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !authority.Current(rev) {
		return authority.Base(r), -1, nil
	}
	if err != nil {
		return st, 0, err
	}
	if err := json.Unmarshal(header, &st.Header); err != nil {
		return st, 0, err
	}
	rows, err := tx.QueryContext(ctx, o.sql["checkpoint2"], r.RunID)
	if err != nil {
		return st, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var body []byte
		step := new(run.Step)
		if err := rows.Scan(&body); err != nil {
			return st, 0, err
		}
		if err := json.Unmarshal(body, step); err != nil {
			return st, 0, err
		}
		st.Steps = append(st.Steps, step)
	}
	return st, st.Seq, rows.Err()
}
