package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// speaking lists the packages whose texts people read. In the others a duration is a setting, which people write in
// Go's form, or stands in the output of a test.
var speaking = []string{"plan", "run/...", "engine", "engine/executor", "engine/interp", "engine/mock",
	"engine/temporal", "control/...", "notifier", "projector", "erasure", "destination/...", "server", "server/preflight",
	"server/usecases", "export", "storeadmin/...", "cmd/dvt", "cmd/dvt/internal/..."}

// inTheFormOfGo lists the functions that write documents, and the file that has the words.
var inTheFormOfGo = []string{"MarshalJSON", "duration.go"}

// People read "10 min", not "10m0s": texts get durations through plan.DurationWords.
func TestTexts_WriteDurationsInWords(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	packages, exports := compiled(t)
	for path, files := range packages {
		var parsed []*ast.File
		for _, name := range files {
			parsed = append(parsed, parse(t, fset, name, nil))
		}
		for _, at := range durationsOf(t, fset, exports, path, parsed...) {
			t.Errorf("%s: a text gets a time.Duration; write plan.DurationWords(…)", at)
		}
	}
	// The check sees what it looks for.
	if found := durationsOf(t, fset, exports, "example", parse(t, fset, "example.go", `package example
import ("fmt"; "time")
var A = fmt.Sprintf("%s", time.Second)
var B = time.Second.String()
var C = fmt.Sprint(time.Second.Seconds())`)); len(found) != 2 {
		t.Errorf("the check finds %q in an example, want its two durations", found)
	}
}

// compiled returns the files of the speaking packages, and the compiled form of these packages and of those that they
// import, by import path.
func compiled(t *testing.T) (packages map[string][]string, exports map[string]string) {
	t.Helper()
	root, _ := repository(t)
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,DepOnly"}
	for _, p := range speaking {
		args = append(args, "./"+p)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the packages cannot be listed: %v", err)
	}
	packages, exports = map[string][]string{}, map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
			DepOnly                 bool
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, exports
		} else if err != nil {
			t.Fatalf("the list of packages cannot be read: %v", err)
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly || strings.HasSuffix(p.ImportPath, "test") {
			continue
		}
		for _, name := range p.GoFiles {
			packages[p.ImportPath] = append(packages[p.ImportPath], filepath.Join(p.Dir, name))
		}
	}
}

func parse(t *testing.T, fset *token.FileSet, name string, text any) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// durationsOf returns the places where files give a time.Duration to a function with operands of any type, or take its
// text.
func durationsOf(t *testing.T, fset *token.FileSet, exports map[string]string, path string,
	files ...*ast.File) (found []string) {
	t.Helper()
	from := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	if _, err := (&types.Config{Importer: from}).Check(path, fset, files, info); err != nil {
		t.Fatalf("%s cannot be checked: %v", path, err)
	}
	isDuration := func(e ast.Expr) bool { return types.TypeString(info.TypeOf(e), nil) == "time.Duration" }
	for _, f := range files {
		if slices.Contains(inTheFormOfGo, filepath.Base(fset.Position(f.Pos()).Filename)) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && slices.Contains(inTheFormOfGo, f.Name.Name) {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			at := fset.Position(call.Pos()).String()
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "String" && isDuration(s.X) {
				found = append(found, at)
			}
			sig, ok := info.TypeOf(call.Fun).(*types.Signature)
			if !ok || !sig.Variadic() {
				return true
			}
			fixed := sig.Params().Len() - 1
			last, _ := sig.Params().At(fixed).Type().(*types.Slice)
			if last == nil || !types.IsInterface(last.Elem()) {
				return true
			}
			for _, arg := range call.Args[min(fixed, len(call.Args)):] {
				if isDuration(arg) {
					found = append(found, fset.Position(arg.Pos()).String())
				}
			}
			return true
		})
	}
	return found
}
