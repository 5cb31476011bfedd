package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// task is one command to run: a preparation, which other tasks need, or a suite.
type task struct {
	name  string
	what  string
	needs []string // names of preparations
	// heavy tasks use all cores.
	heavy bool
	// yields is set when nothing in the task waits for a time limit. It then takes only the time that others leave: a busy
	// machine disturbs tests that wait for servers.
	yields bool
	dir    string
	env    []string
	argv   []string
	// again are arguments behind argv that repeat the tests that failed, of a suite that is no goTest.
	again []string
	// goTest is set when the output is that of `go test -json`.
	goTest bool
	// floors are the percentages of statements that the tests of packages must cover, by package.
	floors map[string]float64
	// tests is set when the task starts servers, whose files may be in memory.
	tests bool
}

// serverPackages are packages whose tests start real servers or link large databases. They do not run under the race
// detector, which would multiply their time; the packages that they use run under it on their own. An entry also stands
// for all packages below it. They start in this order, the slowest first.
var serverPackages = []string{
	"server", "engine/temporal", "store/postgres", "store/sqlite", "storeadmin", "cmd", "store/storetest",
	"internal/testserver", "engine/remote",
	"sandbox", // its memory limits apply to the shim too, which the race detector makes too large
}

// plainPackages start no goroutine, so the race detector would only multiply their time.
var plainPackages = []string{"run", "store/admission"}

// coverageFloors are the percentages of statements that the tests of the packages must cover that decide what every run
// does. They are a suite of their own, because coverage makes the others slower and says less there. Raise a floor when
// the tests cover more.
var coverageFloors = map[string]float64{"engine/interp": 93, "plan": 95}

// longPackages are the slowest of the other packages. They start first.
var longPackages = []string{"control/reads", "control/runs", "control/bulk", "control/watch",
	"store/coalesce", "engine/executor", "live", "authz"}

// unraced are C libraries translated to Go. They are compiled without the race detector. Their memory is outside the
// heap, so the detector finds nothing there but multiplies the time of every test with a store. Their callers run under
// the detector.
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
		prepare("dbt-versions", "versions of dbt", false),
		prepare("npm", "the UI's packages", false),
		web,
		browser,
		prepare("lint", "golangci-lint", true),
		prepare("workflowcheck", "workflowcheck", false),
		prepare("govulncheck", "govulncheck", false),
		prepare("promcheck", "promcheck", false),
		prepare("webhooks", "verifiers of webhooks", false),
		prepare("openbao", "OpenBao", false),
		prepare("moto", "a server with the APIs of AWS", false),
		prepare("buckets", "servers of buckets", true),
		prepare("runc", "runc", false),
		{name: "binary", what: "bin/dvt", needs: []string{"web"}, heavy: true, argv: []string{"make", "bin/dvt"}},
	}
}

