package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// A cursor from after the backup from which a file was restored belongs to a lost history. So the feed is read from the
// beginning, although the epoch is the same.
// contract: T194
func TestFeed_RestoredFileIsReadFromTheBeginning(t *testing.T) {
	f := file(filepath.Join(t.TempDir(), "dvt.db"))
	s := f.Open(t)
	if _, _, err := s.CreateRun(t.Context(), store.NewRun{
		Run: store.Run{Identity: runtest.ID, RequestKey: "k"}, Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1)},
	}); err != nil {
		t.Fatal(err)
	}
	filter := store.RunFilter{TenantID: runtest.ID.TenantID}
	_, cursor, err := s.ListChanged(t.Context(), filter, "")
	if err != nil {
		t.Fatal(err)
	}
	if rows, _, err := s.ListChanged(t.Context(), filter, cursor); err != nil || len(rows) != 0 {
		t.Fatalf("without a change: rows %v, %v; want none", rows, err)
	}
	// Undo the effect on the counter of the writes since the backup.
	for _, sql := range []string{`UPDATE run_state SET change = change - 1`,
		`UPDATE meta SET value = CAST(value AS INTEGER) - 1 WHERE name = 'change'`} {
		if err := f.Exec(t, sql); err != nil {
			t.Fatal(err)
		}
	}
	if rows, _, err := s.ListChanged(t.Context(), filter, cursor); err != nil || len(rows) != 1 {
		t.Errorf("after the restore: rows %v, %v; want the one run", rows, err)
	}
}
