// Package archtest reads the repository the way a reviewer does: its packages and their imports, the contract ids it
// defines and cites, its tracked files. The tests of this package hold the architecture with it; `make contract` prints
// from it.
package archtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Files lists what belongs to the repository, slash-separated and relative to root: what git tracks, and what it would
// track if added.
func Files(root string) ([]string, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s (the tests need a git checkout): %w", root, err)
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, not yet committed
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	return files, nil
}
