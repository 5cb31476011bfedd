package secretfile

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clock is a clock that only the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// openAt opens one file with the test's own clock, which begins a minute after the file was written.
func openAt(t *testing.T, content string) (v *Value[string], path string, c *clock, log *bytes.Buffer) {
	t.Helper()
	path, log, c = filepath.Join(t.TempDir(), "secret"), &bytes.Buffer{}, &clock{time.Now().Add(time.Minute)}
	write(t, path, content)
	v = &Value[string]{paths: []string{path}, now: c.now, log: slog.New(slog.NewTextHandler(log, nil)),
		parse: func(b [][]byte) (string, error) {
			if bytes.HasPrefix(b[0], []byte("bad")) {
				return "", fmt.Errorf("unusable")
			}
			return string(b[0]), nil
		}}
	if err := v.read(c.at); err != nil {
		t.Fatal(err)
	}
	return v, path, c, log
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, v *Value[string], want, why string) {
	t.Helper()
	if got := v.Get(); got != want {
		t.Errorf("%s: got %q, want %q", why, got, want)
	}
}

func TestValue_FollowsItsFileOncePerInterval(t *testing.T) {
	t.Parallel()
	v, path, c, _ := openAt(t, "one")
	write(t, path, "two!")
	expect(t, v, "one", "within the interval")
	c.at = c.at.Add(Interval)
	expect(t, v, "two!", "after the interval")
	c.at = c.at.Add(-time.Hour)
	write(t, path, "three")
	expect(t, v, "three", "after the clock went back")
}

// Secrets of Kubernetes change by renaming a directory, so path, size and time may all stay the same.
func TestValue_FollowsAReplacementOfTheSameSizeAndTime(t *testing.T) {
	t.Parallel()
	v, path, c, _ := openAt(t, "one")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path+".new", "two")
	for _, step := range []error{os.Chtimes(path+".new", info.ModTime(), info.ModTime()),
		os.Rename(path+".new", path)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	c.at = c.at.Add(Interval)
	expect(t, v, "two", "after a rename")
}

// A write right after a read may leave size and time unchanged, because the clock of a file system has ticks.
func TestValue_ReadsAFileAgainWhileItsTimeIsYoung(t *testing.T) {
	t.Parallel()
	v, path, c, _ := openAt(t, "one")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	c.at = info.ModTime().Add(time.Second)
	if err := v.read(c.at); err != nil {
		t.Fatal(err)
	}
	write(t, path, "two")
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(Interval)
	expect(t, v, "two", "after a write within the same tick")
}

func TestValue_KeepsTheLastUsableContentAndReportsOnce(t *testing.T) {
	t.Parallel()
	v, path, c, log := openAt(t, "one")
	write(t, path, "bad content")
	for range 3 {
		c.at = c.at.Add(Interval)
		expect(t, v, "one", "while the file cannot be used")
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || strings.Contains(log.String(), "bad content") {
		t.Errorf("%d errors were logged, want 1 without the content:\n%s", n, log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(Interval)
	expect(t, v, "one", "while the file is missing")
	write(t, path, "two")
	c.at = c.at.Add(Interval)
	expect(t, v, "two", "once it can be used")
	if !strings.Contains(log.String(), "a changed file is in use") {
		t.Errorf("the recovery was not logged:\n%s", log)
	}
}

func TestText_RefusesAFileWithoutOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		write(t, filepath.Join(dir, name), content)
		return filepath.Join(dir, name)
	}
	log := slog.New(slog.DiscardHandler)
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "cannot be read",
		dir:                        "not a regular file",
		file("empty", "\n"):        "is empty",
		file("lines", "a\nb\n"):    "one line",
		file("large", strings.Repeat("x", MaxBytes+1)): "not a regular file of at most",
	} {
		if _, err := Text(log, path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	v, err := Text(log, file("token", "  secret\n"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, v, "secret", "space around a secret")
}
