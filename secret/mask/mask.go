// Package mask hides values in a stream of bytes: each value itself, and the forms in which programs print it. It hides
// nothing else. A value that is cut into chunks is found like any other.
package mask

import (
	"slices"
	"strings"
)

// Hidden stands in place of a value.
const Hidden = "***"

// MinBytes is the length of the shortest value that is hidden. Shorter ones occur in ordinary text.
const MinBytes = 8

const block = 2 // bytes by which the search looks a position up

// Masker hides a set of values. The zero value hides nothing. It is immutable and safe for concurrent use.
type Masker struct {
	patterns []string // sorted by length, longest first
	window   int      // length of the shortest pattern, at most 255
	longest  int
	// shift says for the last bytes of a window how far the next window may be; 0 means that a pattern may begin here.
	shift []uint8
	// candidates are the patterns whose first window ends with a block.
	candidates map[uint16][]string
	first      [256][]string // patterns by their first byte
}

// New returns a masker of the values and of their forms (see Forms). It ignores values of fewer than MinBytes.
func New(values ...string) *Masker {
	m := &Masker{}
	for _, v := range values {
		m.patterns = append(m.patterns, Forms(v)...)
	}
	slices.SortFunc(m.patterns, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	m.patterns = slices.Compact(m.patterns)
	if len(m.patterns) == 0 {
		return m
	}
	m.longest = len(m.patterns[0])
	m.window = min(len(m.patterns[len(m.patterns)-1]), 255)
	m.index()
	return m
}

// index fills the tables of the search by Wu and Manber.
func (m *Masker) index() {
	m.shift = make([]uint8, 1<<16)
	for i := range m.shift {
		m.shift[i] = uint8(m.window - block + 1)
	}
	m.candidates = map[uint16][]string{}
	for _, p := range m.patterns {
		for end := block; end <= m.window; end++ {
			at := blockOf(p[end-block], p[end-1])
			m.shift[at] = min(m.shift[at], uint8(m.window-end))
		}
		last := blockOf(p[m.window-block], p[m.window-1])
		m.candidates[last] = append(m.candidates[last], p)
		m.first[p[0]] = append(m.first[p[0]], p)
	}
}

func blockOf(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// Replace returns the text with Hidden in place of each value.
func (m *Masker) Replace(text string) string {
	if m.window == 0 || len(text) < m.window {
		return text
	}
	out, kept := []byte(nil), 0
	m.each([]byte(text), func(start, end int) {
		out = append(append(out, text[kept:start]...), Hidden...)
		kept = end
	})
	if kept == 0 {
		return text
	}
	return string(append(out, text[kept:]...))
}

// each calls found with each place of values in data, in order. Values that overlap or touch are one place, so that no
// part of one stays visible beside another.
func (m *Masker) each(data []byte, found func(start, end int)) {
	start, end := -1, -1
	for at := m.window; at <= len(data); {
		last := blockOf(data[at-2], data[at-1])
		if step := m.shift[last]; step > 0 {
			at += int(step)
			continue
		}
		from := at - m.window
		if to := from + m.longestAt(data[from:], last); to > from {
			if start >= 0 && from > end {
				found(start, end)
				start = -1
			}
			if start < 0 {
				start = from
			}
			end = max(end, to)
		}
		at++
	}
	if start >= 0 {
		found(start, end)
	}
}

// longestAt returns the length of the longest pattern with which data begins.
func (m *Masker) longestAt(data []byte, last uint16) int {
	for _, p := range m.candidates[last] { // longest first
		if len(p) <= len(data) && string(data[:len(p)]) == p {
			return len(p)
		}
	}
	return 0
}

// partial returns where the end of data may be the beginning of a value, and len(data) when it is none.
func (m *Masker) partial(data []byte) int {
	for at := max(0, len(data)-m.longest+1); at < len(data); at++ {
		for _, p := range m.first[data[at]] {
			if rest := data[at:]; len(p) > len(rest) && p[:len(rest)] == string(rest) {
				return at
			}
		}
	}
	return len(data)
}
