package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"
)

// terminal is what somebody sees: a screen of cells that does what it is told by the sequences that dvt
// writes, and fails the test at one that it does not know.
type terminal struct {
	t    *testing.T
	file *os.File // what a command prints on
	own  *os.File

	mu            sync.Mutex
	width, height int
	main, other   [][]rune
	alternate     bool
	x, y          int
	saved         [2]int // where the cursor was before the alternate screen
	hidden, clip  bool   // the cursor; lines that are too long
	frames        []time.Time
	coloured      bool
}

func openTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("DVT_ASCII", "")
	own, file, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &terminal{t: t, own: own, file: file}
	s.resize(width, height)
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read()
	}()
	t.Cleanup(func() {
		_ = file.Close()
		_ = own.Close()
		<-read
	})
	return s
}

func (s *terminal) resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := pty.Setsize(s.own, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		s.t.Fatal(err)
	}
	s.width, s.height = width, height
	for _, cells := range []*[][]rune{&s.main, &s.other} {
		old := *cells
		*cells = make([][]rune, height)
		for y := range *cells {
			(*cells)[y] = []rune(strings.Repeat(" ", width))
			if y < len(old) {
				copy((*cells)[y], old[y])
			}
		}
	}
	s.x, s.y = min(s.x, width-1), min(s.y, height-1)
}

func (s *terminal) read() {
	var rest string
	buf := make([]byte, 64<<10)
	for {
		n, err := s.own.Read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		rest = s.take(rest + string(buf[:n]))
		s.mu.Unlock()
	}
}

var sequence = regexp.MustCompile(`^\x1b\[\??[0-9;]*[A-Za-z]`)

// take does what text says, and gives back an end that is not whole yet.
func (s *terminal) take(text string) string {
	for text != "" {
		if text[0] == 0x1b {
			seq := sequence.FindString(text)
			if seq == "" {
				if len(text) > 20 {
					s.t.Errorf("unknown: %.20q", text)
				}
				return text
			}
			s.command(seq)
			text = text[len(seq):]
			continue
		}
		r := []rune(text[:min(4, len(text))])[0]
		if r == '\uFFFD' && len(text) < 4 {
			return text
		}
		s.char(r)
		text = text[len(string(r)):]
	}
	return ""
}

func (s *terminal) cells() [][]rune {
	if s.alternate {
		return s.other
	}
	return s.main
}

func (s *terminal) command(seq string) {
	clearFrom := func(x, y int) { copy(s.cells()[y][x:], []rune(strings.Repeat(" ", s.width-x))) }
	switch body := seq[2:]; body {
	case "?1049h", "?1049l":
		s.alternate = body == "?1049h"
		if !s.alternate {
			s.x, s.y = s.saved[0], min(s.saved[1], s.height-1)
			break
		}
		s.saved = [2]int{s.x, s.y}
		for y := range s.other {
			clearFrom(0, y)
		}
	case "?25l", "?25h":
		s.hidden = body == "?25l"
	case "?7l", "?7h":
		s.clip = body == "?7l"
	case "?2026h":
		s.frames = append(s.frames, time.Now())
	case "?2026l":
	case "H":
		s.x, s.y = 0, 0
	case "K":
		clearFrom(s.x, s.y)
	case "J":
		clearFrom(s.x, s.y)
		for y := s.y + 1; y < s.height; y++ {
			clearFrom(0, y)
		}
	default:
		if !strings.HasSuffix(body, "m") {
			s.t.Errorf("unknown: %q", seq)
		}
		if _, err := strconv.Atoi(strings.TrimSuffix(body, "m")); err == nil {
			s.coloured = true
		}
	}
}

func (s *terminal) char(r rune) {
	switch r {
	case '\r':
		s.x = 0
		return
	case '\n':
		if s.y++; s.y == s.height {
			cells := s.cells()
			copy(cells, cells[1:])
			cells[s.height-1] = []rune(strings.Repeat(" ", s.width))
			s.y--
		}
		return
	}
	if s.x >= s.width {
		if s.alternate {
			s.t.Errorf("a line of the screen is wider than %d", s.width)
		}
		s.x = 0
		s.char('\n')
	}
	s.cells()[s.y][s.x] = r
	s.x += max(runewidth.RuneWidth(r), 1)
}

