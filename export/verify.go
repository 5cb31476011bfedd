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

	"github.com/dvt-engine/dvt/store"
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
	// Notes name the first 1,000 objects that were torn before the export; Torn counts all.
	Notes []string `json:"notes,omitempty"`
	Torn  int      `json:"torn"`
}

const maxProblems = 1000

type verifier struct {
	Verified
	audit auditCursor
	// lastCut is the number of the last record that the retention cut, recordedCut the highest one of a record of a cut.
	lastCut, recordedCut int64
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
	switch {
	case info.IsDir():
		err = v.directory(at)
	case info.Mode().IsRegular():
		err = v.archive(at)
	default:
		err = fmt.Errorf("%s is neither a directory nor a file", at)
	}
	if err == nil {
		v.checkEnd()
	}
	v.Hash = v.Manifest.Hash
	return v.Verified, err
}

func (v *verifier) directory(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := openManifest(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	expected := int64(1) // the manifest
	v.Manifest, err = readManifest(f, func(f File) error {
		if !v.isExpected(f) {
			return nil
		}
		isThere, err := v.fileIn(root, f)
		if isThere {
			expected++
		}
		return err
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
	if err == nil && found != expected {
		err = v.nameOthers(dir)
	}
	return err
}

// fileIn compares a file of a directory with its entry, and reports whether there is something under its name. It
// follows no link and opens no pipe, which might never end.
func (v *verifier) fileIn(root *os.Root, f File) (isThere bool, err error) {
	path := filepath.FromSlash(f.Path)
	info, err := root.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.problem("%s is missing", f.Path)
		return false, nil
	case err != nil:
		v.problem("%s cannot be read: %v", f.Path, err)
		return false, nil
	case !info.Mode().IsRegular():
		v.problem("%s is no regular file", f.Path)
		return true, nil
	}
	if !v.hasSize(f, info.Size()) {
		return true, nil
	}
	body, err := root.Open(path)
	if err != nil {
		return true, err
	}
	return true, errors.Join(v.file(f, body), body.Close())
}

// nameOthers names the files of a directory that are not in its manifest. It needs 16 bytes of memory for each file.
func (v *verifier) nameOthers(dir string) error {
	f, err := openManifest(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	known := map[[16]byte]struct{}{}
	key := func(path string) [16]byte {
		sum := sha256.Sum256([]byte(path))
		return [16]byte(sum[:])
	}
	if _, err := readManifest(f, func(f File) error { known[key(f.Path)] = struct{}{}; return nil }); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if _, ok := known[key(filepath.ToSlash(name))]; err == nil && !ok && name != ManifestName {
			v.problem("%s is not in the manifest", filepath.ToSlash(name))
		}
		return err
	})
}

// isExpected reports whether the export has a file.
func (v *verifier) isExpected(f File) bool {
	switch {
	case f.Problem != "":
		if v.Torn++; v.Torn <= maxProblems {
			v.Notes = append(v.Notes, fmt.Sprintf("%s: %s", f.Path, f.Problem))
		}
		return false
	case !filepath.IsLocal(filepath.FromSlash(f.Path)):
		v.problem("the manifest names %q, which is outside of the export", f.Path)
		return false
	}
	return true
}

// hasSize reports whether a file has the size of its entry. One of another size is not read.
func (v *verifier) hasSize(f File, size int64) bool {
	if size != f.Bytes {
		v.Files++
		v.problem("%s has %d bytes; the manifest says %d", f.Path, size, f.Bytes)
	}
	return size == f.Bytes
}

// file compares a file with its entry.
func (v *verifier) file(f File, body io.Reader) error {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(io.LimitReader(body, f.Bytes+1), sum), 1<<16)
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
	case size != f.Bytes: // it changed meanwhile
		v.problem("%s does not have the %d bytes that the manifest says", f.Path, f.Bytes)
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
	maxPadding   = 1 << 20 // of a tar, in bytes of zeros
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
	if v.Manifest.Kind != KindSubject && !d.Cut && (d.No != v.audit.No+1 || d.Previous != v.audit.Hash) {
		v.problem("%s: number %d of the audit does not continue number %d", path, d.No, v.audit.No)
	}
	v.audit = auditCursor{d.No, d.Hash}
	switch {
	case d.Cut:
		v.lastCut = d.No
	case d.Row != nil && d.Row.Action == store.ActionCutAudit:
		if cut, err := store.DecodeAuditCut([]byte(d.Row.Detail)); err == nil {
			v.recordedCut = max(v.recordedCut, cut.No)
		}
	}
}

// checkEnd compares the end of the chain with the manifest.
func (v *verifier) checkEnd() {
	if v.Manifest.Kind != KindSubject && v.lastCut > v.recordedCut {
		v.problem("the audit up to number %d is said to be cut by the retention, and no record of it says so", v.lastCut)
	}
	if u := v.Manifest.Until; v.Manifest.Kind == KindTenant && (v.audit.No != u.AuditNo || v.audit.Hash != u.AuditHash) {
		v.problem("the audit ends at number %d; the manifest says %d", v.audit.No, u.AuditNo)
	}
}

// archive checks a file of Pack: the manifest comes first, and then the files in its order. It reads the archive twice
// at once, so that a manifest of any size needs neither memory nor disk.
func (v *verifier) archive(path string) error {
	manifest, err := openPacked(path)
	if err != nil {
		return err
	}
	defer manifest.close()
	files, err := openPacked(path)
	if err != nil {
		return err
	}
	defer files.close()
	v.Manifest, err = readManifest(manifest.entries, func(f File) error {
		if !v.isExpected(f) {
			return nil
		}
		head, err := files.entries.Next()
		if err != nil || head.Name != f.Path {
			v.problem("%s is missing, and the rest was not read", f.Path)
			return errStop
		}
		if head.Typeflag != tar.TypeReg {
			v.problem("%s is no regular file", f.Path)
			return nil
		}
		if !v.hasSize(f, head.Size) {
			return nil
		}
		return v.file(f, files.entries)
	})
	if errors.Is(err, errStop) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, end := files.entries.Next(); !errors.Is(end, io.EOF) {
		v.problem("the archive has more files than the manifest")
		return nil
	}
	return v.tail(files.r)
}

// tail checks that nothing but padding stands behind the end of an archive, where some programs read on.
func (v *verifier) tail(r io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(r, maxPadding+1))
	if err == nil && (len(rest) > maxPadding || len(bytes.Trim(rest, "\x00")) > 0) {
		v.problem("the archive has something behind its end")
	}
	return err
}

// packed is an archive behind the head of its manifest.
type packed struct {
	entries *tar.Reader
	r       io.Reader // from which entries reads
	close   func()
}

func openPacked(path string) (p packed, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, err
	}
	r, done, err := unpacker(path, f)
	if err != nil {
		return p, errors.Join(err, f.Close())
	}
	p = packed{tar.NewReader(r), r, func() { done(); _ = f.Close() }}
	head, err := p.entries.Next()
	if err != nil || head.Name != ManifestName || head.Typeflag != tar.TypeReg {
		p.close()
		return p, fmt.Errorf("%w: the archive does not begin with it", ErrManifest)
	}
	return p, nil
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
