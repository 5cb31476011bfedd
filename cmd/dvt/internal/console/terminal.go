// Package console prints for people: it chooses colours and characters that the terminal can display, fits lines to its
// width, and replaces control characters in text of other people.
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

// ColourMode is when colours are printed: the value of --color.
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

// Set takes what is given to --color.
func (c *ColourMode) Set(value string) error {
	switch v := ColourMode(value); v {
	case ColourAuto, ColourAlways, ColourNever:
		*c = v
		return nil
	}
	return errors.New("it must be auto, always or never")
}

// Display is what a command prints on.
type Display struct {
	Out io.Writer
	// file is the terminal that out is; nil for a pipe, a file and TERM=dumb: lines alone are printed there.
	file   *os.File
	colour bool
	Charset
}

// NewDisplay returns the display of a command that prints to out. Output to a terminal has its width and, unless when
// or NO_COLOR says otherwise, colours.
func NewDisplay(out io.Writer, when ColourMode) Display {
	d := Display{Out: NewCleanWriter(out), colour: when == ColourAlways}
	if f := terminalOf(out); f != nil && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" {
		d.file, d.colour = f, d.colour || when == ColourAuto && os.Getenv("NO_COLOR") == ""
	}
	d.Charset = CharsetOf(d.IsTerminal())
	return d
}

// Render gives a line as it is written here.
func (d Display) Render(l Line) string { return d.text(l).Render(d.colour) }

// IsTerminal reports whether somebody looks at it now.
func (d Display) IsTerminal() bool { return d.file != nil }

// Size is that of the terminal in cells; 80 by 24 when it does not say.
func (d Display) Size() (width, height int) {
	if d.file != nil {
		width, height, _ = term.GetSize(int(d.file.Fd()))
	}
	return cmp.Or(max(width, 0), 80), cmp.Or(max(height, 0), 24)
}

// CanAnswer reports whether somebody at a terminal can answer a question.
func CanAnswer(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Style is how a text looks; what it means, a word or a symbol says beside it.
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

// Width is how many cells a line takes.
func (l Line) Width() (n int) {
	for _, s := range l {
		n += runewidth.StringWidth(s.Text)
	}
	return n
}

// Fit cuts a line that is wider than a terminal.
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

// Render gives the line as a cleanWriter takes it.
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

// Escape sequences of terminals: those that choose colours, and all.
var (
	colours = regexp.MustCompile(`\x1b\[[0-9;:]*m`)
	escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?`)
)

// Harmless is a line that a program printed, as it may be shown: a terminal gets its colours, when colours are wanted,
// and nothing else that would move the cursor, name the window or write the clipboard. What is piped is as it was.
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

// OneLine is text that came from elsewhere, without what would move a terminal's cursor
// or change its colours: each run of such characters is one space.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
