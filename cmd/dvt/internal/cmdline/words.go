package cmdline

import (
	"fmt"
	"slices"
	"strings"
)

// unknownWord is in each enum of the API for what a client does not know; nobody asks for it.
const unknownWord = "UNKNOWN"

// Word is the word of an enum that somebody typed, in any case and with - for _; what names the argument.
func Word[T ~string](what, typed string, all []T) (T, error) {
	word := T(strings.ToUpper(strings.ReplaceAll(typed, "-", "_")))
	if slices.Contains(all, word) && word != unknownWord {
		return word, nil
	}
	var names []string
	for _, w := range all {
		if w != unknownWord {
			names = append(names, string(w))
		}
	}
	return "", Usage(fmt.Errorf("%s is one of %s, not %q", what, strings.Join(names, ", "), typed))
}

// Words are several of them.
func Words[T ~string](what string, typed []string, all []T) (out []T, _ error) {
	for _, t := range typed {
		w, err := Word(what, t, all)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}
