package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
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
