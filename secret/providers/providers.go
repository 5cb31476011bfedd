// Package providers reads the file of providers of secrets, and opens them.
package providers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/file"
	"github.com/dvt-engine/dvt/secret/vault"
)

// Limits and defaults of the file.
const (
	maxFile        = 1 << 20 // bytes
	maxProviders   = 20
	defaultTimeout = 5 * time.Second
	maxTimeout     = 30 * time.Second
	defaultCache   = time.Minute
	maxCache       = 5 * time.Minute
	defaultPath    = "{tenant}/{environment}/{key}"

	dynamic            = "dynamic" // an engine that makes credentials for each reader
	defaultDynamicPath = "database/{tenant}/{environment}/creds/{key}"
)

// entry is one provider in the file.
type entry struct {
	Name      string
	Kind      string
	Path      string
	CacheTTL  *time.Duration `yaml:"cacheTTL"`
	Timeout   *time.Duration
	File      string // of kind file
	Address   string
	CAFile    string `yaml:"caFile"`
	Namespace string
	Mount     string
	Engine    string
	Region    string // of kind aws
	Project   string // of kind gcp
	Location  string // of kind gcp
	Audience  string // of kind azure
	Authority string // of kind azure
	Auth      struct {
		Method vault.Method
		Mount  string
		Role   string
		File   string
	}
}

var nameRule = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// DevFile returns the file of secrets of `dvt dev` in the directory data. It need not exist.
func DevFile(data string) string { return filepath.Join(data, "secrets.yaml") }

// Open reads the file at a path and returns a resolver of its providers. It connects to none of them. Without a path
// there are none, but with dev the provider "file", which reads DevFile. The error names everything that is wrong, and
// contains no value of a field that could be a secret.
func Open(path string, dev bool, data string) (*secret.Resolver, error) {
	switch {
	case path == "" && dev:
		return secret.NewResolver(secret.Source{Name: "file", Provider: file.New(DevFile(data)),
			Path: defaultPath, Timeout: defaultTimeout}), nil
	case path == "":
		return secret.NewResolver(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be opened: check that it exists and that this process may read it", path)
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(doc) > maxFile {
		return nil, fmt.Errorf("the file %s cannot be read, or has more than %d bytes", path, maxFile)
	}
	sources, err := parse(doc)
	if err != nil {
		return nil, fmt.Errorf("the file %s of providers of secrets is wrong:\n%w", path, err)
	}
	return secret.NewResolver(sources...), nil
}

// Files returns the file at a path, the files that it names, and those from which the clouds of its providers take the
// worker's identity. No step may read them. A file that cannot be read names none.
func Files(path string) []string {
	if path == "" {
		return nil
	}
	files := []string{path}
	doc, err := os.ReadFile(path)
	var content struct{ Providers []entry }
	if err != nil || yaml.Unmarshal(doc, &content) != nil {
		return files
	}
	for _, e := range content.Providers {
		for _, name := range []string{e.File, e.Auth.File} {
			if name != "" {
				files = append(files, name)
			}
		}
		// The libraries of the clouds read these variables themselves.
		for _, variable := range identityFiles[e.Kind] {
			if name, ok := os.LookupEnv(variable); ok && filepath.IsAbs(name) {
				files = append(files, name)
			}
		}
	}
	slices.Sort(files[1:])
	return slices.Compact(files)
}

func parse(doc []byte) ([]secret.Source, error) {
	var content struct{ Providers []entry }
	d := yaml.NewDecoder(bytes.NewReader(doc))
	d.KnownFields(true)
	if err := d.Decode(&content); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New("it must be YAML with one list, providers, of objects; " + withoutValues(err))
	}
	if len(content.Providers) > maxProviders {
		return nil, fmt.Errorf("providers: at most %d are allowed", maxProviders)
	}
	var sources []secret.Source
	var errs []error
	names := map[string]bool{}
	for i, e := range content.Providers {
		bad := func(field, format string, args ...any) {
			errs = append(errs, fmt.Errorf("providers[%d].%s: %s", i, field, fmt.Sprintf(format, args...)))
		}
		if !nameRule.MatchString(e.Name) {
			bad("name", "write up to 63 lower-case letters, digits and hyphens")
		} else if names[e.Name] {
			bad("name", "another provider has this name")
		}
		names[e.Name] = true
		sources = append(sources, e.source(bad))
	}
	return sources, errors.Join(errs...)
}

var unknownField = regexp.MustCompile(`line \d+: field \S+ not found`)

// withoutValues returns what a YAML error says about unknown fields. The rest may quote the file.
func withoutValues(err error) string {
	if fields := unknownField.FindAllString(err.Error(), 20); len(fields) > 0 {
		return strings.Join(fields, ", ")
	}
	return "check its syntax"
}

// source checks an entry and opens its provider.
func (e entry) source(bad func(field, format string, args ...any)) secret.Source {
	s := secret.Source{Name: e.Name, Path: e.Path, Timeout: defaultTimeout}
	if s.Path == "" {
		s.Path = defaultPath
		if e.Engine == dynamic {
			s.Path = defaultDynamicPath
		}
	}
	// A part such as {tenant}-{environment} would be the same text for two tenants.
	parts := strings.Split(s.Path, "/")
	for _, part := range []string{"{tenant}", "{environment}", "{key}"} {
		n := strings.Count(s.Path, part)
		if n > 1 || n == 0 && part != "{environment}" || n == 1 && !slices.Contains(parts, part) {
			bad("path", "write %s once, between slashes: each tenant has secrets of its own", part)
		}
	}
	if e.Timeout != nil {
		if s.Timeout = *e.Timeout; s.Timeout <= 0 || s.Timeout > maxTimeout {
			bad("timeout", "write a duration up to %s", maxTimeout)
		}
	}
	if e.CacheTTL != nil {
		if s.CacheTTL = *e.CacheTTL; s.CacheTTL < 0 || s.CacheTTL > maxCache {
			bad("cacheTTL", "write a duration up to %s, or 0s for none", maxCache)
		}
	}
	s.Provider = e.open(&s, bad)
	return s
}
