package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run"
)

// A code that the UI asks for by another name than the table's never comes: what hangs on it never happens.
func TestWeb_CodesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"NETWORK": true} // of the UI itself, when no answer came
	for _, c := range run.CodeTable() {
		known[string(c.Code)] = true
	}
	compared := regexp.MustCompile(`\b[cC]ode (?:===|!==|:) "([A-Z_]+)"|\b[cC]ode: "([A-Z_]+)"`)
	set := regexp.MustCompile(`new Set\(\[([^\]]*)\]\)`)
	word := regexp.MustCompile(`"([A-Z_]+)"`)
	root, _ := repository(t)
	n := 0
	err := filepath.WalkDir(filepath.Join(root, "web", "src"), func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".ts") && !strings.HasSuffix(name, ".tsx") || strings.Contains(name, ".test.") ||
			strings.Contains(path, "/gen/") || strings.Contains(path, "/gallery/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		check := func(code string) {
			if n++; !known[code] {
				t.Errorf("%s: %s is no code of the table", strings.TrimPrefix(path, root), code)
			}
		}
		for _, m := range compared.FindAllStringSubmatch(string(text), -1) {
			check(m[1] + m[2])
		}
		for _, m := range set.FindAllStringSubmatch(string(text), -1) {
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
		return nil
	})
	if err != nil || n < 20 {
		t.Errorf("%d codes, %v", n, err)
	}
}
