package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
)

// runParams are the flags that give the parameters of a new run.
type runParams struct {
	file string
	each []string // NAME=VALUE
}

// flags adds the flags to c. more is added to the help of --params.
func (p *runParams) flags(c *cobra.Command, more string) {
	c.Flags().StringVar(&p.file, "params", "",
		"file with the parameters of the run (JSON or YAML; - reads standard input)"+more)
	c.Flags().StringArrayVar(&p.each, "param", nil,
		"a parameter as NAME=VALUE; can be repeated; it replaces that of --params. VALUE is JSON, or else text")
}

// document returns the parameters as a JSON object, or nil when none are given.
func (p *runParams) document(stdin io.Reader) (*json.RawMessage, error) {
	if p.file == "" && len(p.each) == 0 {
		return nil, nil //nolint:nilnil // no parameters are given, and that is no error
	}
	all := map[string]json.RawMessage{}
	if p.file != "" {
		doc, err := readObject(p.file, stdin)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(doc, &all); err != nil {
			return nil, err
		}
	}
	for _, given := range p.each {
		name, value, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--param must be NAME=VALUE, not %q", given)
		}
		all[name] = json.RawMessage(value)
		if !json.Valid(all[name]) {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			all[name] = text
		}
	}
	doc, err := json.Marshal(all)
	raw := json.RawMessage(doc)
	return &raw, err
}

// readObject reads a document, JSON or YAML, that must be an object with a value for each name, and returns it as JSON.
func readObject(name string, stdin io.Reader) (json.RawMessage, error) {
	doc, err := document.Read(name, stdin)
	if err == nil && !bytes.HasPrefix(bytes.TrimSpace(doc), []byte("{")) {
		err = fmt.Errorf(`%s must contain a value for each name, such as {"threads": 4}`, document.Name(name))
	}
	return doc, err
}
