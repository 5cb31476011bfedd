package main

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	want := counts{passed: 86, failed: 1, flaky: []string{"e2e/a.spec.ts:3:1 › 39 the first",
		"e2e/b.spec.ts:5:1 › 40 the second"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
}

func TestSchedule_AfterWhatIsNeededAndInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Each says when it begins and when it ends.
	say := func(name string, heavy bool, needs ...string) task {
		return task{name: name, heavy: heavy, needs: needs, argv: []string{"sh", "-c", "echo +" + name +
			" >>said; sleep 0.05; echo -" + name + " >>said"}}
	}
	broken := task{name: "broken", argv: []string{"false"}}
	r := &runner{root: dir, logs: dir, out: io.Discard}
	passed := r.run(context.Background(), []task{say("tool", false), say("tool2", false, "tool"), broken,
		say("unneeded", false)}, []task{
		say("first", true, "tool2"), say("second", true, "tool2"), say("third", true, "tool2"), say("fourth", true, "tool2"),
		say("small", false), say("tiny", false),
		say("lame", false, "broken"),
	})
	if passed {
		t.Error("a suite whose need failed has passed")
	}
	text, err := os.ReadFile(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	said := string(text)
	if n := strings.Count(said, "+"); n != 8 || strings.Contains(said, "unneeded") || strings.Contains(said, "lame") {
		t.Errorf("%d tasks ran:\n%s", n, said)
	}
	for _, order := range [][2]string{{"-tool\n", "+tool2"}, {"-tool2", "+first"}, {"-tool2", "+second"},
		{"-tool2", "+third"}, {"-tool2", "+fourth"}, {"-small", "+tiny"}} {
		if before, after := strings.Index(said, order[0]), strings.Index(said, order[1]); before < 0 || after < before {
			t.Errorf("%q is not before %q:\n%s", order[0], order[1], said)
		}
	}
	heavy := 0
	for line := range strings.Lines(said) {
		if name := strings.TrimSpace(line[1:]); name == "first" || name == "second" || name == "third" || name == "fourth" {
			heavy += map[byte]int{'+': 1, '-': -1}[line[0]]
		}
		if heavy > 2 {
			t.Fatalf("%d heavy suites at once:\n%s", heavy, said)
		}
	}
}

func TestGoPackages_LongOnesFirst(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	pure, plain, servers, err := goPackages(root)
	if err != nil || len(plain) != len(plainPackages) {
		t.Fatalf("%v, %v", plain, err)
	}
	for i, name := range longPackages {
		if pure[i] != "./"+name {
			t.Errorf("%d is %s, want %s", i, pure[i], name)
		}
	}
	for _, name := range serverPackages {
		if !slices.ContainsFunc(servers, func(p string) bool { return strings.HasPrefix(p+"/", "./"+name+"/") }) {
			t.Errorf("%s is missing: %v", name, servers)
		}
	}
	// Packages below server may stand between the two.
	if temporal := slices.Index(servers, "./engine/temporal"); servers[0] != "./server" ||
		temporal > slices.Index(servers, "./store/postgres") {
		t.Errorf("server and engine/temporal are not the first: %v", servers)
	}
}
