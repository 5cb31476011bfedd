package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/auditdoc"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// rowsPath names the file of a part with rows.
func rowsPath(part string, file int) string { return fmt.Sprintf("%s-%06d.ndjson", part, file+1) }

// writeRows writes the rows of a table, in files of FileBytes.
func (e *exporter) writeRows(ctx context.Context, name string) error {
	s := &e.work.state
	for more := true; more; {
		var after []string
		if s.Cursor != nil {
			if err := json.Unmarshal(s.Cursor, &after); err != nil {
				return err
			}
		}
		f, err := e.work.create(ctx, rowsPath("rows/"+name, s.File))
		if err != nil {
			return err
		}
		more = false
		err = e.Owner.Read(ctx, e.Of, name, after, func(r owner.Row) (bool, error) {
			if f.Bytes >= e.FileBytes {
				more = true
				return false, nil
			}
			after = r.Key
			return true, f.line(r.JSON)
		})
		if err == nil {
			err = e.endRows(f, after)
		} else {
			f.drop()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endRows keeps a file of rows, unless it is empty, and commits the position behind it.
func (e *exporter) endRows(f *out, cursor any) error {
	if f.Rows == 0 {
		f.drop()
		return nil
	}
	if err := f.keep(); err != nil {
		return err
	}
	var err error
	if e.work.state.Cursor, err = json.Marshal(cursor); err != nil {
		return err
	}
	e.work.state.File++
	return e.work.commit()
}

// auditCursor is the position in the chain.
type auditCursor struct {
	No   int64  `json:"no"`
	Hash string `json:"hash"`
}

// writeAudit writes the chain of the tenant up to the record of this export, or the links by and about a person.
func (e *exporter) writeAudit(ctx context.Context) error {
	s := &e.work.state
	for {
		var at auditCursor
		if s.Cursor != nil {
			if err := json.Unmarshal(s.Cursor, &at); err != nil {
				return err
			}
		}
		if at.No >= s.AuditNo {
			return nil
		}
		f, err := e.work.create(ctx, rowsPath("audit/audit", s.File))
		if err != nil {
			return err
		}
		end, err := e.auditFile(ctx, f, at)
		if err != nil {
			f.drop()
			return err
		}
		s.AuditHash = end.Hash
		s.AuditRows += f.Rows
		if f.Rows == 0 { // nothing of the person
			f.drop()
			if s.Cursor, err = json.Marshal(end); err != nil {
				return err
			}
			continue
		}
		if err := e.endRows(f, end); err != nil {
			return err
		}
	}
}

// auditFile fills a file with links after a position, and returns the position behind them.
func (e *exporter) auditFile(ctx context.Context, f *out, at auditCursor) (auditCursor, error) {
	before := e.work.state.AuditNo + 1
	for f.Bytes < e.FileBytes && at.No < e.work.state.AuditNo {
		links, err := e.Store.AuditLinks(ctx, store.AuditFilter{TenantID: e.Of.TenantID, After: at.No, Before: before,
			Limit: auditPage, WithMissingRows: true})
		if err != nil {
			return at, err
		}
		if len(links) == 0 { // somebody removed links; dvt audit verify says which
			at.No = e.work.state.AuditNo
			return at, nil
		}
		var rows []*store.AuditRow
		for _, l := range links {
			if l.Row != nil {
				rows = append(rows, l.Row)
			}
		}
		if err := e.Keys.Open(ctx, e.Store, e.Of.TenantID, rows); err != nil {
			return at, err
		}
		for _, l := range links {
			doc := auditdoc.Of(e.Of.TenantID, l, previous(at))
			if e.Of.Subject == "" || e.isAbout(&doc) {
				if err := f.encode(doc); err != nil {
					return at, err
				}
			}
			if at = (auditCursor{l.No, doc.Hash}); f.Bytes >= e.FileBytes {
				break
			}
		}
	}
	return at, nil
}

func previous(at auditCursor) (out [sha256.Size]byte) {
	raw, err := hex.DecodeString(at.Hash)
	if err == nil && len(raw) == len(out) {
		out = [sha256.Size]byte(raw)
	}
	return out
}

// isAbout reports whether the person of this export made a row or is named by its detail. It removes from a row of
// somebody else what that person wrote, and where from.
func (e *exporter) isAbout(d *auditdoc.Doc) bool {
	if d.Row == nil {
		return false
	}
	if d.Row.Actor == e.Of.Subject {
		return true
	}
	var detail any
	if json.Unmarshal([]byte(d.Row.Detail), &detail) != nil || !names(detail, e.Of.Subject) {
		return false
	}
	d.Redacted = true
	d.Row.Reason, d.Row.Address, d.Row.Credential, d.Row.Sealed = "", "", "", nil
	kept, _ := json.Marshal(only(detail, e.Of.Subject)) // it was JSON
	d.Row.Detail = string(kept)
	return true
}

// names reports whether a document has a text as a value or a name.
func names(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return names(v, text) })
	case map[string]any:
		for name, v := range v {
			if name == text || names(v, text) {
				return true
			}
		}
	}
	return false
}

