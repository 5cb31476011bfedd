package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const upgradeRuns = 2

func upgradeRun(i int) run.Identity {
	return run.Identity{RunID: fmt.Sprint("r", i), TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan",
		PlanVersion: "1"}
}

// draft returns an event of a step with the current time.
func draft(kind run.EventType, step string, attempt int) run.Draft {
	d := run.Draft{Type: kind, StepID: step, LogicalAttempt: attempt, EngineAttempt: 1, EmittedAt: time.Now(),
		EmittedBy: run.ByEngine, Payload: []byte(`{}`)}
	if kind == run.StepFailedEvent {
		d.Payload = []byte(`{"errorCode":"EXIT_STATUS","retryable":true}`)
	}
	return d
}

// writeSteps appends to the runs and projects them until stop returns true. Both versions compete for the attempts of
// the step "shared".
func writeSteps(ctx context.Context, s *Store, own string, end run.EventType, stop func() bool) error {
	for n := 1; !stop(); n++ {
		for i := range upgradeRuns {
			runID := upgradeRun(i).RunID
			for _, events := range [][]run.Draft{
				{draft(run.StepStartedEvent, own, n), draft(run.StepStartedEvent, "shared", n)},
				{draft(run.StepCompletedEvent, own, n), draft(end, "shared", n)},
			} {
				if _, err := s.Append(ctx, store.Append{RunID: runID, Events: events}); err != nil {
					return err
				}
				l, err := s.Load(ctx, runID)
				if err != nil {
					return err
				}
				_, err = s.Save(ctx, l.State, l.Changes)
				if err := errors.Join(err, s.MarkPublished(ctx, runID, l.Head.LastSeq, l.Head.OpsRev)); err != nil {
					return err
				}
				time.Sleep(5 * time.Millisecond) // SQLite's busy handler is not fair between processes
			}
		}
	}
	return nil
}

// writeUntilEndOfInput is the child process of this version. It writes until its standard input ends.
func writeUntilEndOfInput(t *testing.T, s *Store) {
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	if err := writeSteps(t.Context(), s, "this", run.StepCompletedEvent, ended.Load); err != nil {
		t.Fatal(err)
	}
}

// nextVersion is a synthetic next version: a column that old rows are filled with, an index, and a trigger on the log.
const nextVersion = `ALTER TABLE run_state ADD COLUMN label TEXT NOT NULL DEFAULT '';
UPDATE run_state SET label = (SELECT triggered_by FROM run r WHERE r.run_id = run_state.run_id);
CREATE INDEX run_state_label ON run_state (tenant_id, label, created_at, run_id);
CREATE TABLE later (run_seq INTEGER NOT NULL) STRICT;
-- +goose StatementBegin
CREATE TRIGGER event_later AFTER INSERT ON event BEGIN
    INSERT INTO later (run_seq) VALUES (NEW.run_seq);
END;
-- +goose StatementEnd
UPDATE meta SET value = '20' WHERE name = 'compatible_from';`

// A process of this version has the file open and writes while the synthetic next version migrates the file. It
// continues beside a process of the next version.
// contract: R508
func TestUpgrade_ThisVersionContinuesWhileTheNextStarts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "dvt.db")
	s := open(t, path, Options{})
	for i := range upgradeRuns {
		if _, _, err := s.CreateRun(
			ctx, store.NewRun{Run: store.Run{Identity: upgradeRun(i), TriggeredBy: "ola"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	count := func(query string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const ofThis, ofNext = `SELECT count(*) FROM event WHERE step_id = 'this'`,
		`SELECT count(*) FROM event WHERE step_id LIKE 'next%'`
	process := child(t, "write", path)
	stdin, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	process.Stdout = &output
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); count(ofThis) < 10; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process of this version appended less than 10 events within a minute")
		}
	}
	migrateFile(t, path, upTo(t, own, nextName, nextVersion))
	after := open(t, path, Options{})
	atUpgrade := count(ofThis)
	until := time.Now().Add(1500 * time.Millisecond)
	var over atomic.Bool
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			if err := writeSteps(ctx, after, fmt.Sprint("next", w), run.StepFailedEvent, over.Load); err != nil {
				t.Errorf("writer %d on the next version: %v", w, err)
			}
		})
	}
	for ; time.Now().Before(until) || count(ofThis) <= atUpgrade || count(ofNext) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(until) > time.Minute || t.Failed() {
			t.Errorf("this version has %d events at the upgrade and %d now, the next version has %d; want both to write",
				atUpgrade, count(ofThis), count(ofNext))
			break
		}
	}
	over.Store(true)
	writers.Wait()
	_ = stdin.Close()
	if err := process.Wait(); err != nil {
		t.Errorf("the process of this version ended with %v, want no error\n%s", err, output.String())
	}
	for i := range upgradeRuns {
		id := upgradeRun(i).RunID
		var holes, keys, head, running, falls int
		if err := db.QueryRowContext(ctx, `SELECT max(run_seq) - count(*), count(*) - count(DISTINCT key),
				max(run_seq) - (SELECT last_seq FROM run_head WHERE run_id = ?1),
				sum(type = 'StepStarted') - sum(type IN ('StepCompleted', 'StepFailed'))
					- (SELECT running FROM run_head WHERE run_id = ?1),
				(SELECT count(*) FROM event a JOIN event b ON b.run_id = a.run_id AND b.run_seq = a.run_seq + 1
					WHERE a.run_id = ?1 AND b.persisted_at < a.persisted_at)
			FROM event WHERE run_id = ?1`, id).Scan(&holes, &keys, &head, &running, &falls); err != nil {
			t.Fatal(err)
		}
		if holes != 0 || keys != 0 || head != 0 || running != 0 || falls != 0 {
			t.Errorf("%s: %d gaps, %d duplicate keys, head off by %d, running off by %d, %d decreasing times; want none",
				id, holes, keys, head, running, falls)
		}
	}
	if n := count(`SELECT count(*) FROM event WHERE run_seq NOT IN (SELECT run_seq FROM later) AND step_id LIKE 'next%'`); n > 0 {
		t.Errorf("%d events bypassed the trigger of the next version, want none", n)
	}
	if n := count(`SELECT count(*) FROM run_dirty`); n != 0 {
		t.Errorf("%d runs are still dirty, want none", n)
	}
}
