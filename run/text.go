package run

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s in a form that a database row and a terminal accept: valid UTF-8, without control characters other
// than tab and line feed, and at most limit bytes, cut between characters. U+FFFD replaces each invalid byte and each
// forbidden character. A database rejects a row with NUL or invalid UTF-8 in a text, so the row would be lost; a
// terminal executes other control characters.
func Text(s string, limit int) string {
	if !IsText(s) {
		s = strings.Map(func(r rune) rune { // strings.Map passes invalid UTF-8 as U+FFFD
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

// IsText reports whether Text returns s unchanged for every limit of at least len(s).
func IsText(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, isControl) }

// isControl also covers line separators and overrides of text direction, because they change how the text around them
// is displayed.
func isControl(r rune) bool {
	switch {
	case r == '\t', r == '\n':
		return false
	case r == 0x2028, r == 0x2029, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return true
	}
	return unicode.IsControl(r)
}
