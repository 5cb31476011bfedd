package modelcheck_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/store/storetest/history"
	"github.com/dvt-engine/dvt/store/storetest/modelcheck"
)

// find runs the check on SQLite with a decorator that breaks it, and expects a violation of the rule. wrap gets the
// path of the database. The tests do not run in parallel, because a fault shows only under enough load.
func find(t *testing.T, rule history.Rule, wrap func(s store.Store, path string) store.Store) {
	t.Helper()
	modelcheck.Find(t, modelcheck.Target{
		Fresh: func(t testing.TB) string { return filepath.Join(t.TempDir(), "dvt.db") },
		Open: func(ctx context.Context, path string) (store.Store, error) {
			s, err := sqlite.Open(ctx, path, sqlite.Options{})
			if err != nil {
				return nil, err
			}
			return wrap(s, path), nil
		},
	}, rule)
}

// sometimes returns true with a probability in percent.
func sometimes(percent int) bool { return rand.IntN(100) < percent }

// forgetful acknowledges one append in a hundred without writing it.
type forgetful struct{ store.Store }

func (s forgetful) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	if !sometimes(1) {
		return s.Store.Append(ctx, a)
	}
	h, err := s.Heads(ctx, []string{a.RunID})
	if err != nil || h.ByRun[a.RunID].RunID == "" {
		return store.Appended{}, errors.Join(err, store.ErrNotFound)
	}
	out := store.Appended{Head: h.ByRun[a.RunID]}
	for range a.Events {
		out.Head.LastSeq++
		out.Outcomes = append(out.Outcomes, store.EventOutcome{Seq: out.Head.LastSeq, PersistedAt: h.Now, EventID: "soon"})
	}
	return out, nil
}

func TestModelCheck_FindsALostAcknowledgedWrite(t *testing.T) {
	find(t, history.Acknowledged, func(s store.Store, _ string) store.Store { return forgetful{s} })
}

// counting assigns seqs in the process, as if no other process wrote to the run.
type counting struct {
	store.Store

	mu   sync.Mutex
	last map[string]run.Seq
}

func (s *counting) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := s.Store.Append(ctx, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.last[a.RunID] == 0 {
		s.last[a.RunID] = out.Head.LastSeq
	} else if err == nil {
		for i := range out.Outcomes {
			if o := &out.Outcomes[i]; o.Refused == "" && !o.Deduplicated {
				s.last[a.RunID]++
				o.Seq = s.last[a.RunID]
			}
		}
	}
	return out, err
}

func TestModelCheck_FindsSeqsThatTheProcessAssigns(t *testing.T) {
	find(t, history.Order, func(s store.Store, _ string) store.Store {
		return &counting{Store: s,
			last: map[string]run.Seq{}}
	})
}

// numbers has the numbers of a feed whose cursor is the highest number seen. The numbers are assigned before the
// commit, so that the feed skips commits that finish late.
type numbers struct {
	mu        sync.Mutex
	last      int
	committed map[string]int
}

type naive struct {
	store.Store
	*numbers
}

func (s naive) numbered(runID string, commit func() (bool, error)) error {
	s.mu.Lock()
	s.last++
	n := s.last
	s.mu.Unlock()
	time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
	ok, err := commit()
	if ok {
		s.mu.Lock()
		s.committed[runID] = n
		s.mu.Unlock()
	}
	return err
}

func (s naive) Save(ctx context.Context, state run.State, c run.Changes) (saved bool, err error) {
	err = s.numbered(state.RunID, func() (bool, error) { saved, err = s.Store.Save(ctx, state, c); return saved, err })
	return saved, err
}

func (s naive) CreateRun(ctx context.Context, n store.NewRun) (r store.Run, created bool, err error) {
	err = s.numbered(n.Run.RunID, func() (bool, error) {
		r, created, err = s.Store.CreateRun(ctx, n)
		return created,
			err
	})
	return r, created, err
}

func (s naive) ListChanged(ctx context.Context, _ store.RunFilter, cursor string) (rows []store.RunRow, next string,
	err error) {
	after := len(cursor) // a number in unary needs no parser
	s.mu.Lock()
	top, found := after, []string(nil)
	for id, n := range s.committed {
		if n > after {
			found = append(found, id)
			top = max(top, n)
		}
	}
	s.mu.Unlock()
	for _, id := range found {
		l, err := s.Load(ctx, id)
		if err != nil {
			return nil, "", err
		}
		rows = append(rows, store.RunRow{Header: l.State.Header, Head: l.Head.LastSeq})
	}
	return rows, string(make([]byte, max(top, 1))), nil
}

