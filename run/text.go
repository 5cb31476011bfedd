package run

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s as it may stand in a row: valid UTF-8, without control characters other than tab and line feed, and at
// most limit bytes, cut between two letters. Each byte or letter that may not stand there becomes U+FFFD. A database
// refuses NUL and broken UTF-8 in a text, which would lose the row; a terminal obeys the others.
func Text(s string, limit int) string {
	if !IsText(s) {
		s = strings.Map(func(r rune) rune { // a byte that is no UTF-8 comes as U+FFFD
			if isControl(r) {
				return utf8.RuneError
			}
			return r
		}, s)
	}
	if len(s) <= limit {
		return s
	}
	cut := max(limit, 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// IsText reports whether Text leaves s as it is, apart from its length.
func IsText(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, isControl) }

// isControl also names the separators and the overrides of direction, which change how a line around them reads.
func isControl(r rune) bool {
	switch {
	case r == '\t', r == '\n':
		return false
	case r == 0x2028, r == 0x2029, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return true
	}
	return unicode.IsControl(r)
}
