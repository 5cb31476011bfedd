// Command generatecheck fails when generating would change a file. It generates in a copy of the repository, so that it
// may run beside other checks and does not change the checkout.
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
)

func main() {
	stale, err := check()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
	if len(stale) > 0 {
		fmt.Fprintf(os.Stderr, "not what generating gives: %s\nrun `make generate` and commit the result\n",
			strings.Join(stale, " "))
		os.Exit(1)
	}
	fmt.Println("generated code is current")
}

// check returns the files that generating changes, makes or removes.
func check() (stale []string, err error) {
	root, err := archtest.Root()
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
	was := map[string][]byte{}
	for _, name := range before {
		if was[name], err = copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	// The copy is a checkout of its own, so that what is ignored is ignored there too.
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
	return differences(dir, was, after)
}

// differences compares the files that the copy holds now with what they were when they were copied; a file that is new
// or gone differs.
func differences(dir string, was map[string][]byte, now []string) ([]string, error) {
	var stale []string
	for _, name := range now {
		is, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if before, existed := was[name]; !existed || !bytes.Equal(before, is) {
			stale = append(stale, name)
		}
	}
	for name := range was {
		if !slices.Contains(now, name) {
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