func TestModelCheck_FindsAFeedThatSkipsChanges(t *testing.T) {
	var mu sync.Mutex
	byPath := map[string]*numbers{}
	find(t, history.Feeding, func(s store.Store, path string) store.Store {
		mu.Lock()
		defer mu.Unlock()
		if byPath[path] == nil {
			byPath[path] = &numbers{committed: map[string]int{}}
		}
		return naive{s, byPath[path]}
	})
}

// cached returns an older result of Load while lasting returns true.
type cached struct {
	store.Store
	lasting func() bool

	mu   sync.Mutex
	kept map[string]store.Loaded
}

func (s *cached) Load(ctx context.Context, runID string) (store.Loaded, error) {
	s.mu.Lock()
	l, known := s.kept[runID]
	s.mu.Unlock()
	if known && s.lasting() {
		return l, nil
	}
	l, err := s.Store.Load(ctx, runID)
	if err == nil {
		s.mu.Lock()
		s.kept[runID] = l
		s.mu.Unlock()
	}
	return l, err
}

func TestModelCheck_FindsAStaleRead(t *testing.T) {
	find(t, history.Fresh, func(s store.Store, _ string) store.Store {
		return &cached{Store: s, kept: map[string]store.Loaded{}, lasting: func() bool { return sometimes(50) }}
	})
}

// Reads go to one of two replicas, and one of them lags.
func TestModelCheck_FindsAReadOfALaggingReplica(t *testing.T) {
	find(t, history.Monotonic, func(s store.Store, _ string) store.Store {
		old := &cached{Store: s, kept: map[string]store.Loaded{}, lasting: func() bool { return !sometimes(5) }}
		return replicas{s, old}
	})
}

type replicas struct {
	store.Store
	old store.Store
}

func (s replicas) Load(ctx context.Context, runID string) (store.Loaded, error) {
	if sometimes(10) {
		return s.old.Load(ctx, runID)
	}
	return s.Store.Load(ctx, runID)
}

// holey omits an event from some pages.
type holey struct{ store.Store }

func (s holey) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	evs, err := s.Store.Events(ctx, runID, after, limit)
	if limit < store.MaxPage && len(evs) > 2 && sometimes(10) {
		evs = append(evs[:1:1], evs[2:]...)
	}
	return evs, err
}

func TestModelCheck_FindsAPageWithAHole(t *testing.T) {
	find(t, history.Prefix, func(s store.Store, _ string) store.Store { return holey{s} })
}

// again drops a unique index and inserts a second row that the index would have refused.
type again struct {
	store.Store
	path, drop string
	when       func(store.EventOutcome) bool
}

func (s again) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := s.Store.Append(ctx, a)
	for i, o := range out.Outcomes {
		if err == nil && s.when(o) && sometimes(20) {
			if err := s.insert(ctx, a.RunID, a.Events[i]); err != nil {
				return store.Appended{}, err
			}
		}
	}
	return out, err
}

