package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// maxRepeated is the maximum number of failed tests of a suite that are repeated: more did not fail by chance.
const maxRepeated = 5

// repeatFailed runs the failed tests of a suite once more, alone, and reports whether all of them passed. It does so
// only in continuous integration, where nobody can repeat a test by hand. The report lists the tests that then pass as
// flaky, with the output of their failures. Races, panics and build errors are never repeated, because a repetition
// proves nothing.
func (r *runner) repeatFailed(ctx context.Context, t task, log *os.File, first *goTest) (passed bool) {
	tests := first.repeatable()
	if os.Getenv("CI") == "" || len(tests) == 0 {
		return false
	}
	var again counts
	for pkg, names := range tests {
		parser := newGoTest(log)
		c := r.process(ctx, t, repetition(t.argv, pkg, names))
		c.Stdout, c.Stderr = parser, log
		if err := c.Run(); err != nil || parser.passed == 0 {
			return false
		}
		again.add(parser.counts)
	}
	for _, key := range first.failing {
		if pkg, test, _ := strings.Cut(key, " "); test != "" {
			first.flaky = append(first.flaky, fmt.Sprintf("%s %s\n%s", pkg, test, lastLines(first.outputOf(key))))
		}
	}
	first.passed, first.failed = first.passed+first.failed, 0
	first.packages = append(first.packages, again.packages...)
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
	for _, key := range g.failing {
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
