// Command generatecheck fails when `make generate` would change a file. It generates code in a copy of the repository,
// so that it can run beside other checks and does not change the checkout.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/internal/archtest"
	"github.com/dvt-engine/dvt/internal/checkout"
)

func main() {
	stale, err := check()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
	if len(stale) > 0 {
		fmt.Fprintf(os.Stderr, "generated files are not current: %s\nrun `make generate` and commit the result\n",
			strings.Join(stale, " "))
		os.Exit(1)
	}
	fmt.Println("generated code is current")
}

// check returns the names of the files that code generation changes, creates or removes.
func check() (stale []string, err error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	before, err := archtest.Files(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dvt-generate-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	original := map[string][]byte{}
	for _, name := range before {
		if original[name], err = copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	// archtest.Files uses git to leave out ignored files, so the copy must be a git repository too.
	if err := command(dir, "git", "init", "--quiet"); err != nil {
		return nil, err
	}
	modules := filepath.Join("web", "node_modules")
	if err := os.Symlink(filepath.Join(root, modules), filepath.Join(dir, modules)); err != nil {
		return nil, err
	}
	if err := command(dir, "go", "generate", "./..."); err != nil {
		return nil, err
	}
	if err := command(filepath.Join(dir, "web"), "npm", "run", "--silent", "generate"); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, modules)); err != nil {
		return nil, err
	}
	after, err := archtest.Files(dir)
	if err != nil {
		return nil, err
	}
	return differences(dir, original, after)
}

// differences returns the names of files in dir that differ from their original content. names are the files that dir
// contains now. New and missing files differ.
func differences(dir string, original map[string][]byte, names []string) ([]string, error) {
	var stale []string
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if before, existed := original[name]; !existed || !bytes.Equal(before, content) {
			stale = append(stale, name)
		}
	}
	for name := range original {
		if !slices.Contains(names, name) {
			stale = append(stale, name)
		}
	}
	slices.Sort(stale)
	return stale, nil
}

func copyFile(from, to string) ([]byte, error) {
	b, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, err
	}
	return b, os.WriteFile(to, b, info.Mode().Perm())
}

func command(dir, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
