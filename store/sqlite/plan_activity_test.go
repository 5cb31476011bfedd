package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// The migration that adds the activity of plans knows the runs that were there before it.
func TestMigrate_PlansOfOlderRunsAreListed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	migrateFile(t, path, upTo(t, "0020"))
	db := raw(t, path)
	for i, at := range []int64{1_000_000, 3_000_000, 2_000_000} {
		if _, err := db.ExecContext(t.Context(), `INSERT INTO run VALUES (?, 't1', 'p1', 'e1', 'nightly', '1', NULL, '', '{}', '', '', '', NULL, '{}', ?)`,
			string(rune('a'+i)), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, Options{})
	plans, err := s.ListPlans(t.Context(), store.PlanFilter{TenantID: "t1", Limit: 10})
	newest := time.UnixMicro(3_000_000)
	if err != nil || len(plans) != 1 || plans[0].PlanID != "nightly" || !plans[0].LastRunAt.Equal(newest) {
		t.Errorf("plans after the migration: %+v, %v; want nightly with the time of its newest run", plans, err)
	}
}
