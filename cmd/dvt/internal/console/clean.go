package console

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/dvt-engine/dvt/run"
)

// escape begins each escape sequence that dvt itself prints. The random part distinguishes it from an escape sequence
// in a text from outside, because an attacker cannot know it.
var escape = "\x1b" + rand.Text() //nolint:gochecknoglobals // a key of this process

// MarkEscapes returns text with its escape sequences marked as dvt's own, for a cleanWriter.
func MarkEscapes(text string) string { return strings.ReplaceAll(text, "\x1b", escape) }

// cleanWriter is the only writer of the commands. It passes text and the escape sequences of dvt, and replaces each
// other control character by U+FFFD: names, reasons and messages of other people must not move the cursor, set the
// title or write the clipboard. It is safe for concurrent use.
type cleanWriter struct {
	to   io.Writer
	mu   sync.Mutex
	rest []byte // the beginning of a character or escape sequence that the next call completes
}

// NewCleanWriter returns a cleanWriter that writes to w, or w if it is one.
func NewCleanWriter(w io.Writer) io.Writer {
	if _, ok := w.(*cleanWriter); ok {
		return w
	}
	return &cleanWriter{to: w}
}

// terminalOf returns the terminal to which w writes, or nil.
func terminalOf(w io.Writer) *os.File {
	if c, ok := w.(*cleanWriter); ok {
		w = c.to
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Verbatim returns the writer for output that programs read. It does not change the bytes, unless w writes to a
// terminal.
func Verbatim(w io.Writer) io.Writer {
	if c, ok := w.(*cleanWriter); ok && terminalOf(w) == nil {
		return c.to
	}
	return w
}

func (w *cleanWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := append(w.rest, p...)
	var out bytes.Buffer
	for len(in) > 0 {
		r, size := utf8.DecodeRune(in)
		switch {
		case !utf8.FullRune(in), string(in) == "\r", len(in) < len(escape) && strings.HasPrefix(escape, string(in)):
			w.rest = bytes.Clone(in)
			return w.flush(out.Bytes(), len(p))
		case bytes.HasPrefix(in, []byte(escape)):
			out.WriteByte('\x1b')
			size = len(escape)
		case r == '\r' && in[1] == '\n': // a lone carriage return would overwrite its line
			out.WriteByte('\r')
		default:
			out.WriteString(run.Text(string(in[:size]), utf8.UTFMax))
		}
		in = in[size:]
	}
	w.rest = nil
	return w.flush(out.Bytes(), len(p))
}

func (w *cleanWriter) flush(out []byte, written int) (int, error) {
	if len(out) > 0 {
		if _, err := w.to.Write(out); err != nil {
			return 0, err
		}
	}
	return written, nil
}
