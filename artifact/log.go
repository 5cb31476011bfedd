package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxReadLines is the most lines that one Read returns.
	MaxReadLines = 5000
	// MaxFound is the most numbers that one Find returns.
	MaxFound = 1000
	// CutMark ends the text of a line that was longer than its limit.
	CutMark = " … (line cut)"

	lineOverhead = 128 // bytes of a stored line around its text
	replaced     = 100 // times a reader starts over because pieces were replaced under it
)

// Append implements Logs. The numbers in lines are not looked at: the log gives
// its own. Lines past the limits of the attempt are dropped, and one dvt line
// says so.
func (s *Store) Append(ctx context.Context, id AttemptID, engineAttempt int, from int64, lines []Line) error {
	prefix, err := id.prefix()
	if err != nil {
		return err
	}
	if from < 1 || engineAttempt < 1 {
		return fmt.Errorf("artifact: append log: line %d of engine attempt %d does not exist", from, engineAttempt)
	}
	mu := s.lock(prefix)
	mu.Lock()
	defer mu.Unlock()
	return s.steady(ctx, id, func(prefix string, ix index) error {
		return s.extend(ctx, id, prefix, ix, engineAttempt, from, lines)
	})
}

func (s *Store) extend(ctx context.Context, id AttemptID, prefix string, ix index, engineAttempt int, from int64, lines []Line) error {
	if old := ix.kept(engineAttempt) - from + 1; old > 0 {
		lines = lines[min(old, int64(len(lines))):]
		from += old
	}
	if len(lines) == 0 || ix.full() {
		return nil
	}
	added, full := s.admit(lines, engineAttempt, s.limits.AttemptLines-ix.total(), s.limits.AttemptBytes-ix.bytes())
	p := piece{from: ix.total() + 1, ea: engineAttempt, eaTo: from + int64(len(lines)) - 1, full: full}

	var replaces *piece
	if n := len(ix); n > 0 && ix[n-1].ea == engineAttempt && ix[n-1].count < pieceLines && ix[n-1].bytes < pieceBytes {
		last := ix[n-1]
		before, err := s.lines(ctx, prefix, last)
		if err != nil {
			return err
		}
		added = append(before[:len(before):len(before)], added...)
		p.from, replaces = last.from, &last
	}
	for i := range added {
		added[i].No = p.from + int64(i)
	}
	p.count = int64(len(added))
	if err := s.write(ctx, prefix, p, added); err != nil {
		return err
	}
	if replaces != nil {
		_ = s.bucket.Delete(ctx, replaces.key(prefix)) // left behind it only takes space
	}
	s.follow.wake(id)
	return nil
}

// admit is the part of lines that fits, cleaned; full when some did not.
func (s *Store) admit(lines []Line, engineAttempt int, room, bytes int64) (fit []Line, full bool) {
	fit = make([]Line, 0, len(lines)+1)
	for _, l := range lines {
		l.Text = cut(strings.ToValidUTF8(l.Text, "\uFFFD"), s.limits.LineBytes)
		l.EngineAttempt = engineAttempt
		room, bytes = room-1, bytes-int64(len(l.Text)+lineOverhead)
		if room < 1 || bytes < 0 {
			text := fmt.Sprintf("the log is truncated here: an attempt keeps %d lines and %d bytes", s.limits.AttemptLines, s.limits.AttemptBytes)
			return append(fit, Line{At: l.At, Stream: "dvt", EngineAttempt: engineAttempt, Text: text}), true
		}
		fit = append(fit, l)
	}
	return fit, false
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + CutMark
}

// Read implements Logs: it opens only the pieces that hold what is asked for.
// At most MaxReadLines lines come back, however large limit is.
func (s *Store) Read(ctx context.Context, id AttemptID, from int64, limit int) (lines []Line, total int64, err error) {
	from, limit = max(from, 1), min(limit, MaxReadLines)
	err = s.steady(ctx, id, func(prefix string, ix index) error {
		lines, total = nil, ix.total()
		for i := ix.at(from); i < len(ix) && len(lines) < limit; i++ {
			part, err := s.lines(ctx, prefix, ix[i])
			if err != nil {
				return err
			}
			skip := max(from-ix[i].from, 0)
			part = part[skip:]
			lines = append(lines, part[:min(len(part), limit-len(lines))]...)
		}
		return nil
	})
	return lines, total, err
}

// Find implements Logs. It reads the whole log; at most MaxFound numbers come back.
func (s *Store) Find(ctx context.Context, id AttemptID, text string, limit int) (nos []int64, total int64, err error) {
	limit = min(limit, MaxFound)
	err = s.steady(ctx, id, func(prefix string, ix index) error {
		nos, total = nil, 0
		for _, p := range ix {
			part, err := s.lines(ctx, prefix, p)
			if err != nil {
				return err
			}
			for _, l := range part {
				if !strings.Contains(l.Text, text) {
					continue
				}
				if total++; len(nos) < limit {
					nos = append(nos, l.No)
				}
			}
		}
		return nil
	})
	return nos, total, err
}

// failing is how programs speak of failures, dbt's "Failure in test" and Python's tracebacks included.
var failing = regexp.MustCompile(`(?i)error|fail|fatal|exception|panic|traceback`)

// ErrorLine implements Logs. It reads what the engine attempt printed up to that line.
func (s *Store) ErrorLine(ctx context.Context, id AttemptID, engineAttempt int) (no int64, err error) {
	err = s.steady(ctx, id, func(prefix string, ix index) error {
		var complaint, last int64
		for _, p := range ix {
			if p.ea != engineAttempt {
				continue
			}
			part, err := s.lines(ctx, prefix, p)
			if err != nil {
				return err
			}
			for _, l := range part {
				last = l.No
				if l.Stream != "stderr" {
					continue
				}
				if complaint == 0 {
					complaint = l.No
				}
				if failing.MatchString(l.Text) {
					no = l.No
					return nil
				}
			}
		}
		no = cmp.Or(complaint, last)
		return nil
	})
	return no, err
}

// steady calls f with the index of a log, again when a writer replaced a piece meanwhile.
func (s *Store) steady(ctx context.Context, id AttemptID, f func(prefix string, ix index) error) error {
	prefix, err := id.prefix()
	if err != nil {
		return err
	}
	for range replaced {
		var ix index
		if ix, err = s.index(ctx, prefix); err == nil {
			err = f(prefix, ix)
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	s.seen.forget(prefix) // somebody removed it: from now on it is as short as it is
	return fmt.Errorf("artifact: read log: it changes too fast: %w", err)
}

// Follow implements Logs. The channel has one slot, wakes once at the start when
// there are lines, and is closed when ctx ends. Lines of other processes are
// noticed within Limits.Poll.
func (s *Store) Follow(ctx context.Context, id AttemptID) <-chan struct{} {
	wake := make(chan struct{}, 1)
	first := s.follow.add(id, wake)
	context.AfterFunc(ctx, func() { s.follow.remove(id, wake) })
	if first != nil {
		go s.watch(first, id)
	}
	return wake
}

// watch polls one log for all its followers, until the last has gone.
func (s *Store) watch(ctx context.Context, id AttemptID) {
	prefix, err := id.prefix()
	if err != nil {
		return
	}
	tick := time.NewTicker(s.limits.Poll)
	defer tick.Stop()
	for seen := int64(0); ; {
		if ix, err := s.index(ctx, prefix); err == nil && ix.total() != seen {
			seen = ix.total()
			s.follow.wake(id)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
