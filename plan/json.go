package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

const (
	maxDepth = 32     // levels of nesting in a document
	maxKeys  = 10_000 // members of one object
)

// value is one JSON value of a document that wellFormed accepted, without the space around it.
type value []byte

func (v value) isObject() bool { return v[0] == '{' }
func (v value) isArray() bool  { return v[0] == '[' }
func (v value) isString() bool { return v[0] == '"' }
func (v value) isNumber() bool { return v[0] == '-' || v[0] >= '0' && v[0] <= '9' }

// text returns the decoded content of a string value.
func (v value) text() string {
	raw := v[1 : len(v)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var s string
	_ = json.Unmarshal(v, &s) // well-formed already
	return s
}

// wellFormed returns an error unless doc is one JSON value in UTF-8 of at most maxDepth levels. The other functions of
// this file rely on it and do not check the syntax again.
func wellFormed(doc []byte) error {
	if !utf8.Valid(doc) {
		return errors.New("the document is not UTF-8 text")
	}
	if err := json.Unmarshal(doc, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return errors.New("the document is not JSON")
		}
		before := doc[:min(int(syntax.Offset), len(doc))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
		return fmt.Errorf("the document is not JSON: line %d, column %d: %w", line, column, syntax)
	}
	depth := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = stringEnd(doc, i) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("the document nests deeper than %d levels", maxDepth)
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// trim returns doc, which must be well-formed, without the space around it.
func trim(doc []byte) value { return bytes.TrimSpace(doc) }

func space(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\n' || doc[i] == '\t' || doc[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(doc []byte, i int) int {
	for i++; doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd returns the index after the value that begins at i.
func valueEnd(doc []byte, i int) int {
	switch doc[i] {
	case '"':
		return stringEnd(doc, i)
	case '{', '[':
		depth := 0
		for ; ; i++ {
			switch doc[i] {
			case '"':
				i = stringEnd(doc, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for ; i < len(doc); i++ {
		switch doc[i] {
		case ' ', '\n', '\t', '\r', ',', ']', '}':
			return i
		}
	}
	return i
}

// each calls f with the members of an object, or with the elements of an array and a nil key, in document order, until
// f returns false.
func (v value) each(f func(key, val value) bool) {
	for i := space(v, 1); v[i] != '}' && v[i] != ']'; {
		var key value
		if v.isObject() {
			end := stringEnd(v, i)
			key = v[i:end]
			i = space(v, space(v, end)+1)
		}
		end := valueEnd(v, i)
		if !f(key, v[i:end]) {
			return
		}
		if i = space(v, end); v[i] == ',' {
			i = space(v, i+1)
		}
	}
}

// compact returns v without space and with the escapes of json.Marshal, so that a plan that is marshalled and parsed
// again has the same bytes.
func (v value) compact() json.RawMessage {
	out, _ := json.Marshal(json.RawMessage(v)) // well-formed already
	return out
}
