// Package file reads secrets from a file that only its owner can read. It is for `dvt dev` and tests.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
)

const maxBytes = 1 << 20

// Provider reads a YAML file of paths. A path has a text, which is the field plan.DefaultSecretField, or an object of
// fields. It reads the file each time, so that a change counts at once.
type Provider struct{ path string }

// New returns a provider that reads the file at a path.
func New(path string) *Provider { return &Provider{path} }

// Read implements secret.Provider. A file has no versions but the newest.
func (p *Provider) Read(_ context.Context, path, version string) (secret.Answer, error) {
	doc, err := p.open()
	if err != nil {
		return secret.Answer{}, err
	}
	node, found := doc[path]
	if !found || version != "" {
		return secret.Answer{}, secret.ErrNotFound
	}
	fields := map[string]string{}
	var text string
	if node.Kind == yaml.ScalarNode && node.Decode(&text) == nil {
		fields[plan.DefaultSecretField] = text
	} else if node.Decode(&fields) != nil {
		return secret.Answer{}, errors.New("an entry of the file is neither a text nor an object of texts")
	}
	out := secret.Answer{Fields: map[string]secret.Value{}}
	for name, text := range fields {
		out.Fields[name] = secret.NewValue(text)
	}
	return out, nil
}

// Check implements secret.Provider.
func (p *Provider) Check(context.Context) error {
	_, err := p.open()
	return err
}

// open reads the file. An error of the decoder could quote a value, so it is not passed on.
func (p *Provider) open() (map[string]yaml.Node, error) {
	f, err := os.Open(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the file %s does not exist", p.path)
	}
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be opened", p.path)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", p.path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others can read the file %s: run chmod 600 %s", p.path, p.path)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	doc := map[string]yaml.Node{}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the file %s cannot be read", p.path)
	case len(body) > maxBytes:
		return nil, fmt.Errorf("the file %s has more than %d bytes", p.path, maxBytes)
	case yaml.Unmarshal(body, &doc) != nil:
		return nil, fmt.Errorf("the file %s is not a YAML object of paths", p.path)
	}
	return doc, nil
}
