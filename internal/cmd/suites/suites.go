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

// serverPackages start real servers or link large databases: they run without the race detector, which would multiply
// their time; what they drive is raced in packages of its own. A path stands for itself and what is below it. They
// start in this order, the long ones first.
var serverPackages = []string{
	"server", "engine/temporal", "store/postgres", "store/sqlite", "store/storeadmin", "cmd", "store/storetest",
	"internal/testserver", "engine/remote",
	"sandbox", // its limits of memory hold for the shim too, which the race detector's hooks make too large
}

// plainPackages start no goroutine: the race detector would find nothing in them and multiply their time.
var plainPackages = []string{"run", "plan", "engine/interp", "store/admission"}

// longPackages are those of the others that take longest under the race detector; they start first.
var longPackages = []string{"control", "store/coalesce", "engine/executor", "live", "authz"}

// unraced are packages of others that are compiled without the race detector's hooks: C that was translated to Go,
// whose memory is outside the heap and so not looked at. The hooks of each of its reads multiplied the time of all that
// keeps a store; what calls it is raced.
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
		{name: "binary", what: "bin/dvt", needs: []string{"web"}, heavy: true, argv: []string{"make", "bin/dvt"}},
	}
}

// suites are in the order in which they start, the long ones first.
func suites(root string, race bool) ([]task, error) {
	pure, plain, servers, err := goPackages(root)
	if err != nil {
		return nil, err
	}
	goTest := func(args []string, packages []string) []string {
		// The suite vet vets them all.
		return slices.Concat([]string{"go", "test", "-json", "-count=1", "-timeout=40m", "-vet=off"}, args, packages)
	}
	// The tests of processes use the dbt and the binary that the project prepared.
	path := fmt.Sprintf("PATH=%s:$PATH", filepath.Join(root, ".tools", "dbt", "bin"))
	binary := "DVT_TEST_BINARY=" + filepath.Join(root, "bin", "dvt")

	pureArgs, pureEnv, pureWhat := []string{"-shuffle=on"}, []string(nil), "Go packages"
	if race {
		pureArgs, pureEnv, pureWhat = append(pureArgs, "-race"), []string{"CGO_ENABLED=1"},
			"Go packages under the race detector"
		for _, pkg := range unraced {
			pureArgs = append(pureArgs, "-gcflags="+pkg+"=-race=false")
		}
	}
	return []task{
		{
			name: "servers", what: "Go packages on real servers", heavy: true, goTest: true, tests: true,
			env:   []string{path, binary},
			needs: []string{"temporal", "postgres", "redis", "dbt", "binary"},
			// Their tests wait for servers more than they compute: twice as many run at once as there are cores.
			argv: goTest([]string{"-shuffle=on", fmt.Sprintf("-p=%d", runtime.NumCPU()), fmt.Sprintf("-parallel=%d",
				2*runtime.NumCPU())}, servers),
		},
		{
			name: "attacks", what: "attacks on real processes", heavy: true, goTest: true, tests: true, env: []string{binary},
			needs: []string{"temporal", "postgres", "redis", "binary"},
			// All its tests share one installation, and wait for it more than they compute.
			argv: goTest([]string{"-parallel=8"}, []string{"./internal/attacks"}),
		},
		{
			name: "go", what: pureWhat, heavy: true, goTest: true, tests: true, env: append(pureEnv, path),
			needs: []string{"postgres", "redis", "dbt"},
			argv:  goTest(pureArgs, pure),
		},
		{name: "plain", what: "Go packages without goroutines", goTest: true, argv: goTest([]string{"-shuffle=on", "-p=1"},
			plain)},
		{
			name: "e2e", what: "a browser on dvt dev", heavy: true, tests: true, dir: "web",
			env:   []string{path, binary, "PATH=$PATH:" + filepath.Join(root, ".tools", "bin")},
			needs: []string{"temporal", "dbt", "browser", "binary"},
			argv:  []string{"npm", "run", "--silent", "e2e"},
		},
		{name: "lint", what: "golangci-lint", needs: []string{"lint"}, argv: []string{".tools/bin/golangci-lint", "run"}},
		{name: "vet", what: "go vet", argv: []string{"go", "vet", "./..."}},
		{name: "archtest", what: "import table, contract ids, text", goTest: true, argv: goTest(nil,
			[]string{"./internal/archtest"})},
		{name: "generate-check", what: "generated code is current", needs: []string{"npm"},
			argv: []string{"go", "run", "./internal/cmd/generatecheck"}},
		{
			name: "workflowcheck", what: "workflow code is deterministic", needs: []string{"workflowcheck"},
			argv: []string{".tools/bin/workflowcheck", "-config", "tools/workflowcheck/config.yaml", "./engine/temporal/...",
				"./engine/interp/..."},
		},
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

// goPackages splits the module's packages into those of serverPackages, of plainPackages and the others;
// internal/archtest and internal/attacks are suites of their own.
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
		case pkg == "internal/archtest", pkg == "internal/attacks", below("web/node_modules"):
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
