package artifact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxReadLines is the maximum number of lines of one Read.
	MaxReadLines = 5000
	// CutMark ends the text of a line that exceeded its limit.
	CutMark = " … (line cut)"

	replaced = 100 // attempts of a reader whose pieces are replaced while it reads
)

// Append implements Logs. It ignores the numbers in lines and assigns its own. After the middle was dropped, it
// treats lines of earlier engine attempts as repeated ones.
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
	added := false
	err = s.steady(id, func(prefix string) error {
		added, err = s.extend(ctx, prefix, engineAttempt, from, lines)
		return err
	})
	if added {
		s.follow.wake(id)
	}
	return err
}

// extend adds lines to a log without the lines that it already has, and drops the middle beyond the limits. It returns
// ErrNotFound if another writer replaced a piece meanwhile.
func (s *Store) extend(ctx context.Context, prefix string, engineAttempt int, from int64, lines []Line) (added bool,
	err error) {
	ix, unneeded, err := s.index(ctx, prefix)
	if err != nil {
		return false, err
	}
	// The caller repeats lines that were not acknowledged, so it replaces a torn piece that has them.
	for n := len(ix); n > 0 && ix[n-1].torn && ix[n-1].engineAttempt == engineAttempt && from <= ix[n-1].eaFrom(); n-- {
		unneeded, ix = append(unneeded, ix[n-1]), ix[:n-1]
	}
	if ix.missing() != (Missing{}) && engineAttempt < ix[len(ix)-1].engineAttempt {
		return false, nil
	}
	if old := ix.kept(engineAttempt) - from + 1; old > 0 {
		lines = lines[min(old, int64(len(lines))):]
		from += old
	}
	if len(lines) == 0 {
		return false, nil
	}
	p := piece{from: ix.total() + 1, engineAttempt: engineAttempt, eaTo: from + int64(len(lines)) - 1}
	lines = s.clean(lines, engineAttempt)
	if n := len(ix); n > 0 && ix[n-1].engineAttempt == engineAttempt && ix[n-1].count < pieceLines &&
		ix[n-1].bytes < pieceBytes && !ix[n-1].torn {
		last := ix[n-1]
		before, err := s.lines(ctx, prefix, last, last.from, int(last.count))
		if err != nil {
			return false, err
		}
		lines = append(before[:len(before):len(before)], lines...)
		p.from, unneeded, ix = last.from, append(unneeded, last), ix[:n-1]
	}
	for i := range lines {
		lines[i].No = p.from + int64(i)
	}
	body, err := encode(lines)
	if err != nil {
		return false, err
	}
	stored := pack(body)
	p.count, p.bytes, p.stored = int64(len(lines)), int64(len(body)), int64(len(stored))
	ix = append(ix, p)
	dropped, resumes := ix.trim(s.limits)
	p.resumes = resumes
	ix[len(ix)-1] = p
	if err := s.write(ctx, prefix, p, stored); err != nil {
		return false, err
	}
	s.pieces.put(frame{}.cacheKey(prefix, p), lines, len(body))
	s.remove(ctx, prefix, slices.DeleteFunc(append(unneeded, dropped...), func(q piece) bool {
		return q.key(prefix) == p.key(prefix) || q.torn && q.stored == 0
	}))
	if len(dropped) == 0 {
		if small := ix.mergeable(s.limits); small != nil {
			_ = s.merge(ctx, prefix, small) // the next call tries again; the lines are stored
		}
	}
	return true, nil
}

// clean returns lines in the form in which they are stored.
func (s *Store) clean(lines []Line, engineAttempt int) []Line {
	out := make([]Line, len(lines))
	for i, l := range lines {
		l.Text = cut(strings.ToValidUTF8(l.Text, "\uFFFD"), s.limits.LineBytes)
		l.EngineAttempt = engineAttempt
		out[i] = l
	}
	return out
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

// Read implements Logs. It opens only the pieces of the requested lines and returns at most MaxReadLines lines for
// any limit.
func (s *Store) Read(ctx context.Context, id AttemptID, from int64, limit int) (out Page, err error) {
	from, limit = max(from, 1), min(limit, MaxReadLines)
	err = s.steady(id, func(prefix string) error {
		ix, _, err := s.index(ctx, prefix)
		if err != nil {
			return err
		}
		out = Page{Total: ix.total(), Missing: ix.missing()}
		for i := ix.at(from); i < len(ix) && len(out.Lines) < limit; i++ {
			hole := ix.hole(i)
			marked := hole != (Missing{}) && from <= hole.To
			wanted := limit - len(out.Lines)
			if marked {
				wanted = max(wanted-1, 1) // the line that reports the hole has the time of the first line
			}
			part, err := s.lines(ctx, prefix, ix[i], from, wanted)
			if err != nil {
				return err
			}
			if marked {
				out.Lines = append(out.Lines, s.mark(hole, part[0]))
			}
			out.Lines = append(out.Lines, part[:min(len(part), limit-len(out.Lines))]...)
		}
		return nil
	})
	return out, err
}

// mark returns the line that stands for the missing lines.
func (s *Store) mark(hole Missing, next Line) Line {
	return Line{No: hole.To, At: next.At, Stream: "dvt", EngineAttempt: next.EngineAttempt,
		Text: fmt.Sprintf(
			"%d lines are missing here, %d to %d: an attempt keeps %d lines and %d MiB, its beginning and its end",
			hole.To-hole.From+1, hole.From, hole.To, s.limits.AttemptLines, s.limits.AttemptBytes>>20)}
}

// steady calls f with the prefix of a log and repeats it while f returns ErrNotFound, which means that a writer
// replaced a piece meanwhile.
func (s *Store) steady(id AttemptID, f func(prefix string) error) error {
	prefix, err := id.prefix()
	if err != nil {
		return err
	}
	for range replaced {
		if err = f(prefix); !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	s.seen.forget(prefix) // the log was removed, so its known length is void
	if err = f(prefix); !errors.Is(err, ErrNotFound) {
		return err
	}
	return fmt.Errorf("artifact: read log: it changes too fast: %w", err)
}

// Follow implements Logs. The channel has one slot, wakes once at the start if there are lines, and is closed when
// ctx ends. Lines of other processes are noticed within Limits.Poll.
func (s *Store) Follow(ctx context.Context, id AttemptID) <-chan struct{} {
	wake := make(chan struct{}, 1)
	first := s.follow.add(id, wake)
	context.AfterFunc(ctx, func() { s.follow.remove(id, wake) })
	if first != nil {
		go s.watch(first, id)
	}
	return wake
}

// watch polls one log for all its followers until the last one has left.
func (s *Store) watch(ctx context.Context, id AttemptID) {
	prefix, err := id.prefix()
	if err != nil {
		return
	}
	tick := time.NewTicker(s.limits.Poll)
	defer tick.Stop()
	for seen := int64(0); ; {
		if ix, _, err := s.index(ctx, prefix); err == nil && ix.total() != seen {
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
