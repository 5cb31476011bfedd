package executor

import (
	"encoding/json"
	"regexp"
	"sort"
	"strings"
)

// secretName matches names of variables and headers whose values are not shown.
var secretName = regexp.MustCompile(`(?i)TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIAL|KEY|AUTHORIZATION|COOKIE`)

const (
	redacted       = "***"
	minSecretBytes = 4 // a shorter value hides more of a text than of a secret
)

// redactor returns a replacer for the values of variables and headers with secret names, of the worker's extra
// environment and of the step. Best effort: a secret under another name stays visible.
func redactor(extra map[string]string, inputs json.RawMessage) *strings.Replacer {
	var own struct{ Env, Headers map[string]string }
	_ = json.Unmarshal(inputs, &own) // other types have other inputs
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
	return strings.NewReplacer(pairs...)
}
