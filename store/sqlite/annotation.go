package sqlite

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/dvt-engine/dvt/store"
)

// ListTags implements store.Annotations.
func (s *Store) ListTags(ctx context.Context, f store.RunFilter, runIDs []string) (map[string][]string, error) {
	out := map[string][]string{}
	if f.ProjectIDs != nil && len(f.ProjectIDs) == 0 {
		return out, nil
	}
	w := annotatedIn(f)
	err := s.read(ctx, func(c *conn) error {
		return c.query(ctx, "tags", `SELECT st.run_id, json_group_array(st.tag ORDER BY st.tag) FROM json_each(?) i
			CROSS JOIN run_tag st ON st.run_id = i.value WHERE `+w.String()+` GROUP BY st.run_id`,
			append([]any{array(runIDs)}, w.args...), func(r row) error {
				var id string
				var doc []byte
				if err := r.Scan(&id, &doc); err != nil {
					return err
				}
				var tags []string
				if err := json.Unmarshal(doc, &tags); err != nil {
					return err
				}
				out[id] = tags
				return nil
			})
	})
	return out, err
}

// annotatedIn restricts the table st to the tenant, the projects, the environment and the scopes of f.
func annotatedIn(f store.RunFilter) *where {
	w := scope(f)
	if f.EnvironmentID != "" {
		w.add(`st.environment_id = ?`, f.EnvironmentID)
	}
	if term, args := inScopes(`st.`, f.Scopes); term != "" {
		w.add(term, args...)
	}
	return w
}

// CountNotes implements store.Annotations.
func (s *Store) CountNotes(ctx context.Context, f store.RunFilter, runIDs []string) (map[string]int, error) {
	out := map[string]int{}
	if f.ProjectIDs != nil && len(f.ProjectIDs) == 0 {
		return out, nil
	}
	w := annotatedIn(f)
	err := s.read(ctx, func(c *conn) error {
		return c.query(ctx, "counts of notes", `SELECT st.run_id, count(*) FROM json_each(?) i
			CROSS JOIN run_note n ON n.run_id = i.value CROSS JOIN run st ON st.run_id = n.run_id
			WHERE `+w.String()+` GROUP BY st.run_id`, append([]any{array(runIDs)}, w.args...), func(r row) error {
			var id string
			var count int
			if err := r.Scan(&id, &count); err != nil {
				return err
			}
			out[id] = count
			return nil
		})
	})
	return out, err
}

const noteColumns = `run_id, pos, author, body, request_id, at`

func scanNote(row scanner) (n store.Note, err error) {
	var at int64
	err = row.Scan(&n.RunID, &n.No, &n.Author, &n.Body, &n.RequestID, &at)
	n.At = instant(at)
	return n, err
}

// ListNotes implements store.Annotations.
func (s *Store) ListNotes(ctx context.Context, runID string) ([]store.Note, error) {
	return readAll(ctx, s, "notes", scanNote, `SELECT `+noteColumns+` FROM run_note WHERE run_id = ? ORDER BY pos LIMIT ?`,
		runID, store.MaxNotes)
}

const putTagSQL = `INSERT INTO run_tag (run_id, tag, tenant_id, project_id, environment_id, plan_id, triggered_by, created_at)
	SELECT run_id, ?2, tenant_id, project_id, environment_id, plan_id, triggered_by, created_at FROM run WHERE run_id = ?1
	ON CONFLICT DO NOTHING`

// Tags implements store.AnnotationTx.
func (t *runTx) Tags(ctx context.Context) ([]string, error) {
	return collect(ctx, t.conn, "tags of a run", value[string], `SELECT tag FROM run_tag WHERE run_id = ? ORDER BY tag`,
		t.id.RunID)
}

// PutTags implements store.AnnotationTx.
func (t *runTx) PutTags(ctx context.Context, tags []string) error {
	tags = append([]string{}, slices.Compact(slices.Sorted(slices.Values(tags)))...) // json_each needs an array
	if len(tags) > store.MaxTags {
		return store.ErrTooMany
	}
	if _, err := t.conn.exec(ctx, "replace tags", `DELETE FROM run_tag WHERE run_id = ? AND tag NOT IN (SELECT value FROM json_each(?))`,
		t.id.RunID, array(tags)); err != nil {
		return err
	}
	for _, tag := range tags {
		if _, err := t.conn.exec(ctx, "put tag", putTagSQL, t.id.RunID, tag); err != nil {
			return err
		}
	}
	t.bumpOpsRev()
	return nil
}

