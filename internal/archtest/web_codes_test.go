package archtest_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/internal/archtest"
	"github.com/dvt-engine/dvt/run"
)

// A code that the UI asks for by another name than the table's never comes: what hangs on it never happens.
func TestWeb_CodesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"NETWORK": true} // of the UI itself, when no answer came
	for _, c := range run.CodeTable() {
		known[string(c.Code)] = true
	}
	compared := regexp.MustCompile(`\b[cC]ode(?: ===| !==|:) "([A-Z_]+)"`)
	set := regexp.MustCompile(`new Set\(\[([^\]]*)\]\)`)
	source, notOurs := regexp.MustCompile(`\.tsx?$`), regexp.MustCompile(`\.test\.|/gen/|/gallery/|/testing/`)
	word := regexp.MustCompile(`"([A-Z_]+)"`)
	root, files := repository(t)
	n := 0
	for _, name := range files {
		if !strings.HasPrefix(name, "web/src/") || !source.MatchString(name) || notOurs.MatchString(name) {
			continue
		}
		text, _, err := archtest.ReadText(root, name)
		if err != nil {
			t.Fatal(err)
		}
		check := func(code string) {
			if n++; !known[code] {
				t.Errorf("%s: %s is no code of the table", name, code)
			}
		}
		for _, m := range compared.FindAllStringSubmatch(text, -1) {
			check(m[1])
		}
		for _, m := range set.FindAllStringSubmatch(text, -1) {
			words := word.FindAllStringSubmatch(m[1], -1)
			ofCodes := false
			for _, w := range words {
				ofCodes = ofCodes || known[w[1]]
			}
			for _, w := range words {
				if ofCodes {
					check(w[1])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("%d codes", n)
	}
}
