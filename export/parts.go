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
	"strconv"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/owner"
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
			err = e.Run(ctx, e.work.state.StartedAt, id, lines)
			switch {
			case err == nil:
				err = f.keep()
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, archive.ErrTorn): // its archive is damaged; the others go on
				f.drop()
				err = e.work.add(File{Path: f.Path, Problem: err.Error()})
			case errors.Is(err, store.ErrNotFound): // the ids were read before
				f.drop()
				err = e.work.add(File{Path: f.Path, Problem: "the run was deleted while the export went on"})
			default:
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
		if err == nil && len(page.Lines) == 0 && f.Rows == 0 {
			return artifact.ErrNotFound // a log that is gone reads as an empty one, which no listed log is
		}
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

// writeObject writes a file from the bucket. An object that is torn, or that was removed after it was listed because
// its life ended, has a note with the reason instead.
func (e *exporter) writeObject(ctx context.Context, path, key string, write func(*out) error) error {
	f, err := e.work.create(ctx, path)
	if err != nil {
		return err
	}
	switch err := write(f); {
	case errors.Is(err, artifact.ErrNotFound):
		f.drop()
		return e.work.add(File{Path: path, Key: key, Problem: "it was removed while the export went on"})
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
