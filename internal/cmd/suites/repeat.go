package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxRepeated is the maximum number of failed tests of a suite that are repeated. A machine that stands still for a
// minute makes all tests fail that wait in it, which are fewer than this; more failures have another cause.
const maxRepeated = 20

// repeatFailures runs the failed tests of each failed suite once more, after all suites and one after the other, so
// that a test which another suite disturbed has the machine for itself. It does so only in continuous integration,
// where nobody can repeat a test by hand. A suite whose tests then pass has passed; the report lists them as flaky,
// with the output of their failures. Races, panics and build errors are never repeated, because a repetition proves
// nothing.
func (r *runner) repeatFailures(ctx context.Context, results []result) {
	if os.Getenv("CI") == "" {
		return
	}
	for i := range results {
		began := results[i].tests != nil || len(results[i].counts.failing) > 0 // else its preparation failed
		if results[i].err == nil || ctx.Err() != nil || !began {
			continue
		}
		start, name := time.Now(), "repetition of "+results[i].task.name
		r.mu.Lock()
		r.running[name] = start
		r.mu.Unlock()
		passed, err := r.repeat(ctx, &results[i])
		r.mu.Lock()
		delete(r.running, name)
		r.mu.Unlock()
		switch {
		case err != nil:
			results[i].err = errors.Join(results[i].err, fmt.Errorf("cannot repeat its tests: %w", err))
		case passed:
			results[i].err = nil
			fmt.Fprintf(r.out, "ok   %-14s repeated in %s\n", results[i].task.name, seconds(time.Since(start)))
		}
	}
}

// repeat runs the failed tests of a suite once more and reports whether all of them passed. The error is that of the
// log.
func (r *runner) repeat(ctx context.Context, res *result) (passed bool, err error) {
	log, err := os.OpenFile(filepath.Join(r.logs, "suite-"+res.task.name+".log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	switch {
	case res.tests != nil:
		passed = r.repeatGo(ctx, res, log)
	case len(res.task.again) > 0 && len(res.counts.failing) > 0 && len(res.counts.failing) <= maxRepeated:
		c := r.process(ctx, res.task, slices.Concat(res.task.argv, res.task.again))
		c.Stdout, c.Stderr = log, log
		passed = c.Run() == nil
	}
	if passed {
		c := &res.counts
		c.flaky, c.failing = append(c.flaky, c.failing...), nil
		c.passed, c.failed = c.passed+c.failed, 0
	}
	return passed, nil
}

// repeatGo is repeat for a suite of Go tests.
func (r *runner) repeatGo(ctx context.Context, res *result, log *os.File) (passed bool) {
	tests := res.tests.repeatable()
	if len(tests) == 0 {
		return false
	}
	var again counts
	for pkg, names := range tests {
		parser := newGoTest(log)
		c := r.process(ctx, res.task, repetition(res.task.argv, pkg, names))
		c.Stdout, c.Stderr = parser, log
		if err := c.Run(); err != nil || parser.passed == 0 {
			return false
		}
		again.add(parser.counts)
	}
	res.counts.packages = append(res.counts.packages, again.packages...)
	return true
}

// repetition returns the arguments that run the named tests of pkg alone. Flags of the tests stay behind the package,
// as in argv: go would pass a package behind them to the tests.
func repetition(argv []string, pkg string, names []string) []string {
	isPackage := func(arg string) bool { return strings.HasPrefix(arg, "./") }
	first := slices.IndexFunc(argv, isPackage)
	run := "-run=^(" + strings.Join(names, "|") + ")$"
	return slices.Concat(argv[:first], []string{run, pkg}, slices.DeleteFunc(slices.Clone(argv[first:]), isPackage))
}

// certainFailures are parts of outputs after which a repetition proves nothing: a data race, a panic, which includes
// the timeout of go test, or leaked goroutines.
var certainFailures = []string{"DATA RACE", "race detected", "panic: ", "found unexpected goroutines"}

// repeatable returns the failed tests by package. It returns none when a package failed without a failed test, when a
// failure is certain, or when more than maxRepeated tests failed.
func (g *goTest) repeatable() map[string][]string {
	tests := map[string][]string{}
	for _, key := range g.keys {
		pkg, test, _ := strings.Cut(key, " ")
		test, _, _ = strings.Cut(test, "/")
		if slices.ContainsFunc(certainFailures, func(s string) bool { return strings.Contains(g.outputOf(key), s) }) {
			return nil
		}
		switch {
		case test != "" && !slices.Contains(tests[pkg], test):
			tests[pkg] = append(tests[pkg], test)
		case test == "" && len(tests[pkg]) == 0:
			return nil
		}
	}
	n := 0
	for _, names := range tests {
		n += len(names)
	}
	if n > maxRepeated {
		return nil
	}
	return tests
}

func (g *goTest) outputOf(key string) string {
	if out := g.output[key]; out != nil {
		return out.String()
	}
	return ""
}
