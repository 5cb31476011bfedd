// Command suites runs the project's checks concurrently and prints a report: suites [-long] [NAME...].
//
// Without -long it runs each test once. With -long it runs the suites that repeat tests: under the race detector, with
// many random draws, with long checks of the stores against their model.
//
// It installs the tools that the chosen suites need, and runs at most two heavy suites and one light suite at a time.
// It writes one log per suite under .tools/logs and prints the logs of failed suites. The report lists the skipped
// tests with their reasons, a table of the suites, and one line of totals. The exit status is 1 when a suite failed,
// and 2 for wrong arguments.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := os.Getwd()
	if err != nil {
		fail(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		fail(fmt.Errorf("run this program in the root of the repository: %w", err))
	}
	args, long := os.Args[1:], false
	if len(args) > 0 && args[0] == "-long" {
		args, long = args[1:], true
	}
	if long && !canRace(ctx) {
		fail(errors.New("the race detector needs a C compiler: install gcc or clang and run this again"))
	}
	list := suites
	if long {
		list = longSuites
	}
	all, err := list(root)
	if err != nil {
		fail(err)
	}
	chosen, err := choose(all, args)
	if err != nil {
		fail(err)
	}
	r := &runner{root: root, logs: filepath.Join(root, ".tools", "logs"), out: os.Stdout}
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		fail(fmt.Errorf("cannot write the logs: make %s writable: %w", r.logs, err))
	}
	if r.files, err = filesInMemory(); err != nil {
		fail(fmt.Errorf("cannot keep the files of tests in memory: set TMPDIR to another directory: %w", err))
	}
	passed := r.run(ctx, preparations(), chosen)
	if r.files != "" {
		if err := os.RemoveAll(r.files); err != nil {
			fmt.Fprintf(os.Stderr, "error: %v\n", err)
		}
	}
	if !passed {
		stop()
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "error: %v\n", err)
	os.Exit(2)
}

// canRace reports whether this machine can build the race detector, which needs cgo.
func canRace(ctx context.Context) bool {
	c := exec.CommandContext(ctx, "go", "build", "runtime/cgo")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	return c.Run() == nil
}

// withOutput adds the standard error of a failed program to its error.
func withOutput(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
