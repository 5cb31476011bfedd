package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPage_SaysWhatTheProgramPrints(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range strings.Split(tables(), "\n\n") {
		if !strings.Contains(string(page), strings.TrimSpace(table)) {
			t.Errorf("docs/scale.md does not have this table of `go run ./bench/scale`:\n%s", table)
		}
	}
}

func TestModel_UsesRowsOfTheResults(t *testing.T) {
	t.Parallel()
	for _, r := range measured {
		results, err := os.ReadFile(filepath.Join("..", "results", r.file))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(strings.Split(string(results), "\n"), func(line string) bool {
			f := strings.Fields(line)
			return len(f) > 3 && f[1] == r.figure && f[3] == r.ratio && strings.Contains(line, "floor "+r.floor+" ")
		})
		if !found {
			t.Errorf("%s has no row %s with the ratio %s over a floor of %s", r.file, r.figure, r.ratio, r.floor)
		}
	}
}
