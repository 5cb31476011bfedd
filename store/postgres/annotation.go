package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// ListTags implements store.Annotations.
func (s *Store) ListTags(ctx context.Context, rf store.RunFilter, runIDs []string) (map[string][]string, error) {
	f := annotatedIn(rf, runIDs)
	type tagged struct {
		id   string
		tags []string
	}
	rows, err := collect(ctx, s, "tags", func(row pgx.CollectableRow) (t tagged, err error) {
		return t, row.Scan(&t.id, &t.tags)
	}, `SELECT g.run_id, array_agg(g.tag ORDER BY g.tag) FROM run_tag g WHERE `+f.String()+` GROUP BY g.run_id`, f.args...)
	out := make(map[string][]string, len(rows))
	for _, t := range rows {
		out[t.id] = t.tags
	}
	return out, err
}

// annotatedIn restricts the table g to runs in the tenant, the projects, the environment and the scopes of rf.
func annotatedIn(rf store.RunFilter, runIDs []string) (f filter) {
	f.scope("g", rf)
	f.scopes("g", rf.Scopes)
	if rf.EnvironmentID != "" {
		f.add("g.environment_id = ?", rf.EnvironmentID)
	}
	f.add("g.run_id = ANY(?)", runIDs)
	return f
}

// CountNotes implements store.Annotations.
func (s *Store) CountNotes(ctx context.Context, rf store.RunFilter, runIDs []string) (map[string]int, error) {
	f := annotatedIn(rf, runIDs)
	type noted struct {
		id    string
		notes int
	}
	rows, err := collect(ctx, s, "counts of notes", func(row pgx.CollectableRow) (n noted, err error) {
		return n, row.Scan(&n.id, &n.notes)
	}, `SELECT g.run_id, count(*) FROM run g JOIN run_note n USING (run_id) WHERE `+f.String()+` GROUP BY g.run_id`,
		f.args...)
	out := make(map[string]int, len(rows))
	for _, n := range rows {
		out[n.id] = n.notes
	}
	return out, err
}

const noteColumns = `run_id, pos, author, body, request_id, at`

func scanNote(row pgx.CollectableRow) (n store.Note, err error) {
	return n, row.Scan(&n.RunID, &n.No, &n.Author, &n.Body, &n.RequestID, utc{&n.At})
}

// ListNotes implements store.Annotations.
func (s *Store) ListNotes(ctx context.Context, runID string) ([]store.Note, error) {
	return collect(ctx, s, "notes", scanNote,
		`SELECT `+noteColumns+` FROM run_note WHERE run_id = $1 ORDER BY pos LIMIT $2`, runID, store.MaxNotes)
}

const (
	dropTagsSQL = `DELETE FROM run_tag WHERE run_id = $1 AND tag <> ALL($2::text[])`
	putTagsSQL  = `INSERT INTO run_tag (run_id, tag, tenant_id, project_id, environment_id, plan_id, triggered_by, created_at)
  SELECT r.run_id, u.tag, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.triggered_by, r.created_at
  FROM run r, unnest($2::text[]) u (tag) WHERE r.run_id = $1 ON CONFLICT DO NOTHING`
	putNoteSQL = `INSERT INTO run_note (run_id, author, body, request_id, at) VALUES ($1, $2, $3, $4, $5)`
)

// Tags implements store.AnnotationTx.
func (r runTx) Tags(ctx context.Context) (tags []string, err error) {
	r.t.batch.Queue(`SELECT ARRAY(SELECT tag FROM run_tag WHERE run_id = $1 ORDER BY tag)`, r.t.id.RunID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&tags) })
	return tags, translate(ctx, r.t.flush(ctx))
}

// PutTags implements store.AnnotationTx.
func (r runTx) PutTags(ctx context.Context, tags []string) error {
	tags = append([]string{}, slices.Compact(slices.Sorted(slices.Values(tags)))...)
	if len(tags) > store.MaxTags {
		return store.ErrTooMany
	}
	r.t.batch.Queue(dropTagsSQL, r.t.id.RunID, tags)
	r.t.batch.Queue(putTagsSQL, r.t.id.RunID, tags)
	r.t.ops = true
	return translate(ctx, r.t.flush(ctx))
}

