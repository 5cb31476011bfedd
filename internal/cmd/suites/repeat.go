package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// maxRepeated is how many tests of a suite may be repeated: more have not failed by chance.
const maxRepeated = 5

// repeated runs what failed of a suite once more, alone, where continuous integration has nobody who could. Tests that
// then pass are flaky, and named so, with what they said, in the report. Nothing is repeated that is broken whatever
// comes of it: a race, a panic, what does not build.
func (r *runner) repeated(ctx context.Context, t task, log *os.File, first *goTest) (passed bool) {
	tests := first.repeatable()
	if os.Getenv("CI") == "" || len(tests) == 0 {
		return false
	}
	var again counts
	for pkg, names := range tests {
		argv := slices.DeleteFunc(slices.Clone(t.argv), func(arg string) bool { return strings.HasPrefix(arg, "./") })
		parser := newGoTest(log)
		c := r.process(ctx, t, append(argv, "-run=^("+strings.Join(names, "|")+")$", pkg))
		c.Stdout, c.Stderr = parser, log
		if err := c.Run(); err != nil || parser.passed == 0 {
			return false
		}
		again.add(parser.counts)
	}
	for _, key := range first.broken {
		if pkg, test, _ := strings.Cut(key, " "); test != "" {
			first.flaky = append(first.flaky, fmt.Sprintf("%s %s\n%s", pkg, test, lastLines(first.said(key))))
		}
	}
	first.passed, first.failed = first.passed+first.failed, 0
	first.packages = append(first.packages, again.packages...)
	return true
}

// noChance is what a test or its package says when repeating proves nothing: the race detector, a panic or a time that
// was over, goroutines that were left.
var noChance = []string{"DATA RACE", "race detected", "panic: ", "found unexpected goroutines"}

// repeatable are the tests that failed, of each package; none when something failed that is no
// test's, or that no repetition makes good.
func (g *goTest) repeatable() map[string][]string {
	tests := map[string][]string{}
	for _, key := range g.broken {
		pkg, test, _ := strings.Cut(key, " ")
		test, _, _ = strings.Cut(test, "/")
		if slices.ContainsFunc(noChance, func(words string) bool { return strings.Contains(g.said(key), words) }) {
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

func (g *goTest) said(key string) string {
	if out := g.output[key]; out != nil {
		return out.String()
	}
	return ""
}
