package artifact_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
)

// incompressible returns lines of random text.
func incompressible(from, to, size int) (ls []artifact.Line) {
	random := rand.NewChaCha8([32]byte{byte(from)})
	raw := make([]byte, size*3/4)
	for i := from; i <= to; i++ {
		_, _ = random.Read(raw)
		text := fmt.Sprintf("line %d ", i) + base64.StdEncoding.EncodeToString(raw)
		ls = append(ls, artifact.Line{Stream: "stdout", Text: text})
	}
	return ls
}

// onlyFile returns the path of the only file below a directory that matches a pattern.
func onlyFile(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s matches %v (%v), want one file", pattern, found, err)
	}
	return found[0]
}

// damages are what may become of an object.
var damages = map[string]func([]byte) []byte{
	"empty":   func([]byte) []byte { return nil },
	"shorter": func(b []byte) []byte { return b[:len(b)-1] },
	"longer":  func(b []byte) []byte { return append(b, 'x') },
	"altered": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
}

func damage(t *testing.T, path string, by func([]byte) []byte) {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, by(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLogs_ATornObjectReadsAsTorn(t *testing.T) {
	t.Parallel()
	for name, by := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := open(t, "file://"+dir, artifact.Limits{})
			for ea := 1; ea <= 3; ea++ {
				add(t, w, ea, 1, text(1, 100))
			}
			damage(t, onlyFile(t, filepath.Join(dir, "logs/t1/r1/build/1", "000000101_*")), by)
			s := open(t, "file://"+dir, artifact.Limits{})
			if _, err := s.Read(t.Context(), attempt, 1, 101); !errors.Is(err, artifact.ErrTorn) {
				t.Errorf("reading the torn lines: %v, want ErrTorn", err)
			}
			for _, from := range []int64{1, 201} {
				if page, err := s.Read(t.Context(), attempt, from, 100); err != nil || len(page.Lines) != 100 || page.Total != 300 {
					t.Errorf("the lines from %d: %d of %d, %v; want 100 of 300", from, len(page.Lines), page.Total, err)
				}
			}
			if _, _, err := s.Find(t.Context(), attempt, "line", 1); !errors.Is(err, artifact.ErrTorn) {
				t.Errorf("Find: %v, want ErrTorn", err)
			}
			if no, err := s.ErrorLine(t.Context(), attempt, 3, 7); err != nil || no != 207 {
				t.Errorf("the error line of a sound part: %d, %v; want 207", no, err)
			}
		})
	}
}

// What a writer left torn is no line that is stored, so the caller's repetition replaces it.
func TestLogs_ARepeatedAppendReplacesATornEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add(t, open(t, "file://"+dir, artifact.Limits{}), 1, 1, text(1, 300))
	s := open(t, "file://"+dir, artifact.Limits{})
	add(t, s, 1, 301, text(301, 310))
	damage(t, onlyFile(t, filepath.Join(dir, "logs/t1/r1/build/1", "000000301_*")), damages["shorter"])
	add(t, s, 1, 301, text(301, 310))
	add(t, s, 1, 311, text(311, 320))
	if got, total := read(t, open(t, "file://"+dir, artifact.Limits{}), 1, 1000); total != 320 || len(got) != 320 {
		t.Errorf("read %d of %d lines, want all 320", len(got), total)
	}
}

func TestLogs_ALostObjectReadsAsTorn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "file://"+dir, artifact.Limits{})
	for ea := 1; ea <= 3; ea++ {
		add(t, s, ea, 1, text(1, 100))
	}
	if err := os.Remove(onlyFile(t, filepath.Join(dir, "logs/t1/r1/build/1", "000000101_*"))); err != nil {
		t.Fatal(err)
	}
	s = open(t, "file://"+dir, artifact.Limits{})
	if _, err := s.Read(t.Context(), attempt, 1, 300); !errors.Is(err, artifact.ErrTorn) {
		t.Errorf("reading lines of a lost object: %v, want ErrTorn", err)
	}
	if page, err := s.Read(t.Context(), attempt, 201, 300); err != nil || len(page.Lines) != 100 {
		t.Errorf("the lines behind it: %d, %v; want 100", len(page.Lines), err)
	}
	add(t, s, 3, 101, text(101, 110))
	if page, err := s.Read(t.Context(), attempt, 301, 300); err != nil || len(page.Lines) != 10 {
		t.Errorf("the lines that were added later: %d, %v; want 10", len(page.Lines), err)
	}
}

// The reader of a compressed artifact finds damage without the log. Other artifacts are verified by the reads of
// control, which know the size and the hash that the step reported.
func TestBlobs_ATornCompressedArtifactReadsAsTorn(t *testing.T) {
	t.Parallel()
	for name, by := range damages {
		if name == "longer" || name == "empty" { // gzip ends before what was added; an empty object is not compressed
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, "file://"+dir, artifact.Limits{})
			uri, _, _, err := s.Put(t.Context(), "t1/a.json", strings.NewReader(strings.Repeat(`{"a":1}`, 100_000)))
			if err != nil {
				t.Fatal(err)
			}
			damage(t, filepath.Join(dir, "artifacts/t1/a.json"), by)
			r, err := s.Open(t.Context(), uri)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got, err := io.ReadAll(r); !errors.Is(err, artifact.ErrTorn) {
				t.Errorf("read %d bytes, %v; want ErrTorn", len(got), err)
			}
		})
	}
}

const fullDiskEnv = "DVT_ARTIFACT_FULL_DISK"

// A disk that is full in the middle of an object leaves no torn one, and the repetition stores the lines. The limit of
// the size of files stands for the disk; it is one of the process, so the test is a process of its own.
func TestLogs_AFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk_Child$", "-test.count=1")
	child.Env = append(os.Environ(), fullDiskEnv+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFullDisk_Child does nothing but in the process that TestLogs_AFullDiskLosesNothing starts.
func TestFullDisk_Child(t *testing.T) {
	dir := os.Getenv(fullDiskEnv)
	if dir == "" {
		return
	}
	s := open(t, "file://"+dir, artifact.Limits{})
	lines := incompressible(1, 200, 4000)
	add(t, s, 1, 1, lines[:10])
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	full := before
	full.Cur = 100_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Append(t.Context(), attempt, 1, 11, lines[10:]); !errors.Is(err, artifact.ErrUnavailable) {
			t.Errorf("Append to a full disk: %v, want ErrUnavailable", err)
		}
		_, _, _, err := s.Put(t.Context(), "t1/a.bin", strings.NewReader(strings.Repeat("x", 200_000)))
		if !errors.Is(err, artifact.ErrUnavailable) {
			t.Errorf("Put to a full disk: %v, want ErrUnavailable", err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if got, total := read(t, s, 1, 1000); total != 10 || len(got) != 10 {
		t.Errorf("after the failures the log has %d of %d lines, want the 10 that were stored", len(got), total)
	}
	if _, err := s.Open(t.Context(), artifact.URI("t1/a.bin")); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("the artifact opens with %v, want ErrNotFound", err)
	}
	add(t, s, 1, 11, lines[10:])
	got, total := read(t, open(t, "file://"+dir, artifact.Limits{}), 1, 1000)
	if total != 200 || len(got) != 200 || got[199] != lines[199].Text {
		t.Errorf("after the repetition the log has %d of %d lines, want all 200", len(got), total)
	}
}
