// Package checkout finds the repository, for its tests and its tools.
package checkout

import (
	"errors"
	"os"
	"path/filepath"
)

// The search begins in the directory in which the process started: a test may leave it later. It does not use the
// paths of source files, because the Makefile builds with -trimpath.
var root, errRoot = search()

// Root returns the root of the repository that contains the directory in which this process started. go test starts the
// tests of a package in its directory.
func Root() (string, error) { return root, errRoot }

func search() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "prepare")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("this process did not start in the repository of dvt: change the directory to it")
		}
		dir = parent
	}
}
