package owner

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// NamedRun is a run of a tenant, and whether rows of it name the person.
type NamedRun struct {
	RunID        string
	Ended, Named bool
	Archive      *store.ArchivedRun // nil: the run is not archived
}

// NamedRuns lists at most limit runs of the tenant by id, behind after.
func (d *DB) NamedRuns(ctx context.Context, s Scope, after string, limit int) (out []NamedRun, err error) {
	rows, err := d.db.QueryContext(ctx, d.q(`SELECT r.run_id, h.terminal, coalesce(a.location, ''), coalesce(a.sha256, ''),
		coalesce(a.head_seq, 0) FROM run r JOIN run_head h ON h.run_id = r.run_id LEFT JOIN run_archive a
		ON a.run_id = r.run_id WHERE r.tenant_id = $1 AND r.run_id > $2 ORDER BY r.run_id LIMIT $3`), s.TenantID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var n NamedRun
		a := store.ArchivedRun{TenantID: s.TenantID}
		if err := rows.Scan(&n.RunID, &n.Ended, &a.Location, &a.SHA256, &a.Head); err != nil {
			return nil, fmt.Errorf("owner: %w", err)
		}
		if a.Location != "" {
			a.RunID = n.RunID
			n.Archive = &a
		}
		out = append(out, n)
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		return nil, err
	}
	marks, ids := make([]string, len(out)), make([]any, len(out))
	for i, n := range out {
		marks[i], ids[i] = fmt.Sprintf("$%d", i+5), n.RunID
	}
	where := ` AND run_id IN (` + strings.Join(marks, ", ") + `)`
	for _, name := range d.logTables() {
		t, err := d.tableOf(name)
		if err != nil {
			return nil, err
		}
		columns, err := d.replacedColumns(ctx, t)
		if err == nil {
			err = d.eachNaming(ctx, s, t, columns, where, ids, func(runID string) {
				if i := slices.IndexFunc(out, func(n NamedRun) bool { return n.RunID == runID }); i >= 0 {
					out[i].Named = true
				}
			})
		}
		if err != nil {
			return nil, fmt.Errorf("owner: search %s for a name: %w", name, err)
		}
	}
	return out, nil
}

// logTables are those of the dialect.
func (d *DB) logTables() []string {
	return slices.DeleteFunc(slices.Clone(logTables), func(name string) bool {
		_, err := d.tableOf(name)
		return err != nil
	})
}

// WorkingBulks lists bulks of the tenant that have not finished and name the person, with whose rights they act.
func (d *DB) WorkingBulks(ctx context.Context, s Scope) ([]string, error) {
	needles := s.Needles()
	return d.texts(ctx, `SELECT `+d.asText("id")+` FROM bulk WHERE tenant_id = $1 AND finished_at IS NULL AND (actor = $2
		OR `+map[Dialect]string{Postgres: `strpos(principal::text, $3)`, SQLite: `instr(CAST(principal AS TEXT), $3)`}[d.dialect]+
		` > 0) ORDER BY 1 LIMIT 20`, s.TenantID, s.Subject, needles[0])
}

// Seals lists the seals of the log of a run by the number of their event: the id, the object and the digest of the
// first row of the chain for each.
func (d *DB) Seals(ctx context.Context, tenantID, runID string) (out []store.AuditRow, err error) {
	rows, err := d.db.QueryContext(ctx, d.q(`SELECT `+d.asText("a.id")+`, a.object, a.digest FROM audit a
		LEFT JOIN audit_link l ON l.id = a.id AND l.tenant_id = a.tenant_id AND l.no > 0 AND l.no < 4611686018427387904
		WHERE a.tenant_id = $1 AND a.run_id = $2 AND a.action = $3 AND a.outcome = 'ACCEPTED'
		ORDER BY a.object, l.no NULLS LAST, a.at, a.id`), tenantID, runID, store.ActionSealLog)
	if err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r store.AuditRow
		if err := rows.Scan(&r.ID, &r.Object, &r.Digest); err != nil {
			return nil, fmt.Errorf("owner: %w", err)
		}
		if len(out) == 0 || out[len(out)-1].Object != r.Object {
			out = append(out, r)
		}
	}
	return out, rows.Err()
}

// RunRewrite is what an erasure changes in the log of an ended run.
type RunRewrite struct {
	RunID    string
	Payloads map[run.Seq][]byte // of events, without the name
	Seals    []store.Rewrite    // of seals that changed with them
	Archive  *store.ArchivedRun // the archive without the name; nil: the run is not archived
}

// RewriteRun replaces a person in the log of an ended run and in every row of it, adds 1 to the count "names runs", and
// saves the progress of e, all in one transaction. ErrOvertaken.
func (d *DB) RewriteRun(ctx context.Context, e *store.Erasure, w Rewriting, r RunRewrite) error {
	n := int64(1)
	tables := d.logTables()
	return d.rewriteTx(ctx, e, tables, "names runs", &n, func(tx *sql.Tx) error {
		for seq, payload := range r.Payloads {
			var v any = payload
			cast := ""
			if d.dialect == Postgres {
				v, cast = string(payload), "::text::json"
			}
			if _, err := tx.ExecContext(ctx, d.q(`UPDATE event SET payload = $3`+cast+` WHERE run_id = $1 AND run_seq = $2`),
				r.RunID, int64(seq), v); err != nil {
				return fmt.Errorf("replace a name in event: %w", err)
			}
		}
		for _, name := range tables {
			if name == "event" {
				continue
			}
			t, err := d.tableOf(name)
			if err != nil {
				return err
			}
			for from, more := after(nil), true; more; more = from != nil {
				if _, from, err = d.rewriteRows(ctx, tx, w, t, r.RunID, from, runRows); err != nil {
					return err
				}
			}
		}
		if a := r.Archive; a != nil {
			if _, err := tx.ExecContext(ctx, d.q(`UPDATE run_archive SET location = $2, sha256 = $3, bytes = $4, events = $5,
				head_seq = $6 WHERE run_id = $1`), r.RunID, a.Location, a.SHA256, a.Bytes, a.Events, int64(a.Head)); err != nil {
				return err
			}
		}
		for _, s := range r.Seals {
			row := w.Vouch(s)
			row.RunID = r.RunID
			if err := d.insertAudit(ctx, tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// MoveArchive names another object as the archive of a run.
func (d *DB) MoveArchive(ctx context.Context, a store.ArchivedRun) error {
	if _, err := d.db.ExecContext(ctx, d.q(`UPDATE run_archive SET location = $2, sha256 = $3, bytes = $4
		WHERE run_id = $1`), a.RunID, a.Location, a.SHA256, a.Bytes); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	return nil
}

// runRows is the number of rows of a run that are read at once.
const runRows = 500
