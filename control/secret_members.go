package control

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

// secretNames are members that hold a secret, by their name.
var secretNames = regexp.MustCompile(`(?i)token([^s]|$)|passw(or)?d|passphrase|secret|credential|authorization|cookie|(api|access|private|signing|encryption)[_-]?key`)

// addressNames are members that hold an address to call, by their name.
var addressNames = regexp.MustCompile(`(?i)url|uri|webhook|endpoint`)

// hiddenValue stands for a value that looks like a secret.
const hiddenValue = "***"

// secretMembers reports the path of each member of a JSON document that looks like a secret written down, in a stable order.
func secretMembers(doc json.RawMessage, path string, report func(path string)) {
	v, err := decodeAny(doc)
	if err != nil {
		return // other checks name what is wrong with it
	}
	eachMember(v, path, func(object map[string]any, name, at string) {
		if isSecret(object, name) {
			report(at)
		}
	})
}

// hideSecrets returns the document with every value that secretMembers reports replaced by hiddenValue, and with the path and
// the query of every address taken away: the path of a webhook is often its secret. A document without such values comes
// back byte by byte.
func hideSecrets(doc json.RawMessage) json.RawMessage {
	v, err := decodeAny(doc)
	if err != nil {
		return doc // no document: a run without params has none
	}
	changed := false
	eachMember(v, "", func(object map[string]any, name, _ string) {
		text, isText := object[name].(string)
		switch {
		case isSecret(object, name):
			object[name], changed = hiddenValue, true
		case isText && addressNames.MatchString(name) && withoutPath(text) != text:
			object[name], changed = withoutPath(text), true
		}
	})
	if !changed {
		return doc
	}
	shown, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`"` + hiddenValue + `"`) // what was decoded is always encoded
	}
	return shown
}

// withoutPath is an http or https address by its scheme and host, and any other text unchanged.
func withoutPath(text string) string {
	if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return hiddenValue
	}
	if u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == "" {
		return text
	}
	return u.Scheme + "://" + u.Host + "/" + hiddenValue
}

func decodeAny(doc json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// eachMember calls visit with each member whose value is no object and no list of objects, and goes into the others.
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

// literal reports whether a value could be a secret itself: a text or a number, or a list that has one.
func literal(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case json.Number:
		return true
	case []any:
		return slices.ContainsFunc(v, literal)
	}
	return false
}