// String is what is seen now, without spaces at the ends.
func (s *terminal) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, l := range s.cells() {
		out = append(out, strings.TrimRight(string(l), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

func (s *terminal) await(pattern string) string {
	s.t.Helper()
	var seen string
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if seen = s.String(); regexp.MustCompile(pattern).MatchString(seen) {
			return seen
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("no %s in\n%s", pattern, seen)
		}
	}
}

// clean fails when the terminal is not as it was before the command.
func (s *terminal) clean() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alternate || s.hidden || s.clip {
		s.t.Errorf("the terminal is left in another state: alternate screen %t, cursor hidden %t, no wrapping %t",
			s.alternate, s.hidden, s.clip)
	}
}

// paced fails when more than 10 frames a second were drawn since then: when one was drawn is not known, only when it
// was read.
func (s *terminal) paced(began time.Time) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, lasted := len(s.frames), s.frames[len(s.frames)-1].Sub(began); n > int(lasted/(100*time.Millisecond))+2 {
		s.t.Errorf("%d frames in %v: more than 10 a second", n, lasted)
	}
}

func TestDisplay_ColoursAndScreens(t *testing.T) {
	tty := openTerminal(t, 80, 24)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		out            *os.File
		when           colouring
		term, noColour string
		terminal, want bool
	}{
		{tty.file, colourAuto, "xterm", "", true, true},
		{tty.file, colourAuto, "xterm", "1", true, false},
		{tty.file, colourAlways, "xterm", "1", true, true},
		{tty.file, colourNever, "xterm", "", true, false},
		{tty.file, colourAuto, "dumb", "", false, false},
		{file, colourAuto, "xterm", "", false, false},
		{file, colourAlways, "xterm", "", false, true},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColour)
		if d := displayOf(c.out, c.when); d.terminal() != c.terminal || d.colour != c.want {
			t.Errorf("%+v: terminal %t, colour %t", c, d.terminal(), d.colour)
		}
	}
	if w, h := displayOf(tty.file, colourAuto).size(); w != 80 || h != 24 {
		t.Errorf("%d by %d", w, h)
	}
}

func TestLine_IsCutNotWrapped(t *testing.T) {
	t.Parallel()
	for width := 1; width < 20; width++ {
		l := line{{"日本", bold}, {"語 and ", plain}, {"more", bad}}
		for _, x := range []letters{{}, {ascii: true}} {
			if got := x.fit(l, width); got.width() > width {
				t.Errorf("%d cells of %d: %q", got.width(), width, got.print(false))
			}
		}
	}
	if got := fmt.Sprintf("%q", oneLine("a\x1b[2Jb\r\n\tc\u202ed\u0085 e")); got != `"a [2Jb c d e"` {
		t.Error(got)
	}
}

// What a program printed cannot do to a terminal what it likes: it keeps its colours and loses the rest. A pipe gets it
// as it was.
func TestTerminal_LogLinesAreHarmless(t *testing.T) {
	t.Parallel()
	seen := display{file: os.Stdout, colour: true}
	plain := display{file: os.Stdout}
	for text, want := range map[string][2]string{
		"\x1b[31mred\x1b[0m": {"\x1b[31mred\x1b[0m\x1b[0m", "red"},
		"\x1b[1;31mopen":     {"\x1b[1;31mopen\x1b[0m", "open"},
		"a\x1b]0;title\x07b\x1b]52;c;ZXZpbA==\x1b\\c": {"abc", "abc"},
		"\x1b[2J\x1b[1;1Hwiped\x1b[?1049h":            {"wiped", "wiped"},
		"\x1bPq#0\x1b\\six\x1bcreset\x1b(0":           {"sixreset", "sixreset"},
		"50%\r100%\x08\x00\u009b2J\tx\x1b":            {"50%100%2J\tx", "50%100%2J\tx"},
		"é € 日本":                                      {"é € 日本", "é € 日本"},
	} {
		if got := seen.harmless(text); got != want[0] {
			t.Errorf("%q in colours: %q, want %q", text, got, want[0])
		}
		if got := plain.harmless(text); got != want[1] {
			t.Errorf("%q without: %q, want %q", text, got, want[1])
		}
		if got := (display{}).harmless(text); got != text {
			t.Errorf("%q in a pipe: %q", text, got)
		}
	}
}
