// Package mask hides values in a stream of bytes: each value itself, and the forms in which programs print it. It hides
// nothing else. A value that is cut into chunks is found like any other.
package mask

import (
	"cmp"
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
	patterns []pattern // sorted by length, longest first
	window   int       // length of the shortest pattern, at most 255
	longest  int
	// shift says for the last bytes of a window how far the next window may be; 0 means that a pattern may begin here.
	shift []uint8
	// candidates are the patterns whose first window ends with a block.
	candidates map[uint16][]pattern
	first      [256][]pattern // patterns by their first byte
}

// pattern is a text that is hidden. The search looks for patterns in data without its line breaks.
type pattern struct {
	text string // without line breaks
	// exact is the text with its line breaks. It is empty for Base64 and hexadecimal digits, in which programs break lines
	// anywhere: base64 after 76 digits, openssl after 64, xxd after 60.
	exact string
}

// New returns a masker of the values and of their forms (see Forms). It ignores values of fewer than MinBytes.
func New(values ...string) *Masker {
	m := &Masker{}
	for _, v := range values {
		exact, broken := forms(v)
		for _, text := range exact {
			text = strings.Trim(text, "\r\n")
			m.add(pattern{text: unbroken(text), exact: text})
		}
		for _, text := range broken {
			m.add(pattern{text: text})
		}
	}
	slices.SortFunc(m.patterns, func(a, b pattern) int {
		if len(a.text) != len(b.text) {
			return len(b.text) - len(a.text)
		}
		return cmp.Or(strings.Compare(a.text, b.text), strings.Compare(a.exact, b.exact))
	})
	m.patterns = slices.Compact(m.patterns)
	if len(m.patterns) == 0 {
		return m
	}
	m.longest = len(m.patterns[0].text)
	m.window = min(len(m.patterns[len(m.patterns)-1].text), 255)
	m.index()
	return m
}

// add keeps a pattern unless almost all of it is line breaks.
func (m *Masker) add(p pattern) {
	if len(p.text) >= 2*block {
		m.patterns = append(m.patterns, p)
	}
}

// index fills the tables of the search by Wu and Manber.
func (m *Masker) index() {
	m.shift = make([]uint8, 1<<16)
	for i := range m.shift {
		m.shift[i] = uint8(m.window - block + 1)
	}
	m.candidates = map[uint16][]pattern{}
	for _, p := range m.patterns {
		for end := block; end <= m.window; end++ {
			at := blockOf(p.text[end-block], p.text[end-1])
			m.shift[at] = min(m.shift[at], uint8(m.window-end))
		}
		last := blockOf(p.text[m.window-block], p.text[m.window-1])
		m.candidates[last] = append(m.candidates[last], p)
		m.first[p.text[0]] = append(m.first[p.text[0]], p)
	}
}

func blockOf(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// Replace returns the text with Hidden in place of each value.
func (m *Masker) Replace(text string) string {
	if m.window == 0 || len(text) < m.window {
		return text
	}
	out, kept := []byte(nil), 0
	data := lines{}
	data.set([]byte(text))
	m.each(&data, func(start, end int) {
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
func (m *Masker) each(data *lines, found func(start, end int)) {
	start, end := -1, -1
	text := data.text
	for at := m.window; at <= len(text); {
		last := blockOf(text[at-2], text[at-1])
		if step := m.shift[last]; step > 0 {
			at += int(step)
			continue
		}
		if n := m.longestAt(data, at-m.window, last); n > 0 {
			from, to := data.position(at-m.window), data.position(at-m.window+n-1)+1
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

// longestAt returns the length of the longest pattern that begins at a position of data.text.
func (m *Masker) longestAt(data *lines, from int, last uint16) int {
	rest := data.text[from:]
	for _, p := range m.candidates[last] { // longest first
		if len(p.text) > len(rest) || string(rest[:len(p.text)]) != p.text {
			continue
		}
		if p.exact == "" || string(data.raw[data.position(from):data.position(from+len(p.text)-1)+1]) == p.exact {
			return len(p.text)
		}
	}
	return 0
}

// partial returns where the end of data may be the beginning of a value: len(data.raw) when it is none. From open on,
// the end may be the first few digits of a form that continues in the next line. They are too few to be worth holding a
// line back that is complete.
func (m *Masker) partial(data *lines) (limit, open int) {
	limit, open = len(data.raw), len(data.raw)
	text := data.text
	for at := max(0, len(text)-m.longest+1); at < len(text); at++ {
		rest := text[at:]
		for _, p := range m.first[rest[0]] {
			if len(p.text) < len(rest) || p.text[:len(rest)] != string(rest) {
				continue
			}
			from := data.position(at)
			switch {
			case p.exact != "" && (len(p.exact) <= len(data.raw)-from || !strings.HasPrefix(p.exact, string(data.raw[from:]))):
			case p.exact != "" || len(p.text) > len(rest) && (len(rest) >= MinBytes || !data.isBroken()):
				return from, min(open, from)
			case len(p.text) > len(rest):
				open = min(open, from)
			}
		}
	}
	return limit, open
}
