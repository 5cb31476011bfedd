package run

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/plan"
)

// A shape validates a JSON value. The shapes of payloads in shapes_gen.go are generated from the published schemas; a
// test over mutated documents compares the two.
type shape func(f *findings, path string, v any)

// findings collects violations up to maxViolations.
type findings struct{ list []plan.Violation }

const maxViolations = 100

func (f *findings) add(path, code, format string, args ...any) {
	if len(f.list) < maxViolations {
		f.list = append(f.list, plan.Violation{Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
	}
}

type member struct {
	name     string
	required bool
	shape    shape
}

func must(name string, s shape) member { return member{name, true, s} }
func may(name string, s shape) member  { return member{name, false, s} }

// object accepts unknown members, because the log keeps them and readers ignore them (contract A11, T152).
func object(members ...member) shape {
	return func(f *findings, path string, v any) {
		o, ok := v.(map[string]any)
		if !ok {
			f.add(path, "INVALID", "must be a JSON object")
			return
		}
		for _, m := range members {
			value, found := o[m.name]
			switch {
			case found:
				m.shape(f, path+"."+m.name, value)
			case m.required:
				f.add(path+"."+m.name, "MISSING", "is required")
			}
		}
	}
}

func list(most int, item shape) shape {
	return func(f *findings, path string, v any) {
		values, ok := v.([]any)
		if !ok {
			f.add(path, "INVALID", "must be a JSON array")
			return
		}
		if len(values) > most {
			f.add(path, "RANGE", "has %d items, at most %d are allowed", len(values), most)
			return
		}
		for i, value := range values {
			item(f, path+"["+strconv.Itoa(i)+"]", value)
		}
	}
}

// nullable accepts null, which is how Go writes a nil slice.
func nullable(s shape) shape {
	return func(f *findings, path string, v any) {
		if v != nil {
			s(f, path, v)
		}
	}
}

func text(f *findings, path string, v any) { matching(f, path, v, nil, "") }

func filled(f *findings, path string, v any) {
	if s, ok := v.(string); ok && s == "" {
		f.add(path, "INVALID", "must not be empty")
		return
	}
	text(f, path, v)
}

// wordOf accepts strings of least to most bytes of an alphabet that do not begin with a byte of notFirst. It accepts
// the same strings as the regular expression. It compares bytes because every append checks seven such strings.
func wordOf(expression, alphabet, notFirst string, least, most int) shape {
	var known [256]bool
	for i := range len(alphabet) {
		known[alphabet[i]] = true
	}
	otherwise := "must match " + expression
	fits := func(s string) bool {
		if len(s) < least || len(s) > most || strings.IndexByte(notFirst, s[0]) >= 0 {
			return false
		}
		for i := range len(s) {
			if !known[s[i]] {
				return false
			}
		}
		return true
	}
	return func(f *findings, path string, v any) { matching(f, path, v, fits, otherwise) }
}

// matching accepts the strings for which fits returns true; a nil fits accepts every string.
func matching(f *findings, path string, v any, fits func(string) bool, otherwise string) {
	s, ok := v.(string)
	switch {
	case !ok:
		f.add(path, "INVALID", "must be a string")
	case fits != nil && !fits(s):
		f.add(path, "INVALID", "%s", otherwise)
	}
}

func oneOf[T ~string](values ...T) shape {
	return func(f *findings, path string, v any) {
		if s, ok := v.(string); !ok || !slices.Contains(values, T(s)) {
			f.add(path, "UNKNOWN", "must be one of %v", values)
		}
	}
}

func boolean(f *findings, path string, v any) {
	if _, ok := v.(bool); !ok {
		f.add(path, "INVALID", "must be true or false")
	}
}

// integer accepts numbers written without fraction or exponent.
func integer(least, most int64) shape {
	return func(f *findings, path string, v any) {
		n, ok := v.(json.Number)
		if !ok {
			f.add(path, "INVALID", "must be an integer")
			return
		}
		i, err := strconv.ParseInt(n.String(), 10, 64)
		switch {
		case err != nil:
			f.add(path, "INVALID", "must be an integer")
		case i < least || i > most:
			f.add(path, "RANGE", "must be from %d to %d", least, most)
		}
	}
}

func instant(f *findings, path string, v any) {
	s, ok := v.(string)
	if ok {
		ok = (&time.Time{}).UnmarshalText([]byte(s)) == nil
	}
	if !ok {
		f.add(path, "INVALID", "must be an RFC 3339 time")
	}
}

func anything(*findings, string, any) {}

// pattern accepts strings that match a regular expression.
func pattern(expression string) shape {
	fits := regexp.MustCompile(expression).MatchString
	return func(f *findings, path string, v any) { matching(f, path, v, fits, "must match "+expression) }
}

// both accepts values that a and b accept.
func both(a, b shape) shape {
	return func(f *findings, path string, v any) {
		a(f, path, v)
		b(f, path, v)
	}
}

// without applies s to objects that lack a member.
func without(name string, s shape) shape {
	return func(f *findings, path string, v any) {
		if o, ok := v.(map[string]any); ok && o[name] == nil {
			s(f, path, v)
		}
	}
}

// parseObject parses one JSON object. Empty input counts as the empty object.
func parseObject(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("must be UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("must be JSON: %w", err)
	}
	if d.More() {
		return nil, fmt.Errorf("must be one JSON value")
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("must be a JSON object")
	}
	return o, nil
}
