package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

// Continuous integration runs this dry run of the configuration for every commit.
func TestRelease_TheConfigurationCanBeBuilt(t *testing.T) {
	s := newSource(t)
	if err := s.dryRun(context.Background()); err != nil {
		t.Error(err)
	}
	want := []string{"checksums.txt", "dvt_1.2.3-test_darwin_amd64.cdx.json", "dvt_1.2.3-test_darwin_amd64.tar.gz",
		"dvt_1.2.3-test_darwin_arm64.cdx.json", "dvt_1.2.3-test_darwin_arm64.tar.gz", "dvt_1.2.3-test_image.tar",
		"dvt_1.2.3-test_linux_amd64.cdx.json", "dvt_1.2.3-test_linux_amd64.tar.gz", "dvt_1.2.3-test_linux_arm64.cdx.json",
		"dvt_1.2.3-test_linux_arm64.tar.gz", envelopeFile, statementFile, "release-notes.md"}
	if diff := cmp.Diff(want, s.fileNames()); diff != "" {
		t.Errorf("the files of a release, want (-) and got (+):\n%s", diff)
	}
}

func TestRelease_AVersionNeedsASectionOfTheChangelog(t *testing.T) {
	s := newSource(t)
	s.root = t.TempDir()
	page := "# Changelog\n\n## [Unreleased]\n\n### Added\n\n* soon\n\n## [1.1.0] - 2026-01-31\n\n### Fixed\n\n* one\n\n" +
		"## [1.0.0] - not released yet\n\n* nothing\n\n[1.1.0]: https://example.com\n"
	must(t, os.WriteFile(filepath.Join(s.root, "CHANGELOG.md"), []byte(page), 0o600))
	for version, want := range map[string]string{"1.1.0": "### Fixed\n\n* one\n", "1.2.0-rc1": "### Added\n\n* soon\n"} {
		s.version = version
		if notes, err := s.notes(); err != nil || notes != want {
			t.Errorf("the notes of %s are %q (%v), want %q", version, notes, err, want)
		}
	}
	for version, want := range map[string]string{"1.0.0": "not released yet", "2.0.0": "has no section 2.0.0"} {
		s.version = version
		if _, err := s.notes(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the notes of %s gave %v, want %q", version, err, want)
		}
	}
}

