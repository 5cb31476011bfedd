package interp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSource_IsDeterministic checks the promise of the package doc: the package has no clock, random number, goroutine,
// channel or map iteration. It imports only plan, run, the types of store and engine, and a few packages of the
// standard library.
// contract: T116
func TestSource_IsDeterministic(t *testing.T) {
	t.Parallel()
	for _, breach := range findBreaches(t, nil) {
		t.Error(breach)
	}
}

// contract: T116
func TestSource_EachBreachIsFound(t *testing.T) {
	t.Parallel()
	found := strings.Join(findBreaches(t, []byte(`package interp

import (
	"math/rand"
	"time"
)

func breach(m map[string]int, c chan int) {
	for range m {
	}
	type named map[int]int
	for range (named{}) {
	}
	go breach(m, c)
	c <- rand.Int()
	select {}
	_ = time.Now()
	time.Sleep(1)
}
`)), "\n")
	for _, want := range []string{"math/rand", "range over map[string]int", "range over map[int]int", "go statement",
		"send on a channel", "select", "time.Now", "time.Sleep"} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is not found in\n%s", want, found)
		}
	}
}

func findBreaches(t *testing.T, extra []byte) []string {
	t.Helper()
	fset := token.NewFileSet()
	files := parse(t, fset, ".")
	if extra != nil {
		f, err := parser.ParseFile(fset, "breach.go", extra, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: moduleImporter{t, fset}, Error: func(error) {}}
	_, _ = conf.Check("interp", fset, files, info) // it only fills info; the compiler reports errors
	allowed := []string{"cmp", "encoding/binary", "encoding/json", "errors", "fmt", "math", "slices", "time",
		"unicode/utf8"}
	for _, p := range []string{"engine", "plan", "run", "store"} {
		allowed = append(allowed, "github.com/dvt-engine/dvt/"+p)
	}
	clock := []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
	var out []string
	add := func(n ast.Node, what string) { out = append(out, fset.Position(n.Pos()).String()+": "+what) }
	for _, f := range files {
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); !slices.Contains(allowed, path) {
				add(i, "import of "+path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.RangeStmt:
				switch t := info.TypeOf(n.X).Underlying().(type) {
				case *types.Slice, *types.Basic:
					if t == types.Typ[types.Invalid] {
						add(n, "range over an unknown type")
					}
				default:
					add(n, "range over "+t.String())
				}
			case *ast.GoStmt:
				add(n, "go statement")
			case *ast.SendStmt:
				add(n, "send on a channel")
			case *ast.SelectStmt:
				add(n, "select")
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					add(n, "time."+n.Sel.Name)
				}
			}
			return true
		})
	}
	return out
}

func parse(t *testing.T, fset *token.FileSet, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// moduleImporter imports the packages of this module from their source. Other packages are empty, because the
// interpreter ranges over no type of them.
type moduleImporter struct {
	t    *testing.T
	fset *token.FileSet
}

func (o moduleImporter) Import(path string) (*types.Package, error) {
	dir, mine := strings.CutPrefix(path, "github.com/dvt-engine/dvt/")
	if !mine {
		p := types.NewPackage(path, filepath.Base(path))
		p.MarkComplete()
		return p, nil
	}
	conf := types.Config{Importer: o, Error: func(error) {}}
	p, _ := conf.Check(path, o.fset, parse(o.t, o.fset, filepath.Join("..", "..", dir)), nil)
	return p, nil
}