// AddNote implements store.AnnotationTx.
func (t *runTx) AddNote(ctx context.Context, n store.Note) (store.Note, bool, error) {
	have, err := collect(ctx, t.conn, "note of a request", scanNote, `SELECT `+noteColumns+` FROM run_note
		WHERE run_id = ? AND author = ? AND request_id = ?`, t.id.RunID, n.Author, n.RequestID)
	if err != nil || len(have) > 0 {
		return append(have, store.Note{})[0], false, err
	}
	count, err := collectOne(ctx, t.conn, "count notes", value[int], `SELECT count(*) FROM run_note WHERE run_id = ?`,
		t.id.RunID)
	if err != nil {
		return store.Note{}, false, err
	}
	if count >= store.MaxNotes {
		return store.Note{}, false, store.ErrTooMany
	}
	n.RunID, n.At = t.id.RunID, t.at
	t.bumpOpsRev()
	out, err := t.putNote(ctx, n)
	return out, err == nil, err
}

func (t *runTx) putNote(ctx context.Context, n store.Note) (store.Note, error) {
	return collectOne(ctx, t.conn, "put note", scanNote, `INSERT INTO run_note (run_id, author, body, request_id, at)
		VALUES (?, ?, ?, ?, ?) RETURNING `+noteColumns, t.id.RunID, n.Author, n.Body, n.RequestID, micros(n.At))
}

// importAnnotations writes the tags and notes of an imported run.
func (t *runTx) importAnnotations(ctx context.Context, n store.NewRun) error {
	if len(n.Tags) > 0 {
		if err := t.PutTags(ctx, n.Tags); err != nil {
			return err
		}
	}
	for _, note := range n.Notes {
		if _, err := t.putNote(ctx, note); err != nil {
			return err
		}
	}
	return nil
}

const viewColumns = `tenant_id, owner, id, project_id, name, query, at`

func scanView(row scanner) (v store.SavedView, err error) {
	var at int64
	err = row.Scan(&v.TenantID, &v.Owner, &v.ID, &v.ProjectID, &v.Name, &v.Query, &at)
	v.At = instant(at)
	return v, err
}

// ListViews implements store.SavedViews.
func (s *Store) ListViews(ctx context.Context, f store.ViewFilter) ([]store.SavedView, error) {
	return readAll(ctx, s, "saved views", scanView, `SELECT * FROM (
		SELECT `+viewColumns+` FROM saved_view WHERE tenant_id = ?1 AND owner = ?2
		UNION ALL SELECT * FROM (SELECT `+viewColumns+` FROM saved_view INDEXED BY saved_view_shared
			WHERE tenant_id = ?1 AND project_id <> '' AND owner <> ?2 AND (?3 IS NULL OR project_id IN (SELECT value FROM json_each(?3)))
			ORDER BY project_id, name, owner, id LIMIT ?4)) ORDER BY name, owner, id LIMIT 2 * ?4`,
		f.TenantID, f.Owner, projects(f.ProjectIDs), store.MaxPage)
}

// projects returns the JSON array of some projects, or NULL for all.
func projects(ids []string) any {
	if ids == nil {
		return nil
	}
	return array(ids)
}

// PutView implements store.SavedViews.
func (s *Store) PutView(ctx context.Context, v store.SavedView, rows ...store.AuditRow) (store.SavedView, error) {
	err := s.write(ctx, func(c *conn) error {
		others, err := collectOne(ctx, c, "count views", value[int],
			`SELECT count(*) FROM saved_view WHERE tenant_id = ? AND owner = ? AND id <> ?`, v.TenantID, v.Owner, v.ID)
		if err != nil {
			return err
		}
		if others >= store.MaxViews {
			return store.ErrTooMany
		}
		now := s.now()
		v.At = instant(micros(now))
		if _, err := c.exec(ctx, "put view", `INSERT INTO saved_view (`+viewColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (tenant_id, owner, id) DO UPDATE SET project_id = excluded.project_id, name = excluded.name,
			query = excluded.query, at = excluded.at`,
			v.TenantID, v.Owner, v.ID, v.ProjectID, v.Name, v.Query, micros(now)); err != nil {
			return err
		}
		return audit(ctx, c, now, rows)
	})
	return v, err
}

// DeleteView implements store.SavedViews.
func (s *Store) DeleteView(ctx context.Context, tenantID, owner, id string, rows ...store.AuditRow) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "delete view", `DELETE FROM saved_view WHERE tenant_id = ? AND owner = ? AND id = ?`, tenantID,
			owner, id)
		if err == nil && n == 0 {
			err = notFound("saved view " + id)
		}
		if err != nil {
			return err
		}
		return audit(ctx, c, s.now(), rows)
	})
}
