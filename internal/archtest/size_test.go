package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of the size of a subject. A package, an object or a port above them holds more than one.
const (
	maxFiles   = 40 // Go files of a package, without tests
	maxFields  = 6  // of a use-case object
	maxMethods = 6  // of a store port of the use cases
)

// wholeStore lists where the sum of the store may stand: in the wiring, in its own packages, and in test support.
var wholeStore = []string{"server", "store", "storeadmin", "bench", "engine/enginetest", "control/controltest",
	"internal"}

func TestSize_PackagesAreAtMost40Files(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for _, name := range productFiles(t) {
		count[filepath.Dir(name)]++
	}
	for dir, n := range count {
		if n > maxFiles {
			t.Errorf("%s has %d Go files, more than %d: divide it by subject", dir, n, maxFiles)
		}
	}
}

func TestSize_UseCaseObjectsAndPortsAreSmall(t *testing.T) {
	t.Parallel()
	wired := embeddedIn(t, "server/usecases/usecases.go", "UseCases")
	if len(wired) < 40 {
		t.Fatalf("server/usecases wires %v, which cannot be all", wired)
	}
	for _, name := range productFiles(t) {
		dir := filepath.Dir(name)
		if dir != "control" && !strings.HasPrefix(dir, "control/") {
			continue
		}
		eachType(t, name, func(typeName string, e ast.Expr) {
			switch x := e.(type) {
			case *ast.StructType:
				if n := x.Fields.NumFields(); slices.Contains(wired, filepath.Base(dir)+"."+typeName) && n > maxFields {
					t.Errorf("%s: the object %s has %d fields, more than %d", name, typeName, n, maxFields)
				}
			case *ast.InterfaceType:
				if n := x.Methods.NumFields(); n > maxMethods {
					t.Errorf("%s: the port %s has %d methods, more than %d", name, typeName, n, maxMethods)
				}
			}
		})
	}
}

func TestSize_OnlyTheWiringHasTheWholeStore(t *testing.T) {
	t.Parallel()
	for _, name := range productFiles(t) {
		if slices.Contains(wholeStore, strings.Split(name, "/")[0]) || slices.Contains(wholeStore, filepath.Dir(name)) {
			continue
		}
		ast.Inspect(parsed(t, name), func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok && x.Sel.Name == "Store" {
				if pkg, ok := x.X.(*ast.Ident); ok && pkg.Name == "store" && pkg.Obj == nil {
					t.Errorf("%s names store.Store: take a port of what it needs", name)
				}
			}
			return true
		})
	}
}

// productFiles are the Go files of the repository without tests and test data.
func productFiles(t *testing.T) (out []string) {
	t.Helper()
	_, files := repository(t)
	for _, name := range files {
		if filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "testdata/") {
			out = append(out, name)
		}
	}
	return out
}

func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, text(t, name), 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// eachType calls f with each type that a file declares at its top.
func eachType(t *testing.T, name string, f func(typeName string, e ast.Expr)) {
	t.Helper()
	for _, d := range parsed(t, name).Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if spec, ok := s.(*ast.TypeSpec); ok {
				f(spec.Name.Name, spec.Type)
			}
		}
	}
}

// embeddedIn lists the types that a struct embeds by pointer, as package and name.
func embeddedIn(t *testing.T, name, typeName string) (out []string) {
	t.Helper()
	eachType(t, name, func(found string, e ast.Expr) {
		x, ok := e.(*ast.StructType)
		if !ok || found != typeName {
			return
		}
		for _, field := range x.Fields.List {
			star, ok := field.Type.(*ast.StarExpr)
			if !ok || len(field.Names) > 0 {
				continue
			}
			if of, ok := star.X.(*ast.SelectorExpr); ok {
				out = append(out, of.X.(*ast.Ident).Name+"."+of.Sel.Name)
			}
		}
	})
	return out
}
