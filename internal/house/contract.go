package house

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
	// definition finds where an id is defined: bold at the start of a line or an item, or the heading of a table of fields.
	definition = regexp.MustCompile(`(?m)^(?:- )?(?:\*\*|### )([A-Z]{1,2}-?\d{1,3})(?:\*\*|[ .])([^\n*]*)`)
	// citation finds what looks like one of the contract's ids. The letters before are those that it defines; a hyphen that a Go name cannot
	// have may be missing. It never finds a part of a longer word or number.
	citation = regexp.MustCompile(`(?:^|[^A-Za-z0-9.%#$/-])((?:T|R)\d{2,3}|[APSGLCQBXHMZ]\d{2}|O\d{1,2}|E-?\d{2}|W-?\d{1,2}|DD-\d{1,2})(?:[^A-Za-z0-9]|$)`)
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

// Test is one test and the ids its name carries.
type Test struct {
	Name string // its file and its name
	IDs  []string
}

var (
	goTestName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(|\bt\.Run\("([^"\n]+)"|(?m)^\t+\{"(\w+)", \w+\},?$`)
	tsTestName = regexp.MustCompile("(?m)\\b(?:test|it|describe)(?:\\.\\w+)?\\(\\s*[\"'`]([^\"'`\\n]+)")
)

// Tests returns the tests among files whose names carry contract ids: Go tests, their named subtests, the cases of conformance suites, and
// the UI's.
func Tests(root string, files []string) ([]Test, error) {
	var tests []Test
	for _, name := range files {
		var pattern *regexp.Regexp
		switch {
		case strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "store/storetest/"), strings.HasPrefix(name, "engine/enginetest/"):
			pattern = goTestName
		case strings.HasSuffix(name, ".test.ts"), strings.HasSuffix(name, ".test.tsx"), strings.HasSuffix(name, ".spec.ts"):
			pattern = tsTestName
		default:
			continue
		}
		text, _, err := ReadText(root, name)
		if err != nil {
			return nil, err
		}
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			title := strings.Join(m[1:], "")
			if ids := Citations(title); len(ids) > 0 {
				tests = append(tests, Test{Name: name + " " + title, IDs: ids})
			}
		}
	}
	return tests, nil
}
