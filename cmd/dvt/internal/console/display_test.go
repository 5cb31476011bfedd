package console

import (
	"fmt"
	"os"
	"testing"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/consoletest"
)

func TestDisplay_ColoursAndScreens(t *testing.T) {
	tty := consoletest.OpenTerminal(t, 80, 24)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		out            *os.File
		when           ColourMode
		term, noColour string
		terminal, want bool
	}{
		{tty.File, ColourAuto, "xterm", "", true, true},
		{tty.File, ColourAuto, "xterm", "1", true, false},
		{tty.File, ColourAlways, "xterm", "1", true, true},
		{tty.File, ColourNever, "xterm", "", true, false},
		{tty.File, ColourAuto, "dumb", "", false, false},
		{file, ColourAuto, "xterm", "", false, false},
		{file, ColourAlways, "xterm", "", false, true},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColour)
		if d := NewDisplay(c.out, c.when); d.IsTerminal() != c.terminal || d.colour != c.want {
			t.Errorf("--color %s, TERM=%s, NO_COLOR=%s: terminal %t and colour %t, want %t and %t",
				c.when, c.term, c.noColour, d.IsTerminal(), d.colour, c.terminal, c.want)
		}
	}
	if w, h := NewDisplay(tty.File, ColourAuto).Size(); w != 80 || h != 24 {
		t.Errorf("the size is %d by %d, want 80 by 24", w, h)
	}
}

func TestLine_IsCutNotWrapped(t *testing.T) {
	t.Parallel()
	for width := 1; width < 20; width++ {
		l := Line{{"日本", Bold}, {"語 and ", Plain}, {"more", Bad}}
		for _, x := range []Charset{{}, {Ascii: true}} {
			if got := x.Fit(l, width); got.Width() > width {
				t.Errorf("the line has %d cells, want at most %d: %q", got.Width(), width, got.Render(false))
			}
		}
	}
	if got := fmt.Sprintf("%q", OneLine("a\x1b[2Jb\r\n\tc\u202ed\u0085 e")); got != `"a [2Jb c d e"` {
		t.Errorf("OneLine returned %s, want each control character replaced by a space", got)
	}
}

// Output of programs must not control the terminal: it keeps its colours and loses every other sequence. A pipe gets
// the bytes unchanged.
func TestTerminal_LogLinesAreHarmless(t *testing.T) {
	t.Parallel()
	seen := Display{file: os.Stdout, colour: true}
	plain := Display{file: os.Stdout}
	for text, want := range map[string][2]string{
		"\x1b[31mred\x1b[0m": {"\x1b[31mred\x1b[0m\x1b[0m", "red"},
		"\x1b[1;31mopen":     {"\x1b[1;31mopen\x1b[0m", "open"},
		"a\x1b]0;title\x07b\x1b]52;c;ZXZpbA==\x1b\\c": {"abc", "abc"},
		"\x1b[2J\x1b[1;1Hwiped\x1b[?1049h":            {"wiped", "wiped"},
		"\x1bPq#0\x1b\\six\x1bcreset\x1b(0":           {"sixreset", "sixreset"},
		"50%\r100%\x08\x00\u009b2J\tx\x1b":            {"50%100%2J\tx", "50%100%2J\tx"},
		"é € 日本":                                      {"é € 日本", "é € 日本"},
	} {
		if got := seen.Harmless(text); got != want[0] {
			t.Errorf("%q in colours: %q, want %q", text, got, want[0])
		}
		if got := plain.Harmless(text); got != want[1] {
			t.Errorf("%q without: %q, want %q", text, got, want[1])
		}
		if got := (Display{}).Harmless(text); got != text {
			t.Errorf("%q in a pipe: %q, want it unchanged", text, got)
		}
	}
}
