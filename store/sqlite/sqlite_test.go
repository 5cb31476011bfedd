package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func open(t *testing.T, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newRun(t *testing.T, s *Store) {
	t.Helper()
	n := store.NewRun{Run: store.Run{Identity: runtest.ID}, Events: []run.Draft{runtest.Start("s1")}}
	if _, _, err := s.CreateRun(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// queryValue runs a statement in a write transaction and returns the first value of its last row.
func queryValue(t *testing.T, s *Store, statement string) (answer string) {
	t.Helper()
	if err := s.write(t.Context(), func(c *conn) error {
		return c.query(t.Context(), "test", statement, nil, func(r row) error {
			answer = fmt.Sprint(r[0])
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return answer
}

func begin(ctx context.Context, s *Store) error {
	_, err := s.Append(
		ctx, store.Append{RunID: runtest.ID.RunID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s1", 1)}})
	return err
}

func TestOpen_KeepsDataAndSettings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "odd name ?#%25.db")
	s := open(t, path, Options{})
	newRun(t, s)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000"} {
		if got := queryValue(t, s, "PRAGMA "+pragma); got != want {
			t.Errorf("%s = %q, want %q", pragma, got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	evs, err := open(t, path, Options{}).Events(t.Context(), runtest.ID.RunID, 0, 10)
	if err != nil || len(evs) != 1 {
		t.Fatalf("%d events after reopening, %v; want 1", len(evs), err)
	}
}

func TestOpen_PagesHoldHeadersAndOldFilesKeepTheirs(t *testing.T) {
	t.Parallel()
	fresh := open(t, filepath.Join(t.TempDir(), "new.db"), Options{})
	if got := queryValue(t, fresh, "PRAGMA page_size"); got != "8192" {
		t.Errorf("a new file has pages of %s bytes, want 8192: a header of 1.5 kB needs an overflow page in less", got)
	}
	path := filepath.Join(t.TempDir(), "old.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `PRAGMA page_size = 4096; CREATE TABLE earlier (n INTEGER)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	old := open(t, path, Options{})
	newRun(t, old)
	if got := queryValue(t, old, "PRAGMA page_size"); got != "4096" {
		t.Errorf("a file of an earlier version has pages of %s bytes, want its 4096", got)
	}
}

func TestOpen_RefusesNewerSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	s := open(t, path, Options{})
	queryValue(t, s, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	queryValue(t, s, `UPDATE meta SET value = '999' WHERE name = 'compatible_from'`)
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrSchema) {
		t.Fatalf("Open: %v, want %v", err, store.ErrSchema)
	}
}

// contract: T227
func TestOpen_ManyAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestErrors_Unavailable(t *testing.T) {
	t.Parallel()
	unavailable := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("error %v, want ErrUnavailable", err)
		}
	}
	t.Run("directory missing", func(t *testing.T) {
		t.Parallel()
		_, err := Open(t.Context(), filepath.Join(t.TempDir(), "none", "dvt.db"), Options{})
		unavailable(t, err)
	})
	t.Run("not a database", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "dvt.db")
		if err := os.WriteFile(path, []byte(fmt.Sprintf("%4096s", "no database")), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path, Options{})
		unavailable(t, err)
	})
	t.Run("disk full", func(t *testing.T) {
		t.Parallel()
		s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
		newRun(t, s)
		queryValue(t, s, `PRAGMA max_page_count = `+queryValue(t, s, `PRAGMA page_count`))
		unavailable(t, s.PutPlan(t.Context(), "sha", make([]byte, 1<<20)))
		queryValue(t, s, `PRAGMA max_page_count = 1000000`)
		if err := begin(t.Context(), s); err != nil {
			t.Fatalf("append after space was freed: %v, want no error", err)
		}
	})
	t.Run("another process writes", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "dvt.db")
		holder, waiter := open(t, path, Options{}), open(t, path, Options{BusyTimeout: 30 * time.Millisecond})
		newRun(t, holder)
		err := holder.InRun(t.Context(), runtest.ID.RunID, func(store.RunTx) error {
			unavailable(t, waiter.CheckWritable(t.Context()))
			if err := waiter.Ping(t.Context()); err != nil {
				t.Errorf("Ping while another process writes: %v, want no error", err)
			}
			unavailable(t, begin(t.Context(), waiter))
			if _, err := waiter.Load(t.Context(), runtest.ID.RunID); err != nil {
				t.Errorf("Load while another process writes: %v, want no error", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{waiter.CheckWritable(t.Context()), begin(t.Context(), waiter),
			waiter.CheckWritable(t.Context())} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("deadline while waiting", func(t *testing.T) {
		t.Parallel()
		s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
		newRun(t, s)
		err := s.InRun(t.Context(), runtest.ID.RunID, func(store.RunTx) error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := begin(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("append while another call writes: %v, want %v", err, context.DeadlineExceeded)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// contract: T18
func TestAppend_PersistedAtNeverFalls(t *testing.T) {
	t.Parallel()
	at := runtest.Epoch
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{Now: func() time.Time { return at }})
	newRun(t, s)
	at = at.Add(-time.Hour)
	if err := begin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	evs, err := s.Events(t.Context(), runtest.ID.RunID, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evs {
		if !e.PersistedAt.Equal(runtest.Epoch) {
			t.Errorf("event %d has PersistedAt %v, want %v although the clock was set back", e.Seq, e.PersistedAt,
				runtest.Epoch)
		}
	}
	if _, err := s.Append(t.Context(), store.Append{RunID: runtest.ID.RunID, Events: []run.Draft{{
		Type: run.StepCompletedEvent, StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: at,
		EmittedBy: run.ByEngine,
		Payload:   json.RawMessage(`{}`),
	}}}); err != nil {
		t.Fatal(err)
	}
}
