package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// The migration gives runs of earlier versions the same end and duration as a save does, to the microsecond. Otherwise
// a page would leave out or repeat runs at its edge.
func TestMigrations_RunOrderFillsWhatASaveWrites(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	for i, last := range []time.Duration{0, time.Microsecond, 1_234_560 * time.Microsecond, time.Hour} {
		id := upgradeRun(i)
		id.PlanID, id.PlanVersion = runtest.ID.PlanID, runtest.ID.PlanVersion
		end := runtest.Draft(run.RunCompleted, "", 1)
		end.EmittedAt = runtest.Epoch.Add(last)
		_, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: "ana"},
			Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"), end}})
		if err != nil {
			t.Fatal(err)
		}
	}
	const read = `SELECT group_concat(ended_at || ' ' || took, ', ') FROM (SELECT * FROM run_state ORDER BY run_id)`
	var saved, filled sql.NullString
	scan := func(into *sql.NullString) {
		t.Helper()
		err := s.read(t.Context(), func(c *conn) error {
			return c.query(t.Context(), "read", read, nil, func(r row) error { return r.Scan(into) })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	scan(&saved)
	text, err := os.ReadFile("migrations/0024_run_order.sql")
	if err != nil {
		t.Fatal(err)
	}
	fill := regexp.MustCompile(`(?s)UPDATE run_state.*?;`).FindString(string(text))
	for _, statement := range []string{`UPDATE run_state SET ended_at = NULL, took = NULL`, fill} {
		err := s.write(t.Context(), func(c *conn) error {
			_, err := c.exec(t.Context(), "fill", statement)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	scan(&filled)
	if !saved.Valid || saved.String != filled.String {
		t.Errorf("the migration filled %q, a save wrote %q, want the same", filled.String, saved.String)
	}
}