// only returns the document without the elements of lists that do not name a text, where others of the list do.
func only(v any, text string) any {
	switch v := v.(type) {
	case []any:
		if !names(v, text) {
			return []any{}
		}
		var out []any
		for _, element := range v {
			if names(element, text) {
				out = append(out, only(element, text))
			}
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, element := range v {
			if _, list := element.([]any); list || names(element, text) || isPlain(element) {
				out[name] = only(element, text)
			}
		}
		return out
	}
	return v
}

func isPlain(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

// writeGrants writes the parts of the tenant's policy that name the person.
func (e *exporter) writeGrants(ctx context.Context) error {
	if e.work.state.Cursor != nil {
		return nil
	}
	policies, err := e.Store.PolicyHistory(ctx, e.Of.TenantID, 0, 1)
	if err != nil {
		return err
	}
	f, err := e.work.create(ctx, rowsPath("grants/policy", 0))
	if err != nil {
		return err
	}
	for _, p := range policies {
		var doc any
		if err = json.Unmarshal(p.Doc, &doc); err == nil && names(doc, e.Of.Subject) {
			err = f.encode(map[string]any{"version": p.Version, "at": p.At, "policy": only(doc, e.Of.Subject)})
		}
		if err != nil {
			f.drop()
			return err
		}
	}
	return e.endRows(f, "done")
}

// writeRuns writes one file for each run, in the form of dvt store export.
func (e *exporter) writeRuns(ctx context.Context) error {
	for {
		ids, err := e.runsAfter(ctx)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			f, err := e.work.create(ctx, "runs/"+segment(id)+".ndjson")
			if err != nil {
				return err
			}
			lines := &lineCounter{out: f}
			_, err = storeadmin.ExportAt(ctx, e.Store, e.work.state.StartedAt, []string{id}, lines, nil)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, archive.ErrTorn) { // its archive is damaged; the others go on
				f.drop()
				err = e.work.add(File{Path: f.Path, Problem: err.Error()})
			} else if err == nil {
				err = f.keep()
			} else {
				f.drop()
			}
			if err == nil {
				err = e.next(id)
			}
			if err != nil {
				return err
			}
		}
	}
}

// runsPage is the number of runs that are read ahead.
const runsPage = 1000

func (e *exporter) runsAfter(ctx context.Context) (ids []string, err error) {
	var after []string
	if e.work.state.Cursor != nil {
		after = make([]string, 1)
		if err := json.Unmarshal(e.work.state.Cursor, &after[0]); err != nil {
			return nil, err
		}
	}
	err = e.Owner.Read(ctx, e.Of, "run", after, func(r owner.Row) (bool, error) {
		ids = append(ids, r.Key[0])
		return len(ids) < runsPage, nil
	})
	return ids, err
}

// next moves the position.
func (e *exporter) next(cursor string) (err error) {
	if e.work.state.Cursor, err = json.Marshal(cursor); err != nil {
		return err
	}
	return e.work.commitSome()
}

// lineCounter counts the lines that are written to a file.
type lineCounter struct{ out *out }

func (c *lineCounter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			c.out.Rows++
		}
	}
	return c.out.Write(p)
}

