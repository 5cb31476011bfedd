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

// find works SQLite behind a decorator that breaks it, and expects the rule to be
// found broken. wrap is told the database's file. One at a time: what a broken store
// does wrong shows only when enough is done to it.
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

// sometimes is true in a percentage of cases.
func sometimes(percent int) bool { return rand.IntN(100) < percent }

// forgetful acknowledges before it writes, and then loses one in a hundred.
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

func TestModelCheck_FindsAnAcknowledgementThatIsLost(t *testing.T) {
	find(t, history.Acknowledged, func(s store.Store, _ string) store.Store { return forgetful{s} })
}

// counting keeps the last seq of a run in the application, as if it were the only one (T190).
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

func TestModelCheck_FindsASeqOfTheApplication(t *testing.T) {
	find(t, history.Order, func(s store.Store, _ string) store.Store {
		return &counting{Store: s,
			last: map[string]run.Seq{}}
	})
}

// numbers are those of a feed that takes the highest one seen for its cursor (T186).
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

func (s naive) Changed(ctx context.Context, _ store.RunFilter, cursor string) (rows []store.RunRow, next string,
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

func TestModelCheck_FindsAFeedThatSkips(t *testing.T) {
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

// cached answers Load from what it read a moment ago.
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

// A read goes to one of two replicas, and one lags.
func TestModelCheck_FindsAReaderThatGoesBack(t *testing.T) {
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

// holey leaves an event out of a page (T27).
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

// again writes a row past the store once the index that forbids it is gone (A05, T10).
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

// insert adds the draft to the end of the log, whatever is in it.
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

// piecemeal writes the events of an append one by one (T190).
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

func TestModelCheck_FindsAnAppendInPieces(t *testing.T) {
	find(t, history.Together, func(s store.Store, _ string) store.Store { return piecemeal{s} })
}

// guarded asks whether the attempt has ended before it asks whether the event is a
// duplicate (T228).
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

func TestModelCheck_FindsAGuardBeforeTheDedupe(t *testing.T) {
	find(t, history.Refused, func(s store.Store, _ string) store.Store { return guarded{s} })
}

// ajar begins through a closed gate now and then (T185).
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

func TestModelCheck_FindsAGateThatIsAjar(t *testing.T) {
	find(t, history.Gating, func(s store.Store, _ string) store.Store { return ajar{s} })
}

// eager says RUN where the attempt had ended (T185).
type eager struct{ store.Store }

func (s eager) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := s.Store.StartAttempt(ctx, b)
	if err == nil && out.Verdict == store.StartDone && sometimes(20) {
		out = store.AttemptStarted{Verdict: store.StartGranted, StartedSeq: 1, Head: out.Head}
	}
	return out, err
}

func TestModelCheck_FindsABeginAfterTheEnd(t *testing.T) {
	find(t, history.Beginning, func(s store.Store, _ string) store.Store { return eager{s} })
}

// wrong keeps a checkpoint that is not the fold of the log (T193).
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

// rude fails without a word.
type rude struct{ store.Store }

func (s rude) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	if sometimes(5) {
		return store.AttemptStarted{}, errors.New("boom")
	}
	return s.Store.StartAttempt(ctx, b)
}

func TestModelCheck_FindsAnErrorThatSaysNothing(t *testing.T) {
	find(t, history.Explained, func(s store.Store, _ string) store.Store { return rude{s} })
}
