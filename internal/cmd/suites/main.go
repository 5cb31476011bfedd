// Command suites runs the project's checks side by side and says at the end what ran: suites [-long] [NAME...].
//
// Without -long it runs each test once. With -long it runs the suites that repeat tests: under the race detector, with
// many random draws, with long checks of the stores against their model.
//
// It prepares what the chosen suites need, runs at most two heavy suites and a light one at a time, keeps one log for
// each under .tools/logs, prints the log of what fails, and ends with a table, the skipped tests with their reasons,
// and one line that counts. It exits 1 when a suite failed, 2 when it was called wrongly.
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
		fail(fmt.Errorf("run it in the repository's root: %w", err))
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
		fail(fmt.Errorf("cannot keep the files of tests in memory: set TMPDIR to where they may be: %w", err))
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

// canRace tells whether the race detector, which needs cgo, can be built here.
func canRace(ctx context.Context) bool {
	c := exec.CommandContext(ctx, "go", "build", "runtime/cgo")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	return c.Run() == nil
}

// withOutput adds what a failed program wrote to standard error.
func withOutput(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
