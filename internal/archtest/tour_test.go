package archtest_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/checkout"
)

const (
	tour      = "docs/tour.md"
	tourStops = 10
)

var (
	tourHeading = regexp.MustCompile(`^#+ `)
	tourStop    = regexp.MustCompile(`^### \d+\. `)
	tourLink    = regexp.MustCompile("\\[`([^`\n]+)`\\]\\(([^)\\s]+)\\)")
)

// A tour whose links are stale sends newcomers to code that no longer exists.
func TestTour_LinksFunctionsThatExist(t *testing.T) {
	t.Parallel()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkTour(text(t, tour), func(name string) (string, error) {
		source, err := os.ReadFile(filepath.Join(root, name))
		return string(source), err
	}) {
		t.Errorf("%s: %s", tour, problem)
	}
}

// checkTour returns the problems of a page. read returns the source of a file of the repository.
func checkTour(page string, read func(name string) (string, error)) (problems []string) {
	stops, links := 0, 0 // links of the current stop
	stop := ""           // heading of the current stop, "" outside of stops
	endStop := func() {
		if stop != "" && links == 0 {
			problems = append(problems, fmt.Sprintf("the stop %q links no function", stop))
		}
		stop, links = "", 0
	}
	declared := map[string]map[string]bool{} // by file; nil for a file that cannot be read
	for i, line := range strings.Split(page, "\n") {
		if tourHeading.MatchString(line) {
			endStop()
		}
		if tourStop.MatchString(line) {
			stops++
			stop = strings.TrimPrefix(line, "### ")
			if !strings.HasPrefix(stop, fmt.Sprintf("%d. ", stops)) {
				problems = append(problems, fmt.Sprintf("the stop %q is number %d", stop, stops))
			}
		}
		for _, link := range tourLink.FindAllStringSubmatch(line, -1) {
			links++
			file := path.Join(path.Dir(tour), link[2])
			functions, known := declared[file]
			if !known {
				var err error
				if functions, err = functionsOf(file, read); err != nil {
					problems = append(problems, fmt.Sprintf("line %d: %v", i+1, err))
				}
				declared[file] = functions
			}
			if functions != nil && !functions[link[1]] {
				problems = append(problems, fmt.Sprintf("line %d: %s does not declare %s: link the function that does this now",
					i+1, file, link[1]))
			}
		}
	}
	endStop()
	if stops != tourStops {
		problems = append(problems, fmt.Sprintf("the page has %d stops, want %d", stops, tourStops))
	}
	return problems
}

// functionsOf returns the functions and methods that a file declares, a method as Type.Method. The file need not
// compile, because types are not checked.
func functionsOf(file string, read func(name string) (string, error)) (map[string]bool, error) {
	source, err := read(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", file)
	}
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil && len(f.Recv.List) == 1 {
			name = receiverType(f.Recv.List[0].Type) + "." + name
		}
		names[name] = true
	}
	return names, nil
}

// receiverType returns the name of the type of a receiver, without pointer and type parameters.
func receiverType(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func TestCheckTour_ReportsStaleLinksAndMissingStops(t *testing.T) {
	t.Parallel()
	const source = "package a\n\nfunc Plain() {}\n\nfunc (s *Store) Append() {}\n\nfunc (g *pair[F, M]) Next() {}\n"
	read := func(name string) (string, error) {
		switch name {
		case "a/a.go":
			return source, nil
		case "a/types.go":
			return "package a\n\ntype Plain int\n", nil
		case "a/broken.go":
			return "package", nil
		}
		return "", os.ErrNotExist
	}
	good := "[`Plain`](../a/a.go), [`Store.Append`](../a/a.go), [`pair.Next`](../a/a.go)"
	for name, c := range map[string]struct {
		stops int
		last  string // text of the last stop
		want  []string
	}{
		"ten stops":    {10, good, nil},
		"nine stops":   {9, good, []string{"the page has 9 stops, want 10"}},
		"eleven stops": {11, good, []string{"the page has 11 stops, want 10"}},
		"no link":      {10, "[other](../a/a.go)", []string{`the stop "10. Stop" links no function`}},
		"no file":      {10, "[`Plain`](../a/b.go)", []string{"line 31: a/b.go does not exist"}},
		"no function": {10, "[`Gone`](../a/a.go)",
			[]string{"line 31: a/a.go does not declare Gone: link the function that does this now"}},
		"type of the same name": {10, "[`Plain`](../a/types.go)",
			[]string{"line 31: a/types.go does not declare Plain: link the function that does this now"}},
		"method without its type": {10, "[`Append`](../a/a.go)",
			[]string{"line 31: a/a.go does not declare Append: link the function that does this now"}},
		"file that does not parse": {10, "[`Plain`](../a/broken.go)",
			[]string{"line 31: a/broken.go:1:8: expected 'IDENT', found 'EOF'"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := strings.Builder{}
			page.WriteString("# Tour\n\n")
			for i := 1; i <= c.stops; i++ {
				body := good
				if i == c.stops {
					body = c.last
				}
				fmt.Fprintf(&page, "### %d. Stop\n%s\n\n", i, body)
			}
			if diff := cmp.Diff(c.want, checkTour(page.String(), read)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
