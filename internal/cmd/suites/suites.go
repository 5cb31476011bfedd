package main

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// task is one thing to run: a preparation, which others need, or a suite, which somebody asked for.
type task struct {
	name  string
	what  string
	needs []string // names of preparations
	// heavy tasks use all cores.
	heavy bool
	dir   string
	env   []string
	argv  []string
	// goTest says that the output is `go test -json`.
	goTest bool
	// tests says that it starts servers, whose files may be in memory.
	tests bool
}

// serverPackages start real servers or link large databases. The race detector would multiply their time, and the
// packages that they drive run under it by themselves. A path stands for itself and all below it. They start in this
// order, the long ones first.
var serverPackages = []string{
	"server", "engine/temporal", "store/postgres", "store/sqlite", "storeadmin", "cmd", "store/storetest",
	"internal/testserver", "engine/remote",
	"sandbox", // its limits of memory hold for the shim too, which the race detector's hooks make too large
}

// plainPackages start no goroutine, so the race detector would find nothing in them and multiply their time.
var plainPackages = []string{"run", "plan", "engine/interp", "store/admission"}

// longPackages take longest of the others, and start first.
var longPackages = []string{"control", "store/coalesce", "engine/executor", "live", "authz"}

// unraced are C libraries translated to Go, which are compiled without the hooks of the race detector. Their memory is
// outside the heap, so the detector finds nothing there, and hooks on each read multiply the time of every test with a
// store. Their callers run under the detector.
var unraced = []string{"modernc.org/sqlite/lib", "modernc.org/libc", "modernc.org/memory"}

func preparations() []task {
	prepare := func(name, what string, heavy bool) task {
		return task{name: name, what: what, heavy: heavy, argv: []string{"tools/prepare", name}}
	}
	web := prepare("web", "the UI", false)
	web.needs = []string{"npm"}
	browser := prepare("browser", "Chromium", false)
	browser.needs = []string{"npm"}
	return []task{
		prepare("temporal", "the Temporal CLI", true),
		prepare("postgres", "PostgreSQL", false),
		prepare("redis", "Redis", false),
		prepare("dbt", "dbt", false),
		prepare("npm", "the UI's packages", false),
		web,
		browser,
		prepare("lint", "golangci-lint", true),
		prepare("workflowcheck", "workflowcheck", false),
		prepare("govulncheck", "govulncheck", false),
		{name: "binary", what: "bin/dvt", needs: []string{"web"}, heavy: true, argv: []string{"make", "bin/dvt"}},
	}
}

// suites are what `make test` runs, in the order in which they start, the long ones first. Each test runs once.
func suites(root string) ([]task, error) {
	pure, plain, servers, err := goPackages(root)
	if err != nil {
		return nil, err
	}
	path, binary := dbtPath(root), testBinary(root)
	return []task{
		{
			name: "servers", what: "Go packages on real servers", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary},
			needs: []string{"temporal", "postgres", "redis", "dbt", "binary"},
			// Their tests wait for servers more than they compute: twice as many run at once as there are cores.
			argv: goTestOf([]string{"-shuffle=on", fmt.Sprintf("-p=%d", runtime.NumCPU()), fmt.Sprintf("-parallel=%d",
				2*runtime.NumCPU())}, servers),
		},
		{
			name: "e2e", what: "a browser on dvt dev", heavy: true, tests: true, dir: "web",
			env:   []string{path, binary, "PATH=$PATH:" + filepath.Join(root, ".tools", "bin")},
			needs: []string{"temporal", "dbt", "browser", "binary"},
			argv:  []string{"npm", "run", "--silent", "e2e"},
		},
		{
			name: "attacks", what: "attacks on real processes", heavy: true, goTest: true, tests: true, env: []string{binary},
			needs: []string{"temporal", "postgres", "redis", "binary"},
			// All its tests share one installation, and wait for it more than they compute.
			argv: goTestOf([]string{"-parallel=8"}, []string{"./internal/attacks"}),
		},
		{
			name: "go", what: "Go packages", heavy: true, goTest: true, tests: true, env: []string{path},
			needs: []string{"postgres", "redis", "dbt"},
			argv:  goTestOf([]string{"-shuffle=on"}, slices.Concat(pure, plain)),
		},
		{name: "lint", what: "golangci-lint", needs: []string{"lint"}, argv: []string{".tools/bin/golangci-lint", "run"}},
		{name: "vet", what: "go vet", argv: []string{"go", "vet", "./..."}},
		{name: "archtest", what: "import table, contract ids, text", goTest: true,
			argv: goTestOf(nil, []string{"./internal/archtest"})},
		{name: "generate-check", what: "generated code is current", needs: []string{"npm"},
			argv: []string{"go", "run", "./internal/cmd/generatecheck"}},
		{
			name: "workflowcheck", what: "workflow code is deterministic", needs: []string{"workflowcheck"},
			argv: []string{".tools/bin/workflowcheck", "-config", "tools/workflowcheck/config.yaml", "./engine/temporal/...",
				"./engine/interp/..."},
		},
		{name: "vuln", what: "known vulnerabilities of dependencies", goTest: true, needs: []string{"govulncheck", "npm"},
			argv: goTestOf(nil, []string{"./internal/vulncheck"})},
		{name: "web-types", what: "types of the UI", needs: []string{"npm"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "typecheck"}},
		{name: "web-lint", what: "linter of the UI", needs: []string{"npm"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "lint"}},
		{name: "web-format", what: "format of the UI", needs: []string{"npm"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "format"}},
		{name: "web-unit", what: "unit tests of the UI", needs: []string{"npm"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "test"}},
		{name: "web-size", what: "size budget of the UI", needs: []string{"web"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "size"}},
	}, nil
}

