// Package errorline chooses the line of a program's output that names its error. The executor applies the rule while a
// step prints, and writes the line into the failure. The store of logs applies it to logs whose failures name no line.
package errorline

import (
	"strings"
	"unicode/utf8"
)

// MaxTextBytes bounds the text of a chosen line, and so the memory of a Chooser.
const MaxTextBytes = 1 << 10

// Line is a line of a log.
type Line struct {
	No int64 // as given to Add
	// Text is at most MaxTextBytes, without terminal escape sequences and surrounding blanks. Other control characters
	// stay. It is masked only as far as the text given to Add.
	Text string
	// Named means that the words of the line name an error. Otherwise it is only the last line of the output.
	Named bool
}

// rank orders the kinds of lines that name an error. A lower rank names it better.
type rank int

const (
	byLevel     rank = iota // the program marks the line itself as an error: ERROR, FATAL, level=error
	byReport                // the reason in a report of dbt
	byException             // the end of a traceback, a panic, the cause of an exception
	byPrefix                // "psql: error: …", "fatal: …"
	byMention               // a word such as failed
	byPhrase                // "no such file", "not found"
	bySummary               // "1 error", "returned non-zero exit status 3"
	ranks
)

// isLastBest reports whether the last line of a rank is the best one. A program that handles one exception may raise
// another one, and Java prints the root cause last. Of all other kinds the first line is the cause of those after it.
func (r rank) isLastBest() bool { return r == byException }

// Chooser reads the lines of one execution in their order. It needs a constant amount of memory and time in proportion
// to the output. The zero value is ready to use. It is not safe for concurrent use.
type Chooser struct {
	found [ranks]Line
	last  Line // the last line with text
	// lastStderr is the last line with text on stderr, when the streams are known.
	lastStderr Line
	refusals   []refusal // of the sandbox, at most maxRefusals
	streams    map[string]*stream
}

// maxRefusals bounds the refusals that are remembered.
const maxRefusals = 32

// refusal is a line of dvt which says that the sandbox refused the program something.
type refusal struct {
	line Line
	what string // the quoted path or address
}

// stream is the state of one stream. Streams that are read separately may interleave within a traceback.
type stream struct {
	trace      bool // within a traceback of Python
	indent     int  // of the line that began the traceback
	ofLevel    bool // the traceback belongs to the best line so far, which a logger printed before it
	afterLevel bool // the line before was that line
	header     bool // the line before was a header of dbt, so the next one has the reason
}

// Add reads the next line. no is its number for Line, 0 if it is unknown. stream is as in artifact.Line: lines of dvt
// itself are ignored, but for refusals of the sandbox.
func (c *Chooser) Add(no int64, name, text string) {
	if name == "dvt" {
		c.addRefusal(no, text)
		return
	}
	text = plain(text)
	t := strings.TrimSpace(text)
	if t == "" {
		return
	}
	line := Line{No: no, Text: cut(t)}
	c.last = line
	if name == "stderr" {
		c.lastStderr = line
	}
	s := c.streams[name]
	if s == nil {
		if c.streams == nil {
			c.streams = map[string]*stream{}
		}
		s = &stream{}
		c.streams[name] = s
	}
	afterLevel := s.afterLevel
	s.afterLevel = false
	switch {
	case s.trace:
		if indentOf(text) > s.indent {
			return
		}
		s.trace = false
		c.endTrace(s, line, t)
	case s.header && !IsReportHeader(t):
		s.header = false
		c.add(byReport, line)
	case strings.Contains(t, "Traceback (most recent call last)"):
		s.trace, s.indent, s.ofLevel = true, indentOf(text), afterLevel
		c.add(byMention, line)
	case !mayName(t):
	case IsReportHeader(t):
		s.header = true
		c.add(byMention, line)
	default:
		r, ok := rankOf(t)
		if ok {
			first := c.found[byLevel] == Line{}
			c.add(r, line)
			s.afterLevel = r == byLevel && first
		}
	}
}

// endTrace handles the first line after the indented lines of a traceback, which names the exception. When a logger
// printed the traceback, the exception says more than the logger's line before it.
func (c *Chooser) endTrace(s *stream, line Line, t string) {
	r, ok := rankOf(t)
	if ok && r == byLevel || !raised.MatchString(t) {
		if ok {
			c.add(r, line)
		}
		return
	}
	switch {
	case ok && r == bySummary:
		c.add(bySummary, line)
	case s.ofLevel:
		line.Named = true
		c.found[byLevel] = line
	default:
		c.add(byException, line)
	}
}

func (c *Chooser) add(r rank, line Line) {
	line.Named = true
	if r.isLastBest() || c.found[r] == (Line{}) {
		c.found[r] = line
	}
}

// addRefusal remembers a line which says that the sandbox refused something.
func (c *Chooser) addRefusal(no int64, text string) {
	if len(c.refusals) == maxRefusals {
		return
	}
	text = strings.TrimSpace(plain(text))
	if m := refused.FindStringSubmatch(text); m != nil {
		c.refusals = append(c.refusals, refusal{Line{No: no, Text: cut(text), Named: true}, m[1]})
	}
}

// Line returns the line that names the error best among the lines so far. Without one it returns the last line on
// stderr, else the last line. When that line names what the sandbox refused, the refusal is the cause, and is returned
// instead: the program can only say that a file does not exist, or that nothing answers. ok is false when the program
// printed nothing.
func (c *Chooser) Line() (line Line, ok bool) {
	for _, line := range append(c.found[:], c.lastStderr, c.last) {
		if line == (Line{}) {
			continue
		}
		for _, r := range c.refusals {
			if strings.Contains(line.Text, r.what) {
				return r.line, true
			}
		}
		return line, true
	}
	return Line{}, false
}

// StripEscapes removes terminal escape sequences: colours, cursor movements, titles and links. A sequence that the end
// of the text cuts is removed too.
func StripEscapes(text string) string {
	if strings.IndexByte(text, '\x1b') < 0 {
		return text
	}
	return escapes.ReplaceAllString(text, "")
}

// plain removes escape sequences and cuts the text.
func plain(text string) string {
	if len(text) > 2*MaxTextBytes {
		text = text[:2*MaxTextBytes]
	}
	return StripEscapes(text)
}

// cut returns at most MaxTextBytes of a text, and only whole characters.
func cut(text string) string {
	if len(text) <= MaxTextBytes {
		return text
	}
	const mark = "…"
	end := MaxTextBytes - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

func indentOf(text string) int { return len(text) - len(strings.TrimLeft(text, " \t")) }
