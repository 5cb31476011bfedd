package archtest_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/internal/archtest"
)

var (
	tableName   = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	required    = regexp.MustCompile(`(?m)^(?:require)?\s+([a-z][\w.-]*\.[a-z]+/\S+) v\S+(.*)$`)
	toolLine    = regexp.MustCompile(`(?m)^(?:tool)?\s+([a-z][\w.-]*\.[a-z]+/\S+)$`)
	pinnedFirst = regexp.MustCompile(`(?m)^([A-Za-z][\w.-]*)==`)
)

// Each direct dependency is explained in docs/dependencies.md, and nothing else is.
func TestDependencies_EachHasItsLine(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	read := func(name string) string {
		text, _, err := archtest.ReadText(root, name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	direct := map[string]string{} // name to where it is wanted
	for _, name := range files {
		switch {
		case filepath.Base(name) == "go.mod":
			for _, module := range directModules(read(name), nil) {
				direct[module] = name
			}
		case strings.HasPrefix(name, "tools/") && filepath.Ext(name) == ".txt":
			wanted, _, _ := strings.Cut(read(name), "\n\n") // what follows is pinned for their sake
			for _, m := range pinnedFirst.FindAllStringSubmatch(wanted, -1) {
				direct[m[1]] = name
			}
		case filepath.Base(name) == "package.json" && strings.HasPrefix(name, "tools/"):
			var tool struct{ Dependencies map[string]string }
			if err := json.Unmarshal([]byte(read(name)), &tool); err != nil {
				t.Fatal(err)
			}
			for module := range tool.Dependencies {
				direct[module] = name
			}
		}
	}
	var imported []string
	for _, p := range packages(t) {
		imported = append(imported, p.External()...)
	}
	for _, module := range directModules(read("go.mod"), imported) {
		direct[module] = "go.mod"
	}
	var manifest struct{ Dependencies, DevDependencies map[string]string }
	if err := json.Unmarshal([]byte(read("web/package.json")), &manifest); err != nil {
		t.Fatal(err)
	}
	for _, group := range []map[string]string{manifest.Dependencies, manifest.DevDependencies} {
		for name := range group {
			direct[name] = "web/package.json"
		}
	}
	explained := map[string]bool{}
	for _, m := range tableName.FindAllStringSubmatch(read("docs/dependencies.md"), -1) {
		if explained[m[1]] {
			t.Errorf("docs/dependencies.md explains %s twice", m[1])
		}
		explained[m[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(direct)) {
		if !explained[name] {
			t.Errorf("%s wants %s, which has no line in docs/dependencies.md: say why, what else there was, and its licence",
				direct[name], name)
		}
	}
	gomod := read("go.mod")
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		// A module that only tests import counts as direct once go.mod says so.
		if direct[name] == "" && !strings.Contains(gomod, "\t"+name+" v") {
			t.Errorf("docs/dependencies.md explains %s, which nothing wants", name)
		}
	}
}

// directModules are the modules that a go.mod requires directly, those of its
// tools, and those of the given imports.
func directModules(gomod string, imports []string) []string {
	var all, direct []string
	for _, m := range required.FindAllStringSubmatch(gomod, -1) {
		all = append(all, m[1])
		if !strings.Contains(m[2], "// indirect") {
			direct = append(direct, m[1])
		}
	}
	for _, m := range toolLine.FindAllStringSubmatch(gomod, -1) {
		imports = append(imports, m[1])
	}
	for _, path := range imports {
		module := ""
		for _, m := range all {
			if strings.HasPrefix(path+"/", m+"/") && len(m) > len(module) {
				module = m
			}
		}
		if module != "" {
			direct = append(direct, module)
		}
	}
	slices.Sort(direct)
	return slices.Compact(direct)
}

func TestDirectModules_ReadsRequireAndTool(t *testing.T) {
	t.Parallel()
	got := directModules(
		"module github.com/dvt-engine/dvt\n\ngo 1.26.0\n\nrequire example.com/one v1.0.0\n\nrequire "+
			"(\n\texample.com/two/v2 v2.0.0\n"+
			"\texample.com/three v0.1.0 // indirect\n\texample.com/tool v1.0.0 // indirect\n\texample.com/used v1.0.0 // "+
			"indirect\n)\n\ntool example.com/tool/cmd/it\n",
		[]string{"example.com/used/sub"})
	want := []string{"example.com/one", "example.com/tool", "example.com/two/v2", "example.com/used"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
