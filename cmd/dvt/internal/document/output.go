// Package document reads documents that people wrote, as JSON or YAML, prints answers for programs, and locates a
// violation in the text of a document.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

// Format is the output format of a command: the value of -o.
type Format string

// The formats. AddFlag sets the default, asTable.
const (
	asTable Format = "table" // for people
	JSON    Format = "json"
	YAML    Format = "yaml"
	Wide    Format = "wide" // the table, not cut to the terminal
)

func (f *Format) String() string { return string(*f) }

// Type returns the values of the flag for its help text.
func (f *Format) Type() string { return "table|wide|json|yaml" }

// Set parses the value of -o.
func (f *Format) Set(value string) error {
	switch v := Format(value); v {
	case asTable, Wide, JSON, YAML:
		*f = v
		return nil
	}
	return errors.New("it must be table, wide, json or yaml")
}

// IsData reports whether a program reads the output.
func (f *Format) IsData() bool { return *f == JSON || *f == YAML }

// AddFlag gives a command and those below it the flag -o.
func AddFlag(c *cobra.Command, f *Format) {
	*f = asTable
	c.PersistentFlags().VarP(
		f, "output", "o", "how to print: table, wide (a table that is not cut to the terminal), json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions( // the flag is there
		[]cobra.Completion{string(asTable), string(Wide), string(JSON), string(YAML)},
		cobra.ShellCompDirectiveNoFileComp))
}

// FormatOf returns the output format of a command that was parsed, and that of a table for a command without -o.
func FormatOf(c *cobra.Command) Format {
	if f := c.Flag("output"); f != nil {
		if chosen, is := f.Value.(*Format); is {
			return *chosen
		}
	}
	return asTable
}

// pointerTo returns a pointer to a copy of v, which must be encoded in place of v: generated types have MarshalJSON on
// the pointer, and without it embedded fields would be missing.
func pointerTo(v any) any {
	addressable := reflect.New(reflect.TypeOf(v))
	addressable.Elem().Set(reflect.ValueOf(v))
	return addressable.Interface()
}

// Write writes v as JSON, or as YAML with the same names and values.
func (f *Format) Write(w io.Writer, v any) error {
	out, err := indented(pointerTo(v))
	if err != nil {
		return err
	}
	if *f == YAML {
		if out, err = yamlOf(out); err != nil {
			return err
		}
		out = append([]byte("---\n"), out...) // a watch prints several documents
	}
	_, err = w.Write(out)
	return err
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// yamlOf converts a JSON document to YAML. Names are in alphabetical order.
func yamlOf(doc []byte) ([]byte, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber() // a float64 cannot represent every int64
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	v, err := convertNumbers(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(v), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// convertNumbers replaces each json.Number in v by an int64, or by a float64 if it is not an integer.
func convertNumbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		n, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("the number %s cannot be printed as YAML: %w", v, err)
		}
		return n, nil
	case map[string]any:
		for name := range v {
			if v[name], err = convertNumbers(v[name]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = convertNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// FormatIn guesses the output format from unparsed arguments, so that a usage error can be printed in it. The default
// is a table.
func FormatIn(args []string) Format {
	for i, arg := range args {
		value, given := strings.CutPrefix(arg, "--output=")
		if !given {
			value, given = strings.CutPrefix(arg, "-o")
			value = strings.TrimPrefix(value, "=")
		}
		if arg == "-o" || arg == "--output" {
			if i+1 == len(args) {
				break
			}
			value, given = args[i+1], true
		}
		if f := Format(value); given && f.IsData() {
			return f
		}
	}
	return asTable
}
