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
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlainPackages_StartNoGoroutine(t *testing.T) {
	t.Parallel()
	for _, pkg := range plainPackages {
		files, err := filepath.Glob(filepath.Join("../../..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has %d files (%v), want at least one", pkg, len(files), err)
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
					t.Errorf("%s: a goroutine is started: remove the package from plainPackages", positions.Position(n.Pos()))
				case *ast.SelectorExpr:
					if n.Sel.Name == "Go" {
						t.Errorf("%s: a goroutine is started: remove the package from plainPackages", positions.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

func TestCountsIn_NamesFlakyTests(t *testing.T) {
	t.Parallel()
	got := countsIn(`  ✓  2 e2e/b.spec.ts:9:1 › 39 the last (1.2s)

  1) e2e/a.spec.ts:3:1 › 39 the first ──────
    Error: 1 flaky

  2) e2e/c.spec.ts:4:1 › 40 no ──────

    Error: expect(locator).toBeVisible() failed

  1 failed
    e2e/c.spec.ts:4:1 › 40 no ─────────
  2 flaky
    e2e/a.spec.ts:3:1 › 39 the first ───────────
    e2e/b.spec.ts:5:1 › 40 the second ──────────
  86 passed (13.3m)
`)
	want := counts{passed: 86, failed: 1,
		failing: []failure{{"e2e/c.spec.ts:4:1 › 40 no", "\n    Error: expect(locator).toBeVisible() failed\n\n"}},
		flaky: []failure{{"e2e/a.spec.ts:3:1 › 39 the first", "    Error: 1 flaky\n\n"},
			{"e2e/b.spec.ts:5:1 › 40 the second", ""}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{}, failure{})); diff != "" {
		t.Errorf("counts of the output of Playwright (-want +got):\n%s", diff)
	}
}

func TestCountsIn_NamesFailedUnitTests(t *testing.T) {
	t.Parallel()
	got := countsIn(` ❯ |functions| src/a.test.ts (2 tests | 2 failed) 8ms
     × fails here 6ms

 Test Files  1 failed (1)
      Tests  2 failed | 880 passed (882)

⎯⎯⎯⎯⎯⎯⎯ Failed Tests 2 ⎯⎯⎯⎯⎯⎯⎯

 FAIL  |functions| src/a.test.ts > outer > fails here
AssertionError: expected 1 to be 2

- 2
+ 1

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/2]⎯

 FAIL  |components| src/b.test.tsx > fails there
Error: x
⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[2/2]⎯
`)
	want := counts{passed: 880, failed: 2, failing: []failure{
		{"|functions| src/a.test.ts > outer > fails here", "AssertionError: expected 1 to be 2\n\n- 2\n+ 1\n\n"},
		{"|components| src/b.test.tsx > fails there", "Error: x\n"},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{}, failure{})); diff != "" {
		t.Errorf("counts of the output of Vitest (-want +got):\n%s", diff)
	}
}

func TestSchedule_RunsTasksAfterTheirNeedsAndInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Each task appends a line to a file when it begins and when it ends.
	logged := func(name string, heavy bool, needs ...string) task {
		return task{name: name, heavy: heavy, needs: needs, argv: []string{"sh", "-c", "echo +" + name +
			" >>log; sleep 0.05; echo -" + name + " >>log"}}
	}
	broken := task{name: "broken", argv: []string{"false"}}
	r := &runner{root: dir, logs: dir, out: io.Discard}
	passed := r.run(context.Background(), []task{logged("tool", false), logged("tool2", false, "tool"), broken,
		logged("unneeded", false)}, []task{
		logged("first", true, "tool2"), logged("second", true, "tool2"), logged("third", true, "tool2"),
		logged("fourth", true, "tool2"),
		logged("small", false), logged("tiny", false),
		logged("lame", false, "broken"),
	})
	if passed {
		t.Error("the run passed, want a failure, because a preparation failed")
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	log := string(text)
	if n := strings.Count(log, "+"); n != 8 || strings.Contains(log, "unneeded") || strings.Contains(log, "lame") {
		t.Errorf("%d tasks ran, want 8, without the unneeded one and the one whose preparation failed:\n%s", n, log)
	}
	for _, order := range [][2]string{{"-tool\n", "+tool2"}, {"-tool2", "+first"}, {"-tool2", "+second"},
		{"-tool2", "+third"}, {"-tool2", "+fourth"}, {"-small", "+tiny"}} {
		if before, after := strings.Index(log, order[0]), strings.Index(log, order[1]); before < 0 || after < before {
			t.Errorf("%q is not before %q:\n%s", order[0], order[1], log)
		}
	}
	heavy := 0
	for line := range strings.Lines(log) {
		if name := strings.TrimSpace(line[1:]); name == "first" || name == "second" || name == "third" || name == "fourth" {
			heavy += map[byte]int{'+': 1, '-': -1}[line[0]]
		}
		if heavy > 2 {
			t.Fatalf("%d heavy suites ran at once, want at most 2:\n%s", heavy, log)
		}
	}
}

func TestGoPackages_AreInTheOrderOfTheirTime(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	pure, plain, servers, err := goPackages(root)
	if err != nil || len(plain) != len(plainPackages) {
		t.Fatalf("the plain packages are %v (%v), want all of %v", plain, err, plainPackages)
	}
	for i, name := range longPackages {
		if pure[i] != "./"+name {
			t.Errorf("package %d is %s, want %s", i, pure[i], name)
		}
	}
	for _, name := range serverPackages {
		if !slices.ContainsFunc(servers, func(p string) bool { return strings.HasPrefix(p+"/", "./"+name+"/") }) {
			t.Errorf("%s is missing: %v", name, servers)
		}
	}
	// Packages below server can be between the two.
	if temporal := slices.Index(servers, "./engine/temporal"); servers[0] != "./server" ||
		temporal > slices.Index(servers, "./store/postgres") {
		t.Errorf("server and engine/temporal are not the first: %v", servers)
	}
}

func TestCheckCoverage_FailsBelowTheFloorAndWithoutCoverage(t *testing.T) {
	t.Parallel()
	g := newGoTest(io.Discard)
	for _, line := range []string{"ok  \texample.com/dvt/plan\t2.1s\tcoverage: 96.6% of statements\n",
		"ok  \texample.com/dvt/run\t2.1s\n"} {
		if err := g.handle(event{Action: "output", Package: "p", Output: line}); err != nil {
			t.Fatal(err)
		}
	}
	for name, floor := range map[string]float64{"plan": 97, "run": 1, "missing": 1} {
		if err := g.checkCoverage(map[string]float64{name: floor}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the floor %v of %s: %v, want an error that names the package", floor, name, err)
		}
	}
	if err := g.checkCoverage(map[string]float64{"plan": 96}); err != nil {
		t.Errorf("a floor that the tests reach: %v", err)
	}
}

// A task that yields runs at a lower priority than the others.
func TestProcess_ATaskThatYieldsHasALowerPriority(t *testing.T) {
	r := &runner{root: t.TempDir()}
	priority := func(yields bool) int {
		out, err := r.process(t.Context(), task{yields: yields}, []string{"nice"}).Output()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if own, yielding := priority(false), priority(true); yielding <= own {
		t.Errorf("the niceness of a task that yields is %d, that of another is %d", yielding, own)
	}
}

// Tests, and the processes that they start, collect garbage less often than by the default. Other tasks do not.
func TestProcess_TestsCollectGarbageLessOften(t *testing.T) {
	t.Setenv("GOGC", "70")
	r := &runner{root: t.TempDir()}
	for tests, want := range map[bool]string{true: gcPercent, false: "70"} {
		out, err := r.process(t.Context(), task{tests: tests}, []string{"sh", "-c", "echo $GOGC"}).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("of a task with tests=%t, GOGC is %q (%v), want %q", tests, got, err, want)
		}
	}
}
