package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlainPackages_StartNoGoroutine(t *testing.T) {
	t.Parallel()
	for _, pkg := range plainPackages {
		files, err := filepath.Glob(filepath.Join("../../..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pkg, len(files), err)
		}
		for _, name := range files {
			positions := token.NewFileSet()
			file, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a goroutine: the package belongs to those that are raced", positions.Position(n.Pos()))
				case *ast.SelectorExpr:
					if n.Sel.Name == "Go" {
						t.Errorf("%s: a goroutine: the package belongs to those that are raced", positions.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

func TestCountsIn_NamesWhatIsFlaky(t *testing.T) {
	t.Parallel()
	got := countsIn(`  ✓  2 e2e/b.spec.ts:9:1 › 39 the last (1.2s)

  1) e2e/a.spec.ts:3:1 › 39 the first ──────
    Error: 1 flaky

  1 failed
    e2e/c.spec.ts:4:1 › 40 no ─────────
  2 flaky
    e2e/a.spec.ts:3:1 › 39 the first ───────────
    e2e/b.spec.ts:5:1 › 40 the second ──────────
  86 passed (13.3m)
`)
	want := counts{passed: 86, failed: 1, flaky: []string{"e2e/a.spec.ts:3:1 › 39 the first", "e2e/b.spec.ts:5:1 › 40 the second"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
}
