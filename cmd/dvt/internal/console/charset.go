package console

import (
	"cmp"
	"os"
	"strings"
)

// Charset is the set of characters that the terminal can display.
type Charset struct{ Ascii bool }

// CharsetOf returns the set that DVT_ASCII (1 or 0) names, otherwise that of the locale of a terminal. A pipe gets the
// same bytes in each locale.
func CharsetOf(terminal bool) Charset {
	switch os.Getenv("DVT_ASCII") {
	case "":
		return Charset{Ascii: terminal && !utf8Locale()}
	case "0":
		return Charset{}
	}
	return Charset{Ascii: true}
}

// utf8Locale reports whether the locale uses UTF-8. Without a locale it is C, which does not.
func utf8Locale() bool {
	name := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(name, "utf-8") || strings.Contains(name, "utf8")
}

// signsInASCII replaces the symbols that dvt prints.
var signsInASCII = strings.NewReplacer(
	"…", "...", "–", "-", "≥", ">=", "±", "+/-", "·", ".", "×", "x", "█", "#", "▒", "=", "‖", "=",
	"●", "*", "◌", "o", "↻", "~", "▲", "!", "✗", "x", "○", "o", "▶", ">", "✓", "+", "⊘", "/", "↷", "-",
)

// Replace returns text in characters that the terminal can display.
func (x Charset) Replace(text string) string {
	if x.Ascii {
		return signsInASCII.Replace(text)
	}
	return text
}

// text returns the line in characters that the terminal can display.
func (x Charset) text(l Line) Line {
	if !x.Ascii {
		return l
	}
	out := make(Line, len(l))
	for i, s := range l {
		out[i] = Span{x.Replace(s.Text), s.Style}
	}
	return out
}
