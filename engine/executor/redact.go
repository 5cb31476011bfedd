package executor

import (
	"encoding/json"
	"regexp"
	"sort"
	"strings"
	"unicode"

	"github.com/dvt-engine/dvt/internal/errorline"
)

// secretName matches the names of variables and headers whose values must not be shown.
var secretName = regexp.MustCompile(`(?i)TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIAL|KEY|AUTHORIZATION|COOKIE`)

const (
	redacted       = "***"
	minSecretBytes = 4 // to replace shorter values would make texts unreadable
)

// redactor masks the secret values of one step. Safe for concurrent use.
type redactor struct{ values *strings.Replacer }

// Replace returns text with a mask in place of each secret value. A program may print escape sequences or control
// characters inside a value, and readers of the text may remove them. Replace then returns the masked text without
// them. Other texts keep them.
func (r redactor) Replace(text string) string {
	text = r.values.Replace(text)
	if strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	shown := strings.Map(func(c rune) rune {
		if isControl(c) {
			return -1
		}
		return c
	}, errorline.StripEscapes(text))
	if masked := r.values.Replace(shown); masked != shown {
		return masked
	}
	return text
}

// isControl reports whether c is a control character that a terminal does not show. Tabs and line breaks separate
// words and may be part of a value.
func isControl(c rune) bool { return unicode.IsControl(c) && c != '\t' && c != '\n' }

// newRedactor returns a redactor for the values of variables and headers with secret names, of the worker's extra
// environment and of the step. Best effort: a secret under another name stays visible.
func newRedactor(extra map[string]string, inputs json.RawMessage) redactor {
	var own struct{ Env, Headers map[string]string }
	_ = json.Unmarshal(inputs, &own) // the inputs of some step types have no such fields
	values := map[string]bool{}
	for _, set := range []map[string]string{extra, own.Env, own.Headers} {
		for name, v := range set {
			if !secretName.MatchString(name) {
				continue
			}
			for _, v := range []string{v, strings.TrimPrefix(v, "Bearer ")} {
				if len(v) >= minSecretBytes {
					values[v] = true
				}
			}
		}
	}
	// The longest value comes first, so that a value which is part of another one does not leave the rest visible.
	longest := make([]string, 0, len(values))
	for v := range values {
		longest = append(longest, v)
	}
	sort.Slice(longest, func(i, j int) bool {
		return len(longest[i]) > len(longest[j]) || len(longest[i]) == len(longest[j]) && longest[i] < longest[j]
	})
	pairs := make([]string, 0, 2*len(longest))
	for _, v := range longest {
		pairs = append(pairs, v, redacted)
	}
	return redactor{values: strings.NewReplacer(pairs...)}
}