// The bill of materials has exactly the modules that `go version -m` prints of the program, each with its checksum and
// a licence, and the packages of the UI.
func TestBill_HasWhatTheProgramCarries(t *testing.T) {
	s, program := newSource(t), product(t)
	bill, err := s.bill(program)
	must(t, err)
	out, err := exec.Command("go", "version", "-m", program).Output()
	must(t, err)
	want := map[string]string{}
	lines := regexp.MustCompile(`(?m)^\t(dep|=>)\t(\S+)\t(\S+)(?:\t\S+)?$`).FindAllStringSubmatch(string(out), -1)
	for i, m := range lines {
		if i+1 < len(lines) && lines[i+1][1] == "=>" {
			continue
		}
		want[m[2]] = m[3]
	}
	if len(want) < 100 {
		t.Fatalf("go version -m names %d modules: its output was not read", len(want))
	}
	got, ui := map[string]string{}, map[string]string{}
	for _, c := range *bill.Components {
		if c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s has no licence", c.Name)
		}
		switch {
		case strings.HasPrefix(c.PackageURL, "pkg:npm/"):
			ui[c.Name] = c.Version
		case c.Name != "std":
			got[c.Name] = c.Version
			if c.Hashes == nil {
				t.Errorf("%s has no checksum", c.Name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules, of go version -m (-) and of the bill (+):\n%s", diff)
	}
	var manifest struct{ Dependencies map[string]string }
	text, err := os.ReadFile(filepath.Join(repository, "web", "package.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &manifest))
	for name := range maps.Keys(manifest.Dependencies) {
		if ui[name] == "" {
			t.Errorf("the bill has no %s, which the UI depends on", name)
		}
	}
	if ui["vite"] != "" {
		t.Error("the bill has vite, which only builds the UI")
	}
	if std := (*bill.Components)[slices.IndexFunc(*bill.Components, func(c cdx.Component) bool {
		return c.Name == "std"
	})]; std.Version == "" {
		t.Error("the bill has no version of the standard library")
	}
}

// newKey writes a new key as PEM files and returns their paths.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	dir := t.TempDir()
	private, public = filepath.Join(dir, "key.pem"), filepath.Join(dir, "pub.pem")
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	der, err = x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	must(t, os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return private, public
}

// signedRelease makes a signed release of a small program for one platform.
func signedRelease(t *testing.T) (dir, public string) {
	t.Helper()
	s := newSource(t)
	s.Platforms, s.Image.Platforms = []string{"linux/amd64"}, []string{"linux/amd64"}
	dir = filepath.Join(t.TempDir(), "dist")
	must(t, os.Mkdir(dir, 0o700))
	program, small := filepath.Join(t.TempDir(), "program"), s
	small.root, small.Package = filepath.Join("testdata", "program"), "."
	must(t, small.compile(context.Background(), amd64, program))
	must(t, s.assemble(context.Background(), dir, t.TempDir(), map[platform]string{amd64: program}))
	private, public := newKey(t)
	must(t, sign(context.Background(), dir, private))
	names, err := filesOf(dir)
	must(t, err)
	if diff := cmp.Diff(s.fileNames(), names); diff != "" {
		t.Errorf("files of the release, want (-) and got (+):\n%s", diff)
	}
	return dir, public
}

func TestRelease_IsVerifiedOffline(t *testing.T) {
	dir, public := signedRelease(t)
	st, err := verify(context.Background(), dir, public)
	must(t, err)
	if got := st.Predicate.BuildDefinition.ExternalParameters["version"]; got != "1.2.3-test" {
		t.Errorf("the statement is of version %s, want 1.2.3-test", got)
	}
	if out, err := verifyAsDocumented(t, dir, public); err != nil {
		t.Errorf("the commands of docs/install.md refuse the release: %v\n%s", err, out)
	}
	if out, err := sha256sum(dir); err != nil {
		t.Errorf("sha256sum --check: %v\n%s", err, out)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	archive := file("dvt_1.2.3-test_linux_amd64.tar.gz")
	original, err := os.ReadFile(archive)
	must(t, err)
	_, other := newKey(t)
	for name, c := range map[string]struct {
		change func()
		key    string
		want   string
	}{
		"another key": {change: func() {}, key: other, want: "envelopes"},
		"a changed file": {change: func() { must(t, os.WriteFile(archive, append(slices.Clone(original), 'x'), 0o600)) },
			key: public, want: "but"},
		"another file": {change: func() { must(t, os.WriteFile(file("extra.tar.gz"), nil, 0o600)) }, key: public,
			want: "extra.tar.gz is not part of the release"},
		"another image": {change: func() { changeStatement(t, file(envelopeFile)) }, key: public, want: "envelopes"},
		"another copy of the statement": {change: func() { must(t, os.WriteFile(file(statementFile), []byte("{}"), 0o600)) },
			key: public, want: "provenance.json differs"},
	} {
		t.Run(name, func(t *testing.T) {
			envelope, err := os.ReadFile(file(envelopeFile))
			must(t, err)
			copied, err := os.ReadFile(file(statementFile))
			must(t, err)
			c.change()
			if _, err := verify(context.Background(), dir, c.key); err == nil {
				t.Errorf("verify accepted %s", name)
			} else if c.want != "envelopes" && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
			must(t, os.WriteFile(archive, original, 0o600))
			must(t, os.WriteFile(file(envelopeFile), envelope, 0o600))
			must(t, os.WriteFile(file(statementFile), copied, 0o600))
			must(t, os.RemoveAll(file("extra.tar.gz")))
		})
	}
	if _, err := verify(context.Background(), dir, public); err != nil {
		t.Errorf("the restored release is not verified: %v", err)
	}
}

// changeStatement changes the signed content and keeps the signature.
func changeStatement(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	var e map[string]any
	must(t, json.Unmarshal(text, &e))
	payload, err := base64.StdEncoding.DecodeString(e["payload"].(string))
	must(t, err)
	e["payload"] = base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(payload), "1.2.3", "1.2.4", 1)))
	text, err = json.Marshal(e)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
}

// A person without the repository verifies by the commands of docs/install.md. An attacker who replaces an archive also
// replaces its line in checksums.txt, so only the signed digests may count.
func TestRelease_TheDocumentedCommandsRefuseAForgedRelease(t *testing.T) {
	original, public := signedRelease(t)
	for name, forge := range map[string]func(file func(string) string){
		"an archive and its line of checksums.txt": func(file func(string) string) {
			archive := "dvt_1.2.3-test_linux_amd64.tar.gz"
			must(t, os.WriteFile(file(archive), []byte("forged"), 0o600))
			sum, err := fileSum(file(archive))
			must(t, err)
			must(t, os.WriteFile(file("checksums.txt"), []byte(sum+"  "+archive+"\n"), 0o600))
		},
		"the statement": func(file func(string) string) { changeStatement(t, file(envelopeFile)) },
		"no signature":  func(file func(string) string) { must(t, os.Remove(file(envelopeFile))) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(original)))
			forge(func(name string) string { return filepath.Join(dir, name) })
			if out, err := verifyAsDocumented(t, dir, public); err == nil {
				t.Errorf("the commands of docs/install.md accept a release with a forged part:\n%s", out)
			}
		})
	}
}

// verifyAsDocumented runs the commands of docs/install.md for people without the repository, in a copy of the release.
func verifyAsDocumented(t *testing.T, dir, public string) (string, error) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs", "install.md"))
	must(t, err)
	_, rest, ok := strings.Cut(string(page), "Without the repository, openssl and python3 verify the same:\n\n```sh\n")
	commands, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("docs/install.md has no commands that verify a release without the repository")
	}
	work := t.TempDir()
	must(t, os.CopyFS(work, os.DirFS(dir)))
	key, err := os.ReadFile(public)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(work, "release.pub"), key, 0o600))
	c := exec.Command("sh", "-ec", commands)
	c.Dir = work
	out, err := c.CombinedOutput()
	return string(out), err
}

func sha256sum(dir string) (string, error) {
	c := exec.Command("sha256sum", "--check", "--quiet", "checksums.txt")
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}
