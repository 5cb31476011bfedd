package vulncheck

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The program that the image holds is scanned, and not only the source: it names each module and the toolchain that it
// was linked from.
func TestImage_TheProgramHasNoKnownVulnerability(t *testing.T) {
	t.Parallel()
	program := programOfImage(t)
	for _, f := range scanProgram(t, database(t, advisories), program) {
		where := f.Trace[0]
		t.Errorf("%s: the image has %s@%s %s; it is fixed in %s: go get %s@%s", f.OSV, where.Module, where.Version,
			where.Package, f.Fixed, where.Module, f.Fixed)
	}
}

// Without this test, a scan that reads nothing from the program would always pass.
func TestImage_AnAffectedModuleOfAProgramIsFound(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(root + "/bin/dvt")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pkg  string
		want int
	}{
		"a package that is linked":     {"github.com/spf13/cobra", 1},
		"a package that is not linked": {"github.com/spf13/cobra/doc", 0},
	} {
		file := filepath.Join(t.TempDir(), "advisories.jsonl")
		write(t, file, `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z",`+
			`"published":"2026-01-01T00:00:00Z","summary":"a test","affected":[{"package":{"name":"github.com/spf13/cobra",`+
			`"ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"99.0.0"}]}],`+
			`"ecosystem_specific":{"imports":[{"path":"`+c.pkg+`"}]}}]}`+"\n")
		if found := scanProgram(t, database(t, file), program); len(found) != c.want {
			t.Errorf("%s: found %+v, want %d findings", name, found, c.want)
		}
	}
}

// programOfImage builds the image of bin/dvt, unpacks it, and returns the path of its program.
func programOfImage(t *testing.T) string {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	image, bundle := filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "bundle")
	for _, args := range [][]string{
		{"image", "-root", abs, "-platform", "linux/" + runtime.GOARCH, "-program", filepath.Join(abs, "bin", "dvt"), image},
		{"bundle", image, bundle},
	} {
		args = append([]string{"run", "-C", filepath.Join(abs, "tools", "release"), "."}, args...)
		c := exec.CommandContext(t.Context(), "go", args...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(bundle, "rootfs", "usr", "bin", "dvt")
}

// scanProgram returns the findings of govulncheck in a program, without those of packages that are not linked in it.
// Releases have no table of symbols, so govulncheck itself cannot tell which packages of a module they have.
func scanProgram(t *testing.T, db, program string) (found []finding) {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatalf("the program is missing, make bin/dvt builds it: %v", err)
	}
	seen := map[string]bool{}
	for _, f := range scan(t, db, root, "-mode", "binary", program) {
		pkg := f.Trace[0].Package
		if pkg == "" || !bytes.Contains(content, []byte(prefixOfNames(pkg))) {
			continue
		}
		if key := f.OSV + pkg; !seen[key] {
			seen[key] = true
			found = append(found, f)
		}
	}
	return found
}

// prefixOfNames returns what the names of the functions of a package begin with in the table that stack traces need.
func prefixOfNames(pkg string) string {
	last := strings.LastIndex(pkg, "/") + 1
	return pkg[:last] + strings.ReplaceAll(pkg[last:], ".", "%2e") + "."
}