// writeLogs writes one file for each log of a step: its lines as the API shows them.
func (e *exporter) writeLogs(ctx context.Context) error {
	prefix := string(artifact.KindLogs) + "/" + e.Of.TenantID + "/"
	return e.walk(ctx, artifact.KindLogs, func(key string) (string, error) {
		parts := strings.Split(strings.TrimPrefix(key, prefix), "/")
		if len(parts) < 4 { //nolint:mnd // run, step, logical attempt, piece
			return key, nil
		}
		attempt, err := strconv.Atoi(parts[2])
		if err != nil {
			return key, nil //nolint:nilerr // it is no log
		}
		id := artifact.AttemptID{TenantID: e.Of.TenantID, RunID: parts[0], StepID: parts[1], LogicalAttempt: attempt}
		path := fmt.Sprintf("logs/%s/%s/%d.ndjson", segment(parts[0]), segment(parts[1]), attempt)
		// the keys of the other pieces of the log come before this one
		return prefix + strings.Join(parts[:3], "/") + "/\U0010FFFF", e.writeObject(ctx, path, key, func(f *out) error {
			return e.writeLog(ctx, f, id)
		})
	})
}

func (e *exporter) writeLog(ctx context.Context, f *out, id artifact.AttemptID) error {
	for from := int64(1); ; {
		page, err := e.Bucket.Read(ctx, id, from, artifact.MaxReadLines)
		if err != nil || len(page.Lines) == 0 {
			return err
		}
		for _, l := range page.Lines {
			if err := f.encode(l); err != nil {
				return err
			}
		}
		from = page.Lines[len(page.Lines)-1].No + 1
	}
}

// writeArtifacts writes the bodies of artifacts, decompressed.
func (e *exporter) writeArtifacts(ctx context.Context) error {
	prefix := string(artifact.KindArtifacts) + "/"
	return e.walk(ctx, artifact.KindArtifacts, func(key string) (string, error) {
		name := strings.TrimPrefix(key, prefix)
		parts := strings.Split(strings.TrimPrefix(name, e.Of.TenantID+"/"), "/")
		for i, p := range parts {
			parts[i] = segment(p)
		}
		return key, e.writeObject(ctx, "artifacts/"+strings.Join(parts, "/"), key, func(f *out) error {
			body, err := e.Bucket.Open(ctx, artifact.URI(name))
			if err != nil {
				return err
			}
			_, err = io.Copy(f, body)
			return errors.Join(err, body.Close())
		})
	})
}

// walk calls write with the keys of a kind behind the position. write returns the key behind which it goes on.
func (e *exporter) walk(ctx context.Context, kind artifact.Kind, write func(key string) (string, error)) error {
	after := ""
	if e.work.state.Cursor != nil {
		if err := json.Unmarshal(e.work.state.Cursor, &after); err != nil {
			return err
		}
	}
	return e.Bucket.Walk(ctx, artifact.Scope{Kind: kind, TenantID: e.Of.TenantID}, after, func(key string, _ int64) error {
		if key <= after {
			return nil
		}
		next, err := write(key)
		if err != nil {
			return err
		}
		after = next
		return e.next(next)
	})
}

// writeObject writes a file from the bucket. An object that is gone meanwhile, because its life ended, is left out; one
// that is torn is listed with the reason.
func (e *exporter) writeObject(ctx context.Context, path, key string, write func(*out) error) error {
	f, err := e.work.create(ctx, path)
	if err != nil {
		return err
	}
	switch err := write(f); {
	case errors.Is(err, artifact.ErrNotFound):
		f.drop()
		return nil
	case errors.Is(err, artifact.ErrTorn), errors.Is(err, artifact.ErrTooLarge):
		f.drop()
		return e.work.add(File{Path: path, Key: key, Problem: err.Error()})
	case err != nil:
		f.drop()
		return err
	}
	if url.PathEscape(key) != path && strings.Contains(path, shortened) {
		f.Key = key
	}
	return f.keep()
}

// Names of files have at most maxSegment bytes, as most file systems permit.
const (
	maxSegment = 200
	shortened  = "%~"
)

// segment returns a name for a file or a directory: everything but letters, digits and a few signs is escaped, and what
// is too long is replaced by a hash.
func segment(name string) string {
	out := strings.NewReplacer("%2F", "%2F", ":", "%3A", "~", "%7E", "*", "%2A").Replace(url.PathEscape(name))
	if out == "." || out == ".." || strings.HasPrefix(out, ".") {
		out = "%2E" + out[1:]
	}
	if len(out) > maxSegment {
		sum := sha256.Sum256([]byte(name))
		out = shortened + hex.EncodeToString(sum[:])
	}
	return out
}
