package archtest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/archtest"
)

func TestPackages_EachHasOneDoc(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.Docs) != 1 && !strings.Contains("/"+p.Dir+"/", "/internal/gen") {
			t.Errorf("%s has %d package comments %v, want one that says what it promises", p.Dir, len(p.Docs), p.Docs)
		}
	}
}

func TestGoMod_HasNoReplace(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	for _, name := range files {
		if filepath.Base(name) != "go.mod" {
			continue
		}
		text, _, err := archtest.ReadText(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^\s*replace\b`).MatchString(text) {
			t.Errorf("%s replaces a module: the build must use the published module", name)
		}
	}
}

// The UI's packages are installed from the lock without npm's own check of it (tools/prepare says why), so it is
// checked here.
func TestPackageLock_AgreesWithPackageJSON(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	type wanted struct{ Dependencies, DevDependencies map[string]string }
	var manifest wanted
	var lock struct {
		Packages map[string]struct {
			wanted
			Version string
		}
	}
	for name, into := range map[string]any{"web/package.json": &manifest, "web/package-lock.json": &lock} {
		text, _, err := archtest.ReadText(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(manifest, lock.Packages[""].wanted); diff != "" {
		t.Errorf("web/package-lock.json does not lock what web/package.json wants: run npm install in web (-want "+
			"+locked):\n%s", diff)
	}
	for _, group := range []map[string]string{manifest.Dependencies, manifest.DevDependencies} {
		for name, version := range group {
			if locked := lock.Packages["node_modules/"+name].Version; locked != version {
				t.Errorf("%s is wanted at %s exactly and locked at %q", name, version, locked)
			}
		}
	}
}

func TestContract_EveryCitedIDExists(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	contract, err := archtest.LoadContract(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !citing(name) {
			continue
		}
		text, ok, err := archtest.ReadText(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || strings.Contains(text, "Code generated") {
			continue
		}
		for _, id := range archtest.Citations(text) {
			if !contract.IDs[id] {
				t.Errorf("%s cites %s, which docs/contract does not define", name, id)
			}
		}
	}
}

// citing tells which files cite the contract. The tests of the finder contain words that only look like ids.
func citing(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".ts", ".tsx", ".md", ".sql", ".graphqls", ".css":
		return !strings.HasPrefix(name, "internal/archtest/") && !strings.HasPrefix(name, "web/src/api/gen/") &&
			!strings.Contains(name, "testdata/")
	}
	return false
}

func TestContract_AllChecksAreRead(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	contract, err := archtest.LoadContract(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"O1", "O14", "T01", "T184", "T230", "R001", "R587", "DD-1", "DD-33", "A01", "P16", "S16",
		"G26", "L07", "E-16", "C04",
		"Q12", "O07", "B06", "X06", "H06", "M05", "Z09", "W-1", "W-20"} {
		if !contract.IDs[id] {
			t.Errorf("%s is in the contract and was not found", id)
		}
	}
	for _, check := range contract.Checks {
		if strings.HasPrefix(check.ID, "T") || strings.HasPrefix(check.ID, "R") || check.Title == "" {
			t.Errorf("%+v is not a check with a title", check)
		}
	}
}

func TestCitations_FindsIDsAndNothingElse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"// contract: A03, E-11, W-1":                             {"A03", "E-11", "W-1"},
		"see T184, T215 and (O5); R142/R143":                      {"O5", "R142", "T184", "T215"},
		"E-08, W-20. DD-4: O01":                                   {"DD-4", "E-08", "O01", "W-20"},
		"p95 P95 23505 40P01 P0001 UTF16 S3 sha256 2026-01-02T03": nil,
		"M10 12h4 M12,8 L10.5 2z":                                 nil,
		"#A10 #E12345 0xA10 A10B -A10 $A10":                       nil,
	} {
		if diff := cmp.Diff(want, archtest.Citations(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestTests_ReadsTheContractLineAboveATest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go": "// It proves two.\n// contract: A03, E-08\nfunc TestAppend_Twice(t *testing.T) {\n\t// " +
			"contract: W-1\n\tt.Run(\"once more\", nil)\n}\n",
		"store/storetest/a.go": "var cases = []testCase{\n\t// contract: Q01\n\t{\"TheThirdWaits\", " +
			"third},\n\t{\"Other\", other},\n}\n",
		"web/src/a.test.ts": "// contract: R048\nit(\"calls the second attempt the first retry\", () => {})\n",
		"bare_test.go":      "// contract: A03\nvar x = 1\n",
		"empty_test.go":     "// contract: none\nfunc TestA(t *testing.T) {}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := archtest.Tests(root, []string{"a_test.go", "store/storetest/a.go", "web/src/a.test.ts"})
	if err != nil {
		t.Fatal(err)
	}
	want := []archtest.Test{
		{Name: "a_test.go TestAppend_Twice", IDs: []string{"A03", "E-08"}},
		{Name: "a_test.go once more", IDs: []string{"W-1"}},
		{Name: "store/storetest/a.go TheThirdWaits", IDs: []string{"Q01"}},
		{Name: "web/src/a.test.ts calls the second attempt the first retry", IDs: []string{"R048"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tests with ids (-want +got):\n%s", diff)
	}
	for _, name := range []string{"bare_test.go", "empty_test.go"} {
		if _, err := archtest.Tests(root, []string{name}); err == nil {
			t.Errorf("%s has a contract line that proves nothing, and no error says so", name)
		}
	}
}

// An id in a name says nothing to a reader of a report. It belongs into the contract line.
func TestTests_AreNamedInWords(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	name := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	id := regexp.MustCompile(`_(?:[TR]\d{2,3}|[APSGLCQBXHMZEW]\d{1,2}|O\d{1,2})(?:_|$)`)
	for _, file := range files {
		text, ok, err := archtest.ReadText(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || !strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			if id.MatchString(m[1]) {
				t.Errorf("%s: %s carries a contract id: name it in words, with a line `// contract: …` above it", file, m[1])
			}
		}
	}
}

