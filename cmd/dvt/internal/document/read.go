package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"gopkg.in/yaml.v3"
)

// MaxSize bounds a document that is read, in bytes. It is the server's limit for a plan.
const MaxSize = 10 << 20

// Read reads a document, from standard input for "-", and turns YAML into JSON. Its errors are for people.
func Read(name string, stdin io.Reader) (json.RawMessage, error) {
	doc, err := ReadText(name, stdin)
	if err != nil {
		return nil, err
	}
	return ToJSON(name, doc)
}

// ReadText reads a text, from standard input for "-": at most MaxSize bytes and one more.
func ReadText(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", name, errors.Unwrap(err))
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, MaxSize+1))
}

// ToJSON returns a document, JSON or YAML, as JSON. A document that is too long is returned unchanged, so that the
// server refuses it with its own code.
func ToJSON(name string, doc []byte) (json.RawMessage, error) {
	if json.Valid(doc) || len(doc) > MaxSize {
		return doc, nil
	}
	var v any
	if err := yaml.Unmarshal(doc, &v); err != nil {
		return nil, fmt.Errorf("%s is neither JSON nor YAML: %w", name, err)
	}
	return json.Marshal(v)
}

// Name returns what a document is called in messages.
func Name(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}
