package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

var builtBinary = sync.OnceValues(buildBinary)

// binary is a built program and the sandbox it lies in, nil for one that somebody else built. The sandbox must stay
// reachable because the watchdog's pipe closes with it.
type binary struct {
	path string
	box  *sandbox
}

// Binary returns the path of the dvt binary for tests of whole processes: the one that DVT_TEST_BINARY names, else one
// built from the sources, once for each test process.
func Binary(t testing.TB) string {
	t.Helper()
	built, err := builtBinary()
	if err != nil {
		t.Fatalf("testserver: no dvt binary: %v", err)
	}
	return built.path
}

func buildBinary() (*binary, error) {
	if path := os.Getenv("DVT_TEST_BINARY"); path != "" {
		if !executable(path) {
			return nil, fmt.Errorf("DVT_TEST_BINARY is %s, which is not a program: run `make build`, or unset it", path)
		}
		return &binary{path: path}, nil
	}
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	box, err := newSandbox("binary", syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(box.dir, "dvt")
	build := exec.Command("go", "build", "-o", path, "./cmd/dvt")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("go build ./cmd/dvt: %w: %s", err, out), box.close())
	}
	return &binary{path: path, box: box}, nil
}