// Paths and hosts of the machine that something was written on work nowhere else.
func TestText_NamesNoMachine(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	// The checkout and the home directory of the person who runs this, and homes elsewhere.
	places := []string{root + "/", home + "/", "/home/", "/Users/"}
	for _, name := range files {
		if strings.HasPrefix(name, "internal/archtest/") {
			continue
		}
		text, ok, err := archtest.ReadText(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		for _, place := range places {
			if strings.Contains(text, place) {
				t.Errorf("%s names a place of some machine: %s", name, place)
			}
		}
		if url := foreignRegistry(filepath.Base(name), text); url != "" {
			t.Errorf("%s names a registry that others may not reach: %s", name, url)
		}
	}
}

var (
	resolved   = regexp.MustCompile(`"resolved": "`)
	anyURL     = regexp.MustCompile(`https?://[^\s"']+`)
	pinsOrRC   = map[string]bool{"requirements.txt": true, ".npmrc": true, "pip.conf": true}
	goSettings = regexp.MustCompile(`(?m)\b(?:GOPROXY|GONOSUMDB|GOSUMDB|npm_config_registry|PIP_INDEX_URL)\s*[:?]?=`)
)

// foreignRegistry returns what would send an installer to a host of its own choice, or nothing.
func foreignRegistry(base, text string) string {
	if base == "package-lock.json" {
		return resolved.FindString(text) // .npmrc leaves the addresses out
	}
	if pinsOrRC[base] {
		return anyURL.FindString(text)
	}
	return goSettings.FindString(text)
}

func TestFiles_ListsThisFile(t *testing.T) {
	t.Parallel()
	root, files := repository(t)
	for _, name := range files {
		if name == "internal/archtest/archtest_test.go" {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Error("this file is not among the repository's files")
}
