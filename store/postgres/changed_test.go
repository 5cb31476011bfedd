package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dvt-engine/dvt/store"
)

// A read of the feed is one statement for any number of runs. It walks the index from the cursor and never scans the
// table.
// contract: T186
func TestFeed_OneStatementAlongTheIndex(t *testing.T) {
	ctx := t.Context()
	s := newLoadedStore(t)
	cfg := s.pool.Load().Config()
	count := &reads{}
	cfg.ConnConfig.Tracer = count
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.pool.Swap(pool).Close()
	if _, err := pool.Exec(ctx, `INSERT INTO run_state (run_id, tenant_id, project_id, status, seq, rev, header, xid)
		SELECT 'x' || n, 't' || n % 3, 'p1', 'RUNNING', 1, 1, '{}', n::text::xid8 FROM generate_series(1, 20000) n`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `ANALYZE run_state`); err != nil {
		t.Fatal(err)
	}
	_, now, err := s.ListChanged(ctx, store.RunFilter{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, cursor := range []string{"", store.FeedStart, now} {
		for _, f := range []store.RunFilter{{TenantID: "t1", Limit: 10}, {TenantID: "t1", ProjectIDs: []string{"p1"}},
			{EveryTenant: true}} {
			*count = reads{}
			if _, _, err := s.ListChanged(ctx, f, cursor); err != nil {
				t.Fatal(err)
			}
			if count.statements != 1 {
				t.Errorf("a read from the cursor %q took %d statements, want 1", cursor, count.statements)
			}
		}
	}
	for _, where := range []string{"true", "st.tenant_id = 't1'", "st.tenant_id = 't1' AND st.project_id = ANY('{p1}')"} {
		at := parseCursor(now)
		rows, err := pool.Query(ctx, "EXPLAIN "+fmt.Sprintf(changedSQL, where), at.epoch, xid(at.from), xid(at.xid), at.runID,
			1000)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan on run_state") ||
			!strings.Contains(plan, "run_state_changed") {
			t.Errorf("the plan for %s does not use run_state_changed only:\n%s", where, plan)
		}
	}
}
