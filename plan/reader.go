package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const maxText = 256 // bytes of a name, a group, an author

var (
	idPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	plainKey     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	idAdvice     = "use letters, digits, _ . - only, at most 128 of them, beginning with a letter, a digit or _"
	durationHint = `a duration such as "90s" or "10m", or a number of milliseconds`
)

// at is the location of a value in a document: a key or an index under a parent. nil is the document itself.
type at struct {
	parent *at
	key    string
	index  int
}

func (p *at) field(key string) *at { return &at{parent: p, key: key, index: -1} }
func (p *at) item(i int) *at       { return &at{parent: p, index: i} }

func (p *at) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *at) write(b *strings.Builder) {
	if p == nil {
		return
	}
	p.parent.write(b)
	switch {
	case p.index >= 0:
		fmt.Fprintf(b, "[%d]", p.index)
	case !plainKey.MatchString(p.key):
		fmt.Fprintf(b, "[%s]", quote(p.key))
	default:
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p.key)
	}
}

// quote returns a part of the document in quotes for a message, cut to a readable length.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		cut := most
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}

// IsID reports whether s can be the id of a tenant, a project, an environment or a step.
func IsID(s string) bool { return idPattern.MatchString(s) }

// formatID returns a valid id unchanged, and any other text in quotes.
func formatID(id string) string {
	if idPattern.MatchString(id) {
		return id
	}
	return quote(id)
}

// reader converts JSON values to Go values and collects violations.
type reader struct {
	found   []Violation
	dropped int
}

func (r *reader) report(p *at, code, format string, args ...any) {
	if len(r.found) >= MaxViolations {
		r.dropped++
		return
	}
	r.found = append(r.found, Violation{Path: p.String(), Code: code, Message: fmt.Sprintf(format, args...)})
}

// merge appends the violations of another reader.
func (r *reader) merge(other *reader) {
	fit := min(len(other.found), MaxViolations-len(r.found))
	r.found = append(r.found, other.found[:fit]...)
	r.dropped += other.dropped + len(other.found) - fit
}

func (r *reader) err() error {
	if len(r.found) == 0 {
		return nil
	}
	if r.dropped > 0 {
		r.found = append(r.found, Violation{Code: CodeTooMany,
			Message: fmt.Sprintf("%d more are not listed; correct these first", r.dropped)})
	}
	return &InvalidError{Violations: r.found}
}

// object is a JSON object whose fields the caller takes one by one. end reports the fields that were not taken.
type object struct {
	r      *reader
	at     *at
	keys   []string
	values []value
	taken  []bool
}

// object reads v as an object. It reports duplicate keys and keeps the first value of each.
func (r *reader) object(v value, p *at) (*object, bool) {
	if !v.isObject() {
		r.report(p, CodeInvalid, "write an object, { … }")
		return nil, false
	}
	o := &object{r: r, at: p}
	seen := map[string]bool{}
	v.each(func(key, val value) bool {
		if len(seen) == maxKeys {
			r.report(p, CodeRange, "give this object at most %d fields", maxKeys)
			return false
		}
		name := key.text()
		if seen[name] {
			r.report(p.field(name), CodeDuplicate, "this key is given twice; keep one")
			return true
		}
		seen[name] = true
		o.keys, o.values = append(o.keys, name), append(o.values, val)
		return true
	})
	o.taken = make([]bool, len(o.keys))
	return o, true
}

// take returns the value of an optional field.
func (o *object) take(key string) (value, *at, bool) {
	for i, k := range o.keys {
		if k == key {
			o.taken[i] = true
			return o.values[i], o.at.field(key), true
		}
	}
	return nil, nil, false
}

// need returns the value of a required field, or reports that it is missing.
func (o *object) need(key, what string) (value, *at, bool) {
	v, p, ok := o.take(key)
	if !ok {
		o.r.report(o.at.field(key), CodeMissing, "add %s: %s", key, what)
	}
	return v, p, ok
}

// end reports every field that was not taken. The message does not contain its value, which may be a secret.
func (o *object) end() {
	for i, k := range o.keys {
		if !o.taken[i] {
			o.r.report(o.at.field(k), CodeUnknown, "this field is not known; remove it or correct its name")
		}
	}
}

func (r *reader) array(v value, p *at, f func(v value, p *at)) {
	if !v.isArray() {
		r.report(p, CodeInvalid, "write a list, [ … ]")
		return
	}
	i := 0
	v.each(func(_, val value) bool {
		f(val, p.item(i))
		i++
		return true
	})
}

func (r *reader) text(v value, p *at) (string, bool) {
	if !v.isString() {
		r.report(p, CodeInvalid, "write a string, in quotes")
		return "", false
	}
	return v.text(), true
}

// id reads an identifier. Its alphabet excludes the separators of idempotency keys (contract T13, T228).
func (r *reader) id(v value, p *at) (string, bool) {
	s, ok := r.text(v, p)
	if ok && !idPattern.MatchString(s) {
		r.report(p, CodeInvalid, "%s is not an id: %s", quote(s), idAdvice)
		return "", false
	}
	return s, ok
}

