package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ContractDir is where the contract lies, relative to the root.
const ContractDir = "docs/contract"

// Check is one acceptance check: its id as the contract writes it, and its title.
type Check struct{ ID, Title string }

// Contract is what docs/contract defines.
type Contract struct {
	IDs    map[string]bool // every id, of whatever kind
	Checks []Check         // those of acceptance.md, in its order
}

var (
	// definition finds where an id is defined: bold at the start of a line or an item, or the heading of a table of
	// fields.
	definition = regexp.MustCompile(`(?m)^(?:- )?(?:\*\*|### )([A-Z]{1,2}-?\d{1,3})(?:\*\*|[ .])([^\n*]*)`)
	// citation finds what looks like one of the contract's ids. The letters before are those that it defines; a hyphen
	// that a Go name cannot have may be missing. It never finds a part of a longer word or number.
	citation = regexp.MustCompile(
		`(?:^|[^A-Za-z0-9.%#$/-])((?:T|R)\d{2,3}|[APSGLCQBXHMZ]\d{2}|O\d{1,2}|E-?\d{2}|W-?\d{1,2}|DD-\d{1,2})(?:[^A-Za-z0-9]|$)`)
	hyphened = regexp.MustCompile(`^([EW])(\d+)$`)
	// drawing is what follows in the path of a picture, where M10 moves the pen.
	drawing = regexp.MustCompile(`^[ ,.-]?-?\d`)
	// notOurs are words that look like ids: percentiles.
	notOurs = map[string]bool{"P50": true, "P90": true, "P95": true, "P99": true}
)

// LoadContract reads the contract; a missing one is an error, because everything that cites it would dangle.
func LoadContract(root string) (Contract, error) {
	pages, err := filepath.Glob(filepath.Join(root, ContractDir, "*.md"))
	if err != nil {
		return Contract{}, err
	}
	if len(pages) == 0 {
		return Contract{}, fmt.Errorf("%s is missing: the ids that code and tests cite are defined there", ContractDir)
	}
	c := Contract{IDs: map[string]bool{}}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return Contract{}, err
		}
		for _, m := range definition.FindAllStringSubmatch(string(text), -1) {
			id, title := m[1], strings.Trim(m[2], " .★✓")
			if filepath.Base(page) == "acceptance.md" && !c.IDs[id] {
				c.Checks = append(c.Checks, Check{ID: id, Title: title})
			}
			c.IDs[id] = true
		}
	}
	return c, nil
}

// Citations returns the distinct contract ids that text cites, as the contract writes them, sorted.
func Citations(text string) []string {
	var ids []string
	for rest := text; ; {
		m := citation.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		if id := rest[m[2]:m[3]]; !notOurs[id] && !drawing.MatchString(rest[m[3]:]) {
			ids = append(ids, hyphened.ReplaceAllString(id, "$1-$2"))
		}
		rest = rest[m[3]:] // what ends one citation may begin the next
	}
	for i, id := range ids {
		ids[i] = strings.Replace(id, "W-0", "W-", 1)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Test is one test and the contract ids that it proves.
type Test struct {
	Name string // its file and its name
	IDs  []string
}

var (
	goTestName = regexp.MustCompile(
		`^(?:func ((?:Test|Fuzz|Benchmark|Example)\w*)\(|\t+t\.Run\("([^"]+)"|\t+\{"(\w+)", \w+\},?$|\t+\{name: "(\w+)")`)
	tsTestName = regexp.MustCompile("^\\s*(?:test|it|describe)(?:\\.\\w+)?\\(\\s*[\"'`]([^\"'`]+)")
	// proof is the line above a test that names the contract ids that the test proves.
	proof = regexp.MustCompile(`^\s*// contract: (.+)$`)
)

// Tests returns the tests among files that prove contract ids, which the line `// contract: A03, T190` directly above a
// test names. It reads Go tests, their named subtests, cases of conformance suites, and tests of the UI. Errors: a
// contract line that names no id, or that stands above no test.
func Tests(root string, files []string) ([]Test, error) {
	var tests []Test
	for _, name := range files {
		pattern := testPattern(name)
		if pattern == nil {
			continue
		}
		text, _, err := ReadText(root, name)
		if err != nil {
			return nil, err
		}
		found, err := testsIn(text, pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, t := range found {
			tests = append(tests, Test{Name: name + " " + t.Name, IDs: t.IDs})
		}
	}
	return tests, nil
}

// testPattern returns the pattern of a line that begins a test in the named file; nil for a file without tests.
func testPattern(name string) *regexp.Regexp {
	switch {
	case strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "store/storetest/"),
		strings.HasPrefix(name, "engine/enginetest/"):
		return goTestName
	case strings.HasSuffix(name, ".test.ts"), strings.HasSuffix(name, ".test.tsx"), strings.HasSuffix(name, ".spec.ts"):
		return tsTestName
	}
	return nil
}

// testsIn returns the tests in the text of one file that have a contract line.
func testsIn(text string, pattern *regexp.Regexp) ([]Test, error) {
	var tests []Test
	var ids []string
	for number, line := range strings.Split(text, "\n") {
		if m := proof.FindStringSubmatch(line); m != nil {
			if ids = Citations(m[1]); len(ids) == 0 {
				return nil, fmt.Errorf("line %d: a contract line names at least one id of %s", number+1, ContractDir)
			}
			continue
		}
		if ids == nil {
			continue
		}
		m := pattern.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d: a contract line stands directly above a test", number+1)
		}
		tests, ids = append(tests, Test{Name: strings.Join(m[1:], ""), IDs: ids}), nil
	}
	return tests, nil
}
