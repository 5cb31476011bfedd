package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// configFile is the configuration of a release, relative to the root of the repository.
const configFile = "deploy/release.yaml"

// config is the content of deploy/release.yaml.
type config struct {
	Name      string   `yaml:"name"`
	Source    string   `yaml:"source"`   // address of the repository
	Licence   string   `yaml:"licence"`  // of the product, an SPDX identifier
	Package   string   `yaml:"package"`  // the program
	Requires  []string `yaml:"requires"` // files that exist before a build
	Tags      []string `yaml:"tags"`     // build tags
	Platforms []string `yaml:"platforms"`
	Files     []string `yaml:"files"` // files beside the program in each archive
	Image     image    `yaml:"image"`
	Worker    worker   `yaml:"worker"`
}

// worker describes the image of data workers, which adds dbt and the programs that it needs to the image of dvt.
type worker struct {
	Title       string            `yaml:"title"`
	Description string            `yaml:"description"`
	Python      string            `yaml:"python"`   // the program of the distribution, such as python3.11
	DBT         string            `yaml:"dbt"`      // virtual environment of that version of Python
	Packages    []string          `yaml:"packages"` // of Debian
	Env         map[string]string `yaml:"env"`
}

// image describes the images of the program.
type image struct {
	Title       string            `yaml:"title"`
	Description string            `yaml:"description"`
	Platforms   []string          `yaml:"platforms"`
	User        string            `yaml:"user"` // uid:gid
	Directory   string            `yaml:"directory"`
	Env         map[string]string `yaml:"env"`
	MaxMegabyte int64             `yaml:"maxMegabytes"` // of all compressed layers of one platform
}

// platform is an operating system and an architecture of Go.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// source is the checkout and the configuration that a release is built from.
type source struct {
	config
	root     string // of the repository
	version  string
	revision string // the commit; "" outside of a git repository
	time     time.Time
}

var versionForm = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// readSource reads the configuration, the commit and its time. SOURCE_DATE_EPOCH overrides the time of the commit, and
// is required outside of a git repository. An empty version is that of the commit's tag, or 0.0.0-COMMIT.
func readSource(root, version string) (source, error) {
	s := source{root: root, version: version}
	text, err := os.ReadFile(filepath.Join(root, configFile))
	if err != nil {
		return s, fmt.Errorf("read the configuration of releases: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&s.config); err != nil {
		return s, fmt.Errorf("%s: %w", configFile, err)
	}
	if s.revision, err = s.git("rev-parse", "HEAD"); err != nil {
		s.revision = ""
	}
	if s.time, err = s.sourceTime(); err != nil {
		return s, err
	}
	if s.version == "" {
		s.version = "0.0.0-unknown"
		if tag, err := s.git("describe", "--tags", "--exact-match", "--match", "v*"); err == nil {
			s.version = strings.TrimPrefix(tag, "v")
		} else if len(s.revision) > 12 {
			s.version = "0.0.0-" + s.revision[:12]
		}
	}
	return s, s.check()
}

func (s *source) git(args ...string) (string, error) {
	c := exec.Command("git", args...)
	c.Dir = s.root
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
}

func (s *source) sourceTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = s.git("log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, errors.New("the time of the commit is unknown: set SOURCE_DATE_EPOCH to seconds since 1970")
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q: want seconds since 1970", text)
	}
	return time.Unix(n, 0).UTC(), nil
}

// check returns everything that is wrong with the configuration, before anything is built.
func (s *source) check() error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(configFile+": "+format, args...)) }
	if !versionForm.MatchString(s.version) {
		wrong = append(wrong, fmt.Errorf("the version %q does not read as 1.2.3 or 1.2.3-suffix", s.version))
	}
	for field, value := range map[string]string{"name": s.Name, "source": s.Source, "licence": s.Licence,
		"package": s.Package, "image.title": s.Image.Title, "image.directory": s.Image.Directory} {
		if value == "" {
			say("%s is missing", field)
		}
	}
	if len(s.Platforms) == 0 {
		say("platforms is empty: name at least one, such as linux/amd64")
	}
	for _, p := range slices.Concat(s.Platforms, s.Image.Platforms) {
		if _, err := parsePlatform(p); err != nil {
			say("%v", err)
		}
	}
	for _, p := range s.Image.Platforms {
		if !strings.HasPrefix(p, "linux/") || !slices.Contains(s.Platforms, p) {
			say("image.platforms has %s: want a platform of linux that platforms has too", p)
		}
	}
	if user, _, _ := strings.Cut(s.Image.User, ":"); user == "" || user == "0" || user == "root" {
		say("image.user is %q: want a uid:gid that is not root", s.Image.User)
	}
	if s.Image.MaxMegabyte <= 0 {
		say("image.maxMegabytes is missing")
	}
	for _, f := range s.Files {
		if _, err := os.Stat(filepath.Join(s.root, f)); err != nil {
			say("files: %v", err)
		}
	}
	return errors.Join(wrong...)
}

// built returns an error when a file that the program carries was not built.
func (s *source) built() error {
	for _, f := range s.Requires {
		if _, err := os.Stat(filepath.Join(s.root, f)); err != nil {
			return fmt.Errorf("%s is missing: run `make web` first, because the program carries the UI", f)
		}
	}
	return nil
}

func parsePlatform(text string) (platform, error) {
	system, arch, ok := strings.Cut(text, "/")
	if !ok || system == "" || arch == "" {
		return platform{}, fmt.Errorf("%q is no platform such as linux/amd64", text)
	}
	return platform{system, arch}, nil
}

// platforms parses names that check has accepted.
func platforms(names []string) (all []platform) {
	for _, name := range names {
		if p, err := parsePlatform(name); err == nil {
			all = append(all, p)
		}
	}
	return all
}
