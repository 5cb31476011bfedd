package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// bothHosts returns a DSN that names the database of both servers, the first one first.
func bothHosts(t *testing.T, first, second string) string {
	t.Helper()
	a, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := url.Parse(second)
	if err != nil {
		t.Fatal(err)
	}
	a.Host += "," + b.Host
	q := a.Query()
	q.Set("target_session_attrs", "read-write")
	a.RawQuery = q.Encode()
	return a.String()
}

// reopen opens a migrated database, which may be that of a standby.
func reopen(t *testing.T, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A standby answers reads and refuses writes. After its promotion it is written to, and the former primary, which comes
// back with all its data and is the first host of the DSN, gets no call any more.
// contract: T194
func TestFence_AFormerPrimaryThatComesBackGetsNoCall(t *testing.T) {
	t.Parallel()
	primary, err := testserver.StartPostgres(testserver.PostgresOptions{Settings: []string{"fsync=off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Close() })
	dsn := primary.Database(t, "dvt")
	if err := (postgres.Migration{}).Run(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	standby := primary.Copy(t, true)
	former := reopen(t, dsn)
	create(t, former, "r1")
	step := 0
	appendOne := func(s store.Store) error {
		step++
		_, err := s.Append(t.Context(), store.Append{RunID: "r1", Events: []run.Draft{
			runtest.Draft(run.StepStartedEvent, fmt.Sprintf("s%d", step), 1)}})
		return err
	}
	lastOf := func(s store.Store) run.Seq {
		t.Helper()
		h, err := s.Heads(t.Context(), []string{"r1"})
		for tries := 0; errors.Is(err, store.ErrUnavailable) && tries < 20; tries++ { // connections from before a restart
			h, err = s.Heads(t.Context(), []string{"r1"})
		}
		if err != nil {
			t.Fatal(err)
		}
		return h.ByRun["r1"].LastSeq
	}
	if err := appendOne(former); err != nil {
		t.Fatal(err)
	}
	copied := standby.Database(t, "dvt")
	standby.Await(t, copied, "SELECT count(*) > 0 FROM event WHERE run_id = 'r1' AND step_id = 's1'")
	cold := reopen(t, copied)
	before, err := cold.Epoch(t.Context())
	if err != nil || !strings.HasSuffix(before, "~") || lastOf(cold) != lastOf(former) {
		t.Errorf("the standby is in epoch %q at %d (%v), want the epoch of a standby at %d", before, lastOf(cold), err,
			lastOf(former))
	}
	if err := appendOne(cold); !errors.Is(err, store.ErrReadOnly) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("an append to the standby: %v, want that it is read-only", err)
	}

	both := reopen(t, bothHosts(t, dsn, copied))
	if err := appendOne(both); err != nil {
		t.Fatal(err)
	}
	primary.Stop(t)
	standby.Promote(t)
	row := store.AuditRow{ID: uuid.NewString(), TenantID: "t1", Actor: "ops", Action: "PROMOTE_SITE", Outcome: "ACCEPTED"}
	for _, want := range []bool{true, false} {
		if bumped, err := cold.BumpEpochOnce(t.Context(), row); err != nil || bumped != want {
			t.Fatalf("BumpEpochOnce: %v (%v), want %v", bumped, err, want)
		}
	}
	for range 20 { // its idle connections to the former primary are gone
		if err = appendOne(both); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	primary.Start(t)
	old := lastOf(former)
	for range 20 {
		if err := appendOne(both); err != nil {
			t.Fatal(err)
		}
	}
	later := reopen(t, bothHosts(t, copied, dsn)) // a process that has seen the new epoch
	if _, err := later.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(later); err != nil {
		t.Fatal(err)
	}
	if now := lastOf(former); now != old {
		t.Errorf("the log of the former primary grew from %d to %d, want no append there", old, now)
	}
	if err := standby.Close(); err != nil {
		t.Fatal(err)
	}
	err = appendOne(both)
	for tries := 0; tries < 20 && !errors.Is(err, store.ErrFenced); tries++ { // idle connections to the promoted database
		err = appendOne(both)
	}
	if !errors.Is(err, store.ErrFenced) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with the former primary alone, an append: %v, want that it is fenced", err)
	}
}

// A store that was opened to read writes nothing to a primary.
func TestOpen_ReadOnlyRefusesWrites(t *testing.T) {
	t.Parallel()
	dsn := migratedTemplate.Postgres(t)
	create(t, open(t, dsn), "r1")
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.Append(t.Context(), store.Append{RunID: "r1", Events: []run.Draft{
		runtest.Draft(run.StepStartedEvent, "s1", 1)}})
	if !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("an append: %v, want that the store is read-only", err)
	}
	if err := s.CheckWritable(t.Context()); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("CheckWritable: %v, want that the store is read-only", err)
	}
}
