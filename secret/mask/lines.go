package mask

import (
	"bytes"
	"sort"
	"strings"
)

// lines are bytes and the same bytes without line breaks. The zero value is empty.
type lines struct {
	raw  []byte
	text []byte
	// starts are where the pieces between line breaks begin. Empty when there is no line break: then text is raw.
	starts []struct{ text, raw int }
	buffer []byte
}

// set replaces the bytes. It keeps raw until the next call.
func (l *lines) set(raw []byte) {
	l.raw, l.text, l.starts = raw, raw, l.starts[:0]
	if bytes.IndexByte(raw, '\n') < 0 && (len(raw) == 0 || raw[len(raw)-1] != '\r') {
		return
	}
	l.buffer = l.buffer[:0]
	for at := 0; at < len(raw); {
		piece, next := raw[at:], len(raw)
		if n := bytes.IndexByte(piece, '\n'); n >= 0 {
			piece, next = piece[:n], at+n+1
		}
		piece = bytes.TrimSuffix(piece, []byte("\r"))
		if len(piece) > 0 {
			l.starts = append(l.starts, struct{ text, raw int }{len(l.buffer), at})
			l.buffer = append(l.buffer, piece...)
		}
		at = next
	}
	l.text = l.buffer
}

// position returns where a byte of text is in raw.
func (l *lines) position(at int) int {
	if len(l.starts) == 0 {
		return at
	}
	n := sort.Search(len(l.starts), func(i int) bool { return l.starts[i].text > at }) - 1
	return l.starts[n].raw + at - l.starts[n].text
}

// isBroken reports whether the bytes end with a line break.
func (l *lines) isBroken() bool { return len(l.raw) > 0 && l.raw[len(l.raw)-1] == '\n' }

// unbroken returns a text without the line breaks that lines leaves out.
func unbroken(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", ""), "\n", "")
}
