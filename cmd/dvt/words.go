package main

import (
	"fmt"
	"slices"
	"strings"
)

// unknownWord is in each enum of the API for what a client does not know; nobody asks for it.
const unknownWord = "UNKNOWN"

// wordOf is the word of an enum that somebody typed, in any case and with - for _; what names the argument.
func wordOf[T ~string](what, typed string, all []T) (T, error) {
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
	return "", usage(fmt.Errorf("%s is one of %s, not %q", what, strings.Join(names, ", "), typed))
}

// wordsOf are several of them.
func wordsOf[T ~string](what string, typed []string, all []T) (out []T, _ error) {
	for _, t := range typed {
		w, err := wordOf(what, t, all)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}
