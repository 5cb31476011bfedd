package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/dvt-engine/dvt/internal/errorline"
)

// MaxFound is the maximum number of line numbers of one Find.
const MaxFound = 1000

// Markers of the stream and the text in a stored line. They are unique, because quotes in a text are escaped.
var (
	storedText   = []byte(`,"text":"`)
	storedStream = []byte(`,"stream":"`)
)

// Find implements Logs. It searches the stored form of the whole log and decodes only lines that may contain text. It
// returns at most MaxFound numbers.
func (s *Store) Find(ctx context.Context, id AttemptID, text string, limit int) (nos []int64, total int64, err error) {
	limit = min(limit, MaxFound)
	_, _, err = s.search(ctx, id, text, math.MaxInt64, func() { nos, total = nil, 0 }, func(no int64, _ []byte) error {
		if total++; len(nos) < limit {
			nos = append(nos, no)
		}
		return nil
	})
	return nos, total, err
}

// Search implements Logs. It reads whole pieces.
func (s *Store) Search(ctx context.Context, id AttemptID, text string, limit int, maxBytes int64) (out Found,
	err error) {
	out.Bytes, out.Whole, err = s.search(ctx, id, text, maxBytes, func() { out.Lines, out.Total = nil, 0 },
		func(no int64, stored []byte) error {
			if out.Total++; len(out.Lines) >= limit {
				return nil
			}
			line, err := decode(stored)
			line.No = no
			out.Lines = append(out.Lines, line)
			return err
		})
	return out, err
}

// search calls visit for the stored lines that contain text, in order, until it has read maxBytes. It calls begin
// before each try: when a writer replaces a piece, the search begins again.
func (s *Store) search(ctx context.Context, id AttemptID, text string, maxBytes int64, begin func(),
	visit func(no int64, stored []byte) error) (read int64, whole bool, err error) {
	quoted, err := json.Marshal(text)
	if err != nil {
		return 0, false, fmt.Errorf("artifact: find: %w", err)
	}
	stored := quoted[1 : len(quoted)-1]
	err = s.steady(id, func(prefix string) error {
		begin()
		read, whole = 0, false
		ix, _, err := s.index(ctx, prefix)
		if err != nil {
			return err
		}
		for _, p := range ix {
			if p.bytes > maxBytes-read {
				return nil
			}
			body, err := s.body(ctx, prefix, p)
			if err != nil {
				return err
			}
			read += p.bytes
			for i, line := range with(body, stored) {
				found, err := contains(line, stored, text)
				if err == nil && found {
					err = visit(p.from+i, line)
				}
				if err != nil {
					return err
				}
			}
		}
		whole = true
		return nil
	})
	return read, whole, err
}

// contains reports whether the text of a stored line contains text, which has its stored form. Only a text with an
// escape can match in stored form without matching decoded.
func contains(line, stored []byte, text string) (bool, error) {
	at := bytes.Index(line, storedText)
	if at < 0 || !bytes.Contains(line[at+len(storedText):len(line)-len("\"}\n")], stored) {
		return false, nil
	}
	if bytes.IndexByte(line[at:], '\\') < 0 {
		return true, nil
	}
	l, err := decode(line)
	return strings.Contains(l.Text, text), err
}

func decode(line []byte) (l Line, err error) {
	if err := json.Unmarshal(line, &l); err != nil {
		return l, fmt.Errorf("artifact: read log: %w", err)
	}
	return l, nil
}

// with yields the stored lines that contain a text, with the number of lines before each.
func with(body, what []byte) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		for before := int64(0); len(body) > 0; {
			at := bytes.Index(body, what)
			if at < 0 {
				return
			}
			begin := bytes.LastIndexByte(body[:at], '\n') + 1
			end := at + bytes.IndexByte(body[at:], '\n') + 1
			before += int64(bytes.Count(body[:begin], []byte{'\n'}))
			if !yield(before, body[begin:end]) {
				return
			}
			body = body[end:]
			before++
		}
	}
}

// ErrorLine implements Logs. It reads only the index when named is given, and otherwise all lines of the engine
// attempt.
func (s *Store) ErrorLine(ctx context.Context, id AttemptID, engineAttempt int, named int64) (no int64, err error) {
	err = s.steady(id, func(prefix string) error {
		no = 0
		ix, _, err := s.index(ctx, prefix)
		if err != nil {
			return err
		}
		var errors errorline.Chooser
		for _, p := range ix {
			if p.engineAttempt != engineAttempt {
				continue
			}
			if named > 0 {
				if ago := p.eaTo - named; 0 <= ago && ago < p.count {
					no = p.to() - ago
				}
				continue
			}
			body, err := s.body(ctx, prefix, p)
			if err != nil {
				return err
			}
			for i, stored := range with(body, storedText) {
				stream, text, err := printed(stored)
				if err != nil {
					return err
				}
				errors.Add(p.from+i, stream, text)
			}
			no = p.to()
		}
		if line, ok := errors.Line(); ok {
			no = line.No
		}
		return nil
	})
	return no, err
}

// printed returns the stream and the text of a stored line. It decodes only lines with escapes.
func printed(stored []byte) (stream, text string, err error) {
	at, named := bytes.Index(stored, storedText), bytes.Index(stored, storedStream)
	if named < 0 || named > at || bytes.IndexByte(stored, '\\') >= 0 {
		l, err := decode(stored)
		return l.Stream, l.Text, err
	}
	name, _, _ := bytes.Cut(stored[named+len(storedStream):], []byte{'"'})
	return string(name), string(stored[at+len(storedText) : len(stored)-len("\"}\n")]), nil
}
