package postgres

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// The work ahead of the migration gives runs of earlier versions the same end and duration as a save does.
func TestMigrations_RunOrderFillsWhatASaveWrites(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	s, err := Open(t.Context(), dsn, Options{Migrate: true, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for i, last := range []time.Duration{0, time.Microsecond, 1_234_560 * time.Microsecond, time.Hour} {
		id := runtest.ID
		id.RunID = []string{"a", "b", "c", "d"}[i]
		end := runtest.Draft(run.RunCompleted, "", 1)
		end.EmittedAt = runtest.Epoch.Add(last)
		_, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ana"},
			Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"), end}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Load(t.Context(), id.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Save(t.Context(), l.State, l.Changes); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, dsn)
	read := func() (text string) {
		t.Helper()
		const sql = `SELECT coalesce(string_agg(ended_at || ' ' || took, ', ' ORDER BY run_id), '') FROM run_status`
		if err := c.QueryRow(t.Context(), sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	saved := read()
	if _, err := c.Exec(t.Context(), `UPDATE run_status SET ended_at = NULL, took = NULL`); err != nil {
		t.Fatal(err)
	}
	var last string
	var filled, held int
	if err := c.QueryRow(t.Context(), fillRunOrderSQL, "").Scan(&last, &filled, &held); err != nil {
		t.Fatal(err)
	}
	if got := read(); saved == "" || got != saved || filled != 4 || held != 0 || last != "d" {
		t.Errorf("the fill of %d rows up to %q, %d held, wrote %q; saves wrote %q, want the same", filled, last, held, got, saved)
	}
}
