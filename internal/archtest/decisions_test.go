package archtest_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	recordHead = regexp.MustCompile(`^# (\d+)\. .+\n\n\* Date: \d{4}-\d\d-\d\d\n` +
		`\* Status: (?:proposed|accepted|changed by|replaced by)\b((?:[^\n]|\n  )*)\n\n`)
	recordLink = regexp.MustCompile(`\[\d+\]\((\d{4}-[\w-]+\.md)\)`)
)

// A record without a date and a status is read as if it were true today.
func TestDecisions_EachHasDateAndStatus(t *testing.T) {
	t.Parallel()
	_, files := repository(t)
	list := text(t, "docs/decisions/README.md")
	records := 0
	for _, name := range files {
		base := filepath.Base(name)
		if filepath.Dir(name) != "docs/decisions" || base == "README.md" {
			continue
		}
		records++
		page := text(t, name)
		m := recordHead.FindStringSubmatch(page)
		if m == nil {
			t.Errorf("%s does not begin with its title, `* Date: 2026-01-31` and `* Status: accepted`: "+
				"docs/decisions/README.md shows the form", name)
			continue
		}
		if number := fmt.Sprintf("%04s", m[1]); !strings.HasPrefix(base, number+"-") {
			t.Errorf("%s calls itself record %s", name, m[1])
		}
		if !strings.Contains(list, "]("+base+")") {
			t.Errorf("docs/decisions/README.md does not list %s", base)
		}
		for _, later := range recordLink.FindAllStringSubmatch(m[2], -1) {
			if later[1] <= base {
				t.Errorf("%s is changed by %s, which is not later", name, later[1])
			}
		}
	}
	if records < 49 {
		t.Errorf("%d records were read, want at least 49", records)
	}
}
