package cmdline

import (
	"fmt"
	"slices"
	"strings"
)

// unknownWord is in each enum of the API and stands for a value that the client does not know. It cannot be given as an
// argument.
const unknownWord = "UNKNOWN"

// IsGiven reports whether a value of an enum may be given as an argument.
func IsGiven[T ~string](word T) bool { return word != unknownWord }

// Word parses a value of an enum, in any case and with - for _. what names the argument in the usage error.
func Word[T ~string](what, typed string, all []T) (T, error) {
	word := T(strings.ToUpper(strings.ReplaceAll(typed, "-", "_")))
	if slices.Contains(all, word) && IsGiven(word) {
		return word, nil
	}
	var names []string
	for _, w := range all {
		if IsGiven(w) {
			names = append(names, string(w))
		}
	}
	return "", Usage(fmt.Errorf("%s must be one of %s, not %q", what, strings.Join(names, ", "), typed))
}

// Words parses each of typed with Word.
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