// AddNote implements store.AnnotationTx.
func (r runTx) AddNote(ctx context.Context, n store.Note) (store.Note, bool, error) {
	var have []store.Note
	var count int
	r.t.batch.Queue(`SELECT `+noteColumns+` FROM run_note WHERE run_id = $1 AND author = $2 AND request_id = $3`,
		r.t.id.RunID, n.Author, n.RequestID).Query(func(rows pgx.Rows) (err error) {
		have, err = pgx.CollectRows(rows, scanNote)
		return err
	})
	r.t.batch.Queue(`SELECT count(*) FROM run_note WHERE run_id = $1`, r.t.id.RunID).QueryRow(func(row pgx.Row) error {
		return row.Scan(&count)
	})
	if err := r.t.flush(ctx); err != nil {
		return store.Note{}, false, translate(ctx, err)
	}
	switch {
	case len(have) > 0:
		return have[0], false, nil
	case count >= store.MaxNotes:
		return store.Note{}, false, store.ErrTooMany
	}
	n.RunID, n.At = r.t.id.RunID, r.t.at()
	r.t.batch.Queue(putNoteSQL+` RETURNING pos, at`, n.RunID, n.Author, n.Body, n.RequestID, n.At).
		QueryRow(func(row pgx.Row) error { return row.Scan(&n.No, utc{&n.At}) })
	r.t.ops = true
	err := r.t.flush(ctx)
	return n, err == nil, translate(ctx, err)
}

// queueAnnotations writes the tags and notes of an imported run.
func queueAnnotations(b *pgx.Batch, r store.Run, n store.NewRun) {
	if len(n.Tags) > 0 {
		b.Queue(putTagsSQL, r.RunID, n.Tags)
	}
	for _, note := range n.Notes {
		b.Queue(putNoteSQL, r.RunID, note.Author, note.Body, note.RequestID, note.At)
	}
}

const viewColumns = `tenant_id, owner, id, project_id, name, query, at`

func scanView(row pgx.CollectableRow) (v store.SavedView, err error) {
	return v, row.Scan(&v.TenantID, &v.Owner, &v.ID, &v.ProjectID, &v.Name, &v.Query, utc{&v.At})
}

// ListViews implements store.SavedViews.
func (s *Store) ListViews(ctx context.Context, f store.ViewFilter) ([]store.SavedView, error) {
	return collect(ctx, s, "saved views", scanView, `SELECT `+viewColumns+` FROM (
		SELECT `+viewColumns+` FROM saved_view WHERE tenant_id = $1 AND owner = $2
		UNION ALL (SELECT `+viewColumns+` FROM saved_view
			WHERE tenant_id = $1 AND project_id <> '' AND owner <> $2 AND ($3::text[] IS NULL OR project_id = ANY($3))
			ORDER BY project_id, name, owner, id LIMIT $4)) v ORDER BY name COLLATE "C", owner, id LIMIT 2 * $4::bigint`,
		f.TenantID, f.Owner, f.ProjectIDs, store.MaxPage)
}

// lockViewsSQL locks the views of an owner, so that two calls at once cannot pass the limit.
const lockViewsSQL = `SELECT pg_advisory_xact_lock(hashtextextended('view/' || $1 || '/' || $2, 0))`

const putViewSQL = `INSERT INTO saved_view (` + viewColumns + `) VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
  ON CONFLICT (tenant_id, owner, id) DO UPDATE SET project_id = excluded.project_id, name = excluded.name,
  query = excluded.query, at = excluded.at RETURNING at`

// PutView implements store.SavedViews.
func (s *Store) PutView(ctx context.Context, v store.SavedView, rows ...store.AuditRow) (store.SavedView, error) {
	err := s.changeViews(ctx, "put view", v.TenantID, v.Owner, rows, func(ctx context.Context, c *pgx.Conn) error {
		var others int
		if err := c.QueryRow(ctx, `SELECT count(*) FROM saved_view WHERE tenant_id = $1 AND owner = $2 AND id <> $3`,
			v.TenantID, v.Owner, v.ID).Scan(&others); err != nil {
			return err
		}
		if others >= store.MaxViews {
			return store.ErrTooMany
		}
		return c.QueryRow(ctx, putViewSQL, v.TenantID, v.Owner, v.ID, v.ProjectID, v.Name, v.Query).Scan(utc{&v.At})
	})
	return v, err
}

// DeleteView implements store.SavedViews.
func (s *Store) DeleteView(ctx context.Context, tenantID, owner, id string, rows ...store.AuditRow) error {
	return s.changeViews(ctx, "delete view", tenantID, owner, rows, func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, `DELETE FROM saved_view WHERE tenant_id = $1 AND owner = $2 AND id = $3`, tenantID, owner, id)
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrNotFound
		}
		return err
	})
}

// changeViews runs f in a transaction that holds the lock of an owner's views. If f returns nil, it commits together
// with the audit rows.
func (s *Store) changeViews(ctx context.Context, what, tenantID, owner string, rows []store.AuditRow,
	f func(context.Context, *pgx.Conn) error) error {
	return s.inTx(ctx, what, func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		if _, err := c.Exec(ctx, lockViewsSQL, tenantID, owner); err != nil {
			return err
		}
		queueAudit(last, rows)
		return f(ctx, c)
	})
}
