// Package consoletest emulates a terminal for tests. It interprets the escape sequences that dvt prints and fails the
// test on any other.
package consoletest

import (
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

// Terminal is a screen of cells behind a pseudo terminal. An unknown escape sequence fails the test.
type Terminal struct {
	t    *testing.T
	File *os.File // the side that a command prints on
	Own  *os.File // the side that the test reads from and types on

	mu            sync.Mutex
	width, height int
	main, other   [][]rune
	alternate     bool
	x, y          int
	saved         [2]int // where the cursor was before the alternate screen
	hidden, clip  bool   // whether the cursor is hidden, and whether long lines are cut instead of wrapped
	Frames        []time.Time
	Coloured      bool
}

// OpenTerminal opens a terminal of that size in cells until the test ends, and sets the environment variables of a
// terminal.
func OpenTerminal(t *testing.T, width, height int) *Terminal {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("DVT_ASCII", "")
	own, file, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &Terminal{t: t, Own: own, File: file}
	s.Resize(width, height)
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

// Resize changes the size in cells and keeps the text.
func (s *Terminal) Resize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := pty.Setsize(s.Own, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
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

func (s *Terminal) read() {
	var rest string
	buf := make([]byte, 64<<10)
	for {
		n, err := s.Own.Read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		rest = s.take(rest + string(buf[:n]))
		s.mu.Unlock()
	}
}

var sequence = regexp.MustCompile(`^\x1b\[\??[0-9;]*[A-Za-z]`)

// take interprets text and returns an incomplete sequence or character at its end.
func (s *Terminal) take(text string) string {
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

func (s *Terminal) cells() [][]rune {
	if s.alternate {
		return s.other
	}
	return s.main
}

func (s *Terminal) command(seq string) {
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
		s.Frames = append(s.Frames, time.Now())
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
			s.Coloured = true
		}
	}
}

func (s *Terminal) char(r rune) {
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

// String returns the visible text without trailing spaces and lines.
func (s *Terminal) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, l := range s.cells() {
		out = append(out, strings.TrimRight(string(l), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// Await returns the screen once it matches the pattern. It fails the test after a minute.
func (s *Terminal) Await(pattern string) string {
	s.t.Helper()
	var seen string
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if seen = s.String(); regexp.MustCompile(pattern).MatchString(seen) {
			return seen
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("the screen does not match %s after a minute:\n%s", pattern, seen)
		}
	}
}

// Clean fails the test if the command left the alternate screen, a hidden cursor or disabled wrapping behind.
func (s *Terminal) Clean() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alternate || s.hidden || s.clip {
		s.t.Errorf("the terminal is left in another state: alternate screen %t, cursor hidden %t, no wrapping %t",
			s.alternate, s.hidden, s.clip)
	}
}

// Paced fails the test if more than ten frames a second were drawn since began. The tolerance of two frames is needed
// because only the time of reading a frame is known.
func (s *Terminal) Paced(began time.Time) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, lasted := len(s.Frames), s.Frames[len(s.Frames)-1].Sub(began); n > int(lasted/(100*time.Millisecond))+2 {
		s.t.Errorf("%d frames in %v: more than 10 a second", n, lasted)
	}
}
