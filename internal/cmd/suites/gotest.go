package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// counts contains the numbers of tests of a suite, and lines of text for its report.
type counts struct {
	passed, failed, skipped int
	packages, skips         []string
	failing                 []failure
	flaky                   []failure // tests that failed, and passed when they were repeated
}

// failure is a test that failed, or a package that failed without a failed test, with its output.
type failure struct{ name, output string }

func (c *counts) add(o counts) {
	c.passed, c.failed, c.skipped = c.passed+o.passed, c.failed+o.failed, c.skipped+o.skipped
	c.packages, c.skips = append(c.packages, o.packages...), append(c.skips, o.skips...)
	c.failing, c.flaky = append(c.failing, o.failing...), append(c.flaky, o.flaky...)
}

func (c counts) String() string {
	if c.passed+c.failed+c.skipped == 0 {
		return "-"
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// goTest reads the events of `go test -json`, writes their text to a log and collects the counts and outputs for the
// report.
type goTest struct {
	counts

	log     io.Writer
	partial []byte                      // the last line while it is incomplete
	output  map[string]*strings.Builder // by "PACKAGE TEST"; TEST is empty for the package itself
	keys    []string                    // keys of output, in the order of their failures
}

type event struct {
	Action, Package, Test, Output, ImportPath string
}

func newGoTest(log io.Writer) *goTest {
	return &goTest{log: log, output: map[string]*strings.Builder{}}
}

func (g *goTest) Write(b []byte) (int, error) {
	g.partial = append(g.partial, b...)
	for {
		line, rest, ok := bytes.Cut(g.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		g.partial = rest
		var e event
		if json.Unmarshal(line, &e) != nil {
			e = event{Action: "output", Output: string(line) + "\n"} // a program printed this line
		}
		if err := g.handle(e); err != nil {
			return 0, err
		}
	}
}

func (g *goTest) handle(e event) error {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if e.Action == "build-output" {
			key = e.ImportPath + " "
		}
		if g.output[key] == nil {
			g.output[key] = &strings.Builder{}
		}
		g.output[key].WriteString(e.Output)
		if e.Test == "" && isPackageLine(e.Output) {
			g.packages = append(g.packages, strings.TrimSpace(e.Output))
		}
		_, err := io.WriteString(g.log, e.Output)
		return err
	case "pass":
		if e.Test != "" {
			g.passed++
			delete(g.output, key)
		}
	case "skip":
		if e.Test != "" {
			g.skipped++
			g.skips = append(g.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(g.output[key])))
		}
	case "fail":
		if e.Test != "" {
			g.failed++
		}
		g.keys = append(g.keys, key)
	case "build-fail":
		g.keys = append(g.keys, e.ImportPath+" ")
	}
	return nil
}

// checkCoverage returns an error when a package whose path ends with a key of floors reached less than that percentage,
// or reported none.
func (g *goTest) checkCoverage(floors map[string]float64) (err error) {
	for _, name := range slices.Sorted(maps.Keys(floors)) {
		reached := 0.0
		for _, line := range g.packages {
			m := coverageLine.FindStringSubmatch(line)
			if m != nil && strings.HasSuffix(m[1], "/"+name) {
				reached, _ = strconv.ParseFloat(m[2], 64)
			}
		}
		if reached < floors[name] {
			err = errors.Join(err, fmt.Errorf("the tests of %s cover %.1f %% of its statements, want at least %.1f %%", name,
				reached, floors[name]))
		}
	}
	return err
}

// coverageLine matches the line of a package that was tested with -cover.
var coverageLine = regexp.MustCompile(`^ok  \t(\S+)\t.*coverage: ([0-9.]+)% of statements`)

// failures returns the failed tests in the order of their failures, and the packages that failed without one.
func (g *goTest) failures() (all []failure) {
	for _, key := range g.keys {
		pkg, test, _ := strings.Cut(key, " ")
		text := g.outputOf(key)
		ofPackage := func(f failure) bool { return strings.HasPrefix(f.name, pkg+" ") }
		if test != "" || text != "" && !slices.ContainsFunc(all, ofPackage) {
			all = append(all, failure{name: strings.TrimSpace(key), output: text})
		}
	}
	return all
}

func isPackageLine(s string) bool {
	return strings.HasPrefix(s, "ok  \t") || strings.HasPrefix(s, "FAIL\t")
}

// reason returns the output of a skipped test without the lines of go test itself.
func reason(out *strings.Builder) string {
	if out == nil {
		return "no reason"
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// listIn reads the tests that Playwright lists below a head such as "2 flaky" or "1 failed" in its closing lines, each
// with the lines of its failure.
func listIn(text, head string) (tests []failure) {
	heading := regexp.MustCompile(`^  \d+ ` + head + `\n`)
	listed := false
	for line := range strings.Lines(text) {
		switch {
		case !strings.HasPrefix(line, "    "):
			listed = heading.MatchString(line)
		case listed:
			name := strings.TrimRight(strings.TrimSpace(line), " ─")
			tests = append(tests, failure{name: name, output: blockOf(text, name)})
		}
	}
	return tests
}

// blockOf returns what Playwright printed of the failure of a test: the lines below "1) NAME" up to the next test.
func blockOf(text, name string) string {
	_, rest, found := strings.Cut(text, ") "+name)
	if !found {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "\n")
	if end := blockEnd.FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

var blockEnd = regexp.MustCompile(`(?m)^  (\S|\d+\) )`)

var countWords = regexp.MustCompile(`(\d+) (passed|failed|skipped)\b`)

// vitestFailure is the head of a failed test in the closing lines of Vitest. The lines of its failure follow, up to a
// rule.
var vitestFailure = regexp.MustCompile(`(?m)^ FAIL  (.+)\n((?:[^⎯\n].*\n|\n)*)`)

// countsIn reads the counts and the failed tests that the runners of the UI's tests, Playwright and Vitest, print in
// their closing lines.
func countsIn(text string) counts {
	c := counts{failing: listIn(text, "failed"), flaky: listIn(text, "flaky")}
	for _, m := range vitestFailure.FindAllStringSubmatch(text, -1) {
		c.failing = append(c.failing, failure{name: m[1], output: m[2]})
	}
	for _, m := range countWords.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		switch m[2] {
		case "passed":
			c.passed = n
		case "failed":
			c.failed = n
		case "skipped":
			c.skipped = n
		}
	}
	return c
}
