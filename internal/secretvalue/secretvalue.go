// Package secretvalue finds values in JSON documents that look like secrets. Answers hide them, signals that contain
// them are refused, and executors mask them in the output of steps. One rule serves all, so that no place shows a value
// that another one hides.
package secretvalue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// secretNames matches the names of members that hold a secret. The short names count as whole words only.
var secretNames = regexp.MustCompile(
	`(?i)token([^s]|$)|passw(or)?d|passphrase|secret|credential|authorization|cookie|(api|access|private|signing|encryption)[_-]?key` +
		`|(?:^|[^a-z])(?:pass|pwd|dsn)(?:[^a-z]|$)|(?-i:[a-z0-9](?:Pass|Pwd|Dsn|DSN)(?:[^a-z]|$))`)

// addressNames matches the names of members that hold the address of a service.
var addressNames = regexp.MustCompile(`(?i)url|uri|webhook|endpoint`)

// Hidden replaces values that look like a secret.
const Hidden = "***"

// EachSecret calls report with the path of each member of a JSON document that looks like a literal secret, in a
// stable order. A document that cannot be decoded has none.
func EachSecret(doc json.RawMessage, path string, report func(path string)) {
	v, err := decodeAny(doc)
	if err != nil {
		return // other checks report the syntax error
	}
	eachMember(v, path, func(object map[string]any, name, at string) {
		if isSecret(object, name) {
			report(at)
		}
	})
}

// Hide returns the document with Hidden in place of each value that EachSecret reports. It also hides
// the path and query of each address, because the path of a webhook is often its secret. A document without such values
// is returned byte for byte.
func Hide(doc json.RawMessage) json.RawMessage {
	v, err := decodeAny(doc)
	if err != nil {
		return doc // a run without params has an empty document
	}
	changed := false
	eachMember(v, "", func(object map[string]any, name, _ string) {
		text, isText := object[name].(string)
		switch {
		case isSecret(object, name):
			object[name], changed = Hidden, true
		case isText && addressNames.MatchString(name) && withoutPath(text) != text:
			object[name], changed = withoutPath(text), true
		}
	})
	if !changed {
		return doc
	}
	shown, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`"` + Hidden + `"`) // cannot happen: the value was decoded from JSON
	}
	return shown
}

// EachPlaceholder calls report with the path of each member that has the placeholder of a hidden value, in a stable
// order.
func EachPlaceholder(doc json.RawMessage, path string, report func(path string)) {
	v, err := decodeAny(doc)
	if err != nil {
		return // a run without params has an empty document
	}
	eachMember(v, path, func(object map[string]any, name, at string) {
		text, _ := object[name].(string)
		address := addressNames.MatchString(name) && strings.HasSuffix(text, "/"+Hidden) && withoutPath(text) == text
		if address || text == Hidden && isSecret(object, name) {
			report(at)
		}
	})
}

// Texts returns the texts and numbers of all members that EachSecret reports, in a stable order.
func Texts(doc json.RawMessage) []string {
	v, err := decodeAny(doc)
	if err != nil {
		return nil // steps and runs may have no such document
	}
	var out []string
	eachMember(v, "", func(object map[string]any, name, _ string) {
		if isSecret(object, name) {
			out = appendTexts(out, object[name])
		}
	})
	return out
}

func appendTexts(to []string, v any) []string {
	switch v := v.(type) {
	case string:
		return append(to, v)
	case json.Number:
		return append(to, v.String())
	case []any:
		for _, item := range v {
			to = appendTexts(to, item)
		}
	}
	return to
}

// withoutPath reduces an http or https address to its scheme and host. It returns any other text unchanged.
func withoutPath(text string) string {
	if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return Hidden
	}
	if u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == "" {
		return text
	}
	return u.Scheme + "://" + u.Host + "/" + Hidden
}

// decodeAny decodes a JSON document without loss of precision in numbers.
func decodeAny(doc json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// eachMember walks a decoded document in a stable order and calls visit with each member whose value literal accepts.
func eachMember(v any, path string, visit func(object map[string]any, name, at string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + name
			if literal(v[name]) {
				visit(v, name, at)
			}
			eachMember(v[name], at, visit)
		}
	case []any:
		for i := range v {
			eachMember(v[i], fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}

// isSecret reports whether a member looks like a secret by its name, or is the value of a reference to a provider.
func isSecret(object map[string]any, name string) bool {
	_, provider := object["provider"]
	_, key := object["key"]
	return literal(object[name]) && (secretNames.MatchString(name) || provider && key && name == "value")
}

// reference matches a text that has only references ${secret:NAME}, behind at most two words such as "Bearer", "Token
// token=" or "session=". Everything else beside a reference may be a secret: a longer word, a digit, a second line.
var reference = regexp.MustCompile(
	`^(?:[A-Za-z][A-Za-z_-]{0,15}[ =]){0,2}\$\{secret:[^}\s]{1,256}\}(?:[:;,] ?\$\{secret:[^}\s]{1,256}\})*$`)

// literal reports whether a value can itself be a secret: a non-empty text that is no reference to a secret of the
// step, a number, or a list that contains one.
func literal(v any) bool {
	switch v := v.(type) {
	case string:
		return v != "" && !reference.MatchString(v)
	case json.Number:
		return true
	case []any:
		return slices.ContainsFunc(v, literal)
	}
	return false
}