// suites returns the suites of `make test` in the order in which they start, the slowest first. Each test runs once.
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
			needs: []string{"temporal", "postgres", "redis", "dbt", "promcheck", "buckets", "binary"},
			// These tests wait for servers half of the time, so more of them run at once than there are cores. With three times
			// as many as this 40 processes waited for two cores, the suite took as long, and time limits were missed.
			argv: goTestOf([]string{"-shuffle=on", fmt.Sprintf("-p=%d", runtime.NumCPU()),
				fmt.Sprintf("-parallel=%d", 2*runtime.NumCPU())}, servers),
		},
		{
			name: "e2e", what: "a browser on dvt dev", heavy: true, tests: true, dir: "web",
			env:   []string{path, binary, "PATH=$PATH:" + filepath.Join(root, ".tools", "bin")},
			needs: []string{"temporal", "dbt", "browser", "binary"},
			argv:  []string{"npm", "run", "--silent", "e2e"},
			again: []string{"--", "--last-failed", "--workers=1", "--trace=on"},
		},
		{
			name: "go", what: "Go packages", heavy: true, goTest: true, tests: true, env: []string{path},
			// A package whose files are embedded cannot be built while they are written.
			needs: []string{"web", "postgres", "redis", "dbt", "promcheck", "webhooks", "openbao", "moto", "buckets"},
			argv:  goTestOf([]string{"-shuffle=on"}, slices.Concat(pure, plain)),
		},
		{name: "coverage", what: "Go packages with a floor of coverage", heavy: true, goTest: true, floors: coverageFloors,
			argv: goTestOf([]string{"-shuffle=on", "-cover"}, []string{"./engine/interp", "./plan"})},
		{
			name: "attacks", what: "attacks on real processes", heavy: true, goTest: true, tests: true, env: []string{binary},
			needs: []string{"temporal", "postgres", "redis", "binary"},
			// All tests share one installation and mostly wait for it.
			argv: goTestOf([]string{"-parallel=8"}, []string{"./internal/attacks"}),
		},
		{name: "lint", yields: true, what: "golangci-lint", needs: []string{"lint", "web"},
			argv: []string{".tools/bin/golangci-lint", "run"}},
		{name: "macos", yields: true, what: "dvt builds on macOS", needs: []string{"web"}, env: []string{"GOOS=darwin"},
			argv: []string{"go", "build", "-o", os.DevNull, "./cmd/dvt"}},
		{name: "archtest", what: "import table, contract ids, text", goTest: true,
			argv: goTestOf(nil, []string{"./internal/archtest"})},
		{name: "generate-check", yields: true, what: "generated code is current", needs: []string{"npm"},
			argv: []string{"go", "run", "./internal/cmd/generatecheck"}},
		{
			name: "workflowcheck", yields: true, what: "workflow code is deterministic", goTest: true,
			needs: []string{"workflowcheck"},
			argv:  goTestOf(nil, []string{"./internal/workflowcheck"}),
		},
		{name: "vuln", yields: true, what: "known vulnerabilities of dependencies", goTest: true,
			needs: []string{"govulncheck", "binary"}, argv: goTestOf(nil, []string{"./internal/vulncheck"})},
		{name: "release", what: "image, bill of materials, signature of a release", goTest: true, tests: true,
			dir: "tools/release", needs: []string{"binary"}, argv: goTestOf(nil, []string{"./..."})},
		{name: "chart", what: "the chart for Kubernetes in every pair of its choices", goTest: true, tests: true,
			dir: "tools/chart", needs: []string{"binary"}, argv: goTestOf(nil, []string{"./..."})},
		{name: "web-types", yields: true, what: "types of the UI", needs: []string{"npm"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "typecheck"}},
		{name: "web-lint", yields: true, what: "linter of the UI", needs: []string{"npm"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "lint"}},
		{name: "web-format", yields: true, what: "format of the UI", needs: []string{"npm"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "format"}},
		{
			name: "web-unit", what: "unit tests of the UI", needs: []string{"npm"}, dir: "web",
			env:  []string{"NO_COLOR=1"}, // colors hide the names of failed tests from countsIn
			argv: []string{"npm", "run", "--silent", "test"},
			// Vitest cannot repeat failed tests alone, and all take half a minute.
			again: []string{"--", "--no-file-parallelism"},
		},
		{name: "web-size", what: "size budget of the UI", needs: []string{"web"}, dir: "web",
			argv: []string{"npm", "run", "--silent", "size"}},
	}, nil
}

