package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store"
)

// The delivery reads each open alert by its id, so this must not scan all alerts of the installation.
func TestAlerts_AreFoundByTheIndexOfTheirIDs(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	s, err := Open(t.Context(), dsn, Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	for _, statement := range []string{
		`WITH a AS (INSERT INTO alert (id, tenant_id, project_id, run_id, step_id, signal_id, level, code, note, actor)
			SELECT gen_random_uuid(), 'acme', 'p', 'r' || g, '', '', 'HIGH', 'RUN_OVERDUE', '', '' FROM generate_series(1, 5000) g
			RETURNING *)
		INSERT INTO alert_state (pos, tenant_id, project_id, environment_id, plan_id, run_id, code, subject, shared,
			fingerprint, level, note, last_seen)
		SELECT pos, tenant_id, project_id, '', '', run_id, code, '', false, run_id, level, note, at FROM a`,
		`ANALYZE alert, alert_state`,
	} {
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := c.Query(t.Context(), `EXPLAIN `+alertSQL, uuid.NewString())
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "alert_id_key") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("an alert is not found by the index of its id:\n%s", plan)
	}
	for _, unknown := range []string{"", "x", strings.ToUpper(uuid.NewString()), "{" + uuid.NewString() + "}"} {
		if _, err := s.GetAlert(t.Context(), unknown); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the alert %q: %v, want store.ErrNotFound", unknown, err)
		}
		list, err := s.ListAlerts(t.Context(), store.AlertFilter{TenantID: "acme", Before: unknown, Limit: 1})
		if want := min(len(unknown), 1) == 0; err != nil || (len(list) == 1) != want {
			t.Errorf("the page after the alert %q: %d alerts and %v, want none unless it is the first page", unknown, len(list),
				err)
		}
	}
}