// longSuites are what `make test/long` runs: tests of `make test` again, under the race detector or with more chance.
func longSuites(root string) ([]task, error) {
	pure, _, _, err := goPackages(root)
	if err != nil {
		return nil, err
	}
	path, binary := dbtPath(root), testBinary(root)
	raced := []string{"-shuffle=on", "-race"}
	for _, pkg := range unraced {
		raced = append(raced, "-gcflags="+pkg+"=-race=false")
	}
	return []task{
		{
			name: "race", what: "Go packages under the race detector", heavy: true, goTest: true, tests: true,
			env:   []string{"CGO_ENABLED=1", path},
			needs: []string{"postgres", "redis", "dbt"},
			argv:  goTestOf(raced, pure),
		},
		{
			name: "models", what: "stores against their model, a minute each", heavy: true, goTest: true, tests: true,
			needs: []string{"postgres"},
			argv: goTestOf([]string{"-run=ModelCheck"},
				[]string{"./store/postgres", "./store/sqlite", "./store/coalesce", "-model.for=1m"}),
		},
		{
			name: "draws", what: "properties on many random draws", heavy: true, goTest: true, tests: true,
			argv: goTestOf([]string{"-shuffle=on"}, []string{"./engine/interp", "./run", "-rapid.checks=1000"}),
		},
		{
			name: "faults", what: "random faults for a minute", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary, "DVT_FAULT_SECONDS=60"},
			needs: []string{"temporal", "postgres", "redis", "binary"},
			argv:  goTestOf([]string{"-run=RandomFaults"}, []string{"./server"}),
		},
	}, nil
}

// goTestOf returns the arguments of one `go test` of packages. Flags of the tests themselves stand behind the packages,
// because go takes every word behind an unknown flag for the tests. The suite vet vets all packages.
func goTestOf(args, packages []string) []string {
	return slices.Concat([]string{"go", "test", "-json", "-count=1", "-timeout=40m", "-vet=off"}, args, packages)
}

// dbtPath puts the dbt that the project prepared on the PATH of tests, and testBinary names the dvt that it built.
func dbtPath(root string) string {
	return fmt.Sprintf("PATH=%s:$PATH", filepath.Join(root, ".tools", "dbt", "bin"))
}

func testBinary(root string) string { return "DVT_TEST_BINARY=" + filepath.Join(root, "bin", "dvt") }

// goPackages splits the module's packages into those of serverPackages, of plainPackages and the others;
// internal/archtest, internal/attacks and internal/vulncheck are suites of their own.
func goPackages(root string) (pure, plain, servers []string, err error) {
	list := exec.Command("go", "list", "-f", "{{.Dir}}", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("go list: %w", withOutput(err))
	}
	order := make([][]string, len(serverPackages))
	for dir := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(root, strings.TrimSpace(dir))
		if err != nil {
			return nil, nil, nil, err
		}
		pkg := filepath.ToSlash(rel)
		below := func(p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") }
		switch {
		// A folder named node_modules may hold Go code that is not ours.
		case pkg == "internal/archtest", pkg == "internal/attacks", pkg == "internal/vulncheck", below("web/node_modules"):
		case slices.ContainsFunc(serverPackages, below):
			i := slices.IndexFunc(serverPackages, below)
			order[i] = append(order[i], "./"+pkg)
		case slices.Contains(plainPackages, pkg):
			plain = append(plain, "./"+pkg)
		default:
			pure = append(pure, "./"+pkg)
		}
	}
	slices.SortStableFunc(pure, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return pure, plain, slices.Concat(order...), nil
}

// rank is a package's place among longPackages, or behind them.
func rank(pkg string) int {
	if i := slices.Index(longPackages, strings.TrimPrefix(pkg, "./")); i >= 0 {
		return i
	}
	return len(longPackages)
}

// choose returns the suites that the arguments name, all of them for none; "web" stands for every "web-...".
func choose(all []task, names []string) ([]task, error) {
	if len(names) == 0 {
		return all, nil
	}
	chosen := make([]task, 0, len(all))
	for _, t := range all {
		if slices.ContainsFunc(names, func(n string) bool { return matches(t, n) }) {
			chosen = append(chosen, t)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(all, func(t task) bool { return matches(t, n) }) {
			known := make([]string, len(all))
			for i, t := range all {
				known[i] = t.name
			}
			return nil, fmt.Errorf("there is no suite %q; there are: %s", n, strings.Join(known, " "))
		}
	}
	return chosen, nil
}

func matches(t task, name string) bool { return t.name == name || strings.HasPrefix(t.name, name+"-") }
