package export

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ManifestName is the name of the manifest in an export.
const ManifestName = "MANIFEST.json"

// ManifestVersion is the version of the form of an export.
const ManifestVersion = 1

const manifestFormat = "dvt-archive"

// Kinds of exports.
const (
	KindTenant  = "tenant"
	KindSubject = "subject"
)

// Manifest says what an export is of and how far it goes. The file has one line for it, one for each file, and one with
// the SHA-256 over all lines before. All lines together are one JSON document.
type Manifest struct {
	Format     string   `json:"format"`
	Version    int      `json:"version"`
	Kind       string   `json:"kind"`
	TenantID   string   `json:"tenantId"`
	Subject    string   `json:"subject,omitempty"`
	ExportID   string   `json:"exportId"` // also the id of the audit record
	StoreEpoch string   `json:"storeEpoch"`
	From       Position `json:"from"`
	Until      Position `json:"until"`
	Files      int64    `json:"fileCount"`
	Bytes      int64    `json:"bytes"`
	// Hash is that of the last line.
	Hash string `json:"-"`
}

// Position is a place in the history of a tenant.
type Position struct {
	At        *time.Time `json:"at,omitempty"`
	AuditNo   int64      `json:"auditNo"`
	AuditHash string     `json:"auditHash,omitempty"`
}

func (s state) manifest() Manifest {
	kind := KindTenant
	if s.Subject != "" {
		kind = KindSubject
	}
	return Manifest{Format: manifestFormat, Version: ManifestVersion, Kind: kind, TenantID: s.TenantID,
		Subject: s.Subject, ExportID: s.ID, StoreEpoch: s.StoreEpoch, From: Position{AuditNo: 1},
		Until: Position{At: &s.StartedAt, AuditNo: s.AuditNo, AuditHash: s.AuditHash}, Files: s.Files, Bytes: s.Bytes}
}

// The ends of the lines of a manifest.
const (
	filesBegin = `,"files":[`
	hashBegin  = `],"hash":"`
	hashEnd    = `"}`
)

// finish writes the manifest and removes what only an unfinished export needs. It may be repeated.
func (w *work) finish(ctx context.Context) (Manifest, error) {
	m := w.state.manifest()
	f, err := os.OpenFile(w.path(workDir, tempFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return m, err
	}
	if m.Hash, err = w.writeManifest(ctx, f, m); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return m, err
	}
	if err := w.stop("manifest written"); err != nil {
		return m, err
	}
	if err := os.Rename(f.Name(), w.path(ManifestName)); err != nil {
		return m, err
	}
	if err := syncDir(w.dir); err != nil {
		return m, err
	}
	if err := w.stop("manifest named"); err != nil {
		return m, err
	}
	return m, errors.Join(w.close(), os.RemoveAll(w.path(workDir)))
}

func (w *work) writeManifest(ctx context.Context, f io.Writer, m Manifest) (string, error) {
	head, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	buffered := bufio.NewWriterSize(f, 1<<16)
	to := io.MultiWriter(buffered, sum)
	if _, err := fmt.Fprintf(to, "%s%s\n", head[:len(head)-1], filesBegin); err != nil {
		return "", err
	}
	if _, err := w.list.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	lines := bufio.NewReader(io.LimitReader(w.list, w.state.List))
	for n := int64(1); ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", err
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if n < w.state.Files {
			line = append(line, ',')
		}
		if _, err := to.Write(append(line, '\n')); err != nil {
			return "", err
		}
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	_, err = fmt.Fprintf(buffered, "%s%s%s\n", hashBegin, hash, hashEnd)
	return hash, errors.Join(err, buffered.Flush())
}

// ErrManifest says that a manifest is missing, was changed, or is none.
var ErrManifest = errors.New("the manifest is missing or was changed")

// ReadManifest reads the manifest of a finished export in a directory and checks its hash.
func ReadManifest(dir string) (Manifest, error) {
	f, err := openManifest(dir)
	if err != nil {
		return Manifest{}, err
	}
	defer f.Close()
	return readManifest(f, func(File) error { return nil })
}

// openManifest opens the manifest in a directory. A link or a pipe under its name is ErrManifest.
func openManifest(dir string) (*os.File, error) {
	path := filepath.Join(dir, ManifestName)
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return os.Open(path)
}

// maxManifestLine bounds the memory for a manifest that somebody forged. The longest names need a tenth of it.
const maxManifestLine = 1 << 18

// readManifest calls each with the files of a manifest, and returns ErrManifest when any of its bytes is wrong. Files
// are given before the hash is checked.
func readManifest(r io.Reader, each func(File) error) (m Manifest, err error) {
	in := bufio.NewReaderSize(r, maxManifestLine)
	sum := sha256.New()
	line := func() (string, error) {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return "", fmt.Errorf("%w: a line of it has more than %d bytes", ErrManifest, maxManifestLine)
		}
		if err != nil {
			return "", fmt.Errorf("%w: it was cut off", ErrManifest)
		}
		return string(text), nil
	}
	head, err := line()
	if err != nil {
		return m, err
	}
	_, _ = io.WriteString(sum, head)
	doc, ok := strings.CutSuffix(head, filesBegin+"\n")
	if !ok || json.Unmarshal([]byte(doc+"}"), &m) != nil || m.Format != manifestFormat {
		return m, fmt.Errorf("%w: its first line is not that of a manifest", ErrManifest)
	}
	if m.Version != ManifestVersion {
		return m, fmt.Errorf("%w: it has the version %d; this program reads %d", ErrManifest, m.Version, ManifestVersion)
	}
	for n := int64(1); ; n++ {
		text, err := line()
		if err != nil {
			return m, err
		}
		if rest, ok := strings.CutPrefix(text, hashBegin); ok {
			if m.Hash = hex.EncodeToString(sum.Sum(nil)); rest != m.Hash+hashEnd+"\n" {
				return m, fmt.Errorf("%w: its hash is another one", ErrManifest)
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) || n-1 != m.Files {
				return m, fmt.Errorf("%w: it does not end where it should", ErrManifest)
			}
			return m, nil
		}
		_, _ = io.WriteString(sum, text)
		var f File
		if json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), ",")), &f) != nil {
			return m, fmt.Errorf("%w: line %d names no file", ErrManifest, n+1)
		}
		if err := each(f); err != nil {
			return m, err
		}
	}
}
