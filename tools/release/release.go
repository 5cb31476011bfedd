package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// build makes all files of a release in a directory, which it replaces.
func (s *source) build(ctx context.Context, dir string) error {
	if _, err := s.notes(); err != nil {
		return err
	}
	if err := s.built(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "dvt-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	programs, err := s.compileAll(ctx, platforms(s.Platforms), work)
	if err != nil {
		return err
	}
	return s.assemble(ctx, dir, work, programs)
}

// assemble makes the files of a release of programs that were compiled before.
func (s *source) assemble(ctx context.Context, dir, work string, programs map[platform]string) error {
	ofImage := map[platform]string{}
	for _, p := range platforms(s.Image.Platforms) {
		if programs[p] != "" {
			ofImage[p] = programs[p]
		}
	}
	for p, program := range programs {
		if _, err := s.writeArchive(p, program, dir); err != nil {
			return err
		}
		if err := s.writeBill(program, filepath.Join(dir, s.billName(p))); err != nil {
			return err
		}
	}
	imageDir := filepath.Join(work, "image")
	digest, err := s.buildImage(imageDir, ofImage)
	if err != nil {
		return err
	}
	if err := s.archiveTree(imageDir, filepath.Join(dir, s.imageName())); err != nil {
		return err
	}
	notes, err := s.notes()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "release-notes.md"), []byte(notes), 0o644); err != nil {
		return err
	}
	if err := writeChecksums(dir); err != nil {
		return err
	}
	goVersion, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return err
	}
	files, err := filesOf(dir)
	if err != nil {
		return err
	}
	st, err := s.newStatement(dir, files, digest.Hex, strings.TrimSpace(string(goVersion)))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, statementFile), append(text, '\n'), 0o644)
}

func (s *source) billName(p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s.cdx.json", s.Name, s.version, p.os, p.arch)
}

func (s *source) imageName() string { return fmt.Sprintf("%s_%s_image.tar", s.Name, s.version) }

// fileNames returns the names of all files of a signed release.
func (s *source) fileNames() (all []string) {
	for _, p := range platforms(s.Platforms) {
		all = append(all, fmt.Sprintf("%s_%s_%s_%s.tar.gz", s.Name, s.version, p.os, p.arch), s.billName(p))
	}
	all = append(all, s.imageName(), "release-notes.md", "checksums.txt", statementFile, envelopeFile)
	slices.Sort(all)
	return all
}

// archiveTree writes a directory as a tar file, which tools for images call oci-archive.
func (s *source) archiveTree(dir, to string) error {
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			entries = append(entries, entry{name: filepath.ToSlash(name) + "/", mode: 0o755})
			return nil
		}
		entries = append(entries, entry{name: filepath.ToSlash(name), mode: 0o644, file: path})
		return nil
	})
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(s.writeTar(f, entries), f.Close())
}

func filesOf(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// writeChecksums writes checksums.txt in the format of sha256sum.
func writeChecksums(dir string) error {
	names, err := filesOf(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range names {
		sum, err := fileSum(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, "checksums.txt"), []byte(b.String()), 0o644)
}

// notes returns the section of the version in CHANGELOG.md. A version with a suffix, which is no release, takes the
// changes that are not released yet.
func (s *source) notes() (string, error) {
	f, err := os.Open(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	want := s.version
	if strings.Contains(want, "-") {
		want = "Unreleased"
	}
	heading := regexp.MustCompile(`^## \[` + regexp.QuoteMeta(want) + `\](.*)$`)
	var section []string
	found := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if m := heading.FindStringSubmatch(line); m != nil {
			if strings.Contains(m[1], "not released yet") {
				return "", fmt.Errorf("CHANGELOG.md says that %s is not released yet: write its date", want)
			}
			found = true
			continue
		}
		if found && (strings.HasPrefix(line, "## ") || strings.HasPrefix(line, "[")) {
			break
		}
		if found {
			section = append(section, line)
		}
	}
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section %s: add one, or give another -version", want)
	}
	return strings.TrimSpace(strings.Join(section, "\n")) + "\n", lines.Err()
}

// dryRun checks everything that a release needs but does not build it: the configuration, the changelog, that the
// program's packages exist on each platform, and that NOTICE has a licence of each module that a platform adds.
func (s *source) dryRun(ctx context.Context) error {
	wrong := []error{s.check()}
	if _, err := s.notes(); err != nil {
		wrong = append(wrong, err)
	}
	licences, err := s.licences()
	if err != nil {
		return err
	}
	for _, p := range platforms(s.Platforms) {
		modules, err := s.modules(ctx, p)
		if err != nil {
			wrong = append(wrong, err)
		}
		for _, m := range modules {
			if licences[m] == "" {
				wrong = append(wrong, fmt.Errorf("NOTICE has no licence of %s, which dvt carries on %s", m, p))
			}
		}
	}
	return errors.Join(wrong...)
}

// modules lists the modules that the program is built from on a platform.
func (s *source) modules(ctx context.Context, p platform) ([]string, error) {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-tags", strings.Join(s.Tags, ","), "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", s.Package)
	c.Dir = s.root
	c.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0")
	out, err := c.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("list the packages of %s on %s: %w", s.Package, p, err)
	}
	all := strings.Fields(string(out))
	slices.Sort(all)
	return slices.Compact(all), nil
}
