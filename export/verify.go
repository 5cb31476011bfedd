package export

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/dvt-engine/dvt/store/auditdoc"
)

// Verified is what Verify found.
type Verified struct {
	Manifest Manifest `json:"manifest"`
	Hash     string   `json:"hash"`
	Files    int64    `json:"files"`
	Rows     int64    `json:"rows"`
	Bytes    int64    `json:"bytes"`
	// Audit counts the links whose hash was computed again.
	Audit int64 `json:"audit"`
	// Problems are the first 1,000 problems; Wrong counts all.
	Problems []string `json:"problems"`
	Wrong    int      `json:"wrong"`
	// Notes name objects that were torn before the export.
	Notes []string `json:"notes,omitempty"`
}

const maxProblems = 1000

type verifier struct {
	Verified
	audit auditCursor
}

func (v *verifier) problem(format string, args ...any) {
	if v.Wrong++; v.Wrong <= maxProblems {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// Verify checks a finished export, a directory or an archive that Pack made, without a store: the hash of the manifest,
// each file, and the chain of the audit. The result has the problems; the error says that at cannot be read, or is
// ErrManifest.
func Verify(at string) (Verified, error) {
	info, err := os.Stat(at)
	if err != nil {
		return Verified{}, err
	}
	v := &verifier{Verified: Verified{Problems: []string{}}}
	if info.IsDir() {
		err = v.directory(at)
	} else {
		err = v.archive(at)
	}
	if err == nil {
		v.checkEnd()
	}
	v.Hash = v.Manifest.Hash
	return v.Verified, err
}

func (v *verifier) directory(dir string) error {
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	defer f.Close()
	expected := int64(0)
	v.Manifest, err = readManifest(f, func(f File) error {
		if !v.isExpected(f) {
			return nil
		}
		expected++
		body, err := os.Open(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if errors.Is(err, fs.ErrNotExist) {
			v.problem("%s is missing", f.Path)
			expected--
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(v.file(f, body), body.Close())
	})
	if err != nil {
		return err
	}
	found := int64(0)
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found++
		}
		return err
	})
	if extra := found - 1 - expected; extra != 0 {
		v.problem("%d files are not in the manifest", extra)
	}
	return err
}

// isExpected reports whether the export has a file.
func (v *verifier) isExpected(f File) bool {
	switch {
	case f.Problem != "":
		v.Notes = append(v.Notes, fmt.Sprintf("%s: %s", f.Path, f.Problem))
		return false
	case !filepath.IsLocal(filepath.FromSlash(f.Path)):
		v.problem("the manifest names %q, which is outside of the export", f.Path)
		return false
	}
	return true
}

// file compares a file with its entry.
func (v *verifier) file(f File, body io.Reader) error {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(body, sum), 1<<16)
	var rows, size int64
	isAudit := strings.HasPrefix(f.Path, "audit/")
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		size += int64(len(piece))
		if isAudit && len(line) < maxAuditLine {
			line = append(line, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil {
			rows++
			if isAudit {
				v.link(f.Path, line)
				line = line[:0]
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		return err
	}
	v.Files++
	v.Rows += f.Rows
	v.Bytes += size
	switch {
	case size != f.Bytes:
		v.problem("%s has %d bytes; the manifest says %d", f.Path, size, f.Bytes)
	case hex.EncodeToString(sum.Sum(nil)) != f.SHA256:
		v.problem("%s was changed: its SHA-256 is another one", f.Path)
	case strings.HasSuffix(f.Path, ".ndjson") && f.Rows > 0 && rows != f.Rows:
		v.problem("%s has %d lines; the manifest says %d", f.Path, rows, f.Rows)
	}
	return nil
}

const (
	maxAuditLine = 4 << 20
	maxWindow    = 128 << 20
)

// link checks one link of the audit, and that it continues the one before.
func (v *verifier) link(path string, line []byte) {
	var d auditdoc.Doc
	if err := json.Unmarshal(bytes.TrimSpace(line), &d); err != nil {
		v.problem("%s: a line is no record of the audit: %v", path, err)
		return
	}
	v.Audit++
	if err := d.Verify(); err != nil {
		v.problem("%s: number %d of the audit: %v", path, d.No, err)
	}
	if v.Manifest.Kind != KindSubject && (d.No != v.audit.No+1 || d.Previous != v.audit.Hash) {
		v.problem("%s: number %d of the audit does not continue number %d", path, d.No, v.audit.No)
	}
	v.audit = auditCursor{d.No, d.Hash}
}

// checkEnd compares the end of the chain with the manifest.
func (v *verifier) checkEnd() {
	if u := v.Manifest.Until; v.Manifest.Kind == KindTenant && (v.audit.No != u.AuditNo || v.audit.Hash != u.AuditHash) {
		v.problem("the audit ends at number %d; the manifest says %d", v.audit.No, u.AuditNo)
	}
}

// archive checks a file of Pack: the manifest comes first, and then the files in its order.
func (v *verifier) archive(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, done, err := unpacker(path, f)
	if err != nil {
		return err
	}
	defer done()
	entries := tar.NewReader(r)
	head, err := entries.Next()
	if err != nil || head.Name != ManifestName {
		return fmt.Errorf("%w: the archive does not begin with it", ErrManifest)
	}
	spool, err := os.CreateTemp("", "dvt-manifest-*")
	if err != nil {
		return err
	}
	defer func() { _, _ = spool.Close(), os.Remove(spool.Name()) }()
	if _, err := io.Copy(spool, entries); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if v.Manifest, err = readManifest(spool, func(f File) error {
		if !v.isExpected(f) {
			return nil
		}
		head, err := entries.Next()
		if err != nil || head.Name != f.Path {
			v.problem("%s is missing, and the rest was not read", f.Path)
			return errStop
		}
		return v.file(f, entries)
	}); err != nil && !errors.Is(err, errStop) {
		return err
	}
	if _, end := entries.Next(); err == nil && !errors.Is(end, io.EOF) {
		v.problem("the archive has more files than the manifest")
	}
	return nil
}

var errStop = errors.New("stop")

func unpacker(path string, f io.Reader) (io.Reader, func(), error) {
	switch {
	case isGzip(path):
		z, err := gzip.NewReader(f)
		return z, func() {}, err
	case isZstd(path):
		z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return f, func() {}, nil
}

func isGzip(path string) bool {
	return strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz")
}
func isZstd(path string) bool { return strings.HasSuffix(path, ".tar.zst") }

// IsArchive reports whether the name is that of a file, and not of a directory.
func IsArchive(path string) bool {
	return isGzip(path) || isZstd(path) || strings.HasSuffix(path, ".tar")
}
