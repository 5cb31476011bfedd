package vulncheck

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."
	// advisories is the file of entries in the Go vulnerability database for modules that this module requires, one JSON
	// document per line. `make advisories` updates the file, which needs access to the database.
	advisories = root + "/tools/govulncheck/advisories.jsonl"
)

// advisory is the part of an entry that the index of a database repeats.
type advisory struct {
	ID       string `json:"id"`
	Modified string `json:"modified"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
	} `json:"affected"`
}

// finding is one finding of govulncheck. Its trace begins at the vulnerable function and ends in the function of this
// module that reaches it.
type finding struct {
	OSV   string `json:"osv"`
	Fixed string `json:"fixed_version"`
	Trace []struct {
		Module   string `json:"module"`
		Version  string `json:"version"`
		Package  string `json:"package"`
		Function string `json:"function"`
	} `json:"trace"`
}

// A dependency with a known vulnerability is allowed only while no code of dvt reaches it.
func TestGo_NoKnownVulnerabilityIsReachable(t *testing.T) {
	t.Parallel()
	db := database(t, advisories)
	if len(scan(t, db, root, "-scan", "package", "./...")) == 0 {
		return // no imported package is affected, so the slow search for a path to one is not needed
	}
	for _, f := range scan(t, db, root, "./...") {
		if last := f.Trace[0]; last.Function != "" {
			t.Errorf("%s: %s@%s: %s.%s is reachable; it is fixed in %s: go get %s@%s", f.OSV, last.Module, last.Version,
				last.Package, last.Function, f.Fixed, last.Module, f.Fixed)
		}
	}
}

// Without this test, a database in a wrong format would find nothing and the test above would always pass.
func TestGo_AnAffectedVersionIsFound(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "advisories.jsonl")
	write(t, file, `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z",`+
		`"published":"2026-01-01T00:00:00Z","summary":"a test","affected":[{"package":{"name":"github.com/spf13/cobra",`+
		`"ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"99.0.0"}]}],`+
		`"ecosystem_specific":{}}]}`+"\n")
	found := scan(t, database(t, file), root, "-scan", "package", "./...")
	if len(found) == 0 || found[0].OSV != "GO-2026-0001" || found[0].Fixed != "v99.0.0" {
		t.Errorf("found %+v, want GO-2026-0001, which v99.0.0 fixes", found)
	}
}

// database writes the advisories of a file as a directory in the format of https://go.dev/security/vuln/database and
// returns its address.
func database(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type entry struct {
		ID       string `json:"id"`
		Modified string `json:"modified"`
	}
	type module struct {
		Path  string  `json:"path"`
		Vulns []entry `json:"vulns"`
	}
	dir := t.TempDir()
	byModule, newest := map[string][]entry{}, advisory{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a advisory
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		write(t, filepath.Join(dir, "ID", a.ID+".json"), lines.Text())
		if a.ID > newest.ID {
			newest = a
		}
		for _, p := range a.Affected {
			if e := (entry{ID: a.ID, Modified: a.Modified}); !slices.Contains(byModule[p.Package.Name], e) {
				byModule[p.Package.Name] = append(byModule[p.Package.Name], e)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var modules []module
	for path, vulns := range byModule {
		modules = append(modules, module{Path: path, Vulns: vulns})
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	index, err := json.Marshal(modules)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "index", "modules.json"), string(index))
	write(t, filepath.Join(dir, "index", "db.json"), `{"modified":"`+newest.Modified+`"}`)
	t.Logf("the newest advisory is %s", newest.ID)
	return "file://" + dir
}

// scan runs govulncheck in a directory and returns its findings.
func scan(t *testing.T, db, dir string, args ...string) []finding {
	t.Helper()
	program, err := filepath.Abs(root + "/.tools/bin/govulncheck")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("govulncheck is missing: run tools/prepare govulncheck: %v", err)
	}
	c := exec.CommandContext(t.Context(), program, append([]string{"-db", db, "-format", "json"}, args...)...)
	c.Dir = dir
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("govulncheck %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	var found []finding
	for messages := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct {
			Finding *finding `json:"finding"`
		}
		if err := messages.Decode(&m); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatalf("the output of govulncheck: %v", err)
		}
		if m.Finding != nil {
			found = append(found, *m.Finding)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