// longSuites returns the suites of `make test/long`. They repeat tests of `make test` under the race detector or with
// more random trials.
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
			needs: []string{"postgres", "redis", "dbt", "promcheck", "webhooks", "openbao", "buckets"},
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
			env:  []string{"TEST_LONG=1"},
			argv: goTestOf([]string{"-shuffle=on"}, []string{"./engine/interp", "./run", "./run/nodeset", "-rapid.checks=1000"}),
		},
		{
			name: "faults", what: "random faults for a minute", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary, "DVT_FAULT_SECONDS=60"},
			needs: []string{"temporal", "postgres", "redis", "binary"},
			argv:  goTestOf([]string{"-run=RandomFaults"}, []string{"./server"}),
		},
		{
			name: "sizes", what: "whole processes at sizes that make test reduces", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary, "TEST_LONG=1"},
			needs: []string{"temporal", "postgres", "redis", "dbt", "binary"},
			argv: goTestOf([]string{
				"-run=BadInput_Nothing|ReconnectingCosts|ShareABacklog|KillsLoseNothing|Dev_SampleRun|RetryOfNodes|ALongRun",
			}, []string{"./server", "./storeadmin"}),
		},
		{
			name: "traces", what: "traces under 30 kills of every process", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary},
			needs: []string{"temporal", "postgres", "redis", "dbt", "binary"},
			argv: goTestOf([]string{"-run=KillsOfEveryProcess"},
				[]string{"./server", "-trace-runs=90", "-trace-campaign-kills=30"}),
		},
		{
			name: "game-day", what: "faults that runbooks mend", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary, "TEST_LONG=1"},
			needs: []string{"temporal", "postgres", "redis", "dbt", "binary"},
			// Its three installations mostly wait for alerts, so they fit on any number of cores.
			argv: goTestOf([]string{"-run=GameDay", "-parallel=3"}, []string{"./server"}),
		},
		{
			name: "doctor", what: "40 classes of faults, and 1,000 healthy runs", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary, "TEST_LONG=1"},
			needs: []string{"temporal", "postgres", "redis", "dbt", "binary"},
			argv:  goTestOf([]string{"-run=Doctor_Names"}, []string{"./server"}),
		},
		{
			name: "dbt-versions", what: "nodes of each version of dbt", heavy: true, goTest: true, tests: true,
			env: []string{path, "TEST_LONG=1"}, needs: []string{"dbt", "dbt-versions", "postgres"},
			argv: goTestOf([]string{"-run=DBTVersions"}, []string{"./engine/executor"}),
		},
		{
			name: "images", what: "the sample in containers of the images", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary, "TEST_LONG=1"},
			needs: []string{"temporal", "postgres", "redis", "dbt", "binary", "runc"},
			argv:  goTestOf([]string{"-run=Images_"}, []string{"./server"}),
		},
		{
			name: "two-builds", what: "two checkouts give the same image", heavy: true, goTest: true,
			dir: "tools/release", env: []string{"TEST_LONG=1"}, needs: []string{"binary"},
			argv: goTestOf([]string{"-run=TwoCheckouts"}, []string{"./..."}),
		},
	}, nil
}

// goTestOf returns the arguments of one `go test` of packages. packages may end with flags of the tests: go passes
// every argument after an unknown flag to the tests, so they must come last. -vet is off, because the suite lint runs
// the analyzers of go vet. The tests are linked without debug information, which took a third of the time of linking.
func goTestOf(args, packages []string) []string {
	return slices.Concat([]string{"go", "test", "-json", "-count=1", "-timeout=40m", "-vet=off", "-ldflags=-s -w"}, args,
		packages)
}

// dbtPath returns the variable that puts the dbt under .tools on the PATH of tests.
func dbtPath(root string) string {
	return fmt.Sprintf("PATH=%s:$PATH", filepath.Join(root, ".tools", "dbt", "bin"))
}

// testBinary returns the variable that tells tests to use bin/dvt instead of building it.
func testBinary(root string) string { return "DVT_TEST_BINARY=" + filepath.Join(root, "bin", "dvt") }

// goPackages splits the packages of the module into serverPackages, plainPackages and pure, which contains the others.
// It leaves out those of coverageFloors, internal/archtest, internal/attacks, internal/vulncheck and
// internal/workflowcheck, which are suites of their own.
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
		// node_modules may contain Go code of other projects.
		case pkg == "internal/archtest", pkg == "internal/attacks", pkg == "internal/vulncheck",
			pkg == "internal/workflowcheck", coverageFloors[pkg] > 0, below("web/node_modules"):
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

// rank returns the index of a package in longPackages, or their number for other packages.
func rank(pkg string) int {
	if i := slices.Index(longPackages, strings.TrimPrefix(pkg, "./")); i >= 0 {
		return i
	}
	return len(longPackages)
}

// choose returns the suites that names select, in the order of all. Without names it returns all suites. The name "web"
// selects every suite "web-...".
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
			return nil, fmt.Errorf("there is no suite %q: use one of %s", n, strings.Join(known, " "))
		}
	}
	return chosen, nil
}

func matches(t task, name string) bool { return t.name == name || strings.HasPrefix(t.name, name+"-") }
