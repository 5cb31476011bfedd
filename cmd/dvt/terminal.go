package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// colouring is when colours are printed: the value of --color.
type colouring string

const (
	colourAuto   colouring = "auto" // on a terminal, unless NO_COLOR is set
	colourAlways colouring = "always"
	colourNever  colouring = "never"
)

func (c *colouring) String() string { return string(*c) }
func (c *colouring) Type() string   { return "auto|always|never" }

// Set takes what is given to --color.
func (c *colouring) Set(value string) error {
	switch v := colouring(value); v {
	case colourAuto, colourAlways, colourNever:
		*c = v
		return nil
	}
	return errors.New("it must be auto, always or never")
}

// display is what a command prints on.
type display struct {
	out io.Writer
	// file is the terminal that out is; nil for a pipe, a file and TERM=dumb: lines alone are printed there.
	file   *os.File
	colour bool
	letters
}

func displayOf(out io.Writer, when colouring) display {
	d := display{out: cleaned(out), colour: when == colourAlways}
	if f := terminalOf(out); f != nil && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" {
		d.file, d.colour = f, d.colour || when == colourAuto && os.Getenv("NO_COLOR") == ""
	}
	d.letters = lettersOf(d.terminal())
	return d
}

// print gives a line as it is written here.
func (d display) print(l line) string { return d.text(l).print(d.colour) }

// terminal reports whether somebody looks at it now.
func (d display) terminal() bool { return d.file != nil }

// size is that of the terminal in cells; 80 by 24 when it does not say.
func (d display) size() (width, height int) {
	if d.file != nil {
		width, height, _ = term.GetSize(int(d.file.Fd()))
	}
	return cmp.Or(max(width, 0), 80), cmp.Or(max(height, 0), 24)
}

// asked reports whether somebody at a terminal can answer a question.
func asked(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// style is how a text looks; what it means, a word or a symbol says beside it.
type style string

const (
	plain style = ""
	bold  style = "1"
	dim   style = "2"
	bad   style = "31"
	good  style = "32"
	warn  style = "33"
	busy  style = "36"
)

// span is text of one style, and line is a line of them.
type (
	span struct {
		text string
		style
	}
	line []span
)

// width is how many cells a line takes.
func (l line) width() (n int) {
	for _, s := range l {
		n += runewidth.StringWidth(s.text)
	}
	return n
}

// fit cuts a line that is wider than a terminal.
func (x letters) fit(l line, width int) line {
	if l = x.text(l); l.width() <= width {
		return l
	}
	mark := x.string("…")
	room := width - runewidth.StringWidth(mark)
	if room < 0 {
		mark, room = "", width
	}
	var out line
	for _, s := range l {
		n := runewidth.StringWidth(s.text)
		if n > room {
			return append(out, span{runewidth.Truncate(s.text, room, "") + mark, s.style})
		}
		out, room = append(out, s), room-n
	}
	return out
}

// print gives the line as a cleanWriter takes it.
func (l line) print(colour bool) string {
	var b strings.Builder
	for _, s := range l {
		if colour && s.style != plain && s.text != "" {
			b.WriteString(escape + "[" + string(s.style) + "m" + s.text + escape + "[0m")
		} else {
			b.WriteString(s.text)
		}
	}
	return b.String()
}

// pad fills text with spaces up to a width.
func pad(text string, width int) string { return runewidth.FillRight(text, width) }

// Escape sequences of terminals: those that choose colours, and all.
var (
	colours = regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?`)
)

// harmless is a line that a program printed, as it may be shown: a terminal gets its colours, when colours are wanted,
// and nothing else that would move the cursor, name the window or write the clipboard. What is piped is as it was.
func (d display) harmless(text string) string {
	if !d.terminal() {
		return text
	}
	painted := false
	text = escapes.ReplaceAllStringFunc(text, func(sequence string) string {
		if !d.colour || !colours.MatchString(sequence) {
			return ""
		}
		painted = true
		return sequence
	})
	text = strings.Map(func(r rune) rune {
		if r != '\t' && r != '\x1b' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	if painted {
		text += "\x1b[0m"
	}
	return text
}

// oneLine is text that came from elsewhere, without what would move a terminal's cursor
// or change its colours: each run of such characters is one space.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
