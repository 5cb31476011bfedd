package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// once is the body of a test that fails only at its first run in a directory.
const once = `
	if _, err := os.Stat("seen"); err != nil {
		os.WriteFile("seen", nil, 0o600)
		t.Fatal("only once")
	}`

// A suite passes when its failed tests pass at a repetition, and the report names them with their output. A test that
// fails again, and a failure that is certain, fail the suite. The repetition keeps the flags of the tests.
func TestRepeatFailed_RepeatsOnlyPossibleChance(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		outside bool // not in continuous integration
		passes  bool
	}{
		"a failure by chance": {body: "func TestA(t *testing.T) { t.Run(`sub`, func(t *testing.T) {" + once + "}) }",
			passes: true},
		"a test that always fails": {body: "func TestA(t *testing.T) { t.Error(`never`) }"},
		"one of two tests always fails": {
			body: "func TestA(t *testing.T) {" + once + "}\nfunc TestB(t *testing.T) { t.Error(`never`) }",
		},
		"a panic": {
			body: "func TestA(t *testing.T) {" + strings.Replace(once, "t.Fatal", "panic", 1) + "}",
		},
		"a failure outside of tests": {
			body: "func TestMain(m *testing.M) { m.Run(); os.Exit(3) }\nfunc TestA(*testing.T) {}",
		},
		"a package that does not build": {body: "func TestA(t *testing.T) { no }"},
		"not in continuous integration": {body: "func TestA(t *testing.T) {" + once + "}", outside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", map[bool]string{false: "true"}[c.outside])
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module example\n\ngo 1.24\n",
				"a/a_test.go": "package a\n\nimport (\n\t\"flag\"\n\t\"os\"\n\t\"testing\"\n)\n\n" +
					"var _ = os.Stat\nvar _ = flag.Int(\"times\", 1, \"\")\n\n" + c.body + "\n"} {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			r := &runner{root: dir, logs: dir, out: &out}
			suite := task{name: "go", goTest: true,
				argv: []string{"go", "test", "-json", "-count=1", "./a", "-times=2"}}
			if passed := r.run(context.Background(), nil, []task{suite}); passed != c.passes {
				t.Errorf("the suite passed: %t, want %t\n%s", passed, c.passes, &out)
			}
			if named := strings.Contains(out.String(), "flaky tests") && strings.Contains(out.String(),
				"example/a TestA/sub\n") && strings.Contains(out.String(), "only once"); named != c.passes {
				t.Errorf("the test is named as flaky: %t, want %t\n%s", named, c.passes, &out)
			}
		})
	}
}

// A suite of the browser repeats only its failed tests, after all other suites have ended, and the last lines of the
// report name what failed again.
func TestRepeatFailures_WaitForAllSuites(t *testing.T) {
	for name, c := range map[string]struct {
		again  string
		passes bool
	}{
		"passes when repeated": {again: "exit 0", passes: true},
		"fails again":          {again: "exit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", "true")
			dir := t.TempDir()
			first := `printf '\n  1) e2e/a.spec.ts:3:1 › one ──\n\n    Error: not seen\n\n  1 failed\n    e2e/a.spec.ts:3:1 › one ──\n'; exit 1`
			browser := task{name: "e2e", heavy: true, again: []string{"--last-failed"}, argv: []string{"sh", "-c",
				`echo "e2e $1" >>order; if [ "$1" = --last-failed ]; then ` + c.again + `; fi; ` + first, "sh"}}
			other := task{name: "other", heavy: true, argv: []string{"sh", "-c", "sleep 0.3; echo other >>order"}}
			var out bytes.Buffer
			r := &runner{root: dir, logs: dir, out: &out}
			if passed := r.run(context.Background(), nil, []task{browser, other}); passed != c.passes {
				t.Errorf("the suites passed: %t, want %t\n%s", passed, c.passes, &out)
			}
			order, err := os.ReadFile(filepath.Join(dir, "order"))
			if want := "e2e \nother\ne2e --last-failed\n"; err != nil || string(order) != want {
				t.Errorf("the order is %q (%v), want %q", order, err, want)
			}
			_, report, _ := strings.Cut(out.String(), "suite  ")
			listed := strings.Contains(report, "failed tests, each with its first lines:\n  e2e/a.spec.ts:3:1 › one\n"+
				"        Error: not seen\n")
			if listed == c.passes {
				t.Errorf("the end of the report names the failed test: %t, want %t\n%s", listed, !c.passes, &out)
			}
			if flaky := strings.Contains(out.String(), "flaky tests"); flaky != c.passes {
				t.Errorf("the report lists flaky tests: %t, want %t\n%s", flaky, c.passes, &out)
			}
		})
	}
}
