package artifact

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strings"
)

// MaxFound is the maximum number of line numbers of one Find.
const MaxFound = 1000

// Markers of the stream and the text in a stored line. They are unique, because quotes in a text are escaped.
var (
	storedText   = []byte(`,"text":"`)
	storedStderr = []byte(`,"stream":"stderr",`)
)

// Find implements Logs. It searches the stored form of the whole log and decodes only lines that may contain text. It
// returns at most MaxFound numbers.
func (s *Store) Find(ctx context.Context, id AttemptID, text string, limit int) (nos []int64, total int64, err error) {
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, 0, fmt.Errorf("artifact: find: %w", err)
	}
	stored := quoted[1 : len(quoted)-1]
	limit = min(limit, MaxFound)
	err = s.steady(id, func(prefix string) error {
		ix, _, err := s.index(ctx, prefix)
		if err != nil {
			return err
		}
		nos, total = nil, 0
		for _, p := range ix {
			body, err := s.body(ctx, prefix, p)
			if err != nil {
				return err
			}
			for i, line := range with(body, stored) {
				if found, err := contains(line, stored, text); err != nil {
					return err
				} else if !found {
					continue
				}
				if total++; len(nos) < limit {
					nos = append(nos, p.from+i)
				}
			}
		}
		return nil
	})
	return nos, total, err
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

// failing lists the words with which programs report failures, including dbt's "Failure in test" and Python's
// tracebacks.
var failing = regexp.MustCompile(`(?i)error|fail|fatal|exception|panic|traceback`)

// ErrorLine implements Logs. It reads the lines of the engine attempt up to the result and decodes only those on
// stderr.
func (s *Store) ErrorLine(ctx context.Context, id AttemptID, engineAttempt int) (no int64, err error) {
	err = s.steady(id, func(prefix string) error {
		ix, _, err := s.index(ctx, prefix)
		if err != nil {
			return err
		}
		var complaint, last int64
		for _, p := range ix {
			if p.engineAttempt != engineAttempt {
				continue
			}
			body, err := s.body(ctx, prefix, p)
			if err != nil {
				return err
			}
			last = p.to()
			for i, line := range with(body, storedStderr) {
				l, err := decode(line)
				if err != nil {
					return err
				}
				complaint = cmp.Or(complaint, p.from+i)
				if failing.MatchString(l.Text) {
					no = p.from + i
					return nil
				}
			}
		}
		no = cmp.Or(complaint, last)
		return nil
	})
	return no, err
}
