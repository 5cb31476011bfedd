package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// uiChecks is how many acceptance checks the UI has; docs/ui-checks.md lists them.
const uiChecks = 40

var (
	uiTest = regexp.MustCompile("(?m)^\\s*(?:test|it)\\([\"'`]((?:\\d{1,2} )+)")
	uiRow  = regexp.MustCompile(`(?m)^\| (\d{1,2}) \|`)
)

func TestUIChecks_EachHasATestAndARow(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	tested := map[int]bool{}
	for _, name := range files {
		if !strings.HasPrefix(name, "web/") || !strings.HasSuffix(name, ".spec.ts") && !strings.HasSuffix(name, ".test.ts") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uiTest.FindAllStringSubmatch(string(text), -1) {
			for _, number := range strings.Fields(m[1]) {
				n, err := strconv.Atoi(number)
				if err != nil || n < 1 || n > uiChecks {
					t.Errorf("%s: there is no check %s", name, number)
				}
				tested[n] = true
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
