package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// uiChecks is how many acceptance checks the UI has; docs/ui-checks.md lists them.
const uiChecks = 40

var (
	uiTest = regexp.MustCompile("(?m)^\\s*(?:test|it)\\(\\s*[\"'`]((?:\\d{1,2} )+)")
	uiRow  = regexp.MustCompile(`(?m)^\| (\d{1,2}) \| [^|]+ \| ([^|]+) \|$`)
	uiName = regexp.MustCompile("`([^`]+)`")
	goTest = regexp.MustCompile(`^Test\w+$`)
)

func TestUIChecks_EachHasATestAndARow(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	tested := map[int]bool{}
	numbers := map[string]map[int]bool{} // of the tests of a file
	for _, name := range files {
		if !strings.HasPrefix(name, "web/") || !strings.HasSuffix(name, ".spec.ts") && !strings.HasSuffix(name, ".test.ts") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		numbers[name] = map[int]bool{}
		for _, m := range uiTest.FindAllStringSubmatch(string(text), -1) {
			for _, number := range strings.Fields(m[1]) {
				n, err := strconv.Atoi(number)
				if err != nil || n < 1 || n > uiChecks {
					t.Errorf("%s: there is no check %s", name, number)
				}
				tested[n], numbers[name][n] = true, true
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "ui-checks.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[int]bool{}
	for _, m := range uiRow.FindAllStringSubmatch(string(page), -1) {
		n, _ := strconv.Atoi(m[1])
		listed[n] = true
		for _, named := range uiName.FindAllStringSubmatch(m[2], -1) {
			checkWhere(t, files, numbers, n, named[1])
		}
	}
	for n := 1; n <= uiChecks; n++ {
		if !tested[n] {
			t.Errorf("no test of web/ has the number of check %d at the beginning of its title", n)
		}
		if !listed[n] {
			t.Errorf("docs/ui-checks.md has no row for check %d", n)
		}
	}
}

// checkWhere fails when a name in the row of check n is that of a test file without a test of the check, of a Go test
// that does not exist, or of a figure that the benchmarks do not measure.
func checkWhere(t *testing.T, files []string, numbers map[string]map[int]bool, n int, name string) {
	t.Helper()
	root, _ := repository(t)
	inSources := func(suffix, text string) bool {
		return slices.ContainsFunc(files, func(file string) bool {
			if !strings.HasSuffix(file, suffix) {
				return false
			}
			source, err := os.ReadFile(filepath.Join(root, file))
			return err == nil && strings.Contains(string(source), text)
		})
	}
	spec := "web/e2e/" + name + ".spec.ts"
	switch {
	case strings.HasSuffix(name, ".test.ts"):
		if !numbers["web/src/"+name][n] {
			t.Errorf("the row of check %d names %s, which has no test of it", n, name)
		}
	case slices.Contains(files, spec):
		if !numbers[spec][n] {
			t.Errorf("the row of check %d names %s, which has no test of it", n, name)
		}
	case goTest.MatchString(name):
		if !inSources("_test.go", "func "+name+"(") && !inSources("_test.go", "func "+name+"_") {
			t.Errorf("the row of check %d names %s, and no Go test has this name", n, name)
		}
	case strings.HasPrefix(name, "ui-"):
		if !inSources(".go", `"`+name+`"`) {
			t.Errorf("the row of check %d names the figure %s, which no benchmark measures", n, name)
		}
	case name != "server" && name != "web-size" && name != "make soak":
		t.Errorf("the row of check %d names %s, which is no test", n, name)
	}
}