// label reads a short line for people.
func (r *reader) label(v value, p *at) string {
	s, ok := r.text(v, p)
	switch {
	case !ok:
	case s == "":
		r.report(p, CodeInvalid, "write a text that is not empty, or remove the field if it is optional")
	case len(s) > maxText:
		r.report(p, CodeRange, "shorten this to %d bytes", maxText)
	case strings.ContainsFunc(s, unicode.IsControl):
		r.report(p, CodeInvalid, "remove the control characters")
	}
	return s
}

// argument reads a string that a process can receive: any text without NUL.
func (r *reader) argument(v value, p *at) string {
	s, ok := r.text(v, p)
	if ok && strings.ContainsRune(s, 0) {
		r.report(p, CodeInvalid, "remove the NUL character; arguments of a process cannot contain it")
	}
	return s
}

func (r *reader) boolean(v value, p *at) bool {
	if s := string(v); s != "true" && s != "false" {
		r.report(p, CodeInvalid, "write true or false")
	}
	return string(v) == "true"
}

// integer reads a whole number in [low, high].
func (r *reader) integer(v value, p *at, low, high int) (int, bool) {
	f, ok := r.number(v, p, float64(low), float64(high))
	if ok && f != math.Trunc(f) {
		r.report(p, CodeInvalid, "write a whole number")
		return 0, false
	}
	return int(f), ok
}

func (r *reader) number(v value, p *at, low, high float64) (float64, bool) {
	if !v.isNumber() {
		r.report(p, CodeInvalid, "write a number")
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < low || f > high {
		r.report(p, CodeRange, "write a number from %s to %s", plainNumber(low), plainNumber(high))
		return 0, false
	}
	return f, true
}

func plainNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// oneOf reads one of the given words.
func (r *reader) oneOf(v value, p *at, words ...string) (string, bool) {
	s, ok := r.text(v, p)
	if !ok {
		return "", false
	}
	for _, w := range words {
		if s == w {
			return s, true
		}
	}
	r.report(p, CodeUnknown, "%s is not known; use one of %s", quote(s), strings.Join(words, ", "))
	return "", false
}

// timestamp reads an RFC 3339 time, as UTC.
func (r *reader) timestamp(v value, p *at) time.Time {
	s, ok := r.text(v, p)
	if !ok {
		return time.Time{}
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(s)); err != nil || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		r.report(p, CodeInvalid, `write a time such as "2026-11-21T00:00:00Z" (RFC 3339)`)
		return time.Time{}
	}
	return t.UTC()
}

// duration reads a timeout: a Go duration, or a number of milliseconds (contract T142).
func (r *reader) duration(v value, p *at) time.Duration {
	var d time.Duration
	switch {
	case v.isNumber():
		ms, ok := r.integer(v, p, 1, int(MaxTimeout.Milliseconds()))
		if !ok {
			return 0
		}
		d = time.Duration(ms) * time.Millisecond
	case v.isString():
		var err error
		if d, err = time.ParseDuration(v.text()); err != nil {
			r.report(p, CodeInvalid, "write %s", durationHint)
			return 0
		}
	default:
		r.report(p, CodeInvalid, "write %s", durationHint)
		return 0
	}
	if d <= 0 || d > MaxTimeout {
		r.report(p, CodeRange, "write a duration above 0 and at most %s", DurationWords(MaxTimeout))
		return 0
	}
	return d
}

// strings reads an object whose values are strings, and calls check with each pair.
func (r *reader) strings(v value, p *at, check func(key, val string, p *at)) map[string]string {
	o, ok := r.object(v, p)
	if !ok {
		return nil
	}
	m := make(map[string]string, len(o.keys))
	for i, k := range o.keys {
		kp := p.field(k)
		m[k] = r.argument(o.values[i], kp)
		check(k, m[k], kp)
	}
	return m
}

// webURL reads an absolute http or https URL.
func (r *reader) webURL(v value, p *at) string {
	s, ok := r.text(v, p)
	if !ok {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		r.report(p, CodeInvalid, "write an address that begins with http:// or https:// and names a host")
	}
	return s
}

// anyObject reads an object with any members and reports duplicate keys at any depth.
func (r *reader) anyObject(v value, p *at) json.RawMessage {
	if !v.isObject() {
		r.report(p, CodeInvalid, "write an object, { … }")
		return nil
	}
	r.uniqueKeys(v, p)
	return v.compact()
}

func (r *reader) uniqueKeys(v value, p *at) {
	switch {
	case v.isObject():
		if o, ok := r.object(v, p); ok {
			for i, val := range o.values {
				if val.isObject() || val.isArray() {
					r.uniqueKeys(val, p.field(o.keys[i]))
				}
			}
		}
	case v.isArray():
		i := 0
		v.each(func(_, val value) bool {
			if val.isObject() || val.isArray() {
				r.uniqueKeys(val, p.item(i))
			}
			i++
			return true
		})
	}
}
