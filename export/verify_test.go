package export_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dvt-engine/dvt/export"
	"github.com/dvt-engine/dvt/store/owner"
)

// forged is an export of a person that somebody wrote by hand: files and their entries in the manifest.
type forged struct {
	*testing.T
	dir   string
	files []export.File
}

func newForged(t *testing.T, bodies ...string) *forged {
	t.Helper()
	f := &forged{T: t, dir: filepath.Join(t.TempDir(), "export")}
	for n, body := range bodies {
		path := fmt.Sprintf("rows/note-%06d.ndjson", n+1)
		f.write(path, body)
		f.files = append(f.files, export.File{Path: path, Rows: int64(strings.Count(body, "\n")), Bytes: int64(len(body)),
			SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(body)))})
	}
	f.writeManifest()
	return f
}

func (f *forged) check(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *forged) path(path string) string { return filepath.Join(f.dir, filepath.FromSlash(path)) }

func (f *forged) write(path, body string) {
	f.Helper()
	f.check(os.MkdirAll(filepath.Dir(f.path(path)), 0o700))
	f.check(os.WriteFile(f.path(path), []byte(body), 0o600))
}

// writeManifest writes a manifest whose own hash is right.
func (f *forged) writeManifest() {
	f.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"format":"dvt-archive","version":1,"kind":"subject","tenantId":"acme","subject":"ana",`+
		`"fileCount":%d,"files":[`, len(f.files))
	for n, file := range f.files {
		line, err := json.Marshal(file)
		f.check(err)
		out.WriteString("\n" + string(line))
		if n < len(f.files)-1 {
			out.WriteByte(',')
		}
	}
	out.WriteByte('\n')
	fmt.Fprintf(&out, `],"hash":"%x"}`+"\n", sha256.Sum256(out.Bytes()))
	f.write(export.ManifestName, out.String())
}

// hasProblem verifies the export and expects exactly one problem, with words.
func (f *forged) hasProblem(at, words string) {
	f.Helper()
	v, err := export.Verify(at)
	if err != nil || v.Wrong != 1 || !strings.Contains(v.Problems[0], words) {
		f.Errorf("verify found %d problems, %q, %v; want one with %q", v.Wrong, v.Problems, err, words)
	}
}

func (f *forged) isSound(at string) {
	f.Helper()
	if v, err := export.Verify(at); err != nil || v.Wrong != 0 {
		f.Fatalf("verify found %d problems, %q, %v; want none", v.Wrong, v.Problems, err)
	}
}

func TestVerify_OnlyRegularFilesAreFilesOfAnExport(t *testing.T) {
	t.Parallel()
	const body = `{"a":1}` + "\n"
	for name, replace := range map[string]func(f *forged, path string) error{
		"link to a copy elsewhere": func(f *forged, path string) error {
			f.write("../elsewhere", body)
			return os.Symlink(f.path("../elsewhere"), path)
		},
		"link without an end": func(_ *forged, path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":                func(_ *forged, path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForged(t, body)
			f.isSound(f.dir)
			path := f.path(f.files[0].Path)
			f.check(os.Remove(path))
			f.check(replace(f, path))
			f.hasProblem(f.dir, "is no regular file")
		})
	}
	t.Run("directory that is a link", func(t *testing.T) {
		t.Parallel()
		f := newForged(t, body)
		f.check(os.Rename(f.path("rows"), f.path("../rows")))
		f.check(os.Symlink(f.path("../rows"), f.path("rows")))
		v, err := export.Verify(f.dir)
		if err != nil || v.Wrong == 0 {
			t.Errorf("verify found %q, %v; want a problem", v.Problems, err)
		}
	})
}

func TestVerify_NamesAFileTooMany(t *testing.T) {
	t.Parallel()
	f := newForged(t, "1\n", "2\n")
	f.write("rows/more.ndjson", "")
	f.hasProblem(f.dir, "rows/more.ndjson is not in the manifest")
}

// A kill may leave a part of the working directory when its state is gone already.
func TestRun_OfAFinishedExportRemovesWhatAKillLeft(t *testing.T) {
	t.Parallel()
	f := newForged(t, "1\n")
	f.write(".dvt-export/files.ndjson", "")
	_, err := export.Run(t.Context(), export.Config{Dir: f.dir, Of: owner.Scope{TenantID: "acme", Subject: "ana"}})
	f.check(err)
	f.isSound(f.dir)
}

// A file that is longer than its entry is not read to its end, and a line of a manifest has a limit.
func TestVerify_OfHugeSparseFilesEnds(t *testing.T) {
	t.Parallel()
	f := newForged(t, "1\n")
	const huge = 1 << 42 // reading it takes an hour
	f.check(os.Truncate(f.path(f.files[0].Path), huge))
	f.hasProblem(f.dir, fmt.Sprintf("has %d bytes; the manifest says 2", int64(huge)))
	f.check(os.Truncate(f.path(export.ManifestName), 0))
	f.check(os.Truncate(f.path(export.ManifestName), huge))
	if _, err := export.Verify(f.dir); !errors.Is(err, export.ErrManifest) {
		t.Errorf("verify of a manifest without a line: %v, want ErrManifest", err)
	}
	f.check(os.Remove(f.path(export.ManifestName)))
	f.check(syscall.Mkfifo(f.path(export.ManifestName), 0o600))
	if _, err := export.Verify(f.dir); !errors.Is(err, export.ErrManifest) {
		t.Errorf("verify of a manifest that is a pipe: %v, want ErrManifest", err)
	}
}

// entry is one entry of a forged archive.
type entry struct {
	tar.Header
	body string
}

func (f *forged) pack(name string, tail string, entries ...entry) string {
	f.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	to := tar.NewWriter(z)
	for _, e := range entries {
		e.Size, e.Mode = int64(len(e.body)), 0o600
		f.check(to.WriteHeader(&e.Header))
		_, err := to.Write([]byte(e.body))
		f.check(err)
	}
	f.check(to.Close())
	_, err := z.Write([]byte(tail))
	f.check(errors.Join(err, z.Close()))
	path := filepath.Join(f.TempDir(), name)
	f.check(os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

func TestVerify_OfAForgedArchive(t *testing.T) {
	t.Parallel()
	f := newForged(t, "1\n", "")
	manifest, err := os.ReadFile(f.path(export.ManifestName))
	f.check(err)
	head := entry{tar.Header{Name: export.ManifestName}, string(manifest)}
	first := entry{tar.Header{Name: f.files[0].Path}, "1\n"}
	second := entry{tar.Header{Name: f.files[1].Path}, ""}
	f.isSound(f.pack("sound.tar.gz", "", head, first, second))
	f.isSound(f.pack("padded.tar.gz", strings.Repeat("\x00", 8192), head, first, second))
	link := entry{tar.Header{Name: f.files[1].Path, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""}
	f.hasProblem(f.pack("link.tar.gz", "", head, first, link), "is no regular file")
	longer := entry{tar.Header{Name: f.files[0].Path}, "1\n2\n"}
	f.hasProblem(f.pack("longer.tar.gz", "", head, longer, second), "has 4 bytes; the manifest says 2")
	outside := entry{tar.Header{Name: "../outside"}, "x"}
	f.hasProblem(f.pack("outside.tar.gz", "", head, first, second, outside), "more files than the manifest")
	f.hasProblem(f.pack("tail.tar.gz", "hidden", head, first, second), "behind its end")
	f.hasProblem(f.pack("missing.tar.gz", "", head, second), "is missing")
	if _, err := export.Verify(f.pack("long.tar.gz", "", entry{head.Header, strings.Repeat("x", 1<<20)})); !errors.Is(err,
		export.ErrManifest) {
		t.Errorf("verify of a manifest without a line: %v, want ErrManifest", err)
	}
}
