// Package console prints for people. It chooses colours and characters that the terminal can display, fits lines to its
// width, and replaces control characters in text from outside.
package console

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

// ColourMode tells when colours are printed: the value of --color.
type ColourMode string

// The modes of --color.
const (
	ColourAuto   ColourMode = "auto" // on a terminal, unless NO_COLOR is set
	ColourAlways ColourMode = "always"
	ColourNever  ColourMode = "never"
)

func (c *ColourMode) String() string { return string(*c) }

// Type returns the values of the flag for its help text.
func (c *ColourMode) Type() string { return "auto|always|never" }

// Set parses the value of --color.
func (c *ColourMode) Set(value string) error {
	switch v := ColourMode(value); v {
	case ColourAuto, ColourAlways, ColourNever:
		*c = v
		return nil
	}
	return errors.New("it must be auto, always or never")
}

// Display is the output of a command and what it can display.
type Display struct {
	Out io.Writer
	// file is the terminal behind Out. It is nil for a pipe, a file and TERM=dumb, which get plain lines only.
	file   *os.File
	colour bool
	Charset
}

// NewDisplay returns the display of a command that prints to out. A terminal gets colours unless when or NO_COLOR
// disables them.
func NewDisplay(out io.Writer, when ColourMode) Display {
	d := Display{Out: NewCleanWriter(out), colour: when == ColourAlways}
	if f := terminalOf(out); f != nil && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" {
		d.file, d.colour = f, d.colour || when == ColourAuto && os.Getenv("NO_COLOR") == ""
	}
	d.Charset = CharsetOf(d.IsTerminal())
	return d
}

// Render returns the line in the characters and colours of the display.
func (d Display) Render(l Line) string { return d.text(l).Render(d.colour) }

// IsTerminal reports whether the output is a terminal that can move its cursor.
func (d Display) IsTerminal() bool { return d.file != nil }

// Size returns the size of the terminal in cells, or 80 by 24 if it is unknown.
func (d Display) Size() (width, height int) {
	if d.file != nil {
		width, height, _ = term.GetSize(int(d.file.Fd()))
	}
	return cmp.Or(max(width, 0), 80), cmp.Or(max(height, 0), 24)
}

// CanAnswer reports whether in is a terminal, so that a person can answer a question.
func CanAnswer(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Style is the look of a text. A word or symbol beside it must carry the meaning, because not everybody sees colours.
type Style string

// The styles, as parameters of the escape sequence that selects them.
const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"
	Bad   Style = "31"
	Good  Style = "32"
	Warn  Style = "33"
	Busy  Style = "36"
)

// Span is text of one style.
type Span struct {
	Text string
	Style
}

// Line is a line of spans.
type Line []Span

// Width returns the number of cells of the line.
func (l Line) Width() (n int) {
	for _, s := range l {
		n += runewidth.StringWidth(s.Text)
	}
	return n
}

// Fit returns the line in the characters of x. It cuts a line that has more than width cells and marks the cut.
func (x Charset) Fit(l Line, width int) Line {
	if l = x.text(l); l.Width() <= width {
		return l
	}
	mark := x.Replace("…")
	room := width - runewidth.StringWidth(mark)
	if room < 0 {
		mark, room = "", width
	}
	var out Line
	for _, s := range l {
		n := runewidth.StringWidth(s.Text)
		if n > room {
			return append(out, Span{runewidth.Truncate(s.Text, room, "") + mark, s.Style})
		}
		out, room = append(out, s), room-n
	}
	return out
}

// Render returns the line with the marked escape sequences that a cleanWriter passes.
func (l Line) Render(colour bool) string {
	var b strings.Builder
	for _, s := range l {
		if colour && s.Style != Plain && s.Text != "" {
			b.WriteString(escape + "[" + string(s.Style) + "m" + s.Text + escape + "[0m")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// Pad fills text with spaces up to a width.
func Pad(text string, width int) string { return runewidth.FillRight(text, width) }

// Escape sequences of terminals: those that select colours, and all of them.
var (
	colours = regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?`)
)

// Harmless returns a line of a program's output that is safe to print. For a terminal it keeps colours, if the display
// has them, and drops every sequence that would move the cursor, set the title or write the clipboard. For a pipe the
// line is unchanged.
func (d Display) Harmless(text string) string {
	if !d.IsTerminal() {
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

// OneLine returns text from outside with each run of spaces and unprintable characters replaced by one space, so that
// it cannot move the cursor or change colours.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
