package controltest

import (
	"crypto/sha256"
	"database/sql"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the audit table is read beside the port, which is insert-only

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AuditRows returns the rows of a tenant as "actor action outcome code runId detail".
func (w *World) AuditRows(tenant string) (out []string) {
	w.T.Helper()
	db := Must[*sql.DB](w.T)(sql.Open("sqlite", filepath.Join(w.Dir, "dvt.db")))
	defer db.Close()
	rows, err := db.QueryContext(
		w.T.Context(),
		`SELECT actor, action, outcome, code, run_id, coalesce(detail, '') FROM audit WHERE tenant_id = ? ORDER BY at, rowid`,
		tenant)
	if err != nil {
		w.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var f [6]string
		if err := rows.Scan(&f[0], &f[1], &f[2], &f[3], &f[4], &f[5]); err != nil {
			w.T.Fatal(err)
		}
		out = append(out, strings.TrimSpace(strings.Join(f[:], " ")))
	}
	if err := rows.Err(); err != nil {
		w.T.Fatal(err)
	}
	return out
}

// HasAuditRow reports whether an audit row of the tenant begins with row, in the format of AuditRows.
func (w *World) HasAuditRow(tenant, row string) bool {
	for _, r := range w.AuditRows(tenant) {
		if strings.HasPrefix(r, row) {
			return true
		}
	}
	return false
}

// CountAuditRows counts the audit rows that a condition in SQL selects.
func (w *World) CountAuditRows(where string) int {
	w.T.Helper()
	db, err := sql.Open("sqlite", w.Dir+"/dvt.db")
	if err != nil {
		w.T.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM audit WHERE ` + where).Scan(&n); err != nil {
		w.T.Fatal(err)
	}
	return n
}

// CheckAuditChain links the pending audit rows, recomputes the chain, and returns its links.
func (w *World) CheckAuditChain(tenant string) []store.AuditLink {
	w.T.Helper()
	Must[int](w.T)(w.Raw.LinkAudit(w.T.Context(), 500))
	links := Must[[]store.AuditLink](w.T)(w.Raw.AuditLinks(w.T.Context(), store.AuditFilter{TenantID: tenant,
		Limit: 500}))
	var before [sha256.Size]byte
	for i, l := range links {
		if want := l.Row.Link(before, l.No); l.Hash != want {
			w.T.Errorf("link %d (%s by %s) is not the hash of its row", i+1, l.Row.Action, l.Row.Actor)
		}
		if !run.IsText(l.Row.Reason) {
			w.T.Errorf("link %d has the reason %q, which is not clean text", i+1, l.Row.Reason)
		}
		before = l.Hash
	}
	return links
}
