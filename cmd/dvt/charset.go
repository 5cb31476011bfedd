package main

import (
	"cmp"
	"os"
	"strings"
)

// letters are those that whoever reads can be shown.
type letters struct{ ascii bool }

// lettersOf are those of DVT_ASCII (1 or 0), or else of a terminal's locale. A pipe gets the same bytes in each locale.
func lettersOf(terminal bool) letters {
	switch os.Getenv("DVT_ASCII") {
	case "":
		return letters{ascii: terminal && !utf8Locale()}
	case "0":
		return letters{}
	}
	return letters{ascii: true}
}

// utf8Locale reports whether the locale's letters are UTF-8. Without a locale it is that of C.
func utf8Locale() bool {
	name := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(name, "utf-8") || strings.Contains(name, "utf8")
}

// signsInASCII are what stands for the signs that dvt prints.
var signsInASCII = strings.NewReplacer(
	"…", "...", "–", "-", "≥", ">=", "±", "+/-", "·", ".", "×", "x", "█", "#", "▒", "=", "‖", "=",
	"●", "*", "◌", "o", "↻", "~", "▲", "!", "✗", "x", "○", "o", "▶", ">", "✓", "+", "⊘", "/", "↷", "-",
)

func (x letters) string(text string) string {
	if x.ascii {
		return signsInASCII.Replace(text)
	}
	return text
}

// text is a line in these letters.
func (x letters) text(l line) line {
	if !x.ascii {
		return l
	}
	out := make(line, len(l))
	for i, s := range l {
		out[i] = span{x.string(s.text), s.style}
	}
	return out
}
