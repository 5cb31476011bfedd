package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const repository = "../.."

// amd64 is the platform of bin/dvt in continuous integration.
var amd64 = platform{"linux", "amd64"}

// newSource returns the source of a release 1.2.3 of this repository, one second after 2026 began.
func newSource(t *testing.T) source {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1767225601")
	s, err := readSource(repository, "1.2.3-test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallProgram is a file that stands for a program where its content does not matter.
func smallProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// product returns bin/dvt, which `make build` makes.
func product(t *testing.T) string {
	t.Helper()
	file := filepath.Join(repository, "bin", "dvt")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("run `make build` first: %v", err)
	}
	return file
}

// readImage returns the image of a platform in a layout.
func readImage(t *testing.T, dir string, p platform) v1.Image {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := outer.IndexManifest()
	if err != nil || len(m.Manifests) != 1 {
		t.Fatalf("the layout has %d entries (%v), want one index", len(m.Manifests), err)
	}
	index, err := outer.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Manifests {
		if d.Platform.OS == p.os && d.Platform.Architecture == p.arch {
			img, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return img
		}
	}
	t.Fatalf("the image has no platform %s", p)
	return nil
}

// treeSums returns the checksum of each file below a directory.
func treeSums(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		sums[name], err = fileSum(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func TestImage_TwoBuildsOfOneProgramAreEqual(t *testing.T) {
	s := newSource(t)
	var digests []v1.Hash
	var trees []map[string]string
	for range 2 {
		dir, program := filepath.Join(t.TempDir(), "image"), smallProgram(t)
		digest, err := s.buildImage(dir, map[platform]string{amd64: program, {"linux", "arm64"}: program})
		if err != nil {
			t.Fatal(err)
		}
		digests, trees = append(digests, digest), append(trees, treeSums(t, dir))
	}
	if digests[0] != digests[1] {
		t.Errorf("the digests are %s and %s, want the same", digests[0], digests[1])
	}
	if len(trees[0]) < 7 || len(trees[0]) != len(trees[1]) {
		t.Fatalf("the layouts have %d and %d files, want the same number", len(trees[0]), len(trees[1]))
	}
	for name, sum := range trees[0] {
		if trees[1][name] != sum {
			t.Errorf("%s differs between the two layouts", name)
		}
	}
}

func TestImage_OfTheProductRunsWithoutRightsAndIsSmall(t *testing.T) {
	s, dir := newSource(t), filepath.Join(t.TempDir(), "image")
	if _, err := s.buildImage(dir, map[platform]string{amd64: product(t)}); err != nil {
		t.Fatal(err)
	}
	img := readImage(t, dir, amd64)
	if err := validate.Image(img); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	size, err := layersSize(img)
	if err != nil || size > 45_000_000 || size < 1_000_000 {
		t.Errorf("the layers have %d bytes (%v), want at most 45 MB", size, err)
	}
	t.Logf("compressed: %d bytes", size)
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.Config.User != "65532:65532" || c.OS != "linux" || c.Architecture != "amd64" {
		t.Errorf("the image is of %q on %s/%s, want 65532:65532 on linux/amd64", c.Config.User, c.OS, c.Architecture)
	}
	if !c.Created.Equal(s.time) {
		t.Errorf("created at %s, want the time of the commit, %s", c.Created, s.time)
	}
	for _, name := range []string{"title", "description", "source", "licenses", "version", "revision", "created"} {
		if c.Config.Labels["org.opencontainers.image."+name] == "" {
			t.Errorf("the label %s is missing", name)
		}
	}
	checkFiles(t, &s, img)
}

// checkFiles checks each file of the image: its time, owner and mode, and the authorities of TLS.
func checkFiles(t *testing.T, s *source, img v1.Image) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the image has %d layers (%v), want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	seen := map[string]*tar.Header{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[h.Name] = h
		if !h.ModTime.Equal(s.time) {
			t.Errorf("%s has the time %s, want %s", h.Name, h.ModTime, s.time)
		}
		if h.Mode&0o6000 != 0 || h.Mode&0o002 != 0 && h.Name != "tmp/" {
			t.Errorf("%s has the mode %o: others may change it, or it changes the user", h.Name, h.Mode)
		}
		if h.Uid != 0 && h.Name != s.directory()+"/" {
			t.Errorf("%s belongs to %d: only the working directory may belong to the process", h.Name, h.Uid)
		}
		if h.Name == roots {
			text, err := io.ReadAll(r)
			if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(text) ||
				bytes.Count(text, []byte("BEGIN CERTIFICATE")) < 100 {
				t.Errorf("%s has %d bytes (%v), want more than 100 certificates", roots, len(text), err)
			}
		}
	}
	for _, name := range []string{"usr/bin/dvt", roots, zones, "tmp/", "var/lib/dvt/", "etc/passwd",
		"usr/share/doc/dvt/NOTICE", "usr/share/doc/dvt/LICENSE"} {
		if seen[name] == nil {
			t.Errorf("%s is missing in the image", name)
		}
	}
}

func TestImage_ThatIsTooLargeIsRefused(t *testing.T) {
	s := newSource(t)
	s.Image.MaxMegabyte = 0
	_, err := s.buildImage(filepath.Join(t.TempDir(), "image"), map[platform]string{amd64: smallProgram(t)})
	if err == nil || !strings.Contains(err.Error(), "more than the 0") {
		t.Errorf("an image above its limit gave %v, want an error with the limit", err)
	}
}

func TestConfig_SaysEverythingThatIsWrong(t *testing.T) {
	s := newSource(t)
	s.Platforms, s.Image.Platforms, s.Image.User, s.version = []string{"linux"}, []string{"darwin/arm64"}, "root", "v1"
	s.Files = append(s.Files, "missing.txt")
	err := s.check()
	for _, want := range []string{`"linux" is no platform`, "image.platforms has darwin/arm64", `image.user is "root"`,
		`the version "v1"`, "missing.txt"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}

// Two checkouts in two directories give the same image, because nothing of a directory gets into the program. With
// TEST_LONG the program is the product, else one of the size of a test.
func TestImage_TwoCheckoutsGiveTheSameDigest(t *testing.T) {
	s := newSource(t)
	files := []string{"go.mod", "main.go", "LICENSE", "NOTICE"}
	from := filepath.Join("testdata", "program")
	if os.Getenv("TEST_LONG") != "" {
		out, err := exec.Command("git", "-C", repository, "ls-files").Output()
		if err != nil {
			t.Fatal(err)
		}
		from, files = repository, strings.Split(strings.TrimSpace(string(out)), "\n")
	} else {
		s.Package = "."
	}
	var digests []v1.Hash
	for range 2 {
		s.root = filepath.Join(t.TempDir(), "checkout")
		for _, f := range files {
			if strings.HasPrefix(f, "web/dist/") {
				continue
			}
			copyFile(t, filepath.Join(from, f), filepath.Join(s.root, f))
		}
		if from == repository {
			must(t, os.CopyFS(filepath.Join(s.root, "web", "dist"), os.DirFS(filepath.Join(repository, "web", "dist"))))
		}
		program := filepath.Join(t.TempDir(), "dvt")
		must(t, s.compile(context.Background(), amd64, program))
		digest, err := s.buildImage(filepath.Join(t.TempDir(), "image"), map[platform]string{amd64: program})
		must(t, err)
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("two checkouts gave %s and %s, want the same", digests[0], digests[1])
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	content, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return // deleted, but not committed yet
	}
	must(t, err)
	must(t, os.WriteFile(to, content, 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
