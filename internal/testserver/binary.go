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

	"github.com/dvt-engine/dvt/internal/checkout"
)

var builtBinary = sync.OnceValues(buildBinary)

// binary is a built program in a sandbox. The garbage collector would close the watchdog's pipe, and so delete the
// program, if nothing referred to the sandbox.
type binary struct {
	path string
	box  *sandbox // nil for a program that DVT_TEST_BINARY names
}

// Binary returns the path of the dvt binary for tests of whole processes. It is the one that DVT_TEST_BINARY names, or
// else one that is built from the sources once per test process.
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
	root, err := checkout.Root()
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