// insert appends the draft to the log without any check.
func (s again) insert(ctx context.Context, runID string, d run.Draft) error {
	db, err := sql.Open("sqlite", s.path+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	id := runtest.ID
	id.RunID = runID
	for _, q := range []struct {
		query string
		args  []any
	}{
		{`DROP INDEX IF EXISTS ` + s.drop, nil},
		{`UPDATE run_head SET last_seq = last_seq + 1 WHERE run_id = ?`, []any{runID}},
		{`INSERT INTO event (run_id, run_seq, key, event_id, type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload)
			SELECT run_id, last_seq, ?2, ?2, ?3, ?4, '', ?5, ?6, 0, last_at, ?7, ?8 FROM run_head WHERE run_id = ?1`,
			[]any{runID, d.Key(id), d.Type, d.StepID, d.LogicalAttempt, d.EngineAttempt, d.EmittedBy, []byte(d.Payload)}},
	} {
		if _, err := tx.ExecContext(ctx, q.query, q.args...); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func TestModelCheck_FindsAnAppendWithoutDedupe(t *testing.T) {
	find(t, history.Keys, func(s store.Store, path string) store.Store {
		return again{s, path, "event_key", func(o store.EventOutcome) bool { return o.Deduplicated }}
	})
}

func TestModelCheck_FindsASecondTerminal(t *testing.T) {
	find(t, history.Terminals, func(s store.Store, path string) store.Store {
		return again{s, path, "event_attempt_end", func(o store.EventOutcome) bool {
			return o.Refused == run.CodeInvalidTransition && o.Existing.Type.EndsAttempt()
		}}
	})
}

// piecemeal writes each event of an append in a transaction of its own.
type piecemeal struct{ store.Store }

func (s piecemeal) Append(ctx context.Context, a store.Append) (out store.Appended, err error) {
	drafts := a.Events
	for _, d := range drafts {
		a.Events = []run.Draft{d}
		one, err := s.Store.Append(ctx, a)
		if err != nil {
			return store.Appended{}, err
		}
		out.Outcomes, out.Head = append(out.Outcomes, one.Outcomes...), one.Head
	}
	return out, nil
}

func TestModelCheck_FindsAnAppendInSeveralTransactions(t *testing.T) {
	find(t, history.Together, func(s store.Store, _ string) store.Store { return piecemeal{s} })
}

// guarded checks for a terminal event before it checks for a duplicate, so that it refuses duplicates.
type guarded struct{ store.Store }

func (s guarded) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := s.Store.Append(ctx, a)
	for i := range out.Outcomes {
		if o := out.Outcomes[i]; o.Deduplicated && a.Events[i].Type.EndsAttempt() {
			won, err := s.Events(ctx, a.RunID, o.Seq-1, 1)
			if err != nil {
				return store.Appended{}, err
			}
			out.Outcomes[i] = store.EventOutcome{Refused: run.CodeInvalidTransition, Existing: &won[0]}
		}
	}
	return out, err
}

func TestModelCheck_FindsARefusedDuplicate(t *testing.T) {
	find(t, history.Refused, func(s store.Store, _ string) store.Store { return guarded{s} })
}

// ajar sometimes starts an attempt through a closed gate.
type ajar struct{ store.Store }

func (s ajar) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := s.Store.StartAttempt(ctx, b)
	if err != nil || out.Verdict != store.StartParked || sometimes(50) {
		return out, err
	}
	d := runtest.Draft(run.StepStartedEvent, b.StepID, b.LogicalAttempt)
	done, err := s.Append(ctx, store.Append{RunID: b.RunID, Events: []run.Draft{d}})
	if err != nil || done.Outcomes[0].Refused != "" {
		return out, err
	}
	return store.AttemptStarted{Verdict: store.StartGranted, StartedSeq: done.Outcomes[0].Seq, Head: done.Head}, nil
}

func TestModelCheck_FindsAStartThroughAClosedGate(t *testing.T) {
	find(t, history.Gating, func(s store.Store, _ string) store.Store { return ajar{s} })
}

// eager sometimes returns RUN for an attempt that has ended.
type eager struct{ store.Store }

func (s eager) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := s.Store.StartAttempt(ctx, b)
	if err == nil && out.Verdict == store.StartDone && sometimes(20) {
		out = store.AttemptStarted{Verdict: store.StartGranted, StartedSeq: 1, Head: out.Head}
	}
	return out, err
}

func TestModelCheck_FindsAStartAfterTheEnd(t *testing.T) {
	find(t, history.Beginning, func(s store.Store, _ string) store.Store { return eager{s} })
}

// wrong sometimes saves a checkpoint that is not the fold of the log.
type wrong struct{ store.Store }

func (s wrong) Save(ctx context.Context, state run.State, c run.Changes) (bool, error) {
	if sometimes(20) {
		state.Counts.Running++
	}
	return s.Store.Save(ctx, state, c)
}

func TestModelCheck_FindsAWrongCheckpoint(t *testing.T) {
	find(t, history.Folded, func(s store.Store, _ string) store.Store { return wrong{s} })
}

// rude sometimes returns an undocumented error.
type rude struct{ store.Store }

func (s rude) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	if sometimes(5) {
		return store.AttemptStarted{}, errors.New("boom")
	}
	return s.Store.StartAttempt(ctx, b)
}

func TestModelCheck_FindsAnUndocumentedError(t *testing.T) {
	find(t, history.Explained, func(s store.Store, _ string) store.Store { return rude{s} })
}
