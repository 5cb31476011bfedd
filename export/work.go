package export

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
)

// Names in the directory of an export that is not finished. They are removed at its end.
const (
	workDir   = ".dvt-export"
	stateFile = "state.json"
	listFile  = "files.ndjson"
	tempFile  = "part.tmp"
)

// state is how far an export is.
type state struct {
	Version    int       `json:"version"`
	ID         string    `json:"id"` // of the audit record
	TenantID   string    `json:"tenantId"`
	Subject    string    `json:"subject,omitempty"`
	FileBytes  int64     `json:"fileBytes"`
	StoreEpoch string    `json:"storeEpoch"`
	StartedAt  time.Time `json:"startedAt"`
	AuditNo    int64     `json:"auditNo"` // of the audit record: the export goes up to it

	Part   int             `json:"part"`
	File   int             `json:"file"` // of the part, from 0
	Cursor json.RawMessage `json:"cursor,omitempty"`
	// AuditHash is the hash of the last link that was written.
	AuditHash string `json:"auditHash,omitempty"`
	AuditRows int64  `json:"auditRows"`

	List  int64 `json:"list"` // bytes of the list of files that are valid
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// work is the directory of an export while it is written.
type work struct {
	dir      string
	state    state
	list     *os.File
	listSize int64
	dirs     map[string]bool // that got files since the last commit
	pending  int             // files since the last commit
	written  int64           // bytes since the last commit
	limit    *rate.Limiter
	stop     func(string) error
	onCommit func()
}

// openWork opens or makes the directory of an export. done is the manifest of an export that is finished.
func openWork(cfg Config) (w *work, done *Manifest, err error) {
	w = &work{dir: cfg.Dir, stop: cfg.Stop, onCommit: func() {}, dirs: map[string]bool{}}
	if w.stop == nil {
		w.stop = func(string) error { return nil }
	}
	body, err := os.ReadFile(w.path(workDir, stateFile))
	switch {
	case err == nil:
		if err := json.Unmarshal(body, &w.state); err != nil || w.state.Version != ManifestVersion {
			return nil, nil, fmt.Errorf("%w: the state in %s cannot be read: give an empty directory", ErrOther, cfg.Dir)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	default:
		if m, err := ReadManifest(cfg.Dir); err == nil {
			if m.TenantID != cfg.Of.TenantID || m.Subject != cfg.Of.Subject {
				return nil, nil, otherExport(cfg.Dir, m.TenantID, m.Subject)
			}
			return nil, &m, os.RemoveAll(w.path(workDir)) // a kill may have left a part of it
		}
		if w.state, err = newState(cfg); err != nil {
			return nil, nil, err
		}
	}
	if w.state.TenantID != cfg.Of.TenantID || w.state.Subject != cfg.Of.Subject {
		return nil, nil, otherExport(cfg.Dir, w.state.TenantID, w.state.Subject)
	}
	if w.state.FileBytes != cfg.FileBytes {
		return nil, nil, fmt.Errorf("%w: the export in %s has files of %d bytes: continue it with the same size", ErrOther,
			cfg.Dir, w.state.FileBytes)
	}
	if err := os.MkdirAll(w.path(workDir), 0o700); err != nil {
		return nil, nil, err
	}
	if w.list, err = os.OpenFile(w.path(workDir, listFile), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, nil, err
	}
	if err := w.dropTail(); err != nil {
		return nil, nil, errors.Join(err, w.list.Close())
	}
	w.listSize = w.state.List
	return w, nil, w.saveState()
}

// dropTail removes the files that a killed export listed behind its state: they are written again, unless their
// objects are gone.
func (w *work) dropTail() error {
	if _, err := w.list.Seek(w.state.List, io.SeekStart); err != nil {
		return err
	}
	for lines := bufio.NewScanner(w.list); lines.Scan(); {
		var f File
		if json.Unmarshal(lines.Bytes(), &f) != nil { // a part of a line: its file has no name yet
			break
		}
		if err := os.Remove(w.path(filepath.FromSlash(f.Path))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := w.list.Truncate(w.state.List); err != nil {
		return err
	}
	_, err := w.list.Seek(w.state.List, io.SeekStart)
	return err
}

func otherExport(dir, tenant, subject string) error {
	of := "tenant " + tenant
	if subject != "" {
		of = fmt.Sprintf("%s of tenant %s", subject, tenant)
	}
	return fmt.Errorf("%w: %s has the export of %s: give another directory", ErrOther, dir, of)
}

// newState begins an export in an empty directory, or one that does not exist.
func newState(cfg Config) (state, error) {
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state{}, err
	}
	for _, e := range entries {
		if e.Name() != workDir {
			return state{}, fmt.Errorf("%w: %s is not empty: give an empty directory, or one that does not exist", ErrOther, cfg.Dir)
		}
	}
	return state{Version: ManifestVersion, ID: uuid.NewString(), TenantID: cfg.Of.TenantID, Subject: cfg.Of.Subject,
		FileBytes: cfg.FileBytes, StartedAt: time.Now().UTC().Truncate(time.Millisecond)}, nil
}

func (w *work) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

func (w *work) close() error { return w.list.Close() }

// File is one file of an export, as its manifest names it.
type File struct {
	Path string `json:"path"`
	// Key is the name in the bucket where the path had to be shortened.
	Key    string `json:"key,omitempty"`
	Rows   int64  `json:"rows"` // lines; 0 for a body
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Problem says why there is no file: the object in the bucket is torn.
	Problem string `json:"problem,omitempty"`
}

// out is a file that is being written under a temporary name.
type out struct {
	work *work
	ctx  context.Context //nolint:containedctx // of the writes, for io.Copy
	file *os.File
	buf  *bufio.Writer
	sum  hash.Hash
	File
}

func (w *work) create(ctx context.Context, path string) (*out, error) {
	f, err := os.OpenFile(w.path(workDir, tempFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	o := &out{work: w, ctx: ctx, file: f, sum: sha256.New(), File: File{Path: path}}
	o.buf = bufio.NewWriterSize(f, 1<<16)
	return o, nil
}

// Write implements io.Writer. It waits for the rate.
func (o *out) Write(p []byte) (int, error) {
	if l := o.work.limit; l != nil {
		for left := len(p); left > 0; {
			n := min(left, l.Burst())
			if err := l.WaitN(o.ctx, n); err != nil {
				return 0, err
			}
			left -= n
		}
	}
	n, err := o.buf.Write(p)
	_, _ = o.sum.Write(p[:n])
	o.Bytes += int64(n)
	return n, err
}

// line writes a JSON document and the end of its line.
func (o *out) line(doc []byte) error {
	o.Rows++
	if _, err := o.Write(doc); err != nil {
		return err
	}
	_, err := o.Write([]byte{'\n'})
	return err
}

func (o *out) encode(doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return o.line(body)
}

// drop forgets the file.
func (o *out) drop() { _, _ = o.file.Close(), os.Remove(o.file.Name()) }

// keep gives the file its name and lists it. It counts only after the next commit.
func (o *out) keep() error {
	w := o.work
	if err := errors.Join(o.buf.Flush(), o.file.Sync(), o.file.Close()); err != nil {
		return err
	}
	if err := w.stop("written " + o.Path); err != nil {
		return err
	}
	o.SHA256 = hex.EncodeToString(o.sum.Sum(nil))
	if err := w.add(o.File); err != nil {
		return err
	}
	to := w.path(filepath.FromSlash(o.Path))
	dir := filepath.Dir(to)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w.dirs[dir] = true
	if err := os.Rename(o.file.Name(), to); err != nil {
		return err
	}
	return w.stop("named " + o.Path)
}

// add lists a file, before it has its name, so that a killed export finds it.
func (w *work) add(f File) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	n, err := w.list.Write(append(body, '\n'))
	w.listSize += int64(n)
	w.pending++
	w.written += f.Bytes
	w.state.Files++
	w.state.Bytes += f.Bytes
	if err != nil {
		return err
	}
	return w.stop("listed " + f.Path)
}

// commitSome commits when enough was written.
func (w *work) commitSome() error {
	if w.pending < saveFiles && w.written < saveBytes {
		return nil
	}
	return w.commit()
}

// commit makes everything that was written and the position durable.
func (w *work) commit() error {
	for dir := range w.dirs {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	clear(w.dirs)
	if err := w.list.Sync(); err != nil {
		return err
	}
	w.state.List, w.pending, w.written = w.listSize, 0, 0
	if err := w.saveState(); err != nil {
		return err
	}
	w.onCommit()
	return w.stop("saved")
}

func (w *work) saveState() error {
	body, err := json.Marshal(w.state)
	if err != nil {
		return err
	}
	return replaceFile(w.path(workDir, stateFile), body)
}

// replaceFile writes a file so that a crash leaves the old one or the new one.
func replaceFile(path string, body []byte) error {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
