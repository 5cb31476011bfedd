package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Decode parses a JSON document into v, a pointer to a struct. Unknown names and values of a wrong type are errors, in
// words for the person who wrote the document.
func Decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		where := wrong.Field
		if where == "" {
			where = "the document"
		}
		return fmt.Errorf("%s must be %s, not %s", where, kindName(wrong.Type), withArticle(wrong.Value))
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not valid JSON at byte %d", syntax.Offset)
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Errorf("it has no setting %s; its settings are %s", name, strings.Join(names(reflect.TypeOf(v)), ", "))
	}
	return err
}

// names returns the JSON names of a struct and of the structs in it, in order, without repetitions.
func names(t reflect.Type) (out []string) {
	seen := map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
			visit(f.Type)
		}
	}
	visit(t)
	return out
}

// kindName returns what a value of the type is called in JSON.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindName(t.Elem())
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a text"
}

// withArticle returns the JSON value that encoding/json names, in words.
func withArticle(value string) string {
	words := map[string]string{"string": "a text", "number": "a number", "bool": "true or false", "array": "a list",
		"object": "an object"}
	if w, known := words[value]; known {
		return w
	}
	if number, is := strings.CutPrefix(value, "number "); is {
		return number
	}
	return value
}
