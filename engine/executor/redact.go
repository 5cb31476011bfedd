package executor

import (
	"encoding/json"
	"regexp"
	"sort"
	"strings"
)

// secretName matches the names of variables and headers whose values must not be shown.
var secretName = regexp.MustCompile(`(?i)TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIAL|KEY|AUTHORIZATION|COOKIE`)

const (
	redacted       = "***"
	minSecretBytes = 4 // to replace shorter values would make texts unreadable
)

// redactor returns a replacer for the values of variables and headers with secret names, of the worker's extra
// environment and of the step. Best effort: a secret under another name stays visible, and so do values of several
// lines, values that escape sequences split, and parameters of the run.
func redactor(extra map[string]string, inputs json.RawMessage) *strings.Replacer {
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
	return strings.NewReplacer(pairs...)
}
