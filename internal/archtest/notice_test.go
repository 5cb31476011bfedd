package archtest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// knownLicences are those of dependencies that dvt may carry or run. GPL-3.0 stands for a program that is run.
var knownLicences = regexp.MustCompile(
	`^(?:MIT|ISC|BSD-2-Clause|BSD-3-Clause|Apache-2\.0|MPL-2\.0|GPL-3\.0 \(.+\)|\(Valkey\)|,| |and)+$`)

func TestDependencies_EachNamesItsLicence(t *testing.T) {
	t.Parallel()
	rows := 0
	for line := range strings.SplitSeq(text(t, "docs/dependencies.md"), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		rows++
		if licence := cells[len(cells)-1]; len(cells) != 4 || !knownLicences.MatchString(licence) {
			t.Errorf("docs/dependencies.md: %s has the licence %q in %d cells: want 4 cells and a licence that dvt accepts",
				cells[0], licence, len(cells))
		}
	}
	if rows < 40 {
		t.Errorf("docs/dependencies.md has %d rows: the table was not read", rows)
	}
}

// Licences ask that what is distributed names its parts.
func TestNotice_NamesWhatTheBinaryCarries(t *testing.T) {
	t.Parallel()
	root, _ := repository(t)
	const module = "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"
	var want []string
	for _, system := range []string{"linux", "darwin"} { // those of a release
		list := exec.Command("go", "list", "-deps", "-f", module, "./cmd/dvt")
		list.Dir, list.Env = root, append(os.Environ(), "GOOS="+system)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("list the modules of cmd/dvt on %s: %v", system, err)
		}
		want = append(want, strings.Fields(string(out))...)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal([]byte(text(t, "web/package.json")), &manifest); err != nil {
		t.Fatal(err)
	}
	for name := range manifest.Dependencies {
		want = append(want, name)
	}
	slices.Sort(want)
	_, listed, _ := strings.Cut(text(t, "NOTICE"), "\nGo modules (")
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^([\w@./-]+)\n  \S`).FindAllStringSubmatch(listed, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("modules and packages that the binary carries, and those of NOTICE (-carried +named):\n%s", diff)
	}
}

func TestLicence_IsApache2InFull(t *testing.T) {
	t.Parallel()
	licence := text(t, "LICENSE")
	for _, part := range []string{
		"Apache License", "Version 2.0, January 2004", "3. Grant of Patent License", "END OF TERMS AND CONDITIONS",
	} {
		if !strings.Contains(licence, part) {
			t.Errorf("LICENSE lacks %q: it is to hold the whole Apache License 2.0", part)
		}
	}
}
