package executor

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A program of a step may create any file in the workspace while the worker reads.
func TestWorkspace_ReadsOnlyRegularFilesBelowIt(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(outside, "secret")
	must(os.WriteFile(secret, []byte("secret of the worker"), 0o600))
	must(os.Symlink(secret, filepath.Join(dir, "link")))
	must(os.Symlink(outside, filepath.Join(dir, "tree")))
	must(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	must(os.WriteFile(filepath.Join(dir, "large"), make([]byte, 11), 0o600))
	must(os.WriteFile(filepath.Join(dir, "good"), []byte("good"), 0o600))
	w := workspace{dir}
	for _, name := range []string{"link", "tree/secret", "pipe", "zero", "large", "../" + filepath.Base(outside) +
		"/secret"} {
		read := make(chan string, 1)
		go func() {
			body, err := w.read(filepath.Join(dir, name), 10)
			if err != nil {
				body = nil
			}
			read <- string(body)
		}()
		select {
		case body := <-read:
			if body != "" {
				t.Errorf("%s: the worker read %q", name, body)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the worker's read blocks, want an error", name)
		}
	}
	if body, err := w.read(filepath.Join(dir, "good"), 10); err != nil || string(body) != "good" {
		t.Errorf("a regular file is read as %q with error %v, want its content", body, err)
	}
}

func TestWorkspace_ChangesNothingOutside(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	kept := filepath.Join(outside, "kept")
	for _, err := range []error{
		os.WriteFile(kept, []byte("kept"), 0o600), os.Symlink(outside, filepath.Join(dir, "dbt")),
		os.Symlink(kept, filepath.Join(dir, "params")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := workspace{dir}
	if err := w.recreate(filepath.Join(dir, "dbt", "step", "1.1")); err == nil {
		t.Error("recreate made a directory through a link that leads out of the workspace")
	}
	if err := w.create(filepath.Join(dir, "dbt", "new"), []byte("x")); err == nil {
		t.Error("create made a file through a link that leads out of the workspace")
	}
	if err := w.create(filepath.Join(dir, "params"), []byte("params")); err != nil {
		t.Errorf("create does not replace a link: %v", err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory outside contains %v, error %v; want one unchanged file", entries, err)
	}
	if body, err := os.ReadFile(kept); err != nil || string(body) != "kept" {
		t.Errorf("the file outside contains %q, error %v; want its old content", body, err)
	}
}
